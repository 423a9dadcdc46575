"""Components of several estimators: matched, turned to one sign, in one order."""

import itertools

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from pictures import assert_readable, bars, labels

from ebcd import EBCD, PenalizedPCA, plots
from ebcd.peers import EBMF, SPC


def turned(model, order, signs):
    """Return a copy with its components in another order and with other signs."""
    copy = PenalizedPCA(model.n_components, alpha=2.0).set_params()
    copy.__dict__.update(vars(model))
    copy.components_ = (model.components_ * np.array(signs)[:, None])[order]
    return copy


@pytest.fixture(scope="module")
def first():
    rng = np.random.default_rng(1)
    L = np.zeros((3, 12))
    L[0, :6], L[1, 4:8], L[2, 8:] = 3.0, -2.0, 1.5
    X = rng.normal(size=(100, 3)) @ L + 0.3 * rng.normal(size=(100, 12))
    return PenalizedPCA(3, alpha=2.0).fit(X)


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 1, 0)])
def test_order_and_signs_do_not_matter(first, order):
    other = turned(first, list(order), [1, -1, -1])
    axes = plots.compare([first, other])
    assert axes.shape == (3, 2)
    for k, (left, right) in enumerate(axes):
        np.testing.assert_array_equal(bars(left)[0], bars(right)[0])
        assert bars(left)[1] == bars(right)[1]
        assert f"component {order.index(k)}, cosine 1.00" in right.get_title()


def test_every_estimator(model):
    axes = plots.compare([model, model])
    assert all(ax.has_data() for ax in axes.ravel())
    axes[0, 0].figure.canvas.draw()  # so that nothing fails when it is seen


def test_matching_is_the_best_one(data):
    models = [EBCD(2).fit(data), SPC(2, sumabs=2.0).fit(data)]
    unit = [m.components_ / np.linalg.norm(m.components_, axis=1)[:, None] for m in models]
    cosines = np.abs(unit[0] @ unit[1].T)
    best = max(
        itertools.permutations(range(2)), key=lambda order: sum(cosines[[0, 1], list(order)])
    )
    axes = plots.compare(models)
    for k in range(2):
        said = f"component {best[k]}, cosine {cosines[k, best[k]]:.2f}"
        assert said in axes[k, 1].get_title()


def test_bars_and_order(data):
    models = {"ours": EBCD(2).fit(data), "theirs": EBMF(2).fit(data)}
    axes = plots.compare(models, n=6)
    for k in range(2):
        size = np.maximum(*(np.abs(m.components_[k]) for m in models.values()))
        chosen = np.argsort(-size)[:6]
        chosen = chosen[size[chosen] > 0.01 * size.max()]
        chosen = sorted(chosen, key=lambda j: -models["ours"].components_[k, j])
        assert labels(axes[k, 0]) == [f"x{j}" for j in chosen]
        for ax, model in zip(axes[k], models.values(), strict=True):
            np.testing.assert_array_equal(bars(ax)[0], model.components_[k, chosen])
            grey = [colour == "#b9c0c8" for colour in bars(ax)[1]]
            assert grey == list(model.lfsr_[k, chosen] > 0.05)
    assert axes[0, 0].get_title().startswith("ours\n")
    assert_readable(axes[0, 0].figure)
    (m, _) = models.values()
    long = {f"a name that is much longer than panels are wide {i}": m for i in range(3)}
    assert_readable(plots.compare(long)[0, 0].figure)


def test_features_in_other_units(data):
    seen = []
    for units in (1.0, np.geomspace(1e6, 1, data.shape[1])):
        models = [EBCD(2, scale=True).fit(data * units), SPC(2, scale=True).fit(data * units)]
        axes = plots.compare(models)
        assert axes[1, 0].get_xlabel() == "loading (of the scaled data)"
        cosines = [ax.get_title()[-4:] for ax in axes.ravel()]
        sizes = [float(f"{np.abs(bars(ax)[0]).max():.4g}") for ax in axes.ravel()]
        seen.append(sorted(zip(cosines, sizes, strict=True)))  # their order is another one
    assert seen[0] == seen[1]


def test_fewer_components_and_equal_names(data):
    axes = plots.compare([EBCD(2).fit(data), EBCD(1).fit(data), EBCD(2).fit(data)])
    assert [ax.get_title().split("\n")[0] for ax in axes[0]] == ["EBCD", "EBCD 2", "EBCD 3"]
    empty = [ax for ax in axes.ravel() if ax.texts]
    assert len(empty) == 1
    assert empty[0].texts[0].get_text() == "none"
    assert_readable(axes[0, 0].figure)


def test_chosen_components(data, empty_model):
    axes = plots.compare([EBCD(2).fit(data)], components=[1])
    assert axes.shape == (1, 1)
    assert "component 1" in axes[0, 0].get_title()
    (row,) = plots.compare([empty_model, empty_model])
    assert all("no component" in ax.texts[0].get_text() for ax in row)


def test_bad_input(data):
    model = EBCD(1).fit(data)
    with pytest.raises(ValueError, match="empty"):
        plots.compare([])
    with pytest.raises(TypeError, match="list of fitted estimators"):
        plots.compare(model)
    with pytest.raises(ValueError, match="same features, but EBCD has 15, EBCD 2 has 5"):
        plots.compare([model, EBCD(1).fit(data[:, :5])])
    with pytest.raises(ValueError, match="does not exist"):
        plots.compare([model], components=[1])

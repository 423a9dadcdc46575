"""Bars, intervals and colours are those of the model."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib import pyplot as plt
from pictures import assert_readable, bars, drawn, labels

from ebcd import EBCD, PenalizedPCA, plots

POSITIVE, NEGATIVE, UNSURE = "#2b66b1", "#c2570c", "#b9c0c8"  # as in the report


def intervals(ax):
    """Ends of the drawn intervals, from top to bottom."""
    (lines,) = ax.collections
    return np.array([segment[:, 0] for segment in lines.get_segments()])


def expected(model, k, n):
    loadings = drawn(model)[k]
    chosen = sorted(range(loadings.size), key=lambda j: -abs(loadings[j]))[:n]
    return sorted((j for j in chosen if loadings[j] != 0), key=lambda j: -loadings[j])


class TestBars:
    def test_are_the_loadings(self, model):
        axes = plots.components(model)
        assert len(axes) == model.n_components_
        for k, ax in enumerate(axes):
            chosen = expected(model, k, 20)
            lengths, _ = bars(ax)
            np.testing.assert_array_equal(lengths, drawn(model)[k, chosen])
            assert labels(ax) == [f"x{j}" for j in chosen]
            share = f"{100 * model.explained_variance_ratio_[k]:.1f}%"
            assert ax.get_title() == f"component {k} ({share} of variance)"

    def test_colours(self, model):
        level = 0.05
        ax = plots.components(model, 0, level=level)
        lengths, colours = bars(ax)
        chosen = expected(model, 0, 20)
        doubt = np.zeros(len(chosen), bool)
        if hasattr(model, "lfsr_"):
            doubt = model.lfsr_[0, chosen] > level
        sure = np.where(lengths > 0, POSITIVE, NEGATIVE)
        assert colours == list(np.where(doubt, UNSURE, sure))
        assert ("gray" in ax.get_xlabel()) is bool(doubt.any())

    def test_level_and_number(self, ebcd_model):
        ax = plots.components(ebcd_model, 0, n=5, level=1e-300)
        lengths, colours = bars(ax)
        assert len(lengths) == 5
        assert "5 largest of 15" in ax.get_xlabel()
        tiny = ebcd_model.lfsr_[0, expected(ebcd_model, 0, 5)] > 1e-300
        assert [colour == UNSURE for colour in colours] == list(tiny)

    def test_exact_zeros_are_left_out(self, data):
        model = PenalizedPCA(2, alpha=8.0).fit(data)
        ax = plots.components(model, 1)
        count = np.count_nonzero(model.components_[1])
        assert len(bars(ax)[0]) == count < 15
        assert f"{count} not zero of 15" in ax.get_xlabel()


class TestIntervals:
    def test_are_those_of_the_model(self, model):
        probability = 0.5
        ax = plots.components(model, 0, probability=probability)
        if not hasattr(model, "lfsr_"):
            assert len(ax.collections) == 0
            return
        units = model.components_[0] / drawn(model)[0]
        ends = (model.credible_intervals(probability)[:, 0] / units)[:, expected(model, 0, 20)]
        np.testing.assert_allclose(intervals(ax), ends.T, rtol=1e-9, atol=1e-12)
        about = ", given the scores" if isinstance(model, EBCD) else ""
        assert f"{100 * probability:g}% credible intervals{about}" in ax.get_xlabel()


class TestAxes:
    def test_one_component_gives_axes(self, ebcd_model):
        _, ax = plt.subplots()
        assert plots.components(ebcd_model, 1, ax=ax) is ax
        assert isinstance(plots.components(ebcd_model, np.int64(0)), plt.Axes)

    def test_several_give_an_array(self, ebcd_model):
        _, axes = plt.subplots(1, 2)
        drawn = plots.components(ebcd_model, [1, 0], ax=axes)
        assert list(drawn) == list(axes)
        assert drawn[0].get_title().startswith("component 1")

    @pytest.mark.parametrize("ax", [[], "all", [1, 2]])
    def test_wrong_axes(self, ebcd_model, ax):
        with pytest.raises(ValueError, match="ax must contain 2 matplotlib Axes"):
            plots.components(ebcd_model, ax=ax)
        with pytest.raises(TypeError, match="ax must be a single matplotlib Axes"):
            plots.components(ebcd_model, 0, ax=ax)

    def test_nothing_else_is_drawn_on(self, ebcd_model):
        figure, (left, right) = plt.subplots(1, 2)
        plots.components(ebcd_model, 0, ax=left)
        assert not right.has_data()
        assert plt.get_fignums() == [figure.number]


@pytest.mark.slow
class TestReadable:
    def test_with_and_without_intervals(self, ebcd_model, data):
        for model in (ebcd_model, PenalizedPCA(2, alpha=8.0).fit(data)):
            assert_readable(plots.components(model)[0].figure)

    def test_long_and_strange_names(self, data):
        names = ["$x_{$", "a" * 200, "line\nbreak", "100%", "_", "\\alpha", "<b>"]
        names += [f"a rather long name of a feature {j}" for j in range(8)]
        model = EBCD(2).fit(data)
        axes = plots.components(model, feature_names=names)
        assert_readable(axes[0].figure)
        assert "$x_{$" in labels(axes[0])
        assert max(map(len, labels(axes[0]))) == 40

    def test_many_features_and_components(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(60, 4)) @ rng.normal(size=(4, 3000)) + rng.normal(size=(60, 3000))
        axes = plots.components(PenalizedPCA(4, alpha=1.0).fit(X), n=25)
        assert [len(bars(ax)[0]) for ax in axes] == [25] * 4
        assert "25 largest of 3,000" in axes[0].get_xlabel()
        assert_readable(axes[0].figure)

    @pytest.mark.parametrize("size", [1e-4, 3.3e-3, 1e5])
    def test_numbers_of_any_size_do_not_overlap(self, data, size):
        model = EBCD(2, start="svd").fit(data * size)
        assert_readable(plots.components(model)[0].figure)
        assert_readable(plots.compare([model, model, model])[0, 0].figure)

    def test_penalty_that_is_too_strong(self, data):
        with pytest.warns(UserWarning, match="lower alpha"):
            model = PenalizedPCA(2, alpha=1e6).fit(data)
        (ax,) = plots.components(model)
        assert ax.texts[0].get_text() == "no component: every loading was set to zero"
        assert "every loading was set to zero" in model.summary()

    def test_no_component(self, empty_model):
        (ax,) = plots.components(empty_model)
        assert "no component" in ax.texts[0].get_text()
        assert_readable(ax.figure)


class TestBadInput:
    def test_component(self, ebcd_model, empty_model):
        with pytest.raises(ValueError, match="component 2 does not exist; there are 2"):
            plots.components(ebcd_model, 2)
        with pytest.raises(ValueError, match="component 0 does not exist; there are 0"):
            plots.components(empty_model, 0)
        with pytest.raises(TypeError, match="whole numbers, got True"):
            plots.components(ebcd_model, True)

    def test_others(self, ebcd_model):
        with pytest.raises(ValueError, match="n must be an integer of at least 1, got 0"):
            plots.components(ebcd_model, n=0)
        with pytest.raises(TypeError, match=r"n must be an integer of at least 1, got 2\.5"):
            plots.components(ebcd_model, n=2.5)
        with pytest.raises(
            ValueError, match="probability must be a number above 0 and below 1, got 95"
        ):
            plots.components(ebcd_model, probability=95)
        with pytest.raises(ValueError, match="feature_names must have one name"):
            plots.components(ebcd_model, feature_names=["a"])

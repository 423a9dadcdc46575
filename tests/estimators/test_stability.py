"""How often components are found again in halves of the rows."""

import numpy as np
import pytest
from scipy.sparse import csc_array

from ebcd import EBCD, Chunks, PenalizedPCA
from ebcd.peers import SPC

P = 20


def draw(seed=0, n=120):
    """Draw noise with one strong component."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, P))
    X[:, :6] += 3 * rng.normal(size=(n, 1))
    return X


@pytest.fixture(scope="module")
def model():
    return EBCD(2).fit(draw())


def random_half(n, rng):
    return np.sort(rng.permutation(n)[: n // 2])


def block(n, rng):
    first = rng.integers(n - n // 2 + 1)
    return np.arange(first, first + n // 2)


def by_hand(model, X, seed, n_splits, draw_half):
    """Shares of a plain loop: halves, fits, and the largest cosine with any component."""
    rng = np.random.default_rng(seed)
    shares = np.zeros(model.n_components_)
    for split in rng.integers(2**63, size=n_splits).tolist():
        half = draw_half(len(X), np.random.default_rng(split))
        found = EBCD(model.n_components_, scale=model.scale).fit(X[half])
        theirs = found.components_ / model.scale_
        for k, component in enumerate(model.components_ / model.scale_):
            cosines = theirs @ component / np.linalg.norm(theirs, axis=1)
            shares[k] += np.abs(cosines).max() > 0.8 * np.linalg.norm(component)
    return shares / n_splits


@pytest.mark.parametrize(("method", "draw_half"), [("random", random_half), ("blocks", block)])
@pytest.mark.parametrize("scale", [False, True])
def test_is_what_a_plain_loop_gives(scale, method, draw_half):
    X = draw(n=121) * np.geomspace(1, 100 if scale else 1, P)
    model = EBCD(2, scale=scale).fit(X)
    shares = model.stability(X, 6, method=method, random_state=3)
    np.testing.assert_array_equal(shares, by_hand(model, X, 3, 6, draw_half))
    assert shares[:: -1 if scale else 1][0] == 1
    assert shares.min() < 1  # noise


@pytest.mark.slow
def test_blocks_do_not_confirm_independent_random_walks():
    """A trend over all rows is none in half of them; common factors are, also if they persist."""
    rng = np.random.default_rng(0)
    walks = np.cumsum(rng.normal(size=(120, P)), axis=0)
    model = EBCD(4).fit(walks)
    assert model.stability(walks, 8).mean() > 0.6
    assert model.stability(walks, 8, method="blocks").mean() < 0.4
    factor = rng.normal(size=120)
    for t in range(1, 120):
        factor[t] = 0.9 * factor[t - 1] + np.sqrt(1 - 0.9**2) * factor[t]
    X = rng.normal(size=(120, P)) + 2 * np.outer(factor, np.arange(P) < 6)
    assert EBCD(1).fit(X).stability(X, 8, method="blocks").tolist() == [1.0]


def test_fits_begin_anew(model):
    """A start that is the answer does not help."""
    X = draw()
    warm = EBCD(2, start=model.components_.T).fit(X)
    np.testing.assert_array_equal(
        warm.stability(X, 4, random_state=0), model.stability(X, 4, random_state=0)
    )


def test_reproducible_without_a_seed_and_for_any_number_of_jobs(model):
    X = draw()
    first = model.stability(X, 4)
    np.testing.assert_array_equal(first, model.stability(X, 4))
    np.testing.assert_array_equal(first, model.stability(X, 4, n_jobs=2))


def test_a_number_found_automatically_is_kept():
    """With the rule applied to each half, a component that is weak there would be lost."""
    X = draw(n=60)
    auto, fixed = EBCD().fit(X), EBCD(1).fit(X)
    assert auto.n_components_ == 1
    np.testing.assert_array_equal(auto.stability(X, 3), fixed.stability(X, 3))


@pytest.mark.parametrize(
    "estimator", [PenalizedPCA(1, alpha=2.0), SPC(1, sumabs=2.4), EBCD(1, checkpoint="x.npz")]
)
def test_other_estimators_and_settings(estimator, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = draw()
    model = estimator.fit(X)
    before = sorted(tmp_path.iterdir())
    assert model.stability(X, 3).tolist() == [1.0]
    assert sorted(tmp_path.iterdir()) == before


def test_sparse_data_and_frames():
    pd = pytest.importorskip("pandas")
    X = np.where(np.abs(draw()) > 1, draw(), 0.0)
    model = EBCD(1).fit(X)
    expected = model.stability(X, 3)
    np.testing.assert_array_equal(model.stability(csc_array(X), 3), expected)
    frame = pd.DataFrame(X, columns=[f"gene {j}" for j in range(P)])
    np.testing.assert_array_equal(EBCD(1).fit(frame).stability(frame, 3), expected)


def test_says_how_far_it_is(capsys):
    X = draw()
    EBCD(1, verbose=1).fit(X).stability(X, 2)
    assert "half of the rows     2 of 2" in capsys.readouterr().out


def test_no_component_and_more_than_halves_have():
    noise = np.random.default_rng(0).normal(size=(60, 8))
    with pytest.warns(UserWarning, match="no component"):
        model = EBCD().fit(noise)
    assert model.stability(noise).shape == (0,)
    few = draw(n=6)
    assert EBCD(4).fit(few).stability(few, 2).shape == (4,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": draw(n=50)}, "X has 50 rows, but the model was fitted to 120"),
        ({"X": Chunks(lambda: iter([draw()]))}, "halves of the rows, so X must be a matrix in"),
        ({"n_splits": 0}, "n_splits must be"),
        ({"method": "block"}, 'method must be "random" or "blocks", got \'block\''),
    ],
)
def test_bad_input(model, change, message):
    with pytest.raises(ValueError, match=message):
        model.stability(**{"X": draw()} | change)


def test_too_few_rows():
    X = np.eye(3) + np.random.default_rng(0).normal(size=(3, 3))
    with pytest.raises(ValueError, match="at least two rows each, but X has 3"):
        EBCD(1).fit(X).stability(X)

"""Bad input gives clear errors; legal degenerate input gives finite results."""

import datetime as dt
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from ebcd import EBCD, Gram, PenalizedPCA, ebnm
from ebcd.peers import EBMF

EXACT = pytest.mark.filterwarnings("ignore:.* fit the data exactly")
NOT_YET = pytest.mark.filterwarnings("ignore:the fit stopped after max_iter")
NOTHING = pytest.mark.filterwarnings("ignore:no component was found")


def draw(n=40, p=15, seed=0):
    rng = np.random.default_rng(seed)
    L = np.zeros((2, p))
    L[0, : p // 3], L[1, p // 2 :] = 2.0, 1.5
    return rng.normal(size=(n, 2)) @ L + rng.normal(size=(n, p))


def check_finite(model, X=None):
    """Nothing that a user can see is NaN or infinite, and shapes agree."""
    k, p = model.components_.shape
    assert k == model.n_components_
    assert model.components_sd_.shape == model.lfsr_.shape == (k, p)
    assert len(model.priors_) == len(model.explained_variance_) == k
    for value in (
        model.components_,
        model.components_sd_,
        model.lfsr_,
        model.noise_variance_,
        model.explained_variance_,
        model.explained_variance_ratio_,
        model.elbo_path_,
        model.elbo_,
        model.get_covariance(),
        model.get_precision(),
        model.sample_components(2, random_state=0),
        model.sparsify(),
    ):
        assert np.isfinite(value).all()
    assert (np.asarray(model.noise_variance_) > 0).all()
    assert ((model.lfsr_ >= 0) & (model.lfsr_ <= 1)).all()
    assert (model.components_sd_ >= 0).all()
    assert "nan" not in model.summary()
    if X is not None:
        scores = model.transform(X)
        assert scores.shape == (X.shape[0], k)
        assert np.isfinite(scores).all()
        assert np.isfinite(model.inverse_transform(scores)).all()
        assert np.isfinite(model.score_samples(X)).all()
        if k:
            # as many dimensions as the scores can have
            gram = scores.T @ scores / X.shape[0]
            np.testing.assert_allclose(np.diag(gram), 1.0, rtol=1e-3)


class TestNotFinite:
    @pytest.mark.parametrize("bad", [np.inf, -np.inf])
    @pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, sparse.csc_matrix])
    @pytest.mark.parametrize("holes", [False, True])
    def test_says_how_many_where_and_what_to_do(self, bad, make, holes):
        X = draw()
        X[7, 2] = X[9, 0] = X[30, 14] = bad
        X[1, 1] = np.nan if holes else 0.5
        with pytest.raises(ValueError, match="contains infinity: 3 entries") as error:
            EBCD(2).fit(make(X))
        for words in ("NaN or infinite", "Drop those rows or columns, or fill them in"):
            assert words in str(error.value)
        if make is not sparse.csc_matrix:  # which is stored by columns
            assert "the first in row 7, column 2" in str(error.value)

    def test_infinities_that_cancel(self):
        X = draw()
        X[0, 0], X[0, 1] = np.inf, -np.inf
        with pytest.raises(ValueError, match="2 entries are NaN or infinite"):
            EBCD(2).fit(X)

    @pytest.mark.parametrize("method", ["transform", "score_samples", "score"])
    @pytest.mark.parametrize("holes", [False, True])
    def test_new_data(self, method, holes):
        X = draw()
        model = EBCD(2).fit(X)
        X[3, 4], X[0, 0] = np.inf, np.nan if holes else 0.5
        with pytest.raises(ValueError, match="the first in row 3, column 4"):
            getattr(model, method)(X)

    def test_frame(self):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(draw())
        frame.iloc[4, 5] = np.inf
        with pytest.raises(ValueError, match="1 entry is NaN or infinite, the first in row 4"):
            EBCD(2).fit(frame)


class TestShapes:
    @pytest.mark.parametrize("X", [np.zeros(5), np.zeros((2, 3, 4)), np.zeros((0, 3))])
    def test_not_a_matrix(self, X):
        with pytest.raises(ValueError, match=r"2D array|dim|0 sample"):
            EBCD(1).fit(X)

    def test_no_features(self):
        with pytest.raises(ValueError, match="0 feature"):
            EBCD(1).fit(np.zeros((5, 0)))

    @pytest.mark.parametrize("X", [[["a", "b"], ["c", "d"]], 1j * np.eye(3)])
    def test_not_numbers(self, X):
        with pytest.raises(ValueError, match=r"convert|Complex"):
            EBCD(1).fit(X)

    def test_other_number_of_features(self):
        model = EBCD(2).fit(draw())
        with pytest.raises(ValueError, match="X has 14 features, but EBCD is expecting 15"):
            model.transform(draw(p=14))

    def test_not_fitted(self):
        for method in ("transform", "inverse_transform", "score_samples", "score"):
            with pytest.raises(NotFittedError):
                getattr(EBCD(2), method)(draw())
        for method in ("get_covariance", "get_precision", "summary", "sample_components"):
            with pytest.raises(NotFittedError):
                getattr(EBCD(2), method)()

    @pytest.mark.parametrize("name", ["components_sd_", "lfsr_", "n_signal_"])
    def test_results_that_are_computed_later(self, name):
        assert not hasattr(EBCD(), name)
        with pytest.raises(NotFittedError, match="not fitted yet"):
            getattr(EBCD(), name)

    @pytest.mark.parametrize("scores", [np.zeros((3, 5)), np.zeros(3), [["a", "b"]]])
    def test_what_are_no_scores(self, scores):
        with pytest.raises(ValueError, match="a column of scores for each of the 2 components"):
            EBCD(2).fit(draw()).inverse_transform(scores)

    @pytest.mark.parametrize("method", ["transform", "score"])
    def test_statistics_have_no_scores(self, method):
        model = EBCD(2).fit(draw())
        with pytest.raises(TypeError, match="X is a Gram, which holds statistics and no rows"):
            getattr(model, method)(Gram().update(draw()))


DAYS = np.arange(60).reshape(20, 3).astype("M8[D]")
WAYS_IN = {
    "fit": lambda X: EBCD(1).fit(X),
    "transform": lambda X: EBCD(1).fit(draw(20, 3)).transform(X),
    "score": lambda X: EBCD(1).fit(draw(20, 3)).score(X),
    "penalized": lambda X: PenalizedPCA(1).fit(X),
    "ebmf": lambda X: EBMF(1).fit(X),
    "chunks": lambda X: EBCD(1).fit([np.ma.asanyarray(X)]),
    "gram": lambda X: Gram().update(np.ma.asanyarray(X)),
    "covariance": lambda X: EBCD(1).fit_covariance(np.asarray(X)[:3], 20),
    "ebnm": lambda X: ebnm(np.asarray(X)[:, 0]),
}


@pytest.mark.parametrize("way", WAYS_IN)
@pytest.mark.parametrize(
    "dates",
    [
        DAYS,
        DAYS.astype("M8[ns]"),
        DAYS - DAYS[0],
        DAYS.tolist(),
        list(DAYS),
        np.ma.masked_array(DAYS, DAYS[2] > DAYS),
        np.array([[*row, None] for row in DAYS], dtype=object)[:, :3],
        pd.DataFrame(DAYS.astype("M8[ns]")),
    ],
    ids=["days", "ns", "durations", "lists", "rows", "masked", "objects", "frame"],
)
def test_dates_are_no_numbers(way, dates):
    with pytest.raises((ValueError, TypeError), match=r"dates or times|real numbers|datetime"):
        WAYS_IN[way](dates)


def test_dates_of_python_are_named():
    rows = [[dt.date(2020, 1, day), 1.0] for day in range(1, 9)]
    with pytest.raises(ValueError, match="dates or times"):
        EBCD(1).fit(rows)


class TestColumns:
    frame = pd.DataFrame(draw(20, 3), columns=list("abc"))

    @pytest.mark.parametrize(
        ("cells", "found"),
        [
            (pd.date_range("2020", periods=20), "dates or times"),
            (pd.to_timedelta(range(20), "D"), "dates or times"),
            ([1.0] * 19 + ["x"], "'x'"),
            (pd.Categorical(["x"] * 20), "'x'"),
        ],
    )
    @pytest.mark.parametrize("kind", ["pandas", "polars"])
    def test_no_numbers(self, kind, cells, found):
        frame = self.frame.assign(odd=cells)
        if kind == "polars":
            frame["odd"] = frame["odd"].map(str) if found == "'x'" else frame["odd"]
            found = found.replace("'x'", "'.*'")
            frame = pytest.importorskip("polars").from_pandas(frame)
        message = f"the column 'odd' of X must hold numbers, but holds {found}; drop it"
        with pytest.raises(ValueError, match=message):
            EBCD(1).fit(frame)
        with pytest.raises(ValueError, match=message):
            EBCD(1).fit(frame[["odd"]])

    def test_names_that_occur_twice(self):
        with pytest.raises(ValueError, match="more than one column 'b'"):
            EBCD(1).fit(self.frame.set_axis(list("abb"), axis=1))

    def test_cells_of_any_kind_that_are_numbers(self):
        cells = [[True] * 19 + [False], ["1.5", "2"] * 10, [None, *range(19)], [np.nan, 1] * 10]
        frame = self.frame.assign(**{f"x{j}": column for j, column in enumerate(cells)})
        assert EBCD(1).fit(frame).n_features_in_ == 7


class TestCovariance:
    def test_not_square(self):
        with pytest.raises(ValueError, match=r"square matrix, got shape \(40, 15\)"):
            EBCD(2).fit_covariance(draw(), 40)

    def test_names_of_rows_and_columns_in_different_orders(self):
        names = ["a", "b", "c"]
        S = pd.DataFrame(np.eye(3), index=names[::-1], columns=names)
        with pytest.raises(ValueError, match="the same names, but in different orders"):
            EBCD(1).fit_covariance(S, 10)
        for index in (names, range(3), [f"row {name}" for name in names]):
            EBCD(1).fit_covariance(S.set_axis(index), 10)

    def test_not_symmetric(self):
        S = np.eye(4)
        S[0, 1] = 0.5
        with pytest.raises(ValueError, match=r"not symmetric: entries \[0, 1\] and \[1, 0\]"):
            EBCD(1).fit_covariance(S, 10)

    def test_not_positive_semi_definite(self):
        with pytest.raises(ValueError, match="not positive semi-definite: its smallest eigenvalue"):
            EBCD(1).fit_covariance([[1.0, 2.0], [2.0, 1.0]], 10)

    def test_not_finite(self):
        S = np.eye(3)
        S[2, 2] = np.nan
        with pytest.raises(ValueError, match=r"1 NaN or infinite entries, the first at \[2, 2\]"):
            EBCD(1).fit_covariance(S, 10)

    def test_number_of_samples_is_needed(self):
        with pytest.raises(TypeError, match="n_samples"):
            EBCD(1).fit_covariance(np.eye(3))

    @pytest.mark.parametrize("n_samples", [0, -3])
    def test_number_of_samples_below_one(self, n_samples):
        with pytest.raises(ValueError, match=f"n_samples must be an integer .* got {n_samples}"):
            EBCD(1, center=False).fit(np.eye(3), n_samples=n_samples)

    def test_compact_data_cannot_be_centred(self):
        with pytest.raises(ValueError, match="cannot be centered any more; center the data before"):
            EBCD(1).fit(np.eye(3), n_samples=10)

    def test_rounding_is_legal(self):
        X = draw().astype(np.float32)
        S = X.T @ X / 40
        S[0, 1] *= 1 + 1e-7
        check_finite(EBCD(2).fit_covariance(S, 40))


class TestParameters:
    def test_unknown_prior(self):
        with pytest.raises(ValueError, match="did you mean 'point_laplace'"):
            EBCD(2, prior="point_lapalce").fit(draw())
        with pytest.raises(ValueError, match=r"prior must be .* got an empty list"):
            EBCD(2, prior=[]).fit(draw())
        with pytest.raises(ValueError, match="prior has 3 entries, but n_components=2"):
            EBCD(2, prior=["normal"] * 3).fit(draw())

    @pytest.mark.parametrize("start", [np.ones((2, 15)), np.ones(15), np.full((15, 2), np.nan)])
    def test_start_of_the_wrong_shape(self, start):
        with pytest.raises(ValueError, match=r"finite loadings of shape \(n_features, "):
            EBCD(2, start=start).fit(draw())

    def test_start_with_another_number_of_components(self):
        with pytest.raises(ValueError, match=r"= \(15, 2\), got shape \(15, 3\)"):
            EBCD(2, start=np.ones((15, 3))).fit(draw())

    def test_component_that_does_not_exist(self):
        model = EBCD(2).fit(draw())
        for k in (2, -1):
            with pytest.raises(ValueError, match=f"k must be an integer from 0 to 1, got {k}"):
                model.top_features(k)


MODELS = {
    "automatic": EBCD(start="varimax", max_iter=30),
    "two": EBCD(2, max_iter=100),
    "greedy": EBCD(2, start="greedy", max_iter=100),
    "principal components": EBCD(2, start="svd", prior="normal", max_iter=100),
    "per feature": EBCD(2, noise="per_feature", max_iter=100),
    "scaled": EBCD(2, scale=True, max_iter=100),
    "as in the paper": EBCD("paper", max_iter=20),
}


def at_most(model, k):
    """The model with no more components than there can be."""
    few = k if model.n_components == 2 and k < 2 else model.n_components
    return clone(model).set_params(n_components=few)


@EXACT
@NOTHING
@NOT_YET
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
class TestDegenerate:
    def test_constant_column(self, model):
        X = draw()
        X[:, 7] = 3.0
        check_finite(model.fit(X), X)
        np.testing.assert_allclose(model.components_[:, 7], 0.0, atol=1e-6)

    def test_duplicated_columns(self, model):
        X = draw()
        X[:, [3, 4]] = X[:, [5, 6]]
        check_finite(model.fit(X), X)

    def test_every_column_twice(self, model):
        X = np.repeat(draw(p=6), 2, axis=1)
        check_finite(model.fit(X))
        components = model.components_
        np.testing.assert_allclose(components[:, ::2], components[:, 1::2], atol=1e-4)

    @pytest.mark.parametrize("n", [1, 2, 3])
    def test_few_samples(self, model, n):
        check_finite(at_most(model, n).fit(draw()[:n]), draw()[:n])

    def test_one_sample_that_is_not_centred(self, model):
        uncentred = at_most(model, 1).set_params(center=False)
        check_finite(uncentred.fit(draw()[:1]), draw()[:1])

    @pytest.mark.parametrize("p", [1, 2])
    def test_few_features(self, model, p):
        check_finite(at_most(model, p).fit(draw()[:, :p]), draw()[:, :p])

    @pytest.mark.parametrize("center", [True, False])
    def test_one_number(self, model, center):
        check_finite(at_most(model, 1).set_params(center=center).fit([[2.5]]))

    @pytest.mark.parametrize("value", [0.0, 0.1, 3.0])
    def test_nothing_varies(self, model, value):
        X = np.full((10, 4), value)
        model.fit(X)
        check_finite(model, X)
        assert model.n_components_ == 0

    @pytest.mark.parametrize("X", [np.full((10, 4), 3.0), draw()[:1]])
    def test_message_if_nothing_varies(self, model, X):
        model = at_most(model, 1)
        with pytest.warns(UserWarning, match="^no component was found: the data do not vary$"):
            model.fit(X)
        assert "the data do not vary" in model.summary()
        assert np.max(model.noise_variance_) < 1e-9

    def test_zero_covariance_and_empty_sparse_matrix(self, model):
        check_finite(model.fit_covariance(np.zeros((4, 4)), 10))
        check_finite(model.fit(sparse.csr_array((10, 5))))
        check_finite(model.fit(Gram().update(np.zeros((10, 5)))))

    @pytest.mark.parametrize("size", [1e-150, 1e150])
    def test_extreme_units(self, model, size):
        X = draw()
        check_finite(model.fit(size * X), size * X)
        plain = EBCD(**model.get_params()).fit(X)
        if plain.converged_:
            ours = model.components_ / size
            np.testing.assert_allclose(ours, plain.components_, rtol=1e-5, atol=1e-6)

    def test_features_of_wildly_different_scales(self, model):
        X = draw() * 10.0 ** np.linspace(-8, 8, 15)
        check_finite(model.fit(X), X)
        assert ("scale=True" in model.summary()) is not model.scale

    def test_no_noise_at_all(self, model):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(20, 1)) @ rng.normal(size=(1, 8))
        check_finite(model.fit(X))

    def test_whole_numbers_and_large_offsets(self, model):
        X = np.round(3 * draw()).astype(int)
        check_finite(model.fit(X), X)
        check_finite(model.fit(X + 10**8), X + 10**8)


@EXACT
@NOT_YET
@NOTHING
class TestManyComponents:
    @pytest.mark.parametrize(
        ("shape", "start", "seed"),
        [
            ((4, 9), "auto", 0),
            *(((6, 15), "greedy", seed) for seed in range(2)),
            *(((8, 8), "greedy", seed) for seed in range(2)),
            *((shape, "svd", 0) for shape in [(6, 15), (15, 6), (8, 8)]),
        ],
    )
    @pytest.mark.parametrize("noise", ["constant", "per_feature"])
    def test_as_many_as_the_data_can_have(self, shape, noise, start, seed):
        X = np.random.default_rng(seed).normal(size=shape)
        model = EBCD(min(shape), noise=noise, start=start, max_iter=30).fit(X)
        check_finite(model, X)
        assert model.n_components_ <= min(shape)

    @pytest.mark.parametrize(
        ("seed", "noise"), [(0, "constant"), (1, "per_feature"), (2, "constant")]
    )
    @pytest.mark.parametrize("start", ["auto", "greedy", "svd", "varimax"])
    def test_more_than_the_rank(self, seed, noise, start):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(20, 2)) @ rng.normal(size=(2, 9))
        model = EBCD(3, noise=noise, start=start, max_iter=30).fit(X)
        check_finite(model)
        assert 1 <= model.n_components_ <= 3

    def test_more_than_signal(self):
        X = np.random.default_rng(0).normal(size=(60, 20))
        check_finite(EBCD(5).fit(X), X)

    def test_all_starts_lose_all_components(self):
        X = np.random.default_rng(0).normal(size=(30, 10))
        with pytest.warns(UserWarning, match="no component was found"):
            model = EBCD(3, prior="point_mass").fit(X)
        check_finite(model, X)

    def test_no_advice_if_one_component_is_exact(self):
        with pytest.warns(UserWarning, match="the ELBO has no maximum$"):
            EBCD(1).fit(draw()[:, :1])

    def test_warns_that_the_fit_is_exact(self):
        X = np.random.default_rng(0).normal(size=(20, 3))
        with pytest.warns(UserWarning, match="use fewer components"):
            model = EBCD(3, start="svd").fit(X)
        assert not model.converged_


def as_gram(X):
    return Gram().update(X)


@pytest.mark.parametrize("value", [0.1, 1e6 / 7])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, as_gram])
class TestConstantColumns:
    """A constant such as 0.1 has a mean that is rounded, and so a variance of rounding errors."""

    @staticmethod
    def with_constant(value):
        return np.insert(draw(50, 12), 5, value, axis=1)

    @pytest.mark.parametrize("noise", ["constant", "per_feature"])
    @pytest.mark.parametrize("scale", [False, True])
    def test_rounding_is_no_signal(self, make, value, noise, scale):
        parameters = {"noise": noise, "scale": scale}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            zero = EBCD(2, **parameters).fit(make(self.with_constant(0.0)))
            model = EBCD(2, **parameters).fit(make(self.with_constant(value)))
        assert zero.converged_
        assert model.converged_
        assert model.scale_[5] == zero.scale_[5] == 1.0
        np.testing.assert_allclose(model.components_, zero.components_, atol=1e-4)

    def test_rounding_is_no_reason_to_scale(self, make, value):
        assert "hint" not in EBCD(2).fit(make(self.with_constant(value))).summary()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_tall_data_that_are_not_finite(bad):
    """They are looked at in the one pass that adds them up."""
    X = np.ones((60_000, 20))
    X[45_678, 9] = bad
    if np.isinf(bad):
        with pytest.raises(ValueError, match="the first in row 45678, column 9"):
            EBCD(2).fit(X)
    with pytest.raises(ValueError, match="the first in row 45678, column 9"):
        EBCD(2, center=False).fit(X, n_samples=70_000)

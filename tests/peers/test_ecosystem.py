"""Every estimator with the tools that people use around it: frames, pipelines, searches, joblib."""

import io
import pickle

import joblib
import numpy as np
import pytest
from methods import PEERS
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ebcd import EBCD, PenalizedPCA, PenalizedPCACV
from ebcd.peers import EBMF, SPC

ESTIMATORS = [
    EBCD(2, start="svd"),
    PenalizedPCA(2),
    PenalizedPCACV(2, alphas=[0.0, 2.0, 100.0]),
    *PEERS,
]
NAMES = [f"gene {j}" for j in range(12)]


def draw(n=80, p=12, seed=0):
    rng = np.random.default_rng(seed)
    L = np.zeros((2, p))
    L[0, :5], L[1, 5:] = 4.0, 2.0
    return rng.normal(size=(n, 2)) @ L + rng.normal(size=(n, p)) + 1.0


X = draw()


@pytest.fixture(params=ESTIMATORS, ids=lambda model: type(model).__name__)
def model(request):
    return clone(request.param)


def frame_of(library, X, names=NAMES):
    return pytest.importorskip(library).DataFrame(dict(zip(names, X.T, strict=True)))


@pytest.mark.parametrize("library", ["pandas", "polars"])
class TestFrames:
    def test_in(self, model, library):
        frame = frame_of(library, X)
        fitted = model.fit(frame)
        assert list(fitted.feature_names_in_) == NAMES
        assert {type(name) for name in fitted.feature_names_in_} == {str}
        plain = clone(model).fit(X)
        # frames hold their columns one after the other, which changes the order of sums
        np.testing.assert_allclose(fitted.components_, plain.components_, atol=1e-6)
        np.testing.assert_allclose(fitted.transform(frame), plain.transform(X), atol=1e-6)
        np.testing.assert_allclose(fitted.score(frame), plain.score(X), rtol=1e-8)
        assert NAMES[0] in fitted.summary()

    def test_out(self, model, library):
        expected = clone(model).fit(X).transform(X)
        for data in (X, frame_of(library, X)):
            scores = clone(model).set_output(transform=library).fit(data).transform(data)
            assert type(scores).__module__.startswith(library)
            prefix = type(model).__name__.lower()
            assert list(scores.columns) == [f"{prefix}0", f"{prefix}1"]
            np.testing.assert_allclose(scores.to_numpy(), expected, atol=1e-6)

    def test_scores_go_back(self, model, library):
        pytest.importorskip(library)
        model.set_output(transform=library).fit(X)
        scores = model.transform(X)
        back = model.inverse_transform(scores)
        np.testing.assert_allclose(back, scores.to_numpy() @ model.components_ + model.mean_)

    def test_other_names_are_refused(self, model, library):
        model.fit(frame_of(library, X))
        with pytest.raises(ValueError, match="feature names should match"):
            model.transform(frame_of(library, X, [*NAMES[:-1], "other"]))

    def test_pipeline(self, model, library):
        pipeline = make_pipeline(StandardScaler(), model).set_output(transform=library)
        frame = frame_of(library, X)
        scores = pipeline.fit(frame).transform(frame)
        assert scores.shape == (80, 2)
        assert list(pipeline[-1].feature_names_in_) == NAMES
        assert list(scores.columns) == list(pipeline.get_feature_names_out())

    def test_covariance(self, library):
        S = np.cov(X.T, bias=True)
        model = EBCD(2).fit_covariance(frame_of(library, S), n_samples=80)
        assert list(model.feature_names_in_) == NAMES
        np.testing.assert_allclose(model.components_, EBCD(2).fit(X).components_, atol=1e-6)
        assert not hasattr(model.fit_covariance(S, 80), "feature_names_in_")


def test_index_is_kept():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, index=pandas.date_range("2020-01-01", periods=80))
    scores = EBCD(2).set_output(transform="pandas").fit_transform(frame)
    assert scores.index.equals(frame.index)


def test_clone_is_unfitted_and_equal(model):
    model.fit(X)
    copy = clone(model)
    assert repr(copy.get_params()) == repr(model.get_params())
    assert not hasattr(copy, "components_")


def test_pickle_and_joblib(model):
    model.fit(X)
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    for copy in (joblib.load(file), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(copy.transform(X), model.transform(X))
        assert copy.summary() == model.summary()


def test_search_in_a_pipeline(model):
    pipeline = make_pipeline(StandardScaler(with_std=False), model)
    name = f"{type(model).__name__.lower()}__n_components"
    search = GridSearchCV(pipeline, {name: [1, 2]}, cv=3, error_score="raise").fit(draw(120))
    assert search.best_params_ == {name: 2}


@pytest.mark.parametrize("method", ["fit", "transform", "score"])
@pytest.mark.parametrize("model", [EBCD(1, start="svd"), SPC(1, sumabs=1.5), EBMF(1)], ids=repr)
def test_lazy_frames_are_refused_in_words(model, method):
    polars = pytest.importorskip("polars")
    X = np.random.default_rng(0).normal(size=(20, 3)) * [3.0, 1.0, 1.0]
    model = clone(model).fit(X)
    with pytest.raises(TypeError, match=r"X is a LazyFrame.* pass X.collect\(\)"):
        getattr(model, method)(polars.DataFrame(X).lazy())

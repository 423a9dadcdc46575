"""`EBMF` keeps the conventions of scikit-learn."""

import pickle

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from ebcd.peers import EBMF


@pytest.mark.filterwarnings("ignore:no component was found:UserWarning")
# some checks have two features or fewer
@pytest.mark.filterwarnings("ignore:.* fit some data exactly:UserWarning")
@parametrize_with_checks(
    [
        EBMF(2),
        # what is checked does not depend on how exact a fit is
        EBMF(2, noise="per_feature", scores_prior="point_normal", tol=0.1),
        EBMF(2, noise="per_sample", loadings_prior="point_exponential", center=False, tol=0.1),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_pickle_holds_no_training_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 1)) * np.ones(20) + rng.normal(size=(2000, 20))
    model = EBMF(3).fit(X)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.transform(X), model.transform(X))
    del copy.scores_
    assert len(pickle.dumps(copy)) < 0.1 * X.nbytes
    assert copy.summary() == model.summary()

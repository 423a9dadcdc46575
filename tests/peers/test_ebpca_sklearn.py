"""`EBPCA` keeps the conventions of scikit-learn."""

import pickle

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from ebcd.peers import EBPCA


@pytest.mark.filterwarnings("ignore:.* components stand out from noise:UserWarning")
@parametrize_with_checks([EBPCA(2), EBPCA(1, max_iter=2, center=False)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_pickle():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1)) * np.ones(20) + rng.normal(size=(200, 20))
    model = EBPCA(1).fit(X)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.transform(X), model.transform(X))
    assert copy.summary() == model.summary()
    assert copy.priors_ == model.priors_

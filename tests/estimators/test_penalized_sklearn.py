"""Penalised PCA under scikit-learn's own checks."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from ebcd import PenalizedPCA, PenalizedPCACV


@pytest.mark.filterwarnings("ignore:.* dropped .* components:UserWarning")
@pytest.mark.filterwarnings("ignore:the best alpha is the:UserWarning")
@parametrize_with_checks(
    [
        PenalizedPCA(2),
        PenalizedPCA(1, penalty="nonnegative_l0", alpha=0.1, scale=True),
        PenalizedPCA(2, penalty="mcp", alpha=0.2, center=False),
        PenalizedPCACV(2, alphas=5, cv=2),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)

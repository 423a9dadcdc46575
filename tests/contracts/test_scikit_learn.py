"""Every estimator under scikit-learn's own checks, with its defaults and with other settings."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from ebcd import EBCD, PenalizedPCA, PenalizedPCACV
from ebcd.peers import EBMF, EBPCA, ITSPCA, SPC, USLPCA, GPower


@pytest.mark.filterwarnings("ignore:no component was found:UserWarning")
# some checks have two features or fewer
@pytest.mark.filterwarnings("ignore:.* fit (some|the) data exactly:UserWarning")
@pytest.mark.filterwarnings("ignore:.* (found no component|dropped .* components):UserWarning")
@pytest.mark.filterwarnings("ignore:.* components stand out from noise:UserWarning")
@pytest.mark.filterwarnings("ignore:the best alpha is the:UserWarning")
@parametrize_with_checks(
    [
        EBCD(),
        EBCD(2, noise="per_feature", scale=True),
        PenalizedPCA(2, penalty="mcp", alpha=0.2, center=False),
        PenalizedPCACV(2, alphas=5, cv=2),
        SPC(2),
        GPower(2, penalty="l0", block=False, scale=True),
        ITSPCA(2),
        USLPCA(1, n_nonzero=1, scale=True),
        # what is checked does not depend on how exact a fit is
        EBMF(2, tol=0.1),
        EBPCA(2),
    ]
)
def test_checks(estimator, check):
    check(estimator)

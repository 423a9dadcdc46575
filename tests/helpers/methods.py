"""One estimator of every kind, for tests of what all of them have."""

from ebcd import EBCD, PenalizedPCA, PenalizedPCACV
from ebcd.peers import EBMF, EBPCA, ITSPCA, SPC, USLPCA, GPower

PEERS = [
    SPC(2, sumabs=2.0),
    GPower(2),
    ITSPCA(2, gamma=0.1),
    USLPCA(2, n_nonzero=12),
    EBMF(2),
    EBPCA(2),
]
ESTIMATORS = [
    EBCD(2),
    PenalizedPCA(2, alpha=8.0),
    PenalizedPCACV(2, alphas=[0.0, 8.0, 100.0]),
    *PEERS,
]

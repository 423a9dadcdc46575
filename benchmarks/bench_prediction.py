"""Measure how well covariances predict later months of the returns of twelve industries.

Sixty months are fitted and the next twelve scored by their log-likelihood, a year later again.
Needs linearmodels (Kenneth French's data).
"""

import warnings

import numpy as np
from linearmodels.datasets import french
from sklearn.base import clone
from sklearn.covariance import OAS, EmpiricalCovariance, LedoitWolf
from sklearn.decomposition import PCA, FactorAnalysis

import ebcd

METHODS = {
    "sample covariance": EmpiricalCovariance(),
    "LedoitWolf": LedoitWolf(),
    "OAS": OAS(),
    "PCA(4)": PCA(4),
    "FactorAnalysis(4)": FactorAnalysis(4),
    "EBCD(4)": ebcd.EBCD(4),
    'EBCD(4, noise="per_feature")': ebcd.EBCD(4, noise="per_feature"),
}


def main():
    """Print a table."""
    table = french.load()
    returns = 100 * table[table.columns[6:18]].sub(table["RF"], axis=0).to_numpy()
    starts = range(0, len(returns) - 72, 12)
    print(f"{len(starts)} windows; mean log-likelihood of a later month")
    for name, method in METHODS.items():
        scores = []
        for i in starts:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fitted = clone(method).fit(returns[i : i + 60])
            scores.append(fitted.score(returns[i + 60 : i + 72]))
        print(f"  {name:30} {np.mean(scores):.2f}")


if __name__ == "__main__":
    main()

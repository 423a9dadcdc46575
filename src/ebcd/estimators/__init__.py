"""Estimators with the interface of scikit-learn."""

from ebcd.estimators._ebcd import EBCD
from ebcd.estimators._penalized import PenalizedPCA
from ebcd.estimators._penalized_cv import PenalizedPCACV

__all__ = ["EBCD", "PenalizedPCA", "PenalizedPCACV"]

"""Estimators with the interface of scikit-learn."""

from ebcd.estimators._ebcd import EBCD

__all__ = ["EBCD"]

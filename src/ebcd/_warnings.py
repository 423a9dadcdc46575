"""Warnings that point to the user's code, however deep in the package they arise."""

from __future__ import annotations

import sys
import warnings

_INNER = ("ebcd", "sklearn")  # scikit-learn wraps methods such as fit_transform


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points to the line outside the package that led to it."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] in _INNER:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)

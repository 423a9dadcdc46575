"""Threads of the linear algebra: where data are small, more than one only wait for each other."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

from ebcd.data import AbstractCovariance

_SMALL = 2_000_000  # entries of the data


@cache
def _controller() -> Any:
    return ThreadpoolController()  # looks for libraries, which takes milliseconds


def threads_for(covariance: AbstractCovariance) -> AbstractContextManager[Any]:
    """Limit linear algebra to one thread if the data are small; leave it alone otherwise."""
    if covariance.n_samples * covariance.n_features > _SMALL:
        return nullcontext()
    limit: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limit

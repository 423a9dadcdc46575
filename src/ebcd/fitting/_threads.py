"""Threads of the linear algebra: where data are small, more than one only wait for each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

from ebcd.data import AbstractCovariance

_SMALL = 2_000_000  # entries of the data
_limiting = Lock()


@cache
def _controller() -> Any:
    return ThreadpoolController()  # looks for libraries, which takes milliseconds


def threads_for(covariance: AbstractCovariance) -> AbstractContextManager[Any]:
    """Limit linear algebra to one thread if the data are small; leave it alone otherwise.

    So there are never more threads than the user, or whatever runs fits in parallel, has allowed.
    """
    if covariance.n_samples * covariance.n_features > _SMALL:
        return nullcontext()
    return _one_thread()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit to one thread, unless another fit of this process does so already.

    The limit is one of the process. If fits in several threads each put back what they found, the
    last would put back the limit of another one, for good.
    """
    if not _limiting.acquire(blocking=False):
        yield
        return
    try:
        with _controller().limit(limits=1, user_api="blas"):
            yield
    finally:
        _limiting.release()

"""Where compiled loops take over from array operations, if numba is installed.

The environment variable ``EBCD_NUMBA=0`` turns them off. Results are the same up to rounding.
"""

from __future__ import annotations

import functools
import importlib
import math
import os
from collections.abc import Sequence
from types import ModuleType

import numpy as np

from ebcd._numerics import Array
from ebcd.priors._columns import Columns
from ebcd.priors._slabs import AbstractSlabKind

_ONCE = np.ones((1, 1))
_NOTHING = np.empty((0, 0))


@functools.cache
def fused_kernels() -> ModuleType | None:
    """Compiled loops; None without numba, or if they are turned off. Imported when first used."""
    if os.environ.get("EBCD_NUMBA", "1") == "0":
        return None
    try:
        return importlib.import_module("ebcd.priors._fused_kernels")
    except ImportError:
        return None


def fused_sums(
    columns: Columns, kind: AbstractSlabKind, weight: Sequence[float], log_scale: Sequence[float]
) -> Array | None:
    """Sums of `_two_group` over all entries, seven for each column; None if not to be had."""
    sums = np.zeros((7, len(weight)))
    run = _run(columns, kind, weight, log_scale, sums, _NOTHING, _NOTHING)
    return sums if run else None


def fused_posterior(
    columns: Columns, kind: AbstractSlabKind, weight: Sequence[float], log_scale: Sequence[float]
) -> tuple[Array, Array, Array] | None:
    """Log-likelihood ratio to the null, posterior mean and variance; None if not to be had."""
    sums = np.zeros((1, len(weight)))
    mean, variance = np.empty((2, len(weight), columns.x.shape[1]))
    run = _run(columns, kind, weight, log_scale, sums, mean, variance)
    return (sums[0], mean, variance) if run else None


def _run(
    columns: Columns,
    kind: AbstractSlabKind,
    weight: Sequence[float],
    log_scale: Sequence[float],
    *out: Array,
) -> bool:
    """Run the compiled loop, unless there is none or these columns need other formulas."""
    kernels = fused_kernels()
    if kernels is None:
        return False
    rate = [math.exp(-b) for b in log_scale]
    if kind.needs_care(columns, columns.largest_s * max(rate)):
        return False
    work = np.empty(kernels.WORK)
    getattr(kernels, kind.name)(
        columns.plain_z,
        columns.s,
        _ONCE if columns.counts is None else columns.counts,
        np.array(weight),
        np.array(rate),
        work,
        work.view(np.int64),
        *out,
    )
    return True

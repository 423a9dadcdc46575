"""Dask arrays and data frames: one map-reduce a pass, on any cluster.

Every block stays where it is. A product sends `v` (k x p) to the workers, each block returns its
share of ``v (X - mean)'(X - mean)``, and those are added up in a tree. Where blocks also split
columns, those side by side are joined in every pass.

Dask itself is imported only when there is something to compute.
"""

from __future__ import annotations

from contextlib import suppress
from copy import copy
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from ebcd._numerics import Array
from ebcd.data import _settings
from ebcd.data._moments import (
    Moments,
    block_moments,
    checked_sparse,
    is_sparse,
    merge_moments,
    unmasked,
)
from ebcd.data._rows import AbstractRows, Work, block_product, names_of


class DaskRows(AbstractRows):
    """Rows of a Dask array or data frame, in blocks that are not computed yet."""

    lazy = True

    def __init__(self, x: Any) -> None:
        self._is_frame = hasattr(x, "_meta") and hasattr(x, "columns")
        self.header = x._meta if self._is_frame else _array_header(x)
        self.names = names_of(self.header)
        self.n_features = self.header.shape[1]
        self._x = x if self._is_frame else _in_whole_rows(x)
        self.dtype = np.dtype(np.float32 if self._all_single() else np.float64)

    def _all_single(self) -> bool:
        """Whether all data are in single precision; raise if they are no numbers."""
        if not self._is_frame:
            if self._x.dtype.kind not in "biuf":
                raise TypeError(f"X must hold real numbers, got dtype {self._x.dtype}")
            return bool(self._x.dtype == np.float32)
        kinds = {str(name): kind for name, kind in self._x.dtypes.items()}
        wrong = [name for name, kind in kinds.items() if kind.kind not in "biuf"]
        if wrong:
            listed = ", ".join(wrong[:5]) + (", ..." if len(wrong) > 5 else "")
            raise TypeError(
                f"X must hold real numbers, but {len(wrong)} columns do not: {listed}; drop or "
                "encode them"
            )
        return all(kind == np.float32 for kind in kinds.values())

    def _blocks(self) -> list[Any]:
        """Return the blocks as delayed objects."""
        if self.n_features == 0:
            raise ValueError("X has no columns; a minimum of 1 is required")
        return list(np.ravel(self._x.to_delayed()))

    def gathers(self) -> bool:
        """Whether adding up all cross-products costs less than a pass for every product."""
        p, settings = self.n_features, _settings.SETTINGS
        # cross-products are small, or not much larger than the blocks
        heights = np.array([np.nan] if self._is_frame else self._x.chunks[0], dtype=float)
        tall = np.isnan(heights).any() or settings.rows_per_column * p <= heights.mean()
        return 8 * p * p <= _usual_bytes() and (p * p <= settings.piece or bool(tall))

    def moments(self, cross: bool) -> Moments:
        """Merge the moments of the blocks."""
        task = _task(_of_rows)
        parts = [task(block, self.dtype, block_moments, cross) for block in self._blocks()]
        moments: Moments = _computed(_tree(parts, _task(merge_moments)))
        self.n_rows, self.has_sparse = moments.count, moments.has_sparse
        return moments

    def for_products(self, mean: Array, scale: Array) -> tuple[AbstractRows, Array, Array]:
        """Work with small data in double precision, as in memory."""
        rows = self
        if (self.n_rows or 0) * self.n_features <= _settings.SETTINGS.small:
            rows = copy(self)
            rows.dtype = np.dtype(np.float64)
        return rows, mean, scale

    def product(self, v: Array, mean: Array, far: bool, weight: float) -> Array:
        """Add up the products of the blocks; again if workers were lost that held `v`."""
        from concurrent.futures import CancelledError

        for _ in range(2):
            with suppress(CancelledError):
                return self._product(v, mean, far) * weight
        return self._product(v, mean, far) * weight

    def _product(self, v: Array, mean: Array, far: bool) -> Array:
        task, here = _task(_of_rows), (block_product, _sent(v), _sent(mean), far)
        parts = [task(block, self.dtype, *here) for block in self._blocks()]
        return np.asarray(_computed(_tree(parts, _task(sum))))

    def map(self, work: Work, shape: tuple[int, ...], dtype: Any = None) -> Any:
        """Return a Dask array with the rows in the same blocks; nothing is computed."""
        dtype = self.dtype if dtype is None else dtype
        array = self._x.to_dask_array() if self._is_frame else self._x
        return array.map_blocks(
            _of_rows,
            dtype,
            work,
            dtype=dtype,
            chunks=(array.chunks[0], *((size,) for size in shape)),
            drop_axis=[] if shape else [1],
            meta=np.empty((0,) * (1 + len(shape)), dtype),
        )


def _array_header(x: Any) -> Any:
    """Return no rows of a Dask array."""
    if not (hasattr(x, "_meta") and hasattr(x, "chunks")):
        raise TypeError(f"X must be a Dask array or data frame, got a Dask {type(x).__name__}")
    if x.ndim != 2:
        raise ValueError(f"Expected 2D array, got a Dask array with {x.ndim} dimensions instead")
    if np.isnan(x.shape[1]):
        raise ValueError("the number of columns of X is unknown; call X.compute_chunk_sizes()")
    return np.empty((0, x.shape[1]))


def _in_whole_rows(x: Any) -> Any:
    """Join blocks side by side; into fewer rows, if those are known, where these would be large."""
    if len(x.chunks[1]) == 1:
        return x
    size = np.max(x.chunks[0]) * x.shape[1] * x.dtype.itemsize
    return x.rechunk({0: "auto", 1: -1} if size > _usual_bytes() else {1: -1})


def _usual_bytes() -> int:
    """Return the size of blocks that Dask aims at."""
    from dask import config
    from dask.utils import parse_bytes

    return int(parse_bytes(config.get("array.chunk-size")))


# What runs on the workers, on one block of the data.


def _as_rows(block: Any, dtype: Any) -> Any:
    """Make a block a NumPy array or a sparse matrix of SciPy, without a copy where possible."""
    if hasattr(block, "to_scipy_sparse"):  # a block of the package `sparse`
        block = block.to_scipy_sparse()
    if is_sparse(block):
        return checked_sparse(block).astype(dtype, copy=False)
    if hasattr(block, "to_numpy"):  # a part of a data frame, in which pandas may have its own NA
        return block.to_numpy(dtype=dtype, na_value=np.nan)
    return np.asarray(unmasked(block), dtype=dtype)


def _of_rows(block: Any, dtype: Any, function: Any, *arguments: Any) -> Any:
    """Compute something of the rows of a block."""
    return function(_as_rows(block, dtype), *arguments)


# How those are run.


def _task(function: Any) -> Any:
    """Make calls of a function tasks, whose names need not be derived from their arguments."""
    from dask.delayed import delayed

    return delayed(function, pure=False, traverse=False)


def _tree(parts: Any, combine: Any, few: int = 8) -> Any:
    """Combine neighbors, a few at a time, until one is left."""
    parts = list(parts)
    while len(parts) > 1:
        groups = [parts[i : i + few] for i in range(0, len(parts), few)]
        parts = [group[0] if len(group) == 1 else combine(group) for group in groups]
    return parts[0]


def _sent(v: Array) -> Any:
    """Make an array known to all tasks, so that it is sent to each worker once."""
    from dask.base import get_scheduler
    from dask.delayed import delayed

    client = getattr(get_scheduler(), "__self__", None)  # of a cluster, if one is in use
    if client is not None and v.size > _settings.SETTINGS.piece:
        # under a name of its own: one derived from the content may be on its way out
        return client.scatter(v, broadcast=True, hash=False)
    return delayed(v, traverse=False, pure=False)


def _computed(task: Any) -> Any:
    """Run a task where Dask is set up to; blocks, not single products, share the cores."""
    from dask.base import compute

    with _controller().limit(limits=1, user_api="blas"):
        return compute(task, traverse=False)[0]


@cache
def _controller() -> Any:
    return ThreadpoolController()  # looks for libraries, which takes milliseconds

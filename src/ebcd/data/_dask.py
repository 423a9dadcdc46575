"""Dask arrays and data frames as covariances: one map-reduce a product, on any cluster.

Every block stays where it is. A product ``S v`` sends `v` (p x k) to the workers, each block gives
``X_b' (X_b v)`` (p x k), and those are added up in a tree. Where blocks also split columns, the
scores ``X_b v`` of the blocks of some rows are added up first. Means and scales are applied to `v`
and to the sum, never to the data. Data with few columns are looked at only once: then the first
pass, which finds means and bad entries, adds up the cross-products of the columns as well.

Dask itself is imported only when there is something to compute.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Self

import numpy as np
from threadpoolctl import ThreadpoolController

from ebcd._numerics import Array
from ebcd.data import _dask_blocks as on_block
from ebcd.data._covariance import PRODUCTS, AbstractCovariance
from ebcd.data._inputs import Input, _divisor, _only_rounding
from ebcd.data._matrix import _CHEAP, DataMatrix
from ebcd.data._slot import AbstractSlot

_FAN_IN = 8  # answers that are added up by one task
# Where cross-products of the columns are added up, so that one pass is enough: always up to so many
# columns (2 MB a block); up to more (128 MB) unless the blocks they come from are much smaller.
_FEW, _MANY = 512, 4_000
_LARGER_THAN_BLOCK = 4
_LARGEST_ROW = 2**26  # entries of blocks side by side that may come together for that
_LARGE = 4_000_000  # bytes that are not sent with the tasks
_ATTEMPTS = 3
_LARGEST, _SMALLEST = 1e140, 1e-140


def is_dask(x: Any) -> bool:
    """Tell whether `x` is a Dask collection, without importing Dask."""
    return type(x).__module__.partition(".")[0] in ("dask", "dask_expr")


def is_frame(x: Any) -> bool:
    """Tell whether a Dask collection is a data frame."""
    return hasattr(x, "_meta") and hasattr(x, "columns")


def header(x: Any) -> Any:
    """Give no rows of a Dask array or data frame: names and number of columns, nothing computed."""
    if is_frame(x):
        return x._meta
    if not (hasattr(x, "_meta") and hasattr(x, "chunks")):
        raise TypeError(f"X must be a Dask array or data frame, got a Dask {type(x).__name__}")
    if x.ndim != 2:
        raise ValueError(f"Expected 2D array, got a Dask array with {x.ndim} dimensions instead")
    if np.isnan(x.shape[1]):
        raise ValueError("the number of columns of X is unknown; call X.compute_chunk_sizes()")
    return np.empty((0, x.shape[1]))


def working_dtype(x: Any) -> np.dtype[Any]:
    """Type in which data are worked with: single precision if they are all single precision."""
    if is_frame(x):
        kinds = {str(name): kind for name, kind in x.dtypes.items()}
        wrong = [name for name, kind in kinds.items() if kind.kind not in "biuf"]
        if wrong:
            raise TypeError(
                f"X must hold real numbers, but {len(wrong)} columns do not: {_some(wrong)}; drop "
                "or encode them"
            )
        single = all(kind == np.float32 for kind in kinds.values())
    else:
        if x.dtype.kind not in "biuf":
            raise TypeError(f"X must hold real numbers, got dtype {x.dtype}")
        single = x.dtype == np.float32
    return np.dtype(np.float32 if single else np.float64)


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


@dataclass(frozen=True)
class Blocks:
    """A grid of blocks that are not computed yet, and the shape of the whole.

    Attributes
    ----------
    grid : list of list
        Blocks as delayed objects, those side by side in one list.
    columns : list of slice
        The columns of each block in a list.
    dtype : dtype
        Type in which blocks are worked with.
    typical : float
        Rows of a block, if they are known.
    rows : int
        Number of rows, known after the first pass.
    sparse : bool
        Whether there are sparse blocks, known after the first pass.
    """

    grid: list[list[Any]]
    columns: list[slice]
    dtype: Any
    typical: float
    rows: int = 0
    sparse: bool = False

    @classmethod
    def of(cls, x: Any) -> Self:
        """Take a Dask array or data frame."""
        p = header(x).shape[1]
        if p == 0:
            raise ValueError("X has no columns; a minimum of 1 is required")
        if is_frame(x):
            grid = [[part] for part in x.to_delayed()]
            return cls(grid, [slice(0, p)], working_dtype(x), np.inf)
        ends = np.cumsum(x.chunks[1]).tolist()
        columns = [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]
        sizes = np.array(x.chunks[0], dtype=float)
        typical = np.inf if np.isnan(sizes).any() else float(sizes.mean())
        return cls(x.to_delayed().tolist(), columns, working_dtype(x), typical)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.rows, self.columns[-1].stop

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.rows * self.shape[1]

    def astype(self, dtype: Any) -> Blocks:
        """Give the same blocks, to be worked with in another type."""
        return replace(self, dtype=dtype)

    def moments(self, cross: bool) -> list[on_block.Moments]:
        """First pass: moments of each list of columns."""
        task = _task(on_block.block_moments)
        merge = _task(on_block.merge_moments)
        parts = [[task(block, self.dtype, cross) for block in row] for row in self.grid]
        return _computed([_tree(column, merge) for column in zip(*parts, strict=True)])

    def product(self, v: Array, shift: Array) -> Array:
        """Give ``X'(X v - shift)``, and below it the sums of the scores in the parentheses."""
        add = _task(on_block.sum_up)
        pieces = [_sent(v[part]) for part in self.columns]
        if len(pieces) == 1:
            task = _task(on_block.block_product)
            parts = [task(row[0], self.dtype, pieces[0], shift) for row in self.grid]
            return np.asarray(_computed([_tree(parts, add)])[0])
        scores, transposed = _task(on_block.block_scores), _task(on_block.block_transposed)
        rows = []
        for row in self.grid:
            along = [scores(b, self.dtype, part) for b, part in zip(row, pieces, strict=True)]
            total = add(along)
            rows.append([transposed(block, self.dtype, [total], shift) for block in row])
        columns = _computed([_tree(column, add) for column in zip(*rows, strict=True)])
        return np.vstack([*(column[:-1] for column in columns), columns[0][-1:]])

    def gram(self, mean: Array, scale: Array) -> Array:
        """Give the cross-products of the centred and scaled columns."""
        task = _task(on_block.block_gram)
        parts = [task(row, self.dtype, mean, scale) for row in self.grid]
        return np.asarray(_computed([_tree(parts, _task(on_block.sum_up))])[0])


def _task(function: Any) -> Any:
    """Make calls of a function tasks, whose names need not be derived from their arguments."""
    from dask.delayed import delayed

    return delayed(function, pure=False, traverse=False)


def _tree(parts: Any, combine: Any) -> Any:
    """Combine neighbours, a few at a time, until one is left."""
    parts = list(parts)
    while len(parts) > 1:
        groups = [parts[i : i + _FAN_IN] for i in range(0, len(parts), _FAN_IN)]
        parts = [group[0] if len(group) == 1 else combine(group) for group in groups]
    return parts[0]


def _sent(v: Array) -> Any:
    """Make an array known to all tasks, so that it is sent to each worker once."""
    from dask.base import get_scheduler
    from dask.delayed import delayed

    client = getattr(get_scheduler(), "__self__", None)  # of a cluster, if one is in use
    if client is not None and v.nbytes > _LARGE:
        # under a name of its own: one derived from the content may be on its way out
        return client.scatter(v, broadcast=True, hash=False)
    return delayed(v, traverse=False, pure=False)


def _computed(tasks: list[Any]) -> list[Any]:
    """Run tasks where Dask is set up to; blocks, not single products, share the cores."""
    from dask.base import compute

    with _controller().limit(limits=1, user_api="blas"):
        return list(compute(*tasks, traverse=False))


@cache
def _controller() -> Any:
    return ThreadpoolController()  # looks for libraries, which takes milliseconds


class DaskCovariance(DataMatrix):
    """Covariance of a Dask array or data frame, by one map-reduce a product.

    Whether to go through the data or through the covariance itself, and how leading directions are
    found, is what `DataMatrix` decides, so that results are those in memory.

    Parameters
    ----------
    x : Blocks
        The data.
    mean, scale, variances
        As in `DataMatrix`.
    matrix : array, p x p, optional
        Cross-products of the centred columns over n, if they have been added up already.
    """

    divisible = ()

    def __init__(
        self,
        x: Blocks,
        mean: Array,
        scale: Array,
        variances: Array,
        matrix: Array | None = None,
    ) -> None:
        super().__init__(x, mean, scale, variances)
        self._matrix = None
        if matrix is not None:
            self._matrix = matrix / self._scale / self._scale[:, None]

    def matmul(self, v: Array) -> Array:
        """``S @ v``, from one pass through the data unless the covariance is known."""
        if self._matrix is not None:
            return np.asarray(self._matrix @ v)
        scaled = v / self._scale[:, None]
        product = self._passed(scaled, self._mean @ scaled)
        total = product[:-1] - np.outer(self._mean, product[-1])
        return np.asarray(total / (self._scale[:, None] * self.n_samples))

    def _passed(self, v: Array, shift: Array) -> Array:
        """Pass through the data; once more if workers were lost that held `v`."""
        from concurrent.futures import CancelledError

        for _ in range(_ATTEMPTS - 1):
            try:
                return np.asarray(self._x.product(v, shift))
            except CancelledError:
                continue
        return np.asarray(self._x.product(v, shift))

    def rows_product(self, rows: Array) -> Array:
        """``rows @ S``, by the same pass."""
        return np.ascontiguousarray(self.matmul(rows.T).T)

    def leading(
        self, k: int, products: int = PRODUCTS, surplus: bool = False
    ) -> tuple[Array, Array]:
        """Give the leading eigenpairs, exactly where that costs little."""
        rows, columns = self._x.shape
        if columns <= rows:
            return super().leading(k, products, surplus)
        if rows * rows * columns > _CHEAP:
            return AbstractCovariance.leading(self, k, products, surplus)
        # no more directions than rows, so that the image of as many random ones has them all
        random = np.random.default_rng(0).standard_normal((columns, rows))
        basis = np.linalg.qr(self.matmul(random))[0]
        inner = basis.T @ self.matmul(basis)
        values, rotation = np.linalg.eigh(0.5 * (inner + inner.T))
        return np.maximum(values[::-1][:k], 0.0), basis @ rotation[:, ::-1][:, :k]

    def best_route(self, n_components: int) -> AbstractCovariance:
        """Give the covariance matrix itself where that makes a fit cheaper."""
        return self if self._x.sparse else super().best_route(n_components)

    def add_up(self) -> Array:
        """Give the covariance matrix, from one pass through the data if it is not known."""
        if self._matrix is None:
            self._matrix = self._x.gram(self._mean, self._scale) / self.n_samples
        return self._matrix

    def _column_gram(self, slot: AbstractSlot | None = None) -> Array:
        return self.add_up()


def from_dask(x: Any, center: bool, scale: bool) -> Input:
    """Take a Dask array or data frame, after one pass through it."""
    blocks = Blocks.of(x)
    cross = _one_pass(blocks) and len(blocks.columns) == 1
    found = blocks.moments(cross)
    _check_entries(found, header(x), blocks)
    rows = found[0].count
    blocks = replace(blocks, rows=rows, sparse=any(part.sparse for part in found))
    mean = np.concatenate([part.mean for part in found])
    squares = np.concatenate(
        [np.diagonal(part.scatter) if cross else part.scatter for part in found]
    )
    matrix = found[0].scatter / rows if cross else None
    variances = squares / rows
    constant = _only_rounding(variances, mean)
    variances = np.where(constant, 0.0, variances)
    if matrix is not None:
        matrix[constant] = matrix[:, constant] = 0.0
    if not center:
        variances = variances + mean**2
        matrix = None if matrix is None else matrix + np.outer(mean, mean)
        mean = np.zeros_like(mean)
    divisor = _divisor(variances, scale)
    covariance = DaskCovariance(blocks, mean, divisor, variances / divisor**2, matrix)
    if _one_pass(blocks) and not cross:
        covariance.add_up()
    return Input(covariance, mean, divisor, variances)


def _one_pass(blocks: Blocks) -> bool:
    """Tell whether adding up all cross-products costs less than a pass for every product."""
    p, rows = blocks.shape[1], blocks.typical
    if len(blocks.columns) > 1 and rows * p > _LARGEST_ROW:
        return False
    return p <= _FEW or p <= min(_MANY, _LARGER_THAN_BLOCK * rows)


def _check_entries(found: list[on_block.Moments], head: Any, blocks: Blocks) -> None:
    if found[0].count == 0:
        raise ValueError("X has no rows; a minimum of 1 is required")
    bad = np.concatenate([part.bad for part in found])
    if bad.any():
        raise ValueError(_about_bad(found, bad, getattr(head, "columns", None), blocks))
    size = max(part.size for part in found)
    squares = np.concatenate([np.atleast_1d(part.scatter).ravel() for part in found])
    if size > _LARGEST or not np.isfinite(squares).all():
        raise ValueError(
            f"X has entries as large as {size:.3g}, too large to square; divide it by some unit"
        )
    if 0 < size < _SMALLEST:
        raise ValueError(
            f"X has no entries above {size:.3g}, too small to square; divide it by some unit"
        )


def _about_bad(found: list[on_block.Moments], bad: Array, names: Any, blocks: Blocks) -> str:
    firsts = [
        (part.first[0], part.first[1] + columns.start)
        for part, columns in zip(found, blocks.columns, strict=True)
        if part.first is not None
    ]
    row, column = min(firsts)
    kind = "NaN" if any(part.nan for part in found) else "infinity"
    places = np.flatnonzero(bad)
    where = _some([f"{j if names is None else names[j]} ({bad[j]})" for j in places.tolist()])
    return (
        f"Input X contains {kind}: {bad.sum()} entries are NaN or infinite, the first in row "
        f"{row}, column {column if names is None else names[column]}; by column: {where}. Drop "
        "those rows or columns, or fill them in, for example with X.dropna() or X.fillna() of a "
        "Dask data frame, or dask.array.where"
    )

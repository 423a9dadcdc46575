"""Rows of data, wherever they are: how they are read, and products with them.

A kind of input is one class with three methods: the moments of its columns, one product, and a map
from its rows to other rows. Centering and scaling never touch the data.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from ebcd._numerics import Array
from ebcd._parameters import NONE, Constraint, real
from ebcd.data import _settings
from ebcd.data._moments import Moments, as_dense, block_moments, check_finite, cut, is_sparse

Work = Callable[[Any], Array]  # what a map does with some rows
# Called with the number of the pass, how many rows of it have been read (0 when it begins), and of
# how many, if that is known.
PassProgress = Callable[[int, int, int | None], None]


@dataclass(frozen=True)
class Memory:
    """Bytes that a fit may take beside the data that it was given, if there is a limit."""

    limit: int | None = None
    n_components: int | None = None  # if it is known; otherwise 20 are looked at first

    def needed(self, n_features: int, matrix: bool) -> int:
        """Bytes that a fit takes with chunks of one row, with a covariance matrix or without."""
        settings = _settings.SETTINGS
        k = min(self.n_components or 20, n_features)
        # what goes with the components takes as much as six of them
        columns = settings.copies + settings.columns_per_component * (k + 6)
        matrices = settings.copies * n_features if matrix else 0
        return settings.fixed_bytes + 8 * n_features * (columns + matrices)

    def has_room_for_matrix(self, n_features: int) -> bool:
        """Whether a covariance matrix fits in."""
        return self.limit is None or self.needed(n_features, True) <= self.limit

    def chunk_bytes(self, n_features: int, matrix: bool) -> int:
        """Bytes of data to read at once, beside a covariance matrix or without one."""
        settings, row = _settings.SETTINGS, 8 * n_features
        # what is p x p or p x k is passed over for every chunk, so that a few rows are not enough
        rows = int(settings.rows_per_column * n_features) if matrix else settings.fewest_rows
        wanted = max(settings.read, row * rows)
        if self.limit is None:
            return wanted
        needed = self.needed(n_features, matrix)
        if needed > self.limit:
            raise ValueError(
                f"max_memory is {readable(self.limit)}, but a fit of {n_features} features "
                f"needs at least {readable(needed)}, however small the chunks; raise max_memory, "
                "or use fewer components or features"
            )
        return min(wanted, row + (self.limit - needed) // settings.copies)


def check_memory(value: Any, name: str = "max_memory") -> int | None:
    """Return a number of bytes for a number or a text such as "500MB"; None stays None."""
    _MEMORY.check(name, value)
    return None if value is None else _bytes(value)


def _bytes(value: Any) -> int:
    if not isinstance(value, str):
        return int(value)
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([KMGT]?)(I?)B?\s*", value.upper())
    if match is None:
        return 0
    number, unit, binary = match.groups()
    return int(float(number) * (1024 if binary else 1000) ** "_KMGT".find(unit or "_"))


_MEMORY = (
    real("a number of bytes above 0", lambda value: value > 0)
    | Constraint(
        ('a text such as "500MB"',),
        lambda value: isinstance(value, str),
        lambda value: _bytes(value) > 0,
    )
    | NONE
)


def readable(size: float) -> str:
    """Write a number of bytes for people."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} bytes" if unit == "bytes" else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


@dataclass(frozen=True)
class Reading:
    """How data are to be read."""

    memory: Memory = field(default_factory=Memory)
    progress: PassProgress | None = None  # called while chunks are read
    whole: bool = False  # whether the data themselves are needed, as one matrix in memory
    holes: bool = False  # whether entries may be missing
    # computes all cross-products of rows, unless they are known already
    gather: Callable[[AbstractRows], Moments] = lambda rows: rows.moments(cross=True)


class AbstractRows(ABC):
    """Data with one sample a row."""

    n_features: int
    n_rows: int | None = None  # None until a pass has counted them
    names: list[Any] | None = None  # of the columns
    header: Any = None  # something with those columns that scikit-learn can look at
    dtype: Any = np.dtype(np.float64)  # precision of products: single if the data are
    has_sparse: bool = False
    matrix: Any = None  # the data, if they are one matrix in memory
    gathers_later: bool = True  # a covariance matrix, once the number of components is known
    lazy: bool = False  # whether `map` returns something that is not computed yet
    stamp: list[Any] | None = None  # what tells whether other data are the same, if anything does

    @abstractmethod
    def moments(self, cross: bool) -> Moments:
        """Compute means and squares about them, or all cross-products, in one pass.

        They may have found entries that are NaN or infinite, so they are to be checked.
        """

    @abstractmethod
    def product(self, v: Array, mean: Array, far: bool, weight: float) -> Array:
        """Compute ``weight v (X - mean)'(X - mean)`` for a matrix `v` of shape (k, n_features).

        The `mean` is that of the data, or zero. If it is `far` from zero, entries should be
        centered before they are multiplied.
        """

    @abstractmethod
    def map(self, work: Work, shape: tuple[int, ...], dtype: Any = None) -> Any:
        """Compute something of every row: ``work(rows)``, stacked.

        `shape` is that of the result for one row, `dtype` its type, by default that of the data.
        """

    def gathers(self) -> bool:
        """Whether the first pass should add up all cross-products, so that no other is needed."""
        return False

    def together(self) -> AbstractRows:
        """Return the rows as one matrix if that is small and they are not yet."""
        return self

    def for_products(self, mean: Array, scale: Array) -> tuple[AbstractRows, Array, Array]:
        """Return rows to multiply with, and what is left to subtract from and divide them by."""
        return self, mean, scale

    def check_columns(self, estimator: Any, reset: bool) -> None:
        """Record number and names of the columns in an estimator, or compare them with those."""
        if self.header is not None:
            validate_data(estimator, self.header, reset=reset, skip_check_array=True)
            return
        known = getattr(estimator, "feature_names_in_", None)
        if reset:
            estimator.n_features_in_ = self.n_features
            if known is not None:
                del estimator.feature_names_in_
            if self.names is not None:
                estimator.feature_names_in_ = np.asarray(self.names, dtype=object)
        elif self.n_features != estimator.n_features_in_:
            raise ValueError(
                f"X has {self.n_features} features, but {type(estimator).__name__} is expecting "
                f"{estimator.n_features_in_} features as input"
            )


def is_mapped(x: Any) -> bool:
    """Whether an array is a memory map of a file, not one that was made from such a map."""
    return isinstance(x, np.memmap) and getattr(x, "_mmap", None) is not None


def names_of(header: Any) -> list[Any] | None:
    """Return the names of the columns of a data frame; None for what has none."""
    return list(header.columns) if hasattr(header, "columns") else None


def texts_of(chunk: Any) -> list[str] | None:
    """Return the names of the columns if they are texts."""
    names = names_of(chunk) or []
    return names if names and all(isinstance(name, str) for name in names) else None


def check_names(names: list[str] | None, known: list[Any] | None, what: str) -> None:
    """Refuse a chunk whose columns are not those of the others, where both have names."""
    for new, old in zip(names or [], known or [], strict=False):
        if new != old:
            raise ValueError(
                f"{what} has the column {new!r} where {old!r} is expected; all chunks must have "
                "the same columns in the same order"
            )


class MatrixRows(AbstractRows):
    """A matrix of numbers in memory, dense or sparse; neither copied nor changed.

    The `header` is what it was made from, which may have names of columns.
    """

    def __init__(self, x: Any, header: Any = None) -> None:
        self.matrix, self.dtype, self.has_sparse = x, x.dtype, is_sparse(x)
        self.n_rows, self.n_features = x.shape
        self.header, self.names = header, names_of(header)

    def moments(self, cross: bool) -> Moments:
        """Compute them at once."""
        return block_moments(self.matrix, cross)

    def product(self, v: Array, mean: Array, far: bool, weight: float) -> Array:
        """Compute it through scores, whose means are subtracted instead of those of the data."""
        if far and not self.has_sparse:
            return block_product(self.matrix, v, mean, far) * weight
        scores = scores_of(self.matrix, v, mean)
        scores *= weight
        return self.back(scores, mean)

    def back(self, scores: Array, mean: Array) -> Array:
        """``scores (X - mean)`` for the mean of the data, or zero."""
        if mean.any():
            scores = scores - scores.mean(axis=1, keepdims=True)
        return back_from(self.matrix, scores, np.zeros_like(mean))

    def map(self, work: Work, shape: tuple[int, ...], dtype: Any = None) -> Array:
        """Compute it for all rows at once."""
        check_finite(self.matrix, self.names)
        return work(self.matrix)

    def gathers(self) -> bool:
        """Large data with so few columns that every fit needs their covariance."""
        rows, columns = self.matrix.shape
        few = columns <= min(rows, 2 * _settings.SETTINGS.expected_products)
        return few and rows * columns > _settings.SETTINGS.small and not self.has_sparse

    def for_products(self, mean: Array, scale: Array) -> tuple[AbstractRows, Array, Array]:
        """Copy small data: operators would cost more, and single precision stops fits early."""
        x, small = self.matrix, _settings.SETTINGS.small
        if x.shape[0] * x.shape[1] <= small:
            x = (as_dense(x) - mean) / scale
            return MatrixRows(x), np.zeros_like(mean), np.ones_like(scale)
        if self.has_sparse and x.nnz <= small:
            return MatrixRows(x.astype(np.float64, copy=False)), mean, scale
        return self, mean, scale

    def row_gram(self, mean: Array, factors: Array) -> Array:
        """Inner products of the rows, centered and multiplied by factors of the columns."""
        rows, columns = self.matrix.shape
        gram = np.zeros((rows, rows))
        step = max(1, _settings.SETTINGS.piece // rows)
        for i in range(0, columns, step):
            part = slice(i, i + step)
            block = np.subtract(as_dense(self.matrix[:, part]), mean[part], dtype=np.float64)
            block *= factors[part]
            gram += block @ block.T
        return gram


def scores_of(x: Any, v: Array, mean: Array) -> Array:
    """``v (x - mean)'``, in the precision of the data."""
    v, size = _in_precision(v, x.dtype)
    scores = np.asarray((x @ v.T).T if is_sparse(x) else v @ x.T, dtype=np.float64)
    scores *= size
    if mean.any():
        scores -= (v @ mean)[:, None]
    return scores


def back_from(x: Any, scores: Array, mean: Array) -> Array:
    """``scores (x - mean)``, C-ordered, in the precision of the data."""
    low, size = _in_precision(scores, x.dtype)
    product = (x.T @ low.T).T if is_sparse(x) else low @ x
    product = np.ascontiguousarray(product, dtype=np.float64)
    product *= size
    if mean.any():
        product -= np.outer(scores.sum(axis=1), mean)
    return product


def _in_precision(v: Array, dtype: Any) -> tuple[Array, float]:
    """Return `v` in a precision, and what it was divided by so that it is in range there."""
    if dtype != np.float32 or _in_single(v):
        return v.astype(dtype, copy=False), 1.0
    size = float(2.0 ** np.round(np.log2(np.abs(v).max())))
    return (v / size).astype(dtype), size


def _in_single(v: Array) -> bool:
    """Whether numbers, and products of two of them, are in the range of single precision."""
    size = float(np.abs(v).max(initial=0.0))
    return size == 0 or single_digits(size * size)


def single_digits(size: float) -> bool:
    """Whether numbers of a size have all their digits in single precision, and room for sums."""
    range_ = np.finfo(np.float32)
    return float(range_.tiny / range_.eps) < size < float(range_.max * range_.eps)


def times(matrix: Array, rows: Any) -> Array:
    """``rows matrix`` in the precision of the rows; in double on the way if that is needed."""
    if rows.dtype == np.float32 and not _in_single(matrix):
        return np.asarray(rows.astype(np.float64) @ matrix).astype(rows.dtype)
    return np.asarray(rows @ matrix.astype(rows.dtype, copy=False))


def block_product(x: Any, v: Array, mean: Array, far: bool) -> Array:
    """``v (x - mean)'(x - mean)`` for some rows, of which the `mean` need not be theirs.

    Through pieces that stay in the cache; sparse rows at once, as slices would be copies. If the
    mean is `far` from zero, dense entries are centered first.
    """
    product, total, nothing = np.zeros(v.shape), np.zeros(len(v)), np.zeros_like(mean)
    first = far and not is_sparse(x)
    for rows in map(floating, [x] if is_sparse(x) else cut(x, _settings.SETTINGS.fewest_rows)):
        if first:
            rows = np.subtract(rows, mean, dtype=np.float64).astype(rows.dtype, copy=False)
        scores = scores_of(rows, v, nothing if first else mean)
        product += back_from(rows, scores, nothing)
        total += scores.sum(axis=1)
    return product if first else product - np.outer(total, mean)


def floating(rows: Any) -> Any:
    """Return rows in the precision they are worked with: single stays single."""
    dtype = np.float32 if rows.dtype == np.float32 else np.float64
    return rows.astype(dtype, copy=False)

"""The only place that looks at what kind of data it was given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
from scipy.linalg import lapack
from sklearn.utils.validation import check_array

from ebcd._numerics import Array
from ebcd._parameters import COUNT
from ebcd.data._chunks import Chunks
from ebcd.data._covariance import AbstractCovariance, CovarianceMatrix, DataCovariance
from ebcd.data._dask import DaskRows
from ebcd.data._gram import Gram
from ebcd.data._moments import (
    Moments,
    as_dense,
    checked_sparse,
    first_text,
    is_sparse,
    refuse_times,
    unmasked,
)
from ebcd.data._observed import Observed, observe
from ebcd.data._rows import AbstractRows, MatrixRows, Reading, is_mapped, names_of
from ebcd.data._streamed import ChunkRows

_READ_BY_ROWS = ("anndata", "h5py", "zarr")  # libraries whose arrays are not in memory
_NO_MATRIX = {
    "LazyFrame": "a LazyFrame, which is a query and holds no data; pass X.collect(), or, if that "
    "is too large, X.sink_parquet(file) and then Chunks.from_parquet(file)",
    "AnnData": "an AnnData, which holds several matrices; pass one, X.X or X.layers[...], or call "
    "ebcd.anndata.ebcd(X)",
    "Gram": "a Gram, which holds statistics and no rows; only fit takes it",
}


def _chunk_rows(x: Any, reading: Reading) -> AbstractRows:
    if reading.whole:
        raise ValueError(
            "X comes in chunks, but this fit needs all rows at once, in memory; concatenate them, "
            "or use a method that needs only a covariance, such as EBCD"
        )
    chunks = x if isinstance(x, Chunks) else Chunks(x)
    return ChunkRows(chunks._source, reading)


def _matrix_rows(x: Any, reading: Reading) -> AbstractRows:
    matrix = real_matrix(x)
    header = x if hasattr(x, "columns") else matrix
    by_columns = getattr(matrix, "format", None) == "csc"  # so that rows cannot be had one by one
    if reading.memory.limit is None or reading.whole or by_columns:
        return MatrixRows(matrix, header)
    rows = ChunkRows(Chunks(matrix)._source, reading)
    rows.header, rows.names = header, names_of(header)
    return rows


def real_matrix(x: Any) -> Any:
    """Take what scikit-learn takes: arrays, data frames, lists of lists and sparse matrices.

    Entries may be missing or infinite.
    """
    is_frame = hasattr(x, "columns") and hasattr(x, "dtypes")
    if is_frame:
        _check_frame(x)
    try:
        matrix = check_array(
            checked_sparse(x) if is_sparse(x) else unmasked(x),
            accept_sparse=("csr", "csc"),
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
            input_name="X",
        )
    except OverflowError as error:
        raise ValueError(f"X has integers that are too large for floating point: {error}") from None
    except (TypeError, ValueError):
        columns = (np.asarray(x[name], dtype=object) for name in x.columns) if is_frame else ()
        if is_frame and (odd := first_text(x.columns, columns)) is not None:
            raise _not_numbers(odd[0], repr(odd[1])) from None
        refuse_times(x)
        raise
    refuse_times(x)
    return matrix


def _check_frame(x: Any) -> None:
    """Refuse columns of a data frame that cannot be told apart, and times, which are no numbers."""
    names = list(x.columns)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"X has more than one column {twice!r}; rename or drop the others")
    for name, dtype in zip(names, x.dtypes, strict=True):
        if getattr(dtype, "kind", "") in ("m", "M") or getattr(dtype, "is_temporal", bool)():
            raise _not_numbers(name, "dates or times")


def _not_numbers(name: Any, what: str) -> ValueError:
    return ValueError(
        f"the column {name!r} of X must hold numbers, but holds {what}; drop it, or encode it as "
        "numbers"
    )


# Kinds of input, most special first: how one is recognized, and what reads it.
Kind = tuple[Callable[[Any, Reading], bool], Callable[[Any, Reading], AbstractRows]]
KINDS: list[Kind] = [
    (lambda x, _: isinstance(x, AbstractRows), lambda x, _: x),
    (lambda x, _: is_dask(x), lambda x, _: DaskRows(x)),
    (lambda x, reading: comes_in_chunks(x) and not (reading.whole and is_mapped(x)), _chunk_rows),
    (lambda x, _: True, _matrix_rows),
]


def as_rows(x: Any, reading: Reading | None = None) -> AbstractRows:
    """Take data of any kind with one sample a row."""
    refuse_queries(x)
    reading = reading or Reading()
    return next(read(x, reading) for recognise, read in KINDS if recognise(x, reading))


def is_dask(x: Any) -> bool:
    """Whether `x` is a Dask collection, without importing Dask."""
    return type(x).__module__.partition(".")[0] in ("dask", "dask_expr")


def comes_in_chunks(x: Any) -> bool:
    """Whether data are read in pieces, not as one matrix in memory."""
    if is_dask(x):
        return False
    if isinstance(x, Chunks | Iterator) or is_mapped(x):
        return True
    if isinstance(x, list | tuple):
        return len(x) > 0 and len(getattr(x[0], "shape", ())) == 2
    if len(getattr(x, "shape", ())) == 2:
        return type(x).__module__.partition(".")[0] in _READ_BY_ROWS and hasattr(x, "dtype")
    if any(hasattr(x, name) for name in ("__array__", "__dataframe__", "shape")):
        return False
    return isinstance(x, Iterable) and not isinstance(x, str | bytes | dict | set)


def refuse_queries(x: Any) -> None:
    """Refuse what holds no matrix, of which an array would be made that holds the object."""
    kind = type(x).__name__
    if kind in _NO_MATRIX:
        raise TypeError(f"X is {_NO_MATRIX[kind]}")
    if isinstance(x, str | PathLike):
        raise TypeError(
            f"X is the path {str(x)!r}, not data; pass Chunks.from_npy(path), from_csv, "
            "from_parquet, from_hdf5, from_h5ad or from_zarr, or read the file first"
        )


@dataclass(frozen=True)
class Input:
    """Data as a fit sees them, and what leads back to their own units.

    The `mean` was subtracted from the features (None if it is unknown), which were then divided by
    `scale`; `variances` are their mean squares between the two. `rows` are the data themselves,
    None if there are only statistics of them. If entries are missing, what was `observed` stands
    for the data, and the covariance is that with means in their place.
    """

    covariance: AbstractCovariance
    mean: Array | None
    scale: Array
    variances: Array
    rows: AbstractRows | None = None
    observed: Observed | None = None

    @property
    def matrix(self) -> Any:
        """The data as one matrix in memory; None if they are not."""
        return None if self.rows is None else self.rows.matrix

    @property
    def entries(self) -> float:
        """Number of entries that were observed."""
        if self.observed is not None:
            return float(self.observed.counts.sum())
        return self.covariance.n_samples * self.covariance.n_features

    def in_logarithms(self, unit: float) -> float:
        """Return what a working unit and the scales of the features add to a log-likelihood."""
        logs = np.log(self.scale * unit)
        if self.observed is not None:
            return float(self.observed.counts @ logs)
        return self.covariance.n_samples * float(logs.sum())

    def copy_of_rows(self, most: int, thinned: bool = False) -> Array | None:
        """Return the rows as the covariance sees them, without constant features.

        None unless they are in memory, one for each sample, with at most so many entries; if
        `thinned`, as many evenly spaced rows as have so many.
        """
        x = self.matrix
        if x is None or self.observed or x.shape[0] != self.covariance.n_samples:
            return None
        times = -(-x.shape[0] * x.shape[1] // most)
        if times > 1 and not thinned:
            return None
        varies = self.variances > 0
        # constant columns first: a sparse matrix may have a million of them
        x = as_dense(x[::times][:, varies]).astype(np.float64)
        x -= 0.0 if self.mean is None else self.mean[varies]
        x /= self.scale[varies] * self.covariance.unit
        return np.asarray(x)


def as_input(
    x: Any,
    center: bool,
    scale: bool,
    *,
    n_samples: int | None = None,
    reading: Reading | None = None,
) -> Input:
    """Take data of any kind, or statistics of them: a Gram, or a compact matrix.

    The mean of each feature is subtracted if `center`; it is divided by its standard deviation if
    `scale`. With `n_samples`, `x` stands for so many rows with the same cross-products.
    """
    if isinstance(x, Gram):
        if x.n_samples == 0:
            raise ValueError("the Gram is empty; update it with data first")
        return _from_cross_products(x._moments, center, scale)
    reading = reading or Reading()
    if n_samples is not None:
        return _from_compact(x, center, scale, n_samples, reading)
    rows = as_rows(x, reading).together()
    cross = rows.gathers() and not reading.whole
    moments = reading.gather(rows) if cross else rows.moments(cross=False)
    has_holes = moments.bad is not None and moments.bad.nan
    if reading.holes and has_holes and rows.matrix is not None:
        observed, mean, divisor, variances = observe(rows, center, scale)
        return Input(observed.covariance(), mean, divisor, variances, rows, observed)
    moments.check(rows.names)
    if cross:
        return _from_cross_products(moments, center, scale, rows)
    return _from_rows(rows, moments, center, scale)


def from_matrix(x: Any, center: bool, scale: bool, n_samples: int | None = None) -> Input:
    """Take a checked data matrix, dense or sparse, or a compact one for `n_samples` rows."""
    return as_input(MatrixRows(x), center, scale, n_samples=n_samples)


def column_moments(x: Any, center: bool) -> tuple[Array, Array]:
    """Compute the mean (zero if not wanted) and the mean square about it of every column."""
    moments = MatrixRows(x).moments(cross=False)
    moments.check()
    return moments.about(center)


def _from_compact(x: Any, center: bool, scale: bool, n_samples: Any, reading: Reading) -> Input:
    COUNT.check("n_samples", n_samples)
    if is_dask(x):
        raise ValueError("a compact matrix (n_samples given) cannot be a Dask collection")
    rows = as_rows(x, replace(reading, whole=True))
    if center:
        raise ValueError(
            "a compact matrix (n_samples given) cannot be centered any more; "
            "center the data before and use center=False"
        )
    moments = rows.moments(cross=False)
    moments.check(rows.names)
    return _from_rows(rows, moments, center, scale, int(n_samples))


def _from_rows(
    rows: AbstractRows, moments: Moments, center: bool, scale: bool, n_samples: int | None = None
) -> Input:
    """Take means and variances; products go through the rows."""
    count = moments.count if n_samples is None else n_samples
    mean, variances = moments.about(center)
    variances = variances * (moments.count / count)
    divisor = _divisor(variances, scale)
    covariance = DataCovariance(rows, mean, divisor, variances / divisor / divisor, count)
    return Input(covariance, mean, divisor, variances, rows)


def _from_cross_products(
    moments: Moments, center: bool, scale: bool, rows: AbstractRows | None = None
) -> Input:
    """Take the cross-products of all columns."""
    mean, variances = moments.about(center)
    divisor = _divisor(variances, scale)
    unit = 1.0 if scale else moments.unit or 1.0
    matrix = moments.covariance(center, divisor * unit, moments.count)
    constant = variances == 0
    matrix[constant] = matrix[:, constant] = 0.0
    return Input(CovarianceMatrix(matrix, moments.count, unit), mean, divisor, variances, rows)


def _divisor(variances: Array, scale: bool) -> Array:
    if not scale:
        return np.ones_like(variances)
    return np.where(variances > 0, np.sqrt(variances), 1.0)


def from_covariance(matrix: Array, n_samples: int, scale: bool) -> Input:
    """Take a checked covariance matrix."""
    variances = np.diagonal(matrix).copy()
    divisor = _divisor(variances, scale)
    if scale:
        matrix = matrix / divisor
        matrix /= divisor[:, None]
    return Input(CovarianceMatrix(matrix, n_samples), None, divisor, variances)


def check_covariance(matrix: Any) -> Array:
    """Check a covariance matrix: square, symmetric, positive semi-definite up to rounding."""
    if hasattr(matrix, "columns") and hasattr(matrix, "index"):
        rows, columns = list(matrix.index), list(matrix.columns)
        if rows != columns and set(rows) == set(columns) and isinstance(columns[0], str):
            raise ValueError(
                "rows and columns of the covariance have the same names, but in different orders; "
                "give S.loc[S.columns], or S.to_numpy() if the names of the rows are wrong"
            )
    array = np.asarray(matrix)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"the covariance must hold real numbers, got dtype {array.dtype}")
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.shape[0] == 0:
        raise ValueError(f"the covariance must be a square matrix, got shape {array.shape}")
    array = array.astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        bad = np.argwhere(~np.isfinite(array))
        raise ValueError(
            f"the covariance has {len(bad)} NaN or infinite entries, the first at "
            f"[{bad[0][0]}, {bad[0][1]}]; fill in or drop those features"
        )
    size = float(np.abs(array).max())
    asymmetry = array - array.T
    largest = float(max(asymmetry.max(), -asymmetry.min()))
    if largest > 1e-6 * size:
        i, j = np.unravel_index(int(np.abs(asymmetry).argmax()), array.shape)
        raise ValueError(
            f"the covariance is not symmetric: entries [{i}, {j}] and [{j}, {i}] differ by "
            f"{largest:.3g}; use (S + S.T) / 2 if that is rounding error"
        )
    array = array if largest == 0 else np.asarray(0.5 * (array + array.T))
    # a Cholesky decomposition exists, at a fraction of the price of eigenvalues: in place, and in
    # single precision, whose rounding is a sixteenth of the shift; eigenvalues decide
    unit, shift = max(size, 1e-300), 1e-6 * len(array) ** 0.5
    shifted = np.empty(array.shape, dtype=np.float32)
    np.divide(array, unit, out=shifted, casting="same_kind")
    shifted[np.diag_indices_from(shifted)] += np.float32(shift)
    if lapack.spotrf(shifted.T, overwrite_a=True, clean=False)[1]:
        smallest = float(np.linalg.eigvalsh(array / unit)[0])
        if smallest < -shift:
            raise ValueError(
                "the covariance is not positive semi-definite: its smallest eigenvalue is "
                f"{smallest * unit:.3g}; was it computed pairwise from incomplete data?"
            )
    return array

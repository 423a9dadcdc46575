"""The only place that looks at what kind of data a fit was given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from ebcd._numerics import Array
from ebcd.data._budget import Budget
from ebcd.data._chunks import Chunks, Reader
from ebcd.data._covariance import AbstractCovariance, CovarianceMatrix
from ebcd.data._gram import Gram, NotFiniteError, add_outer
from ebcd.data._matrix import SMALLEST, DataMatrix, column_moments, is_tall
from ebcd.data._progress import Progress
from ebcd.data._slot import AbstractSlot, Slots, no_slots
from ebcd.data._sources import is_mapped
from ebcd.data._streamed import StreamedCovariance, all_if_small, gather, stream_moments

_SMALL = 2_000_000  # entries up to which chunks are put together
_MODERATE = 5_000  # features up to which the covariance matrix is cheaper than many passes
_READ_BY_ROWS = ("anndata", "h5py", "zarr")  # libraries whose arrays are not in memory
_NO_MATRIX = {
    "LazyFrame": "which is a query and holds no data; give X.collect(), or, if that is too large, "
    "X.sink_parquet(file) and then Chunks.from_parquet(file)",
    "AnnData": "which holds several matrices; give one, X.X or X.layers[...], or call "
    "ebcd.anndata.ebcd(X)",
}


class Input(NamedTuple):
    """Data as a fit sees them, and what leads back to their own units."""

    covariance: AbstractCovariance
    mean: Array | None
    scale: Array
    variances: Array  # of the features, in the units of the data
    names: Array | None = None  # of the features, if they came with the data


def as_covariance(
    x: Any,
    center: bool,
    scale: bool,
    *,
    budget: Budget | None = None,
    progress: Progress | None = None,
    whole: bool = False,
    slots: Slots = no_slots,
) -> Input | None:
    """Take data that are not one matrix in memory; None if they are, which is checked elsewhere.

    If the method needs the `whole` data, memory maps count as being in memory. A first pass over
    files leaves its sums in a slot.
    """
    if isinstance(x, Gram):
        return from_gram(x, center, scale)
    if not comes_in_chunks(x) or (whole and is_mapped(x)):
        return None
    if whole:
        raise ValueError(
            "X comes in chunks, but this fit needs all rows at once, in memory; put them together, "
            "or use a method that needs only a covariance, such as EBCD"
        )
    return from_chunks(as_chunks(x), center, scale, budget or Budget(), progress, slots)


def comes_in_chunks(x: Any) -> bool:
    """Tell whether data are read in pieces, not as one matrix in memory."""
    refuse_queries(x)
    _refuse_paths(x)
    if hasattr(type(x), "__dask_graph__"):
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
        raise TypeError(f"X is a {kind}, {_NO_MATRIX[kind]}".replace("a AnnData", "an AnnData"))


def _refuse_paths(x: Any) -> None:
    """Refuse the name of a file, of which a number would be made."""
    if isinstance(x, str | PathLike):
        raise TypeError(
            f"X is the path {str(x)!r}, not data; give Chunks.from_npy(path), from_csv, "
            "from_parquet, from_hdf5, from_h5ad or from_zarr, or read the file first"
        )


def as_chunks(x: Any) -> Chunks:
    """Give data that come in pieces as chunks."""
    return x if isinstance(x, Chunks) else Chunks(x)


def from_chunks(
    chunks: Chunks,
    center: bool,
    scale: bool,
    budget: Budget,
    progress: Progress | None = None,
    slots: Slots = no_slots,
) -> Input:
    """Take data in chunks: together if they are few, as statistics, or read for every product."""
    reader = Reader(chunks, progress)
    p = reader.n_features
    short = reader.n_rows is not None and reader.n_rows < p  # smaller than their covariance
    room = budget.has_room_for_matrix(p)
    gathered = room and p <= _MODERATE and (reader.once or not short)
    size = budget.chunk_bytes(p, gathered)
    slot = slots(None if reader.stamp is None else [gathered, *reader.stamp])
    if slot.saved is None:
        whole, blocks = all_if_small(reader, size, min(_SMALL, size // 8))
    else:
        whole, blocks = None, reader.blocks(size, slot.saved["n_samples"])
    if whole is not None:
        data = from_matrix(whole, center, scale, None)
    elif gathered:
        gram = gather(reader, blocks, slot)
        data = _from_scatter(gram.scatter, gram.mean, gram.n_samples, center, scale)
    elif reader.once:
        reason = "has no room in max_memory" if p <= _MODERATE else "would be too large"
        raise ValueError(
            f"X is an iterator, which can be read only once, but the covariance matrix of {p} "
            f"features {reason}, so that the data are needed again and again; give a list of "
            "chunks, or Chunks(function) with a function that makes the iterator anew"
        )
    else:
        data = _streamed(reader, blocks, center, scale, size, slot)
    return data._replace(names=reader.names)


def _streamed(
    reader: Reader, blocks: Any, center: bool, scale: bool, chunk_bytes: int, slot: AbstractSlot
) -> Input:
    n_samples, mean, variances = stream_moments(reader, blocks, center, chunk_bytes, slot)
    _check_size(variances, mean)
    variances = np.where(_only_rounding(variances, mean), 0.0, variances)
    divisor = _divisor(variances, scale)
    data = StreamedCovariance(reader, mean, divisor, variances / divisor**2, n_samples, chunk_bytes)
    return Input(data, mean, divisor, variances)


def from_matrix(x: Any, center: bool, scale: bool, n_samples: int | None) -> Input:
    """Take a validated data matrix, dense or sparse, or a compact one for `n_samples` rows."""
    gram = None
    if n_samples is None and is_tall(x):
        gram = _gathered(x, center)
    if gram is None:
        mean, variances = column_moments(x, center)
    else:
        mean, variances = gram[0], np.diagonal(gram[1]).copy()
    variances = np.where(_only_rounding(variances, mean), 0.0, variances)
    if n_samples is not None:
        variances = variances * (x.shape[0] / n_samples)
    divisor = _divisor(variances, scale)
    matrix = None if gram is None else gram[1]
    data = DataMatrix(x, mean, divisor, variances / divisor**2, n_samples, matrix)
    return Input(data, mean, divisor, variances)


def _gathered(x: Any, center: bool) -> tuple[Array, Array] | None:
    """Mean and covariance in one pass; None if their size makes that inaccurate."""
    try:
        gram = Gram().add_rows(x)
    except NotFiniteError:
        raise
    except ValueError:  # sums of squares of huge numbers, whose mean may be in range
        return None
    matrix, mean = gram.scatter / gram.n_samples, gram.mean
    if not 1e-200 < np.diagonal(matrix).max(initial=0.0) < 1e200:
        return None
    constant = _only_rounding(np.diagonal(matrix), mean)
    matrix[constant] = matrix[:, constant] = 0.0
    if not center:
        add_outer(matrix, mean, 1.0)
        mean = np.zeros_like(mean)
    return mean, matrix


def from_gram(gram: Gram, center: bool, scale: bool) -> Input:
    """Take sufficient statistics."""
    if gram.n_samples == 0:
        raise ValueError("the Gram is empty; update it with data first")
    return _from_scatter(gram.scatter.copy(), gram.mean, gram.n_samples, center, scale)


def _from_scatter(matrix: Array, mean: Array, n_samples: int, center: bool, scale: bool) -> Input:
    """Take cross-products about the means, which are overwritten."""
    matrix /= n_samples
    _check_size(np.diagonal(matrix), mean)
    constant = _only_rounding(np.diagonal(matrix), mean)
    matrix[constant] = matrix[:, constant] = 0.0
    if not center:
        add_outer(matrix, mean, 1.0)
        mean = np.zeros_like(mean)
    return from_covariance(matrix, n_samples, scale)._replace(mean=mean)


def from_covariance(matrix: Array, n_samples: int, scale: bool) -> Input:
    """Take a validated covariance matrix."""
    variances = np.diagonal(matrix).copy()
    divisor = _divisor(variances, scale)
    if scale:
        matrix = matrix / divisor
        matrix /= divisor[:, None]
    return Input(CovarianceMatrix(matrix, n_samples), None, divisor, variances)


def _check_size(variances: Array, mean: Array) -> None:
    size = float(np.sqrt(variances.max(initial=0.0))) or float(np.abs(mean).max(initial=0.0))
    if 0 < size < SMALLEST:
        raise ValueError(
            f"X has no entries much above {size:.3g}, too small to square; divide it by some unit"
        )


def _only_rounding(variances: Array, mean: Array) -> np.ndarray:
    """Mark features that are constant but for the rounding of their mean."""
    return np.asarray(np.sqrt(variances) <= 1e-13 * np.abs(mean))


def _divisor(variances: Array, scale: bool) -> Array:
    if not scale:
        return np.ones_like(variances)
    return np.where(variances > 0, np.sqrt(variances), 1.0)


def check_covariance(matrix: Any) -> Array:
    """Check a covariance matrix: square, symmetric, positive semi-definite up to rounding."""
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
    asymmetry = np.abs(array - array.T)
    if asymmetry.max() > 1e-6 * size:
        i, j = np.unravel_index(int(asymmetry.argmax()), array.shape)
        raise ValueError(
            f"the covariance is not symmetric: entries [{i}, {j}] and [{j}, {i}] differ by "
            f"{asymmetry.max():.3g}; use (S + S.T) / 2 if that is rounding"
        )
    array = np.asarray(0.5 * (array + array.T))
    smallest = float(np.linalg.eigvalsh(array / size)[0]) if size > 0 else 0.0
    if smallest < -1e-6 * array.shape[0] ** 0.5:
        raise ValueError(
            "the covariance is not positive semi-definite: its smallest eigenvalue is "
            f"{smallest * size:.3g}; was it computed from incomplete pairs?"
        )
    return array

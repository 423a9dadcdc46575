"""What runs on the workers, on one block of the data, and how their answers are added up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ebcd._numerics import Array
from ebcd.data._matrix import _sparse_moments, checked_sparse, is_sparse

_PIECE = 500_000  # entries that are worked on at once: they stay in the cache between two products
_FEWEST_ROWS = 64
_MOSTLY_ZERO = 0.1  # density up to which products of sparse matrices are faster than dense ones


def as_rows(block: Any, dtype: Any) -> Any:
    """Make a block a NumPy array or a sparse matrix of SciPy, without a copy where possible."""
    if hasattr(block, "to_scipy_sparse"):  # a block of the package `sparse`
        block = block.to_scipy_sparse()
    if is_sparse(block):
        return checked_sparse(block).astype(dtype, copy=False)
    if hasattr(block, "to_numpy"):  # a part of a data frame, in which pandas may have its own NA
        return block.to_numpy(dtype=dtype, na_value=np.nan)
    return np.asarray(block, dtype=dtype)


@dataclass(frozen=True)
class Moments:
    """What a first pass finds out about some rows of some columns.

    Attributes
    ----------
    count : int
        Number of rows.
    mean : array of length p
    scatter : array, p x p or of length p
        Cross-products about the mean, or only their diagonal.
    bad : array of length p
        How many entries of a column are NaN or infinite.
    first : tuple of int, optional
        Row and column of the first of those.
    nan : bool
        Whether one of those is NaN.
    size : float
        Magnitude of the largest entry.
    sparse : bool
        Whether a block is sparse.
    """

    count: int
    mean: Array
    scatter: Array
    bad: np.ndarray
    first: tuple[int, int] | None
    nan: bool
    size: float
    sparse: bool


def block_moments(block: Any, dtype: Any, cross: bool) -> Moments:
    """Count, mean and squares of a block; with all cross-products if `cross`."""
    rows = as_rows(block, dtype)
    count, p = rows.shape
    empty = np.zeros((p, p) if cross else p)
    values = rows.data if is_sparse(rows) else rows
    finite = np.isfinite(values)
    if not finite.all():
        places = _bad_places(rows)
        return Moments(
            count,
            np.zeros(p),
            empty,
            np.bincount(places[:, 1], minlength=p),
            (int(places[0, 0]), int(places[0, 1])),
            bool(np.isnan(values).any()),
            0.0,
            is_sparse(rows),
        )
    size = float(np.abs(values).max(initial=0.0))
    mean, scatter = (np.zeros(p), empty) if count == 0 else _about_mean(rows, cross)
    return Moments(count, mean, scatter, np.zeros(p, dtype=int), None, False, size, is_sparse(rows))


def _bad_places(rows: Any) -> np.ndarray:
    if not is_sparse(rows):
        return np.argwhere(~np.isfinite(rows))
    coordinates = rows.tocsr().tocoo()
    bad = ~np.isfinite(coordinates.data)
    return np.stack([coordinates.row[bad], coordinates.col[bad]], axis=1)


def _about_mean(rows: Any, cross: bool) -> tuple[Array, Array]:
    """Mean of the rows and (cross-)products about it."""
    count = rows.shape[0]
    if is_sparse(rows):
        mean, squares = _sparse_moments(rows, True)
        if not cross:
            return mean, squares * count
        if rows.nnz < _MOSTLY_ZERO * count * rows.shape[1]:
            # Most entries are zero, so that most of a sum of squares is left without the mean's.
            rows = rows.astype(np.float64, copy=False)
            product = (rows.T @ rows).toarray()
            return mean, product - count * np.outer(mean, mean)
    else:
        mean = rows.mean(axis=0, dtype=np.float64)
    scatter = np.zeros((mean.size, mean.size) if cross else mean.size)
    with np.errstate(over="ignore"):  # entries that are too large are reported at the end
        for piece in _dense_pieces(rows):
            centred = piece - mean
            scatter += centred.T @ centred if cross else np.einsum("ij,ij->j", centred, centred)
    return mean, scatter


def merge_moments(parts: list[Moments]) -> Moments:
    """Merge the moments of several blocks, one below the other (Chan, Golub and LeVeque 1983)."""
    merged = parts[0]
    for part in parts[1:]:
        count = merged.count + part.count
        shift = part.mean - merged.mean
        weight = merged.count * part.count / max(count, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            between = np.outer(shift, shift) if part.scatter.ndim == 2 else shift * shift
            scatter = merged.scatter + part.scatter + weight * between
        first = merged.first
        if first is None and part.first is not None:
            first = (merged.count + part.first[0], part.first[1])
        merged = Moments(
            count,
            merged.mean + shift * (part.count / max(count, 1)),
            scatter,
            merged.bad + part.bad,
            first,
            merged.nan or part.nan,
            max(merged.size, part.size),
            merged.sparse or part.sparse,
        )
    return merged


def block_product(block: Any, dtype: Any, v: Array, shift: Array) -> Array:
    """Give ``X'U`` and below it the sums of ``U = X v - shift``, of the rows of a block."""
    rows = as_rows(block, dtype)
    v = v.astype(dtype, copy=False)
    total = np.zeros((v.shape[0] + 1, v.shape[1]))
    for piece in _pieces(rows):
        scores = np.asarray(piece @ v, dtype=np.float64) - shift
        total[:-1] += piece.T @ scores.astype(dtype, copy=False)
        total[-1] += scores.sum(axis=0)
    return total


def block_scores(block: Any, dtype: Any, v: Array) -> Array:
    """Give ``X v`` of a block."""
    return np.asarray(as_rows(block, dtype) @ v.astype(dtype, copy=False), dtype=np.float64)


def block_transposed(block: Any, dtype: Any, scores: list[Array], shift: Array) -> Array:
    """Give ``X'U`` and below it the sums of ``U``, the sum of `scores` less `shift`."""
    rows = as_rows(block, dtype)
    total = sum_up(scores) - shift
    product = np.asarray(rows.T @ total.astype(dtype, copy=False), dtype=np.float64)
    return np.vstack([product, total.sum(axis=0)])


def block_gram(blocks: list[Any], dtype: Any, mean: Array, scale: Array) -> Array:
    """Give cross-products of centred and scaled columns, of blocks that lie side by side."""
    parts = [as_rows(block, dtype) for block in blocks]
    join: Any = sparse.hstack if any(is_sparse(part) for part in parts) else np.hstack
    gram = np.zeros((mean.size, mean.size))
    for piece in _dense_pieces(join(parts) if len(parts) > 1 else parts[0]):
        centred = (piece - mean) / scale
        gram += centred.T @ centred
    return gram


def sum_up(parts: list[Array]) -> Array:
    """Add up arrays."""
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def _pieces(rows: Any) -> Any:
    """Give some rows at a time, as they are; sparse ones together, as slices would be copies."""
    if is_sparse(rows):
        yield rows
        return
    size = max(_FEWEST_ROWS, _PIECE // rows.shape[1])
    for i in range(0, rows.shape[0], size):
        yield rows[i : i + size]


def _dense_pieces(rows: Any) -> Any:
    """Give some rows at a time, dense and in double precision."""
    size = max(_FEWEST_ROWS, _PIECE // rows.shape[1])
    rows = rows.tocsr() if is_sparse(rows) else rows
    for i in range(0, rows.shape[0], size):
        piece = rows[i : i + size]
        yield np.asarray(piece.toarray() if is_sparse(piece) else piece, dtype=np.float64)

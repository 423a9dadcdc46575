"""What a report says about the data and about other methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from ebcd._numerics import Array, chunks
from ebcd.data import Gram, Input, as_dense, as_input, is_sparse
from ebcd.data._observed import has_entries
from ebcd.data._settings import SETTINGS
from ebcd.data.files._columns import cell_text
from ebcd.estimators._bootstrap import matched
from ebcd.estimators._readable import Readable
from ebcd.fitting._starts import svd_start, varimax_start
from ebcd.plots._style import NAMED


@dataclass(frozen=True, eq=False)
class Background:
    """What a report needs of the data; parts are empty where the data do not provide them."""

    missing: Array = field(default_factory=lambda: np.empty(0))  # cells of each feature
    skewness: Array = field(default_factory=lambda: np.empty(0))  # NaN if a feature is constant
    chosen: NDArray[Any] = field(default_factory=lambda: np.empty(0, dtype=int))  # features with
    correlations: Array = field(default_factory=lambda: np.empty((0, 0)))
    others: dict[str, Array] = field(default_factory=dict)  # loadings (k x p), by method
    groups: dict[str, list[Any]] = field(default_factory=dict)  # numbers or texts of rows

    @classmethod
    def of(cls, model: Readable, X: Any, data: Input | None = None, groups: Any = None) -> Self:
        """Describe data `X`, or only their covariance in `data` if `X` is None."""
        matrix = None if X is None or isinstance(X, Gram) else model._rows(X).matrix
        n_rows = model.n_samples_ if matrix is None else matrix.shape[0]
        if matrix is not None and n_rows > model.n_samples_:  # rows without entries were left out
            matrix = matrix.tocsr() if is_sparse(matrix) else matrix
            kept = np.flatnonzero(has_entries(matrix))
            X, matrix = _safe_indexing(X, kept), matrix[kept]
        missing, skewness = (np.empty(0),) * 2 if matrix is None else _columns(matrix)
        if missing.any():
            X = model.impute(X) if hasattr(model, "impute") else None
        if data is None and X is not None:
            data = as_input(X, bool(model.center), bool(getattr(model, "scale", False)))
        loadings = np.abs(model.components_ / model._units)
        chosen = np.argsort(-loadings.max(axis=0, initial=0.0), kind="stable")[:NAMED]
        ordered = not all(prior.exchangeable for prior in getattr(model, "priors_", ()))
        keys = chosen if ordered or not len(loadings) else loadings[:, chosen].argmax(axis=0)
        chosen = chosen[np.argsort(keys, kind="stable")]
        return cls(
            missing,
            skewness,
            chosen,
            _correlations(matrix, data, chosen),
            {} if data is None or not model.n_components_ else _others(model, data),
            checked_groups(groups, n_rows),
        )

    def pca_ratio(self, units: Any, total: float) -> Array | None:
        """Return shares of a total variance of principal components of features in some units."""
        if "PCA" not in self.others:
            return None
        loadings = self.others["PCA"] / units / np.sqrt(total)
        return np.sort((loadings**2).sum(axis=1))[::-1]


def checked_groups(groups: Any, n_rows: int | None) -> dict[str, list[Any]]:
    """Return columns as lists of numbers or of texts, in which a missing cell is empty."""
    if groups is None:
        return {}
    named = groups if isinstance(groups, Mapping) else {getattr(groups, "name", None): groups}
    found = {}
    for name, column in named.items():
        cells = np.asarray(column)
        if cells.ndim != 1 or len(cells) != n_rows:
            raise ValueError(
                f"color_by must have one entry for each of the {n_rows} rows, got shape "
                f"{cells.shape}"
            )
        numbers = cells.dtype.kind in "iuf"
        entries = (cells.astype(np.float64) if numbers else cells).tolist()
        label = "group" if name is None else str(name)
        found[label] = entries if numbers else [cell_text(cell) for cell in entries]
    return found


def _columns(matrix: Any) -> tuple[Array, Array]:
    """Return the number of missing cells and the skewness of each column."""
    n, p = matrix.shape
    by_column = matrix.tocsc() if is_sparse(matrix) else matrix
    missing, skewness = np.zeros(p), np.full(p, np.nan)
    for part in chunks(p, max(1, SETTINGS.piece // max(n, 1))):
        block = np.asarray(as_dense(by_column[:, part]), dtype=np.float64)
        holes = np.isnan(block)
        missing[part] = holes.sum(axis=0)
        known = np.maximum(n - missing[part], 1)
        mean = np.sum(block, axis=0, where=~holes) / known
        block = block - mean
        block[holes] = 0.0
        size = np.maximum(block.max(axis=0, initial=0.0), -block.min(axis=0, initial=0.0))
        varies = size > 1e-10 * np.abs(mean)  # else it is rounding
        block /= np.where(varies, size, np.inf)  # so that powers stay in range
        square = block * block
        variance = square.sum(axis=0) / known
        third = np.einsum("ij,ij->j", square, block) / known
        skewness[part] = np.where(varies, third / np.where(varies, variance, 1.0) ** 1.5, np.nan)
    return missing, skewness


def _correlations(matrix: Any, data: Input | None, chosen: NDArray[Any]) -> Array:
    """Return the correlations of some features, of pairs of cells that are both there."""
    if matrix is not None:
        block = np.asarray(as_dense(matrix[:, chosen]), dtype=np.float64)
        there = np.where(np.isnan(block), 0.0, 1.0)
        count = np.maximum(there.T @ there, 1.0)
        x = np.where(there > 0, block, 0.0)
        x = there * (x - x.sum(axis=0) / np.maximum(there.sum(axis=0), 1.0))
        x /= np.abs(x).max(axis=0, initial=1e-300)
        mean = x.T @ there / count  # [i, j]: of feature i where j is there
        variance = (x**2).T @ there / count - mean**2
        scale = np.sqrt(np.maximum(variance * variance.T, 0.0))
        among = x.T @ x / count - mean * mean.T
        return np.asarray(np.clip(among / np.where(scale > 0, scale, 1.0), -1.0, 1.0))
    if data is None:
        return np.empty((0, 0))
    unit = np.zeros((data.covariance.n_features, len(chosen)))
    unit[chosen, range(len(chosen))] = 1.0
    among = data.covariance.matmul(unit)[chosen]
    sd = np.sqrt(np.where(np.diagonal(among) > 0, np.diagonal(among), 1.0))
    return np.asarray(among / sd / sd[:, None])


def _others(model: Readable, data: Input) -> dict[str, Array]:
    """Return principal components and their varimax rotation, in order and sign of the model's."""
    principal = svd_start(data.covariance, model.n_components_)
    back = data.scale * data.covariance.unit
    return {
        name: matched(model.components_, loadings * back, model._units)
        for name, loadings in (("PCA", principal), ("varimax", varimax_start(principal)))
    }

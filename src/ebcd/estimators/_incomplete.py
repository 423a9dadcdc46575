"""Rows with missing entries: their scores, log-likelihoods, and expectations of what is missing."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ebcd._numerics import Array
from ebcd.data import AbstractRows, as_dense, check_finite, is_sparse
from ebcd.fitting._missing import Information


def scores_of(model: Any, rows: AbstractRows) -> Array:
    """Return the scores of rows, given the entries that were observed."""
    matrix = rows.matrix
    x, gone = _centered(model, rows)
    scores = x @ model._score_map
    holed = np.flatnonzero(np.diff(gone.indptr))
    loadings, variances = model._filling
    precision = 1 / model._feature_noise()
    if len(loadings) and holed.size:
        weighted = loadings * precision
        weights = np.linalg.lstsq(weighted.T, model._score_map)[0].T
        at = Information.of(loadings, variances, precision, gone[holed])
        scores[holed] = at.scores(weights, x[holed] @ weighted.T)
    return np.asarray(scores, dtype=matrix.dtype)


def log_likelihoods(model: Any, rows: AbstractRows) -> Array:
    """Return the log-likelihood of what was observed of each row."""
    x, gone = _centered(model, rows)
    noise, along, inner, z = _posterior(model, x, gone)
    distance = x**2 @ (1 / noise) - np.einsum("ik,ik->i", along, z)
    logs = np.log(2 * np.pi * noise)
    constant = logs.sum() - gone @ logs + np.linalg.slogdet(inner)[1]
    return np.asarray(-0.5 * (distance + constant))


def imputed(model: Any, X: Any, rows: AbstractRows) -> Any:
    """Return data, of the kind they were given as, with expectations of what is missing."""
    x, gone = _centered(model, rows)
    places = gone.nonzero()
    z = _posterior(model, x, gone)[-1]
    entries = np.einsum("ik,ki->i", z[places[0]], model.components_[:, places[1]])
    entries += model._mean()[places[1]]
    if is_sparse(rows.matrix):
        filled = rows.matrix.copy().tocsr()
        filled.data[np.isnan(filled.data)] = entries
        return filled.asformat(rows.matrix.format)
    filled = np.array(rows.matrix)
    filled[places] = entries
    if hasattr(X, "iloc"):  # pandas
        return type(X)(filled, index=X.index, columns=X.columns)
    return type(X)(filled, schema=list(X.columns)) if hasattr(X, "columns") else filled


def _posterior(model: Any, x: Array, gone: Any) -> tuple[Array, Array, Array, Array]:
    """Return noise, ``L'/N x``, ``I + L'L/N`` of what was observed, and means of normal scores."""
    noise, weighted, inner = model._woodbury()
    inner = inner - Information.of(model.components_, 0.0, 1 / noise, gone).lost
    along = x @ weighted.T
    return noise, along, inner, np.linalg.solve(inner, along[..., None])[..., 0]


def _centered(model: Any, rows: AbstractRows) -> tuple[Array, Any]:
    """Return rows less the mean, zero where entries are missing, and where that is."""
    x = as_dense(rows.matrix)
    gone = np.isnan(x)
    check_finite(np.where(gone, 0.0, x), rows.names)
    centered = np.where(gone, 0.0, x - model._mean())
    return centered, sparse.csr_array(gone, dtype=np.float64)

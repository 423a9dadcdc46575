"""Data of which some entries are missing: what was observed, and how to complete it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebcd._numerics import Array
from ebcd.data._covariance import DataCovariance, working_unit
from ebcd.data._moments import ROUNDING, as_dense, block_moments, check_finite
from ebcd.data._rows import AbstractRows, MatrixRows


@dataclass(frozen=True, eq=False)
class Observed:
    """Rows with missing entries, in working units.

    Attributes
    ----------
    values : array, n x p
        The data less the means of what was observed, if they are centered; zero where missing.
    missing : sparse array by rows, n x p
        Ones where entries are missing.
    variances : array of length p
        Mean squares of what was observed.
    center : bool
        Whether features have means, which are fitted along with the rest.
    unit : float
        Length in the (scaled) data that is 1 here.
    empty : array
        Numbers of the rows without an entry, which say nothing and are left out.
    """

    values: Array
    missing: Any
    variances: Array
    center: bool
    unit: float
    empty: Any = ()

    @cached_property
    def counts(self) -> Array:
        """How often each feature was observed."""
        return np.asarray(len(self.values) - self.missing.sum(axis=0), dtype=np.float64)

    @cached_property
    def holed(self) -> Any:
        """Numbers of the rows in which something is missing."""
        return np.flatnonzero(np.diff(self.missing.indptr))

    @cached_property
    def gone(self) -> Any:
        """The part of `missing` with something in it."""
        return self.missing[self.holed]

    @cached_property
    def shares(self) -> Array:
        """Share of each row that was observed."""
        return np.asarray(1 - self.missing.sum(axis=1) / self.values.shape[1])

    def filled(self, entries: Any) -> Array:
        """Return the data with something in place of what is missing, row by row."""
        values = self.values.copy()
        rows, columns = self.missing.nonzero()
        values[rows, columns] = entries
        values[:, self.variances == 0] = 0.0  # a constant feature stays constant
        return values

    def covariance(self, entries: Any = 0.0) -> DataCovariance:
        """Return the covariance of the completed data."""
        (n, p), unit = self.values.shape, self.unit
        rows = MatrixRows(self.filled(entries))
        variances = np.einsum("ij,ij->j", rows.matrix, rows.matrix) / n * unit**2
        return DataCovariance(rows, np.zeros(p), np.full(p, 1 / unit), variances, n, unit)


def has_entries(matrix: Any) -> NDArray[np.bool_]:
    """Which rows have an entry that is not missing."""
    missing = np.ravel((matrix != matrix).sum(axis=1))  # NaN differs from itself
    return np.asarray(missing < matrix.shape[1])


def observe(rows: AbstractRows, center: bool, scale: bool) -> tuple[Observed, Array, Array, Array]:
    """Return what was observed, with means and scales of it, and variances in the data's units.

    Features without an entry cannot be fitted.
    """
    try:
        x = np.asarray(as_dense(rows.matrix), dtype=np.float64)
    except MemoryError as error:
        n, p = rows.matrix.shape
        raise MemoryError(
            "sparse data with missing values (NaN) are made dense, which takes "
            f"{8e-9 * n * p:,.0f} GB here; fill in the missing values, or fit fewer rows or columns"
        ) from error
    check_finite(np.where(np.isnan(x), 0.0, x), rows.names)
    empty = np.isnan(x).all(axis=1)
    x = x[~empty]
    gone = np.isnan(x)
    counts = len(x) - gone.sum(axis=0)
    if not counts.all():
        names = range(counts.size) if rows.names is None else rows.names
        never = [names[j] for j in np.flatnonzero(counts == 0)]
        listed = ", ".join(map(str, never[:5])) + (", ..." if len(never) > 5 else "")
        raise ValueError(
            f"{len(never)} of {counts.size} features have only missing entries (NaN): {listed}; "
            "leave them out"
        )
    mean = np.nanmean(x, axis=0) if center else np.zeros(counts.size)
    x = np.where(gone, mean, x) - mean  # a signaling NaN takes part in no arithmetic
    moments = block_moments(x, cross=False)
    moments.check(rows.names)
    variances = moments.about(False)[1] * (len(x) / counts)
    if center:  # constant but for the rounding of its mean
        variances = np.where(np.sqrt(variances) <= ROUNDING * np.abs(mean), 0.0, variances)
    x[:, variances == 0] = 0.0
    divisor = np.where(variances > 0, np.sqrt(variances), 1.0) if scale else np.ones(counts.size)
    scaled = variances / divisor / divisor
    unit = working_unit(scaled)
    x /= divisor * unit
    places = sparse.csr_array(gone, dtype=np.float64)
    observed = Observed(x, places, scaled / unit / unit, center, unit, np.flatnonzero(empty))
    return observed, mean, divisor, variances

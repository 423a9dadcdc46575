"""Normal-means problems as the solvers see them: columns in units of the noise, maybe binned.

A solver is given k independent columns with a common noise level of one, or one level per entry.
They are stored as *rows* of a C-ordered array, so that operations on one column are contiguous.

With a common noise level the log-likelihood is a sum over entries of one smooth function of
``z = x / s``. Replacing every entry by interpolation weights on the six nearest points of a grid
turns n entries into a few hundred weighted ones, with an error far below rounding of the sum, and
posterior moments of all entries into a table look-up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ebcd._numerics import LOG_SQRT_2PI, Array

ORDER = 6
# Points per unit of noise. The sixth-order error is about 2e-3 (width of features * density)^-6.
_DENSITY = 40
# z = BEND sinh(u / BEND): an even grid up to about BEND, geometric beyond, where only kernels that
# are smooth on the scale of z itself may be used.
_BEND = 8.0
CHUNK = 16_384  # entries that are worked on at once: what fits into a cache
_CELLS = 16  # of merged entries, per unit of noise


def typical(s: Array) -> float:
    """Return the geometric mean of the noise, a unit in which nothing overflows."""
    return float(np.exp(np.log(s).mean())) if s.size else 1.0


@dataclass(frozen=True)
class Columns:
    """Columns of one normal-means problem each.

    Attributes
    ----------
    x : array, k x n or 1 x n
        Observations; one row is shared by all columns if they are binned.
    s : array, 1 x 1 or 1 x n
        Noise standard deviations.
    counts : array, k x n, or None
        How often each entry occurs; None means once.
    """

    x: Array
    s: Array
    counts: Array | None = None

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return int((self.x if self.counts is None else self.counts).shape[0])

    @cached_property
    def z(self) -> Array:
        """Observations in units of their noise."""
        return self.x / self.s

    @cached_property
    def totals(self) -> Array:
        """Number of observations in each column."""
        if self.counts is None:
            return np.full(self.n_columns, float(self.x.shape[1]))
        return np.asarray(self.counts.sum(axis=1))

    @cached_property
    def null_log_likelihood(self) -> Array:
        """Log-likelihood of each column if all its values are zero."""
        exponent = self.dot(self.z, self.z)
        if self.s.size == 1:
            log_s = self.totals * float(np.log(self.s[0, 0]))
        else:
            log_s = self.sum(np.log(self.s))
        return -0.5 * exponent - self.totals * LOG_SQRT_2PI - log_s

    @cached_property
    def largest(self) -> Array:
        """Largest ``|x|`` in each column."""
        x = self.x if self.counts is None else np.where(self.counts != 0, self.x, 0.0)
        return np.asarray(np.abs(x).max(axis=1))

    def sum(self, values: Array) -> Array:
        """Sum over the observations of each column."""
        if self.counts is None:
            return np.asarray(values.sum(axis=1))
        return np.asarray(np.vecdot(self.counts, values))

    def dot(self, a: Array, b: Array) -> Array:
        """Sum of ``a * b`` over the observations of each column."""
        if self.counts is None:
            return np.asarray(np.vecdot(a, b))
        return np.asarray(np.vecdot(self.counts, a * b))

    def each(self) -> list[Columns]:
        """Take the columns apart."""
        return [self.select(np.array([k])) for k in range(self.n_columns)]

    def select(self, index: np.ndarray) -> Columns:
        """Pick columns by number, repeats allowed."""
        x = self.x if self.counts is not None and self.x.shape[0] == 1 else self.x[index]
        return Columns(x, self.s, None if self.counts is None else self.counts[index])

    def spread(self) -> Columns:
        """Spread entries with common noise over the nearest points of a grid that columns share."""
        place = 0.5 * _CELLS * _bend(self.z)
        floor = np.floor(place)
        first = int(floor.min())
        n_nodes = int(floor.max()) - first + 2
        far = place - floor
        cell = floor.astype(np.intp) - first + n_nodes * np.arange(self.n_columns)[:, None]
        counts = np.zeros(self.n_columns * n_nodes)
        for at, share in ((cell, 1 - far), (cell + 1, far)):
            counts += np.bincount(at.ravel(), weights=share.ravel(), minlength=counts.size)
        nodes = _BEND * np.sinh((np.arange(n_nodes) + first) / (0.5 * _CELLS * _BEND))
        return Columns(self.s * nodes, self.s, counts.reshape(-1, n_nodes))

    def merged(self) -> Columns:
        """Merge entries of the only column that are alike in ``x / s`` and in ``s``."""
        z, log_s = self.z[0], np.log(np.broadcast_to(self.s, self.x.shape)[0])
        cell_z, cell_s = (np.floor(_CELLS * place).astype(np.int64) for place in (_bend(z), log_s))
        cell_z -= cell_z.min()
        cell_s -= cell_s.min()
        cell = cell_z * (int(cell_s.max()) + 1) + cell_s
        if int(cell.max()) > 4 * z.size:  # too many to count those that are empty as well
            cell = np.unique(cell, return_inverse=True)[1]
        found = np.bincount(cell)
        some = np.flatnonzero(found)
        counts = found[some].astype(np.float64)
        s = np.exp(np.bincount(cell, weights=log_s)[some] / counts)
        x = s * np.bincount(cell, weights=z)[some] / counts
        return Columns(x[None], s[None], counts[None])


def slices(n: int, size: int) -> list[slice]:
    return [slice(i, min(i + size, n)) for i in range(0, n, size)]


def _bend(z: Array) -> Array:
    """``BEND arcsinh(z / BEND)``, through the logarithm, which is three times faster."""
    scaled = np.abs(z)
    scaled *= 1 / _BEND
    bent = scaled * scaled
    bent += 1
    np.sqrt(bent, out=bent)
    bent += scaled
    np.log(bent, out=bent)
    bent *= _BEND
    return np.asarray(np.copysign(bent, z, out=bent))


class Binned:
    """Columns with unit noise, represented by interpolation weights on a grid.

    Parameters
    ----------
    z : array, k x n
        Observations in units of the noise.
    even : bool
        Whether the grid must be even everywhere, for priors with features at unit scale far from
        zero, in place of geometric in the tails.
    """

    def __init__(self, z: Array, even: bool) -> None:
        self._even = even
        low, high = (float(self._to_grid(np.array([edge]))[0]) for edge in (z.min(), z.max()))
        self._first = int(np.floor(low)) - ORDER // 2 + 1
        n_nodes = int(np.floor(high)) - self._first + ORDER // 2 + 1
        self._places: Array = np.empty(z.shape)  # a cell's number is that of its leftmost node
        counts = np.array([self._bin(z[k], self._places[k], n_nodes) for k in range(z.shape[0])])
        self.nodes = self._from_grid(np.arange(n_nodes, dtype=np.float64) + self._first)
        self.columns = Columns(self.nodes[None, :], np.ones((1, 1)), counts)

    @staticmethod
    def n_nodes(low: float, high: float, even: bool) -> float:
        """Grid points that data between `low` and `high` would need."""
        if even:
            return _DENSITY * (high - low) + ORDER
        return _DENSITY * _BEND * float(np.arcsinh(high / _BEND) - np.arcsinh(low / _BEND)) + ORDER

    def _to_grid(self, z: Array) -> Array:
        if self._even:
            return z * _DENSITY
        return _DENSITY * _bend(z)

    def _from_grid(self, u: Array) -> Array:
        return u / _DENSITY if self._even else _BEND * np.sinh(u / (_DENSITY * _BEND))

    def _bin(self, z: Array, places: Array, n_nodes: int) -> Array:
        """Store each entry's place on the grid; return the weights of all nodes."""
        base = self._first + ORDER // 2 - 1.0
        powers = np.zeros((ORDER, n_nodes))
        for part in slices(z.size, CHUNK):
            places[part] = self._to_grid(z[part]) - base
            index, d = _cells(places[part])
            powers[0] += np.bincount(index, minlength=n_nodes)
            power = d.copy()
            for j in range(1, ORDER):
                powers[j] += np.bincount(index, weights=power, minlength=n_nodes)
                power *= d
        # sums of powers of the offset in each cell -> interpolation weights of the six nodes
        spread = _LAGRANGE @ powers
        counts = np.zeros(n_nodes)
        for j in range(ORDER):
            counts[j:] += spread[j, : n_nodes - j]
        return counts

    def interpolate(self, tables: Array) -> Array:
        """Values at the entries of functions tabulated at the nodes.

        Parameters
        ----------
        tables : array, q x k x nodes

        Returns
        -------
        array, q x k x n
        """
        windows = np.lib.stride_tricks.sliding_window_view(tables, ORDER, axis=-1)
        coefficients = windows @ _LAGRANGE
        out: Array = np.empty((len(tables), *self._places.shape))
        for column in range(out.shape[1]):
            by_power = np.ascontiguousarray(np.moveaxis(coefficients[:, column], -1, 0))
            self._interpolate(column, by_power, out)
        return out

    def _interpolate(self, column: int, coefficients: Array, out: Array) -> None:
        for part in slices(out.shape[2], CHUNK):
            index, d = _cells(self._places[column, part])
            for table in range(len(out)):
                value = coefficients[ORDER - 1, table].take(index)
                for j in range(ORDER - 2, -1, -1):
                    value *= d
                    value += coefficients[j, table].take(index)
                out[table, column, part] = value

    def stencils(self, column: int, step: int) -> tuple[Array, Array]:
        """Return the nodes near every `step`-th entry of a column, and their weights."""
        cell, d = _cells(self._places[column, ::step])
        weights = np.vander(d, ORDER, increasing=True) @ _LAGRANGE.T
        return self.nodes[cell[:, None] + np.arange(ORDER)], weights


def _cells(places: Array) -> tuple[NDArray[np.intp], Array]:
    """Cells in which places lie, and where in them."""
    floor = np.floor(places)
    return floor.astype(np.intp), places - floor


def _lagrange_coefficients() -> Array:
    """``C[i, j]``: coefficient of ``d^j`` in the weight of node ``i - 2``, for ``d`` in [0, 1)."""
    places = np.arange(ORDER) - (ORDER // 2 - 1.0)
    return np.asarray(np.linalg.inv(np.vander(places, increasing=True)).T)


_LAGRANGE = _lagrange_coefficients()

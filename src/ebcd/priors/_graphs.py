"""Graphs, and coordinates in which precisions ``tau * R'R + diagonal`` are easy to invert.

``R`` has the differences of neighbors, so that ``R'R`` is the Laplacian (order 1), or is the
Laplacian itself (order 2), or has the differences of what that gives (order 3).

With equal numbers on the diagonal the coordinates are eigenvectors of the Laplacian. With unequal
ones they are an order of the nodes in which neighbors are near each other, so that all but a
narrow band of the matrix, and of its triangular factor ``P = U'U``, is zero. With ``G``, the rows
of ``U`` divided by their diagonal, less the identity, entries of the inverse near its diagonal are

    (1)  V_ij = [i = j] / U_ii^2 - sum_k G_ik V_kj,   i <= j, i < k,

from the last row to the first (Takahashi and others, 1973).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy import fft, sparse
from scipy.linalg import lapack
from scipy.sparse import csgraph

from ebcd._numerics import Array
from ebcd._parameters import is_integer, shown

# "chain", "ring", ("grid", rows, columns), or ("graph", nodes, starts, ends and weights of edges)
Adjacency = str | tuple[Any, ...]
Rows = Callable[[Array], Array]

_NODES = 3_000  # of a graph without structure: its eigenvectors take about 10 s and 72 MB
_BLOCK = 32  # smaller ones take longer in Python than they save in arithmetic


class Factor(NamedTuple):
    """A matrix that can be solved with; `variance` is the diagonal of its inverse."""

    log_det: float
    variance: Array
    solve: Rows


@dataclass(frozen=True)
class Spectral:
    """Coordinates in eigenvectors; `spread` takes variances of independent ones to entries."""

    eigenvalues: Array
    to: Rows
    back: Rows
    spread: Rows

    def energy(self, y: Array) -> float:
        """Return the sum of squares of ``R y``."""
        return float(self.eigenvalues @ y**2)

    def factor(self, tau: float, diagonal: Array) -> Factor:
        """Factor ``tau * R'R + diagonal``, the same everywhere."""
        values = tau * self.eigenvalues + diagonal
        return Factor(float(np.log(values).sum()), 1 / values, lambda y: y / values)


def cosines(*shape: int) -> Spectral:
    """Return the eigenvectors of a grid: products of those of its sides."""
    down, across = (4 * np.sin(0.5 * np.pi * np.arange(n) / n) ** 2 for n in shape)
    return Spectral(
        (down[:, None] + across).ravel(),
        lambda x: fft.dctn(x.reshape(-1, *shape), axes=(1, 2), norm="ortho").reshape(x.shape),
        lambda y: fft.idctn(y.reshape(-1, *shape), axes=(1, 2), norm="ortho").reshape(y.shape),
        lambda v: _squared_cosines(_squared_cosines(v.reshape(shape)).T).T.ravel(),
    )


def waves(n: int) -> Spectral:
    """Return the eigenvectors of a ring: sums of a sine and a cosine (Hartley's transform)."""

    def transform(x: Array) -> Array:
        found = fft.fft(x, norm="ortho")
        return np.asarray(found.real - found.imag)

    # all entries are alike
    eigenvalues = 4 * np.sin(np.pi * np.arange(n) / n) ** 2
    return Spectral(eigenvalues, transform, transform, lambda v: np.full(n, v.mean()))


def _squared_cosines(weights: Array) -> Array:
    """Return sums of squared cosines with weights along the last axis.

    ``2 cos^2 a = 1 + cos 2a`` makes them cosines of even frequencies; of those beyond n, 2n - m is
    the same as m with the other sign.
    """
    n = weights.shape[-1]
    doubled, k = np.zeros_like(weights), np.arange(1, (n + 1) // 2)
    doubled[..., 2 * k] = weights[..., k] - weights[..., n - k]
    total = weights.sum(axis=-1, keepdims=True)
    return np.asarray((total + 0.5 * fft.dct(doubled, type=3)) / n)


def eigenvectors(differences: sparse.csr_array[Any]) -> Spectral:
    """Return the eigenvectors of any graph."""
    values, vectors = np.linalg.eigh((differences.T @ differences).toarray())
    to, back = (lambda x: x @ vectors), (lambda y: y @ vectors.T)
    return Spectral(np.maximum(values, 0.0), to, back, lambda v: vectors**2 @ v)


class Banded:
    """Coordinates in an order in which neighbors are near each other."""

    def __init__(self, laplacian: Any, differences: sparse.csr_array[Any]) -> None:
        self._order = csgraph.reverse_cuthill_mckee(laplacian, True)
        self._place = np.argsort(self._order)
        self._differences = differences[:, self._order]
        matrix = (self._differences.T @ self._differences).tocsr()
        width = int(np.abs(np.subtract(*matrix.nonzero())).max(initial=0))
        self._band = np.zeros((width + 1, self._order.size), order="F")
        for k in range(width + 1):
            self._band[width - k, k:] = matrix.diagonal(k)

    def to(self, x: Array) -> Array:
        """Put entries of rows into this order."""
        return np.asarray(x[..., self._order])

    def back(self, y: Array) -> Array:
        """Put them back."""
        return np.asarray(y[..., self._place])

    spread = back

    def energy(self, y: Array) -> float:
        """Return the sum of squares of ``R y``."""
        return float(((self._differences @ y) ** 2).sum())

    def factor(self, tau: float, diagonal: Array) -> Factor:
        """Factor ``tau * R'R + diagonal``."""
        band = tau * self._band
        band[-1] += diagonal
        upper = lapack.dpbtrf(band)[0]
        # up to six neighbors on either side, as in a ring of order 3
        variance = _narrow_variance(upper) if len(band) <= 7 else _wide_variance(upper)

        def solve(y: Array) -> Array:
            return np.asarray(lapack.dpbtrs(upper, np.atleast_2d(y).T)[0].T.reshape(y.shape))

        return Factor(2 * float(np.log(upper[-1]).sum()), variance, solve)


def _narrow_variance(upper: Array) -> Array:
    """Solve (1) at once, as a triangular system for all entries in the band of the inverse.

    ``V_(i, i + m)`` is unknown number ``(w + 1) i + m``, so that every other one in its equation
    comes later, by ``w^2`` at most. It has 2, 5 or 10 diagonals if the graph is a chain.
    """
    w, n = len(upper) - 1, upper.shape[1]
    system, right = np.zeros((n * (w + 1), w**2 + 1)), np.zeros((n, w + 1))
    right[:, 0] = upper[-1] ** -2.0
    for k in range(1, w + 1):
        gain = upper[w - k, k:] / upper[-1, :-k]
        for m in range(w + 1):
            later = (w + 1) * min(k, m) + abs(k - m) - m
            system[later + m :: w + 1, w**2 - later][: n - k] += gain
    solved = lapack.dtbtrs(system.T, right.reshape(-1, 1), diag="U")[0]
    return np.asarray(solved.reshape(n, w + 1)[:, 0])


def _wide_variance(upper: Array) -> Array:
    """Evaluate (1) in blocks as large as the band is wide, by which every row is divided."""
    width, n = len(upper) - 1, upper.shape[1]
    size, bytes_ = max(width, _BLOCK), upper.itemsize
    # entry (i, j) of U is number width + i + j width of the band, column after column
    U = np.lib.stride_tricks.as_strided(
        upper.ravel("F")[width:], (n, n), (bytes_, width * bytes_), writeable=False
    )
    variance, block = np.empty(n), np.zeros((0, 0))
    for start in range((n - 1) // size * size, -1, -size):
        own, after = slice(start, start + size), slice(start + size, start + 2 * size)
        inverse = np.triu(lapack.dtrtri(np.tril(U[own, own], width))[0])
        gain = inverse @ np.tril(U[own, after], width - size)
        block = inverse @ inverse.T + gain @ block @ gain.T
        variance[own] = block.diagonal()
    return variance


@dataclass(frozen=True)
class Graph:
    """Nodes, in the order of the entries of a vector, and what is small between neighbors."""

    adjacency: Any
    order: int

    def __str__(self) -> str:
        if isinstance(self.adjacency, str):
            return self.adjacency
        kind, *sizes = self.adjacency
        return f"{kind} of " + ("{} x {}" if kind == "grid" else "{} nodes").format(*sizes)

    def __reduce__(self) -> Any:  # eigenvectors are neither copied nor sent to other processes
        return as_graph, (self.adjacency, self.order)

    def of_length(self, n: int) -> Graph:
        """Return the graph of `n` nodes: a chain has any number."""
        if isinstance(self.adjacency, str):
            sized = ("grid", n, 1) if self.adjacency == "chain" else ("ring", n)
            return as_graph(sized, self.order)
        kind, first, second = self.adjacency[:3]
        nodes = first * second if kind == "grid" else first
        if n != nodes:
            raise ValueError(
                f"the adjacency of the prior 'gmrf' is a {self}, {nodes} in all, but there are {n} "
                "entries (features); each needs a node, in the same order"
            )
        return self

    @cached_property
    def spectral(self) -> Spectral:
        """Coordinates for equal noise."""
        if self.order > 1:
            once = as_graph(self.adjacency, 1).spectral
            return replace(once, eigenvalues=once.eigenvalues**self.order)
        kind, *sizes = self.adjacency
        if kind == "ring":
            return waves(*sizes)
        return cosines(*sizes) if kind == "grid" else eigenvectors(self._differences)

    @cached_property
    def banded(self) -> Banded:
        """Coordinates for unequal noise."""
        found = first = self._differences
        for order in range(1, self.order):
            found = (first.T if order % 2 else first) @ found
        return Banded((first.T @ first).tocsr(), found.tocsr())

    @property
    def _differences(self) -> sparse.csr_array[Any]:
        """Differences of neighbors, times the roots of their weights."""
        kind, n, *edges = self.adjacency
        if kind == "ring":
            edges = [np.arange(n), np.roll(np.arange(n), -1), np.ones(n)]
        if kind == "grid":
            nodes = np.arange(n * edges[0]).reshape(n, -1)
            starts = np.append(nodes[:-1], nodes[:, :-1])
            ends = np.append(nodes[1:], nodes[:, 1:])
            n, edges = nodes.size, [starts, ends, np.ones(starts.size)]
        starts, ends, weights = edges
        edge, root = np.arange(len(weights)), np.sqrt(weights)
        places = np.append(edge, edge), np.append(starts, ends)
        return sparse.csr_array((np.append(root, -root), places), shape=(edge.size, n))


@lru_cache(maxsize=12)  # the orders of an open and a closed chain; eigenvectors may be large
def as_graph(adjacency: Adjacency, order: int) -> Graph:
    """Return the graph of a checked adjacency, made once."""
    return Graph(adjacency, order)


def as_adjacency(given: Any) -> Adjacency:
    """Check what users may give as an adjacency, and make it hashable."""
    match given:
        case str() if given in ("chain", "ring"):
            return given
        case [str() as kind, rows, columns] if kind == "grid" and _is_size(rows, columns):
            return "grid", int(rows), int(columns)
        case [str() as kind, n, *edges] if kind == "graph" and len(edges) == 3 and _is_size(n):
            if n <= _NODES:  # from a file
                upper = sparse.coo_array((edges[2], edges[:2]), shape=(n, n))
                return _edges(upper + upper.T)
    try:
        weights = sparse.coo_array(given)
    except (TypeError, ValueError):
        raise ValueError(
            "prior 'gmrf' needs the option adjacency, which says which entries are neighbors: "
            'make_family("gmrf", adjacency=...) with "chain", "ring", ("grid", rows, columns) '
            f"or a symmetric matrix of weights, got {shown(given)}"
        ) from None
    return _edges(weights)


def _is_size(*values: Any) -> bool:
    return all(is_integer(value) and value > 0 for value in values)


def _edges(weights: Any) -> Adjacency:
    """Check a matrix of weights and list its upper triangle; the diagonal plays no part."""
    n = weights.shape[0]
    if weights.shape != (n, n):
        raise ValueError(f"adjacency must be a square matrix, got shape {weights.shape}")
    if n > _NODES:
        raise ValueError(
            f"adjacency has {n:,} nodes; graphs of up to {_NODES:,} are supported, chains "
            'and grids of any size: adjacency="chain" or ("grid", rows, columns)'
        )
    if (
        weights.dtype.kind not in "biuf"
        or not ((weights.data >= 0) & (weights.data < np.inf)).all()
    ):
        raise ValueError("adjacency must hold finite, non-negative weights")
    weights = weights.astype(float)
    if abs(weights - weights.T).max() > 0:
        raise ValueError("adjacency must be symmetric; for a directed graph use A + A.T")
    found = sparse.triu(weights, 1).tocsr().tocoo()  # without duplicates
    found.eliminate_zeros()
    return "graph", n, *(tuple(part.tolist()) for part in (*found.coords, found.data))

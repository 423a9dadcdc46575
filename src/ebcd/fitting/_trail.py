"""Anderson's method: to go on from the last few iterations further than one more would lead.

Results of iterations are combined so that their changes nearly cancel, which would be a fixed point
if the iteration were linear.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ebcd._numerics import Array

_MEMORY = 6  # iterations
_CELLS = 5_000_000  # of vectors that are kept (40 MB): with more, two iterations lead as far
_RIDGE = 1e-10  # share of the changes: keeps the weights of their combination finite


class Trail:
    """The last few iterations from m starts, each with a past of its own.

    Parameters
    ----------
    like : array, m x d
        Points as vectors.
    size : int
        How many entries of a vector have to come to rest, the first ones; the others follow.
    """

    def __init__(self, like: Array, size: int) -> None:
        m, d = like.shape
        memory = min(max(_CELLS // (m * (size + d)), 2), _MEMORY)
        self._changes, self._results = np.empty((m, memory, size)), np.empty((m, memory, d))
        self._count = 0

    def add(self, before: Array, after: Array, anew: Any) -> None:
        """Note an iteration, in place of the oldest; some of the starts begin `anew`."""
        changes, results = self._changes, self._results
        change, place = (after - before)[:, : changes.shape[-1]], self._count % changes.shape[1]
        changes[:, place], results[:, place] = change, after
        # copies of one iteration have equal weights, and lead nowhere else
        changes[anew], results[anew] = change[anew, None], after[anew, None]
        self._count += 1

    def keep(self, index: Any) -> None:
        """Go on with some of the starts."""
        self._changes, self._results = self._changes[index], self._results[index]

    def ahead(self) -> Array | None:
        """Return vectors to go on from; None as long as there are too few iterations.

        A fixed point may be a saddle, from which iterations move away ever faster. Where the
        combination lies behind the last change, that is repeated instead.
        """
        if self._count < 2:
            return None
        memory, size = self._changes.shape[1:]
        last, one_before = (self._count - 1) % memory, (self._count - 2) % memory
        changes, results = self._changes[:, : self._count], self._results[:, : self._count]
        gram = changes @ changes.swapaxes(1, 2)
        squares = np.einsum("mhh->mh", gram)  # the diagonal itself, not a copy
        squares += _RIDGE * squares.sum(axis=1, keepdims=True) + 1e-300
        weights = np.linalg.solve(gram, np.ones((gram.shape[1], 1)))
        weights /= weights.sum(axis=1, keepdims=True)
        found = (weights.swapaxes(1, 2) @ results)[:, 0]
        change, result = changes[:, last], results[:, last]
        behind = np.vecdot(found[:, :size] - result[:, :size] + change, change) < 0
        found[behind] = 2 * result[behind] - results[behind, one_before]
        # what only follows are logarithms: beyond what there was they go by a factor of e at most
        rest = results[..., size:]
        found[:, size:] = np.clip(found[:, size:], rest.min(axis=1) - 1, rest.max(axis=1) + 1)
        return np.asarray(found)

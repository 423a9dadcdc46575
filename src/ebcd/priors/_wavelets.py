"""Orthonormal wavelet bases of vectors of any length, as sparse matrices.

A step takes n samples to about n/2 averages and n/2 details by a filter that wraps around at the
ends; a last sample without a partner joins the averages as it is, so that every step, and with it
the basis, is orthonormal for any n. Filters are those of Daubechies (1992), *Ten lectures on
wavelets*: Haar's, the one of three vanishing moments, and the least asymmetric one of eight.
"""

from __future__ import annotations

from functools import cached_property, lru_cache, reduce
from operator import matmul
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft, sparse

from ebcd._numerics import Array


def _db3() -> Array:
    """Return the filter of three vanishing moments, in closed form."""
    a, b = np.sqrt(10.0), np.sqrt(5 + 2 * np.sqrt(10.0))
    even, odd = [1, 5, 10, 10, 5, 1], [1, 3, 2, -2, -3, -1]
    taps = np.array(even) + np.array([1, 1, -2, -2, 1, 1]) * a + np.array(odd) * b
    return np.asarray(taps / 512**0.5)


_SYM8 = (
    "-0.0033824159510061256 -0.0005421323317911481 0.03169508781149298 0.007607487324917605 "
    "-0.1432942383508097 -0.061273359067658524 0.4813596512583722 0.7771857517005235 "
    "0.3644418948353314 -0.05194583810770904 -0.027219029917056003 0.049137179673607506 "
    "0.003808752013890615 -0.01495225833704823 -0.0003029205147213668 0.0018899503327594609"
)
FILTERS = {
    "haar": np.full(2, np.sqrt(0.5)),
    "db3": _db3(),
    "sym8": np.array(_SYM8.split(), dtype=np.float64),
}


class Basis:
    """An orthonormal wavelet basis of vectors of length p.

    `levels` says where the coefficients of each level are, the finest details first, averages last.
    """

    def __init__(self, name: str, p: int) -> None:
        averaging = FILTERS[name]
        self._steps: list[sparse.csr_array] = []
        self.levels: list[slice] = []
        left, begin = p, 0
        # fewer averages than the filter is long would be mixed with themselves
        while left >= max(averaging.size, 4):
            self._steps.append(_step(averaging, left))
            self.levels.append(slice(begin, begin + left // 2))
            begin, left = begin + left // 2, left - left // 2
        self.levels.append(slice(begin, p))
        self._taps = averaging.size
        self._back = [step.T.tocsr() for step in self._steps]
        self._p = p

    def analyse(self, x: Array) -> Array:
        """Return the coefficients of the columns of `x`."""
        out = np.array(x)
        for step, level in zip(self._steps, self.levels, strict=False):
            out[level.start :] = step @ out[level.start :]
        return out

    def synthesise(self, coefficients: Array) -> Array:
        """Return the vectors that have these coefficients."""
        out = np.array(coefficients)
        for back, level in zip(self._back[::-1], self.levels[-2::-1], strict=True):
            out[level.start :] = back @ out[level.start :]
        return out

    def spread(self, variances: Array, places: NDArray[np.intp]) -> Array:
        """Return the variances of entries, in the mean over shifts, given those of coefficients.

        Both arrays are p x T; `places` says which entry is where in every shifted vector.
        """
        squares, own, spectra, alike, level, begin = self._squares
        some = squares.T @ variances[own]
        out = np.bincount(places.ravel(), some.ravel(), self._p)
        at = places[begin] + (self._p * level)[:, None]
        weights = np.bincount(at.ravel(), variances[alike].ravel(), len(spectra) * self._p)
        waves = (fft.rfft(weights.reshape(-1, self._p)) * spectra).sum(axis=0)
        out += np.maximum(fft.irfft(waves, self._p), 0.0)  # which rounding may make negative
        return np.asarray(out / places.shape[1])

    @cached_property
    def _squares(self) -> tuple[Any, ...]:
        """Squares of the basis vectors.

        Vectors of a level are the first one, moved, unless they go around the end. Return the
        squares of the first ones and of those around the end, as rows, and the numbers of their
        coefficients; transforms of the squares of the first ones; and of the vectors that are like
        them the numbers of their coefficients, their levels, and by how much they are moved.
        """
        averaging = [step[step.shape[0] // 2 :] for step in self._steps]
        left = sparse.eye_array(self._p - self.levels[-1].start, format="csr")
        squares, own, spectra, moved, n = [], [], [], [], self._p
        for j, (step, level) in enumerate(zip([*self._steps, left], self.levels, strict=True)):
            n = max((n - self._taps) // 2, 0)  # that are moved, and do not go around the end
            some = np.r_[0, n + 1 : level.stop - level.start]
            squares.append(reduce(matmul, averaging[:j][::-1], step[some]))
            squares[-1].data **= 2
            own.append(level.start + some)
            spectra.append(fft.rfft(squares[-1][[0]].toarray()[0]))
            steps = np.arange(1, n + 1)
            moved.append([level.start + steps, np.full(n, j), steps << (j + 1)])
            n += 1
        return sparse.vstack(squares), np.concatenate(own), np.array(spectra), *np.hstack(moved)


@lru_cache(maxsize=6)  # three wavelets, of two lengths
def basis(name: str, p: int) -> Basis:
    """Return a basis, made once."""
    return Basis(name, p)


def _step(averaging: Array, n: int) -> sparse.csr_array:
    """Return an orthonormal matrix: details first, then averages, then a last odd sample."""
    half, taps = n // 2, averaging.size
    detail = averaging[::-1] * (-1.0) ** np.arange(taps)
    columns = (2 * np.arange(half)[:, None] + np.arange(taps)) % (2 * half)
    places = np.append(np.tile(columns.ravel(), 2), np.arange(2 * half, n))
    values = np.concatenate([np.tile(detail, half), np.tile(averaging, half), np.ones(n % 2)])
    starts = np.append(taps * np.arange(2 * half + 1), np.full(n % 2, values.size))
    return sparse.csr_array((values, places, starts), shape=(n, n))

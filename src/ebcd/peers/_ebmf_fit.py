"""Empirical Bayes matrix factorisation: coordinate ascent on the ELBO (Wang and Stephens 2021).

The model is ``X = sum_k f_k l_k' + E``, ``f_ik ~ g_k``, ``l_jk ~ h_k``, ``e_ij ~ N(0, 1 / tau_ij)``
with ``tau`` common, or one for each sample or feature. The posterior is approximated by a product
over factors and sides. With everything else fixed, the loadings of factor k then solve a normal
means problem, ``R_k`` being the residual without factor k:

    (1)  b_j = sum_i tau_ij <f_ik> R_kij / d_j,    1 / s_j^2 = d_j = sum_i tau_ij <f_ik^2>

and its log-likelihood, less the expectation of ``log N(b; l, s^2)``, is minus the divergence of the
posterior from the prior: what factor and side contribute to the ELBO beside the residuals. Scores
follow from (1) with the sides swapped. Sums are over observed entries only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from ebcd._numerics import Array
from ebcd.peers._ebmf_data import AbstractObservations
from ebcd.peers._ebmf_priors import UpToScale
from ebcd.priors._family import Fits
from ebcd.priors._fitted import FittedPrior
from ebcd.priors._solve import Prior, solve_columns

# The ELBO is unbounded when factors fit the data exactly, so the noise has a floor.
_FLOOR = 1e-10  # of the mean square of the data
_TINIEST = 1e-30  # information about an entry, relative to the best known one
_NOTHING: tuple[Array, Array] = (np.empty(0), np.empty(0))
NOISE_SIDES: dict[str, int | None] = {"constant": None, "per_sample": 0, "per_feature": 1}


T = TypeVar("T")


@dataclass(frozen=True)
class Factor:
    """Posterior of one factor; pairs are of scores and loadings.

    Attributes
    ----------
    mean, second : pair of arrays
        Posterior means, and means of the squares.
    prior : pair of fitted priors
    observed : pair of (b, s)
        The normal means problem (1) that the posterior solves.
    evidence : pair of float
        Minus the divergence of the posterior from the prior.
    number : int
        Place in the order in which factors were added.
    product : array or None
        Product of the data with the means of the side on which residuals are not summed up; None
        if it is not known.
    """

    mean: tuple[Array, Array]
    second: tuple[Array, Array]
    number: int
    prior: tuple[FittedPrior | None, FittedPrior | None] = (None, None)
    observed: tuple[tuple[Array, Array], tuple[Array, Array]] = (_NOTHING, _NOTHING)
    evidence: tuple[float, float] = (0.0, 0.0)
    product: Array | None = None

    @property
    def alive(self) -> bool:
        """Whether both sides differ from zero."""
        return bool(self.mean[0].any() and self.mean[1].any())

    def found(self, side: int) -> FittedPrior:
        """Give the prior of one side, of a factor that has been fitted."""
        prior = self.prior[side]
        if prior is None:
            raise RuntimeError("this factor is a start and has no prior yet")
        return prior

    def problem(self, side: int) -> tuple[Array, Array]:
        """Give the normal means problem of one side, with a standard deviation for each entry."""
        b, s = self.observed[side]
        return b, np.broadcast_to(s, b.shape)


class Noise:
    """Precisions of the noise, and what they contribute to the ELBO."""

    def __init__(self, data: AbstractObservations, side: int | None) -> None:
        self.side = side
        self.reported = side or 0  # side on which residuals are summed up
        counts, squares = data.counts[self.reported], data.squares[self.reported]
        self.counts = np.asarray(counts.sum()) if side is None else counts
        self.squares = np.asarray(squares.sum()) if side is None else squares
        size = float(data.squares[0].sum() / data.counts[0].sum())
        self.floor = _FLOOR * size if size > 0 else 1.0

    def precision(self, residual: Array) -> Array:
        """Precisions that maximise the ELBO, given sums of expected squared residuals."""
        return np.asarray(1 / np.maximum(residual / self.counts, self.floor))

    def value(self, precision: Array, residual: Array) -> float:
        """Give the expected log-likelihood of the data."""
        parts = self.counts * np.log(precision / (2 * np.pi)) - precision * residual
        return float(0.5 * parts.sum())

    def at_floor(self, precision: Array) -> bool:
        """Tell whether the noise of anything that varies has reached its floor."""
        varies = self.squares > self.floor * self.counts
        return bool(((1 / precision <= 1.01 * self.floor) & varies).any())


@dataclass
class Model:
    """Factors, precisions and the ELBO; what does not change while a fit runs.

    Attributes
    ----------
    priors : pair of sequences
        Families or fixed priors of scores and loadings, one for each factor in the order in which
        they are added; the last serves all further ones.
    rejected : int
        Number of updates that would have lowered the ELBO and were not done; solvers that
        maximise something else, or start afresh each time, can have some.
    """

    data: AbstractObservations
    noise: Noise
    priors: tuple[Sequence[Prior | UpToScale], Sequence[Prior | UpToScale]]
    factors: list[Factor] = field(default_factory=list)
    precision: Array = field(default_factory=lambda: np.empty(0))
    value: float = -np.inf
    rejected: int = 0

    def prior(self, side: int, number: int) -> Prior | UpToScale:
        """Prior of a factor, as it was asked for."""
        return self.priors[side][min(number, len(self.priors[side]) - 1)]

    def stacked(self, side: int) -> Array:
        """Posterior means of all factors, one a row."""
        if not self.factors:
            return np.empty((0, self.data.shape[side]))
        return np.stack([factor.mean[side] for factor in self.factors])

    def copy(self) -> Model:
        """Give a copy; factors are never changed in place."""
        return replace(self, factors=list(self.factors))

    def _weights(self, side: int) -> tuple[Array, Array]:
        """Precision as a product: one part on `side`, one on the other side."""
        one = np.asarray(1.0)
        return (one, self.precision) if self.noise.side == 1 - side else (self.precision, one)

    def update(self, side: int, which: Sequence[int]) -> None:
        """Update factors on one side, in turn."""
        here, there = self._weights(side)
        other = self.stacked(1 - side)
        weighted = other * there
        product = self.data.product(side, weighted[list(which)])
        means = self.stacked(side)
        for i, k in enumerate(which):
            factor = self.factors[k]
            others = np.arange(len(self.factors)) != k
            fitted = self.data.fitted_along(side, weighted[others], other[k], means[others])
            known = self.data.total(side, there * factor.second[1 - side])
            known = np.maximum(known, _TINIEST * known.max() + 1e-300)
            b, s = (product[i] - fitted) / known, np.sqrt(1 / (here * known))
            solved = self._solved(factor, side, b, s)
            means[k] = solved.mean[side]
            # on the side of the residuals the weights of the product are all one
            used = product[i] if side == self.noise.reported else None
            self.factors[k] = replace(solved, product=used)

    def _solved(self, factor: Factor, side: int, b: Array, s: Array) -> Factor:
        """Solve (1); keep the old posterior if the new one is not better."""
        start = factor.prior[side]
        family = self.prior(side, factor.number)
        if isinstance(family, UpToScale):
            family = family.fitted(b, s, start)
        fit = solve_columns(b[None], s, [family], [start])
        if start is not None:
            old = factor.evidence[side] - _surprise(
                b, s, factor.mean[side], factor.second[side] - factor.mean[side] ** 2
            )
            if fit.log_likelihood[0] < old:
                self.rejected += 1
                return factor
        return _replaced(factor, side, b, s, fit)

    def residual(self) -> Array:
        """Give the sums of expected squared residuals, as the noise model wants them."""
        side = self.noise.reported
        means = self.stacked(0), self.stacked(1)
        total = self.data.residual(side, means, self._products())
        for factor in self.factors:
            here, there = (factor.mean[t] for t in (side, 1 - side))
            total = total + (
                factor.second[side] * self.data.total(side, factor.second[1 - side])
                - here**2 * self.data.total(side, there**2)
            )
        return np.asarray(total.sum()) if self.noise.side is None else total

    def _products(self) -> Array:
        """Products of the data with the means of the side where residuals are not summed up."""
        side = self.noise.reported
        for k, factor in enumerate(self.factors):
            if factor.product is None:
                product = self.data.product(side, factor.mean[1 - side][None])[0]
                self.factors[k] = replace(factor, product=product)
        rows = [factor.product for factor in self.factors if factor.product is not None]
        return np.stack(rows) if rows else np.empty((0, self.data.shape[side]))

    def settle(self, keep_precision: bool = False) -> None:
        """Update the precision, unless it is to be kept, and the ELBO."""
        residual = self.residual()
        if not keep_precision:
            self.precision = self.noise.precision(residual)
        evidence = sum(sum(factor.evidence) for factor in self.factors)
        self.value = self.noise.value(self.precision, residual) + evidence

    def iterate(self, which: Sequence[int]) -> float:
        """Update both sides of some factors and the precision; return what it gained."""
        before = self.value
        for side in (1 - self.noise.reported, self.noise.reported):
            self.update(side, which)
        self.settle()
        return self.value - before

    def without(self, k: int) -> Model:
        """Give the model without one factor."""
        model = self.copy()
        del model.factors[k]
        model.settle()
        return model


def _surprise(b: Array, s: Array, mean: Array, variance: Array) -> float:
    """Minus the expectation of ``log N(b; l, s^2)``."""
    squared = s * s
    parts = ((b - mean) ** 2 + variance) / squared + np.log(2 * np.pi * squared)
    return 0.5 * float(parts.sum())


def _replaced(factor: Factor, side: int, b: Array, s: Array, fit: Fits) -> Factor:
    mean, variance = fit.mean[0], fit.variance[0]
    evidence = float(fit.log_likelihood[0]) + _surprise(b, s, mean, variance)
    return replace(
        factor,
        mean=_put(factor.mean, side, mean),
        second=_put(factor.second, side, mean**2 + variance),
        prior=_put(factor.prior, side, fit.priors[0]),
        observed=_put(factor.observed, side, (b, s)),
        evidence=_put(factor.evidence, side, evidence),
    )


def _put(pair: tuple[T, T], side: int, value: T) -> tuple[T, T]:
    """Replace one of a pair."""
    return (value, pair[1]) if side == 0 else (pair[0], value)

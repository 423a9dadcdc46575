"""Empirical Bayes matrix factorization: coordinate ascent on the ELBO (Wang and Stephens 2021).

The model is ``X = sum_k f_k l_k' + E``, ``f_ik ~ g_k``, ``l_jk ~ h_k``, ``e_ij ~ N(0, 1 / tau_ij)``
with ``tau`` common, or one for each sample or feature. The posterior is approximated by a product
over factors and sides. With everything else fixed, the loadings of factor k then solve a normal
means problem, ``R_k`` being the residual without factor k:

    (1)  b_j = sum_i tau_ij <f_ik> R_kij / d_j,    1 / s_j^2 = d_j = sum_i tau_ij <f_ik^2>

and its log-likelihood, less the expectation of ``log N(b; l, s^2)``, is minus the divergence of the
posterior from the prior: what factor and side contribute to the ELBO beside the residuals. Scores
follow from (1) with the sides swapped. Sums are over observed entries only.

Side 0 are the samples (scores), side 1 the features (loadings). Vectors are rows: ``k x n`` scores
and ``k x p`` loadings.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from ebcd._numerics import Array
from ebcd.data import column_moments, is_sparse, working_unit
from ebcd.data._moments import row_pieces
from ebcd.data._rows import back_from, scores_of
from ebcd.estimators._base import family_of
from ebcd.fitting._noise import FLOOR
from ebcd.fitting._shrinkers import in_units, side_of
from ebcd.priors._family import PRIORS
from ebcd.priors._fitted import FittedPrior
from ebcd.priors._solve import Prior, solve_columns

NOISE_SIDES: dict[str, int | None] = {"constant": None, "per_sample": 0, "per_feature": 1}


class Observations:
    """Centered data in working units (entries near one), dense or sparse, which are not copied."""

    shape: tuple[int, int]
    squares: tuple[Array, Array]  # sum of squares of every sample, and of every feature
    counts: tuple[Array, Array]  # likewise, numbers of observed entries

    def __init__(self, x: Any, mean: Array, unit: float) -> None:
        self._x, self._mean, self._unit = x, mean, unit
        n, p = self.shape = x.shape
        own, variances = column_moments(x, True)
        by_feature = n * (variances / unit / unit + ((own - mean) / unit) ** 2)
        self.squares = _row_squares(x, mean, unit), by_feature
        self.counts = np.full(n, float(p)), np.full(p, float(n))

    def product(self, side: int, rows: Array) -> Array:
        """Multiply the data by vectors of the other side; missing entries count as zero."""
        multiply = scores_of if side == 0 else back_from
        return multiply(self._x, rows / self._unit, self._mean)

    def total(self, side: int, rows: Array) -> Array:
        """Sum up `rows`, of the other side, over the entries that are observed.

        One number for each place on `side`, or a single one if they are all the same.
        """
        return np.asarray(rows.sum(axis=-1, keepdims=True))

    def residual(self, side: int, mean: tuple[Array, Array], product: Array) -> Array:
        """Compute sums of squared residuals of the product of means, for each place on `side`.

        `product` is that of the data with the means of the other side, so no residual is formed.
        """
        here, there = mean[side], mean[1 - side]
        fitted = (there @ there.T) @ here - 2 * product
        return np.asarray(np.maximum(self.squares[side] + (here * fitted).sum(axis=0), 0.0))


class IncompleteObservations(Observations):
    """Dense data of which some entries are missing (NaN)."""

    def __init__(self, x: Array, mean: Array, unit: float) -> None:
        self.shape = x.shape
        seen = ~np.isnan(x)
        self._seen = seen.astype(np.float64)
        self._filled = np.where(seen, (x - mean) / unit, 0.0)
        squares = self._filled**2
        self.squares = squares.sum(axis=1), squares.sum(axis=0)
        self.counts = self._seen.sum(axis=1), self._seen.sum(axis=0)

    def product(self, side: int, rows: Array) -> Array:
        """Multiply the observed data by vectors of the other side."""
        return np.asarray(rows @ (self._filled.T if side == 0 else self._filled))

    def total(self, side: int, rows: Array) -> Array:
        """Sum up `rows` over the entries that are observed, for each place on `side`."""
        return np.asarray(rows @ (self._seen.T if side == 0 else self._seen))

    def residual(self, side: int, mean: tuple[Array, Array], product: Array) -> Array:
        """Compute sums of squared residuals of the entries that are observed."""
        residual = self._filled - self._seen * (mean[0].T @ mean[1])
        return np.asarray((residual**2).sum(axis=1 - side))


def observe(x: Any, center: bool) -> tuple[Observations, Array, float]:
    """Return the data, what was subtracted from the features, and the working unit."""
    if is_sparse(x) or not np.isnan(x).any():
        mean, variances = column_moments(x, center)
        unit = working_unit(variances)
    else:
        mean = np.nanmean(x, axis=0) if center else np.zeros(x.shape[1])
        largest = float(np.nanmax(np.abs(x - mean))) or 1.0  # whose square may be out of range
        size = float(2.0 ** np.round(np.log2(largest)))
        unit = size * working_unit(np.nanmean(((x - mean) / size) ** 2, axis=0))
    return observe_again(x, mean, unit), mean, unit


def observe_again(x: Any, mean: Array, unit: float) -> Observations:
    """Center data and bring them to working units."""
    missing = not is_sparse(x) and np.isnan(x).any()
    return (IncompleteObservations if missing else Observations)(x, mean, unit)


def _row_squares(x: Any, mean: Array, unit: float) -> Array:
    """Compute the sums of squares of the rows of ``(x - mean) / unit``."""
    if not is_sparse(x):
        return np.concatenate([(((b - mean) / unit) ** 2).sum(axis=1) for b in row_pieces(x)])
    scaled, shift = x / unit, mean / unit
    own = np.asarray(scaled.multiply(scaled).sum(axis=1)).ravel()
    return np.asarray(own - 2 * (scaled @ shift) + shift @ shift)


@dataclass(frozen=True)
class UpToScale:
    """A fitted prior whose scale is free, because that of the other side is fitted.

    A factor does not change if its loadings are multiplied by a number and its scores divided by
    it. To leave the scale to the alternation would be slow: the data hold either side where it is.
    """

    prior: FittedPrior

    @property
    def name(self) -> str:
        """Name of the family of the prior."""
        return self.prior.family

    def fitted(self, b: Array, s: Array) -> FittedPrior:
        """Return the prior at the scale of highest likelihood, which may have several maxima."""
        s = np.broadcast_to(s, b.shape)
        size = np.hypot(*moments_of(self.prior))
        if np.isinf(size):  # that of a horseshoe, which has no variance
            size = max(self.prior.parameters[name] for name in PRIORS[self.name].lengths)
        if size == 0:  # all at zero, whatever the scale
            return self.prior

        def loss(octave: float) -> float:
            return -float(self.prior.rescaled(2.0**octave).log_marginal(b, s).sum())

        # from noise to the largest entry, and what either can do if only one entry of all counts
        ends = np.array([s.min(), max(s.min(), np.abs(b).max())]) / size
        low, high = np.log2(ends) + np.array([-0.5, 0.5]) * np.log2(b.size)
        grid = np.arange(low, high + 1)
        best = grid[np.argmin([loss(octave) for octave in grid])]
        found = minimize_scalar(
            loss, bounds=(best - 1, best + 1), method="bounded", options={"xatol": 1e-7}
        )
        return self.prior.rescaled(2.0 ** (found.x if found.fun <= loss(best) else best))


def working_priors(
    scores: list[Prior], loadings: list[Prior], unit: float
) -> tuple[list[Prior | UpToScale], list[Prior | UpToScale]]:
    """Return priors in working units; free scales that are fixed where the other side's is not."""
    for name, one, other in (
        ("loadings_prior", loadings, scores),
        ("scores_prior", scores, loadings),
    ):
        fixed = all(isinstance(prior, FittedPrior) and prior.proper for prior in other)
        if "flat" in map(family_of, one) and not fixed:
            raise ValueError(
                f"{name} is flat, so nothing fixes the scale of the factors; give the other "
                'side a fixed prior, for example ebcd.priors.make_prior("normal", scale=1.0)'
            )
    working = [in_units(prior, unit) for prior in loadings]
    count = max(len(scores), len(working))
    pairs = [
        (scores[min(k, len(scores) - 1)], working[min(k, len(working) - 1)]) for k in range(count)
    ]
    return [_freed(f, l_) for f, l_ in pairs], [_freed(l_, f) for f, l_ in pairs]


def _freed(prior: Prior, other: Prior) -> Prior | UpToScale:
    kept = "flat" in (family_of(prior), family_of(other)) or isinstance(other, FittedPrior)
    return UpToScale(prior) if isinstance(prior, FittedPrior) and not kept else prior


def moments_of(prior: FittedPrior) -> tuple[float, float]:
    """Return the mean and the standard deviation of a prior."""
    nothing_known = prior.posterior(np.zeros(1), np.inf)
    return float(nothing_known.mean[0]), float(nothing_known.sd[0])


@dataclass
class Side:
    """Posteriors of all factors on one side; arrays have a row or an entry for each."""

    family: NDArray[Any]  # families or fixed priors, as they were asked for
    prior: NDArray[Any]  # priors that were found, None before the first update
    mean: Array
    variance: Array
    # The normal means problems (1) that the posteriors solve.
    b: Array
    s: Array
    evidence: Array  # minus the divergences from the priors

    @property
    def second(self) -> Array:
        """Means of the squares."""
        return np.asarray(self.mean**2 + self.variance)

    def rows(self, which: Any) -> Side:
        """Copy some of the factors, in the order of their numbers."""
        return Side(*(array[which] for array in vars(self).values()))

    def solve(self, k: int, b: Array, s: Array) -> None:
        """Solve (1) for a factor, in place; keep the old posterior if the new one is not better.

        Solvers that maximize something else, or start afresh each time, may lower the ELBO.
        """
        family, start = self.family[k], self.prior[k]
        if isinstance(family, UpToScale):
            family = family.fitted(b, s)
        fit = solve_columns(b[None], np.squeeze(s), [family], [start])
        mean, variance, found = fit.mean[0], fit.variance[0], float(fit.log_likelihood[0])
        if found + _surprise(b, s, self.mean[k], self.variance[k]) < self.evidence[k]:
            return
        self.prior[k], self.mean[k], self.variance[k] = fit.priors[0], mean, variance
        self.b[k], self.s[k] = b, s
        self.evidence[k] = found + _surprise(b, s, mean, variance)

    def mirror(self, k: int) -> None:
        """Change the sign of a factor, in place."""
        self.mean[k], self.b[k], self.prior[k] = -self.mean[k], -self.b[k], self.prior[k].mirrored()


def started(
    families: Sequence[Any], means: Sequence[Array], variances: Sequence[Array]
) -> tuple[Side, Side]:
    """Return factors, one a row, that solve no normal means problem: any update is better.

    They get the signs under which most of them is on the sides of zero where their priors are.
    """
    kept = np.ones((2, len(means[0])))
    for i, sign in enumerate((1, -1)):
        for family, mean in zip(families, means, strict=True):
            sides = np.array([sign * side_of(prior) for prior in family])
            inside = np.linalg.norm(np.maximum(sides[:, None] * mean, 0.0), axis=1)
            kept[i] *= np.where(sides == 0, 1.0, inside)
    signs = np.where(kept[0] >= kept[1], 1.0, -1.0)[:, None]
    scores, loadings = (
        Side(
            np.array(family, dtype=object),
            np.full(len(mean), None, dtype=object),
            signs * mean,
            variance,
            np.zeros_like(mean),
            np.zeros_like(mean),
            np.full(len(mean), -np.inf),
        )
        for family, mean, variance in zip(families, means, variances, strict=True)
    )
    return scores, loadings


class Noise:
    """Precisions of the noise, and what they contribute to the ELBO."""

    def __init__(self, data: Observations, side: int | None) -> None:
        self.side = side
        self.reported = side or 0  # side on which residuals are summed up
        counts, squares = data.counts[self.reported], data.squares[self.reported]
        self.counts = np.asarray(counts.sum()) if side is None else counts
        self.squares = np.asarray(squares.sum()) if side is None else squares
        size = float(data.squares[0].sum() / data.counts[0].sum())
        self.floor = FLOOR * size if size > 0 else 1.0

    def precision(self, residual: Array) -> Array:
        """Compute the precisions that maximize the ELBO from sums of expected squared residuals."""
        return np.asarray(1 / np.maximum(residual / self.counts, self.floor))

    def value(self, precision: Array, residual: Array) -> float:
        """Compute the expected log-likelihood of the data."""
        parts = self.counts * np.log(precision / (2 * np.pi)) - precision * residual
        return float(0.5 * parts.sum())

    def at_floor(self, precision: Array) -> bool:
        """Whether the noise of anything that varies has reached its floor."""
        varies = self.squares > self.floor * self.counts
        return bool(((1 / precision <= 1.01 * self.floor) & varies).any())


class Model:
    """Factors, precisions and the ELBO."""

    sides: tuple[Side, Side]  # scores and loadings
    # The data times the means of the side where residuals are not summed up, as they were when the
    # other side was updated last.
    product: Array

    def __init__(self, data: Observations, noise: Noise, sides: tuple[Side, Side]) -> None:
        self.data, self.noise, self.sides = data, noise, sides
        self.precision: Array = np.ones(noise.counts.shape)
        self.multiply()
        self.settle()

    @property
    def size(self) -> int:
        """Number of factors."""
        return len(self.sides[0].mean)

    def multiply(self) -> None:
        """Multiply the data by the means of the side where residuals are not summed up."""
        side = self.noise.reported
        self.product = self.data.product(side, self.sides[1 - side].mean)

    def copy(self, which: Any = None) -> Model:
        """Return a copy, perhaps of some of the factors only."""
        model, which = copy(self), np.arange(self.size) if which is None else which
        model.sides = self.sides[0].rows(which), self.sides[1].rows(which)
        model.product = self.product[which]
        return model

    def with_factor(self, families: Sequence[Any], means: Sequence[Array]) -> Model:
        """Return the model with one more factor, given by vectors of scores and loadings."""
        model, rows = self.copy(), [mean[None] for mean in means]
        new = started([[family] for family in families], rows, [0 * row for row in rows])
        for side, added in zip(model.sides, new, strict=True):
            for name, array in vars(added).items():
                setattr(side, name, np.concatenate([getattr(side, name), array]))
        model.multiply()
        model.settle()
        return model

    def weights(self, side: int) -> tuple[Array, Array]:
        """Split the precision into a part on `side` and one on the other side."""
        one = np.asarray(1.0)
        return (one, self.precision) if self.noise.side == 1 - side else (self.precision, one)

    def update(self, side: int, which: Sequence[int]) -> None:
        """Update factors on one side, in turn."""
        here, there = self.weights(side)
        mine, other = self.sides[side], self.sides[1 - side]
        weighted, second = other.mean * there, other.second
        product = self.data.product(side, weighted[which])
        for row, k in zip(product, which, strict=True):
            overlap = self.data.total(side, weighted * other.mean[k])
            overlap[k] = 0.0
            known = self.data.total(side, there * second[k])
            # where nothing is known, next to nothing: the prior decides
            known = np.maximum(known, np.finfo(np.float64).eps ** 2 * known.max() + 1e-300)
            b = (row - (overlap * mine.mean).sum(axis=0)) / known
            mine.solve(k, b, np.sqrt(1 / (here * known)))
        if side == self.noise.reported:  # where the weights of the product are all one
            self.product[which] = product

    def residual(self) -> Array:
        """Compute the sums of expected squared residuals, as the noise model wants them."""
        side = self.noise.reported
        here, there = self.sides[side], self.sides[1 - side]
        total = self.data.residual(side, (self.sides[0].mean, self.sides[1].mean), self.product)
        spread = here.second * self.data.total(side, there.second)
        spread -= here.mean**2 * self.data.total(side, there.mean**2)
        total = total + spread.sum(axis=0)
        return np.asarray(total.sum()) if self.noise.side is None else total

    def settle(self, keep_precision: bool = False) -> None:
        """Update the precision, unless it is to be kept, and the ELBO."""
        residual = self.residual()
        if not keep_precision:
            self.precision = self.noise.precision(residual)
        evidence = float(sum(side.evidence.sum() for side in self.sides))
        self.value = self.noise.value(self.precision, residual) + evidence

    def iterate(self, which: Sequence[int]) -> float:
        """Update both sides of some factors and the precision; return what it gained."""
        before = self.value
        for side in (1 - self.noise.reported, self.noise.reported):
            self.update(side, which)
        self.settle()
        return self.value - before


def _surprise(b: Array, s: Array, mean: Array, variance: Array) -> float:
    """Compute minus the expectation of ``log N(b; l, s^2)``."""
    squared = s * s
    parts = ((b - mean) ** 2 + variance) / squared + np.log(2 * np.pi * squared)
    return 0.5 * float(parts.sum())

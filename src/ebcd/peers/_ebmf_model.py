"""Empirical Bayes matrix factorisation: coordinate ascent on the ELBO (Wang and Stephens 2021).

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
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from scipy.optimize import minimize_scalar

from ebcd._numerics import Array
from ebcd.data import column_moments, is_sparse, working_unit
from ebcd.data._moments import row_pieces
from ebcd.priors._family import PRIORS, AbstractPriorFamily
from ebcd.priors._fitted import FittedPrior, FlatPrior
from ebcd.priors._solve import Prior, solve_columns

T = TypeVar("T")


# The ELBO is unbounded when factors fit the data exactly, so the noise has a floor, as a share of
# the mean square of the data.
_FLOOR = 1e-10
# Logarithms of scales among which that of a prior is looked for, about a first guess.
_LOG_SCALES = np.linspace(-5.0, 5.0, 21)
NOISE_SIDES: dict[str, int | None] = {"constant": None, "per_sample": 0, "per_feature": 1}


class Observations:
    """Centred data in working units, entries near one; dense or sparse, neither copied nor changed.

    Attributes
    ----------
    shape : tuple of int
        Numbers of samples and of features.
    squares, counts : tuple of arrays
        Sum of squares, and number of observed entries, of every sample and of every feature.
    """

    squares: tuple[Array, Array]
    counts: tuple[Array, Array]

    def __init__(self, x: Any, mean: Array, unit: float) -> None:
        self._x, self._mean, self._unit = x, mean / unit, unit
        n, p = self.shape = x.shape
        own, variances = column_moments(x, True)
        by_feature = n * (variances / unit / unit + ((own - mean) / unit) ** 2)
        self.squares = _row_squares(x, mean, unit), by_feature
        self.counts = np.full(n, float(p)), np.full(p, float(n))

    def product(self, side: int, rows: Array) -> Array:
        """Multiply the data by vectors of the other side; missing entries count as zero."""
        x = self._x if side == 0 else self._x.T
        product = np.ascontiguousarray(np.asarray(x @ (rows / self._unit).T).T)
        if self._mean.any():
            if side == 0:
                product -= (rows @ self._mean)[:, None]
            else:
                product -= np.outer(rows.sum(axis=1), self._mean)
        return product

    def total(self, side: int, row: Array) -> Array:
        """Sum up `row`, of the other side, over the entries that are observed.

        One number for each place on `side`, or a single one if they are all the same.
        """
        return np.asarray(row.sum())

    def fitted_along(self, side: int, rows: Array, row: Array, target: Array) -> Array:
        """Multiply the low-rank matrix of `rows` and `target` by `row` of the other side."""
        return np.asarray((rows @ row) @ target)

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

    def total(self, side: int, row: Array) -> Array:
        """Sum up `row` over the entries that are observed, for each place on `side`."""
        return np.asarray(row @ (self._seen.T if side == 0 else self._seen))

    def fitted_along(self, side: int, rows: Array, row: Array, target: Array) -> Array:
        """Multiply the observed low-rank matrix by `row` of the other side."""
        return np.asarray((self.total(side, rows * row) * target).sum(axis=0))

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
    """Centre data and bring them to working units."""
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
    """A fitted prior whose scale is free.

    A factor does not change if its loadings are multiplied by a number and its scores divided by
    it. So a prior that is fixed on one side says nothing about scale if that of the other side is
    fitted. To leave the scale to the alternation would be slow, since the data hold either side
    where it is.
    """

    prior: FittedPrior

    @property
    def family(self) -> str:
        """Name of the family of the prior."""
        return self.prior.family

    def fitted(self, b: Array, s: Array, start: FittedPrior | None) -> FittedPrior:
        """Return the prior at the scale of highest likelihood, searched for near `start` if given.

        The likelihood may have several maxima: the search begins with a grid of logarithms.
        """
        s = np.broadcast_to(s, b.shape)
        size = np.hypot(*moments_of(self.prior))
        if size == 0:  # all at zero, whatever the scale
            return self.prior

        def loss(log_scale: float) -> float:
            return -float(self.prior.rescaled(np.exp(log_scale)).log_marginal(b, s).sum())

        noise = float(np.mean(s**2))
        spread = np.sqrt(max(float(np.mean(b**2)) - noise, 1e-3 * noise))
        spread = spread if start is None else np.hypot(*moments_of(start))
        grid = np.log(spread / size) + _LOG_SCALES
        best, gap = grid[np.argmin([loss(point) for point in grid])], grid[1] - grid[0]
        found = minimize_scalar(
            loss, bounds=(best - gap, best + gap), method="bounded", options={"xatol": 1e-7}
        )
        return self.prior.rescaled(np.exp(found.x if found.fun <= loss(best) else best))


def working_priors(
    scores: list[Prior], loadings: list[Prior], unit: float
) -> tuple[list[Prior | UpToScale], list[Prior | UpToScale]]:
    """Return priors in working units; free scales that are fixed where the other side's is not."""
    for name, one, other in (
        ("loadings_prior", loadings, scores),
        ("scores_prior", scores, loadings),
    ):
        fixed = all(isinstance(prior, FittedPrior) and not _is_flat(prior) for prior in other)
        if any(map(_is_flat, one)) and not fixed:
            raise ValueError(
                f"{name} is flat, so nothing fixes the scale of the factors; give the other "
                'side a fixed prior, for example ebcd.priors.make_prior("normal", scale=1.0)'
            )
    working = [
        prior.rescaled(1 / unit) if isinstance(prior, FittedPrior) else prior.in_units(unit)
        for prior in loadings
    ]
    count = max(len(scores), len(working))
    pairs = [
        (scores[min(k, len(scores) - 1)], working[min(k, len(working) - 1)]) for k in range(count)
    ]
    return [_freed(f, l_) for f, l_ in pairs], [_freed(l_, f) for f, l_ in pairs]


def _is_flat(prior: Prior) -> bool:
    return isinstance(prior, FlatPrior) or getattr(prior, "name", "") == "flat"


def _freed(prior: Prior, other: Prior) -> Prior | UpToScale:
    if not isinstance(prior, FittedPrior) or isinstance(other, FittedPrior):
        return prior
    return prior if _is_flat(prior) or _is_flat(other) else UpToScale(prior)


def moments_of(prior: FittedPrior) -> tuple[float, float]:
    """Return the mean and the standard deviation of a prior."""
    nothing_known = prior.posterior(np.zeros(1), np.inf)
    return float(nothing_known.mean[0]), float(nothing_known.sd[0])


def side_of(prior: Prior | UpToScale | None) -> int:
    """Return the side of zero on which a prior lies; 0 if on both."""
    if prior is None:
        return 0
    return PRIORS[prior.name if isinstance(prior, AbstractPriorFamily) else prior.family].side


_NONE: Array = np.array([])


@dataclass(frozen=True)
class Factor:
    """Posterior of one factor; pairs are of scores and loadings."""

    mean: tuple[Array, Array]
    second: tuple[Array, Array]  # means of the squares
    number: int  # place in the order in which factors were added
    prior: tuple[FittedPrior | None, FittedPrior | None] = (None, None)
    # The normal means problems (1), b and s, that the posterior solves.
    observed: tuple[tuple[Array, Array], tuple[Array, Array]] = ((_NONE, _NONE), (_NONE, _NONE))
    evidence: tuple[float, float] = (0.0, 0.0)  # minus the divergence from the prior
    # Of the data with the means of the side where residuals are not summed up, if it is known.
    product: Array | None = None

    @property
    def alive(self) -> bool:
        """Whether both sides differ from zero."""
        return bool(self.mean[0].any() and self.mean[1].any())

    @property
    def variances(self) -> tuple[Array, Array]:
        """Posterior variances of scores and loadings."""
        scores, loadings = (
            np.maximum(second - mean**2, 0.0)
            for second, mean in zip(self.second, self.mean, strict=True)
        )
        return scores, loadings

    def found(self, side: int) -> FittedPrior:
        """Return the prior of one side of a factor that has been fitted."""
        prior = self.prior[side]
        if prior is None:
            raise RuntimeError("this factor is a start and has no prior yet")
        return prior

    def problem(self, side: int) -> tuple[Array, Array]:
        """Return the normal means problem of one side, with a standard deviation for each entry."""
        b, s = self.observed[side]
        return b, np.broadcast_to(s, b.shape)


class Noise:
    """Precisions of the noise, and what they contribute to the ELBO."""

    def __init__(self, data: Observations, side: int | None) -> None:
        self.side = side
        self.reported = side or 0  # side on which residuals are summed up
        counts, squares = data.counts[self.reported], data.squares[self.reported]
        self.counts = np.asarray(counts.sum()) if side is None else counts
        self.squares = np.asarray(squares.sum()) if side is None else squares
        size = float(data.squares[0].sum() / data.counts[0].sum())
        self.floor = _FLOOR * size if size > 0 else 1.0

    def precision(self, residual: Array) -> Array:
        """Compute the precisions that maximise the ELBO from sums of expected squared residuals."""
        return np.asarray(1 / np.maximum(residual / self.counts, self.floor))

    def value(self, precision: Array, residual: Array) -> float:
        """Compute the expected log-likelihood of the data."""
        parts = self.counts * np.log(precision / (2 * np.pi)) - precision * residual
        return float(0.5 * parts.sum())

    def at_floor(self, precision: Array) -> bool:
        """Whether the noise of anything that varies has reached its floor."""
        varies = self.squares > self.floor * self.counts
        return bool(((1 / precision <= 1.01 * self.floor) & varies).any())


@dataclass
class Model:
    """Factors, precisions and the ELBO; what does not change while a fit runs."""

    data: Observations
    noise: Noise
    # Families or fixed priors of scores and loadings, one for each factor in the order in which
    # they are added; the last serves all further ones.
    priors: tuple[Sequence[Prior | UpToScale], Sequence[Prior | UpToScale]]
    factors: list[Factor] = field(default_factory=list)
    precision: Array = field(default_factory=lambda: np.empty(0))
    value: float = -np.inf
    # Updates that would have lowered the ELBO and were not done; solvers that maximise something
    # else, or start afresh each time, can have some.
    rejected: int = 0

    def prior(self, side: int, number: int) -> Prior | UpToScale:
        """Return the prior of a factor, as it was asked for."""
        return self.priors[side][min(number, len(self.priors[side]) - 1)]

    def stacked(self, side: int) -> Array:
        """Stack the posterior means of all factors, one a row."""
        if not self.factors:
            return np.empty((0, self.data.shape[side]))
        return np.stack([factor.mean[side] for factor in self.factors])

    def copy(self) -> Model:
        """Return a copy; factors are never changed in place."""
        return replace(self, factors=list(self.factors))

    def weights(self, side: int) -> tuple[Array, Array]:
        """Split the precision into a part on `side` and one on the other side."""
        one = np.asarray(1.0)
        return (one, self.precision) if self.noise.side == 1 - side else (self.precision, one)

    def update(self, side: int, which: Sequence[int]) -> None:
        """Update factors on one side, in turn."""
        here, there = self.weights(side)
        other = self.stacked(1 - side)
        weighted = other * there
        product = self.data.product(side, weighted[list(which)])
        means = self.stacked(side)
        for i, k in enumerate(which):
            factor = self.factors[k]
            others = np.arange(len(self.factors)) != k
            fitted = self.data.fitted_along(side, weighted[others], other[k], means[others])
            known = self.data.total(side, there * factor.second[1 - side])
            # where nothing is known, next to nothing: the prior decides
            known = np.maximum(known, np.finfo(np.float64).eps ** 2 * known.max() + 1e-300)
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
        old = _surprise(b, s, factor.mean[side], factor.variances[side])
        if start is not None and fit.log_likelihood[0] < factor.evidence[side] - old:
            self.rejected += 1
            return factor
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

    def residual(self) -> Array:
        """Compute the sums of expected squared residuals, as the noise model wants them."""
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
        """Multiply the data by the means of the side where residuals are not summed up."""
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
        """Return the model without one factor."""
        model = self.copy()
        del model.factors[k]
        model.settle()
        return model


def _surprise(b: Array, s: Array, mean: Array, variance: Array) -> float:
    """Compute minus the expectation of ``log N(b; l, s^2)``."""
    squared = s * s
    parts = ((b - mean) ** 2 + variance) / squared + np.log(2 * np.pi * squared)
    return 0.5 * float(parts.sum())


def _put(pair: tuple[T, T], side: int, value: T) -> tuple[T, T]:
    """Replace one of a pair."""
    return (value, pair[1]) if side == 0 else (pair[0], value)

"""The shrinkage step of EBCD, for the components of many starts at once.

Rows of ``B`` are observations of the loadings with normal noise. Their posterior under fitted
priors is the shrinkage, and the priors are what is learned from the data.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ebcd._numerics import Array
from ebcd.priors._family import PRIORS, Fits
from ebcd.priors._fitted import FittedPrior, MixturePrior
from ebcd.priors._solve import Prior, solve_columns
from ebcd.priors._two_group import SETTINGS, evaluate_two_groups


@dataclass(frozen=True)
class Stack:
    """Arrays with one entry for each start along the first axis; parts may be stacks, or None."""

    def take(self, index: Any) -> Self:
        """Return some of the starts."""
        return type(self)(*(_taken(part, index) for part in vars(self).values()))

    def put(self, index: Any, other: Self) -> None:
        """Overwrite some of the starts by those of another stack, in place."""
        self.fill(index, other.take(index))

    def fill(self, index: Any, some: Self) -> None:
        """Overwrite some of the starts by a stack of as many, in place; what it lacks is zero."""
        for mine, theirs in zip(vars(self).values(), vars(some).values(), strict=True):
            if isinstance(mine, Stack):
                mine.fill(index, theirs)
            elif mine is not None:
                mine[index] = 0.0 if theirs is None else theirs

    @classmethod
    def together(cls, stacks: list[Self]) -> Self:
        """Join stacks of the same kind; a part that one of them lacks is left out."""
        return cls(*map(_joined, zip(*(vars(stack).values() for stack in stacks), strict=True)))


def _taken(part: Any, index: Any) -> Any:
    if part is None:
        return None
    return part.take(index) if isinstance(part, Stack) else part[index]


def _joined(parts: tuple[Any, ...]) -> Any:
    if len(parts) == 1:  # which may be large, so it is not copied
        return parts[0]
    if any(part is None for part in parts):
        return None
    kind = type(parts[0])
    return kind.together(list(parts)) if issubclass(kind, Stack) else np.concatenate(parts)


@dataclass(frozen=True)
class Shrunk(Stack):
    """Loadings after shrinkage; the first axis is the start.

    Attributes
    ----------
    mean, variance : array, m x k x p
        Posterior moments.
    fit : array, m x p
        What the loadings change in the mean squared residuals of the features:
        ``sum_k mean^2 - 2 b mean + variance``.
    objective : array of length m
        What the loadings add to the ELBO beside the residuals: minus the divergence of the
        posterior from the prior.
    priors : array, m x k of FittedPrior, or m x k x 2
        The priors, as fitted ones or as pairs (log weight, log scale).
    step : array, m x k x 2, optional
        Newton's step of the pairs.
    slopes : array, m x k x 2 x p, optional
        Derivatives of the mean in the pairs.
    spread : array, m x k x 2 x 2, optional
        Inverse of minus the Hessian of the log-likelihood in the pairs.
    """

    mean: Array
    variance: Array
    fit: Array
    objective: Array
    priors: Any
    step: Array | None = None
    slopes: Array | None = None
    spread: Array | None = None

    @staticmethod
    def side_by_side(items: list[Shrunk]) -> Shrunk:
        """Join what was found for several components."""
        columns = zip(*(vars(item).values() for item in items), strict=True)
        mean, variance, fit, objective, *rest = columns
        joined: list[Any] = [
            None if c[0] is None else np.concatenate(c, axis=1) for c in (mean, variance, *rest)
        ]
        return Shrunk(joined[0], joined[1], sum(fit), sum(objective), *joined[2:])


class AbstractShrinker(ABC):
    """Shrinks the components of many starts, component k under prior k in every start.

    Attributes
    ----------
    sides : array of length k or 1
        Side of zero on which the prior of a component lies, +1 or -1; 0 if on both.
    cost : int
        Price of a shrinkage, in evaluations of a spike-and-slab marginal.
    light_tails : bool
        Whether a prior may be other than a spike and a slab, whose tails are never light.
    stand_in : str, optional
        Name of a family to search with, if that of all components costs much.
    """

    sides: Array
    cost: int = 1
    light_tails: bool = False
    stand_in: str | None = None

    def oriented(self, rows: Array) -> Array:
        """Return signs (... x k x 1) that turn rows (... x k x p) to the side of their prior."""
        if not self.sides.any():
            return np.ones((*rows.shape[:-1], 1))
        leans = np.sign(np.vecdot(rows * rows, rows))
        return np.where(self.sides * leans < 0, -1.0, 1.0)[..., None]

    def only(self, which: Any) -> AbstractShrinker:
        """Return what shrinks some of the components."""
        return self

    @abstractmethod
    def first(self, b: Array, noise: Array) -> Any:
        """Return priors to begin with."""

    @abstractmethod
    def begun(self, fitted: Sequence[FittedPrior]) -> Any:
        """Return fitted priors, one for each component, as those of one start."""

    @abstractmethod
    def shrink(self, b: Array, noise: Array, priors: Any, slopes: bool = False) -> Shrunk:
        """Shrink ``b`` (m x k x p), whose noise has standard deviation `noise`.

        That is m x 1 or k x 1 or p: one for all, or one for each component or feature. With
        `slopes`, derivatives of the means in the priors are added if priors take Newton steps.
        """

    @abstractmethod
    def fitted(self, priors: Any) -> Any:
        """Return priors (m x k x ...) as fitted ones (m x k)."""

    @abstractmethod
    def next_priors(self, states: Any, change: Any, radius: Array) -> Any:
        """Return the priors to use next, `change` being what a step of the scores adds to them."""


@dataclass(frozen=True)
class PriorSettings:
    """How far one iteration may move the weight and the scale of a spike-and-slab prior."""

    longest: float = 3.0  # step of the log scale per radian of the scores; of the log weight twice
    narrowest: float = 0.01  # slab over noise: a narrower one cannot be told from the spike
    widest: float = 20.0  # slab over the largest observation: a wider one never fits


class SpikeSlabShrinker(AbstractShrinker):
    """Spike and slab at the price of one evaluation: weight and scale take Newton steps.

    Priors need not be at their optimum for the ELBO to be a bound, so that scores and priors climb
    together, and a whole iteration of all starts is one evaluation of the marginal likelihood.

    Parameters
    ----------
    family : prior family
        With a ``slab``, maybe a spike.
    """

    def __init__(self, family: Any) -> None:
        self._family = family
        self._slab, self._has_spike = family.slab, family.has_spike
        self.sides = np.array([family.side])

    def first(self, b: Array, noise: Array) -> Any:
        """Match the second and fourth moments of each row."""
        variance = (noise**2).mean(axis=-1)
        square = b * b
        second = np.maximum(square.mean(axis=-1) - variance, 0.1 * variance)
        fourth = np.vecdot(square, square) / b.shape[-1] - 6 * variance * second - 3 * variance**2
        m2, m4 = self._slab.second_moment, self._slab.fourth_moment  # of a slab of scale one
        kurtosis = np.maximum(fourth / second**2, 1e-300) / (m4 / m2**2)
        most = 0.9 if self._has_spike else 1.0
        weight = np.clip(1 / kurtosis, min(5 / b.shape[-1], most) if self._has_spike else 1.0, most)
        scale = np.sqrt(second / (m2 * weight))
        return np.stack([np.log(weight), np.log(scale)], axis=-1)

    def begun(self, fitted: Sequence[FittedPrior]) -> Any:
        """Take logarithms of weight and scale."""
        [scale] = self._family.lengths
        pairs = [[g.parameters.get("weight", 1.0), g.parameters[scale]] for g in fitted]
        return np.log(np.maximum(pairs, 1e-300))[None]

    def shrink(self, b: Array, noise: Array, priors: Any, slopes: bool = False) -> Shrunk:
        """Evaluate the ELBO, the posterior, and Newton's step of weight and scale."""
        m, k, p = b.shape
        s = np.broadcast_to(noise, (m, k, noise.shape[-1])).reshape(m * k, -1)
        log_weight, log_scale = priors.reshape(m * k, 2).T
        at: Any = evaluate_two_groups(
            self._slab,
            b.reshape(m * k, p),
            s,
            log_weight,
            log_scale,
            self._has_spike,
            slopes,
        )
        mean, variance = at.mean.reshape(b.shape), at.variance.reshape(b.shape)
        change = _change(b, mean, variance)
        fit = change.sum(axis=1)
        parts = fit[:, None] if noise.shape[1] == 1 else change
        parts = parts.sum(axis=-1, keepdims=True) if noise.shape[-1] == 1 else parts
        in_units_of_noise = (parts / noise**2).sum(axis=(1, 2))
        objective = at.value.reshape(m, k).sum(axis=1) + 0.5 * in_units_of_noise
        step, spread = self._newton(at.gradient, at.hessian, log_weight)
        return Shrunk(
            mean,
            variance,
            fit,
            objective,
            priors,
            step.reshape(m, k, 2),
            at.slopes.reshape(m, k, 2, p) if slopes else None,
            spread.reshape(m, k, 2, 2),
        )

    def _newton(self, gradient: Array, hessian: Array, log_weight: Array) -> tuple[Array, Array]:
        """Return Newton's step of each row, and the inverse of minus the Hessian.

        The weight is profiled out. Where the likelihood is not concave in its logarithm the
        Hessian is that in the weight itself, in which it is; where the profile curves upward the
        step goes uphill as far as the curvature says.
        """
        d_weight, slope = gradient.T
        dd_weight, cross, curvature = hessian[:, 0, 0], hessian[:, 0, 1], hessian[:, 1, 1]
        dd_weight = np.where(dd_weight < 0, dd_weight, dd_weight - d_weight)
        free = ((log_weight < 0) | (d_weight < 0)) & (dd_weight < 0) & self._has_spike
        a = np.where(free, -dd_weight, 1.0)
        d_weight, cross = d_weight * free, cross * free
        slope = slope + cross * d_weight / a
        c = np.maximum(np.abs(curvature + cross**2 / a), 1e-300)
        scale = slope / c
        mixed = cross / (a * c)
        step, spread = np.empty((len(a), 2)), np.empty((len(a), 2, 2))
        step[:, 0], step[:, 1] = (d_weight + cross * scale) / a, scale
        spread[:, 0, 0], spread[:, 1, 1] = (free + cross * mixed) / a, 1 / c
        spread[:, 0, 1] = spread[:, 1, 0] = mixed
        return step, spread

    def fitted(self, priors: Any) -> Any:
        """Build the priors of the family."""
        found = np.empty(priors.shape[:2], dtype=object)
        for place in np.ndindex(found.shape):
            found[place] = self._family.with_slab(*np.exp(priors[place]).tolist())
        return found

    def next_priors(self, states: Any, change: Any, radius: Array) -> Any:
        """Take the step, shortened in proportion to that of the scores, within bounds."""
        at, b, noise = PriorSettings, states.b, states.noise
        longest = at.longest * radius[:, None, None] * np.array([2.0, 1.0])
        step = np.minimum(np.maximum(states.shrunk.step + change, -longest), longest)
        priors = states.shrunk.priors + step
        weight, scale = priors[..., 0], priors[..., 1]
        np.maximum(weight, math.log(SETTINGS.smallest_slab / b.shape[-1]), out=weight)
        np.minimum(weight, 0.0, out=weight)
        low = np.log(at.narrowest * noise.min(axis=-1))
        high = np.log(at.widest * np.maximum(b.max(axis=-1), -b.min(axis=-1)) + 1e-300)
        np.minimum(scale, high, out=scale)
        np.maximum(scale, low, out=scale)
        return priors


class NormalMeansShrinker(AbstractShrinker):
    """Priors of any family at their optimum: a solved normal-means problem for each row.

    Parameters
    ----------
    priors : sequence of families or fitted priors
        One for each component. Fitted ones are kept.
    """

    cost = 10  # from a few for parametric families to hundreds for mixtures on a grid

    def __init__(self, priors: Sequence[Prior]) -> None:
        self.priors = list(priors)
        self.sides = np.array([side_of(prior) for prior in priors])
        self.light_tails = not all(hasattr(prior, "slab") for prior in priors)
        first = self.priors[0]
        if all(prior == first for prior in priors) and first.exchangeable:
            self.stand_in = "point_exponential" if self.sides.all() else "point_laplace"

    def only(self, which: Any) -> AbstractShrinker:
        """Return what shrinks some of the components."""
        return NormalMeansShrinker([self.priors[k] for k in np.arange(len(self.priors))[which]])

    def first(self, b: Array, noise: Array) -> Any:
        """Start cold."""
        return np.full(b.shape[:2], None, dtype=object)

    def begun(self, fitted: Sequence[FittedPrior]) -> Any:
        """Start from them."""
        row = np.empty((1, len(fitted)), dtype=object)
        row[0] = list(fitted)
        return row

    def shrink(self, b: Array, noise: Array, priors: Any, slopes: bool = False) -> Shrunk:
        """Solve a normal-means problem for each row."""
        m, k, p = b.shape
        if m > 1 and noise.shape == (m, k, 1) and not self.light_tails:
            # in units of its noise each row is a problem of its own, whatever start it is of
            everyone, s = NormalMeansShrinker(self.priors * m), noise.reshape(m * k, 1)
            parts = [everyone._solved(b.reshape(m * k, p), s, list(priors.flat))]
        else:
            parts = [self._solved(rows, noise[i], list(priors[i])) for i, rows in enumerate(b)]
        mean, variance = (
            _joined(some).reshape(b.shape) for some in list(zip(*parts, strict=True))[2:4]
        )
        fitted = np.empty(m * k, dtype=object)
        fitted[:] = [g for part in parts for g in part.priors]
        fitted = fitted.reshape(m, k)
        objective = (
            np.concatenate([part.log_likelihood for part in parts]).reshape(m, k).sum(axis=1)
        )
        objective -= [self._cost(row) for row in fitted]
        change = _change(b, mean, variance)
        fit = change.sum(axis=1)
        change += b * b
        change /= noise**2
        constants = 2 * np.log(math.sqrt(2 * math.pi) * noise).mean(axis=(1, 2)) * k * p
        objective += 0.5 * (change.sum(axis=(1, 2)) + constants)
        return Shrunk(mean, variance, fit, objective, fitted)

    def _cost(self, fitted: Any) -> float:
        """Return what the families of one start charge for the priors that were fitted."""
        pairs = zip(self.priors, fitted, strict=True)
        return sum(prior.cost(g) for prior, g in pairs if not isinstance(prior, FittedPrior))

    def _solved(self, rows: Array, noise: Array, starts: list[Any]) -> Fits:
        """Solve the normal-means problems of one start, k x p; noise is 1 or k x 1 or p."""
        if len(noise) == 1:
            s = noise[0, 0] if noise.size == 1 else noise[0]
            return solve_columns(rows, s, self.priors, starts)
        # in units of the noise of its component each has the same noise, if entries are complete
        units = [float(unit) for unit in np.sqrt((noise**2).mean(axis=1))]
        shared = noise[0] / units[0]
        if not np.allclose(noise, np.array(units)[:, None] * shared, rtol=1e-9, atol=0):
            return self._one_by_one(rows, noise, starts)
        priors = [in_units(prior, unit) for prior, unit in zip(self.priors, units, strict=True)]
        begin = [
            None if g is None else g.rescaled(1 / unit)
            for g, unit in zip(starts, units, strict=True)
        ]
        size = np.array(units)[:, None]
        found = solve_columns(rows / size, shared[0] if shared.size == 1 else shared, priors, begin)
        back = [g.rescaled(unit) for g, unit in zip(found.priors, units, strict=True)]
        proper = np.array([g.proper for g in back])
        value = found.log_likelihood - proper * rows.shape[1] * np.log(units)
        mean = np.multiply(size, found.mean, out=found.mean)
        variance = np.multiply(size**2, found.variance, out=found.variance)
        return Fits(back, value, mean, variance)

    def _one_by_one(self, rows: Array, noise: Array, starts: list[Any]) -> Fits:
        """Solve the normal-means problem of each component with a noise of its own."""
        each = [
            solve_columns(row[None], s, [prior], [start])
            for row, s, prior, start in zip(rows, noise, self.priors, starts, strict=True)
        ]
        return Fits.joined(each)

    def fitted(self, priors: Any) -> Any:
        """They are fitted ones."""
        return priors

    def next_priors(self, states: Any, change: Any, radius: Array) -> Any:
        """Start the next solution from the last one."""
        return states.shrunk.priors


def rough_shrinker(priors: Sequence[Prior]) -> NormalMeansShrinker:
    """Return what shrinks at a lower price while states climb; exact priors follow."""
    return NormalMeansShrinker(
        [prior if isinstance(prior, FittedPrior) else prior.for_search() for prior in priors]
    )


def in_units(prior: Prior, unit: float) -> Prior:
    """Return a family or a fitted prior for data in other units."""
    return prior.rescaled(1 / unit) if isinstance(prior, FittedPrior) else prior.in_units(unit)


def in_working_units(prior: Prior, unit: float) -> Prior:
    """Return a prior in units in which features are of size one; refuse mass far beyond them."""
    scaled = in_units(prior, unit)
    if isinstance(scaled, MixturePrior):
        farthest = max(float(np.abs(kernel.location).max()) for kernel in scaled.kernels)
        if farthest > 1e6:  # squares of what is left of the data would drown in rounding
            raise ValueError(
                f"prior: the fitted prior has mass at {farthest * unit:.3g}, but the features are "
                f"of size {unit:.3g}; check its units"
            )
    return scaled


def side_of(prior: Prior) -> int:
    """Side of zero on which a prior lies, +1 or -1; 0 if on both."""
    return PRIORS[prior.family if isinstance(prior, FittedPrior) else prior.name].side


def _change(b: Array, mean: Array, variance: Array) -> Array:
    """Return ``mean^2 - 2 b mean + variance``."""
    change = b * -2
    change += mean
    change *= mean
    change += variance
    return np.asarray(change)

"""Fitted priors: what a normal-means fit returns, and what can be done with it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ebcd import _numerics as num
from ebcd._numerics import Array
from ebcd._parameters import N_DRAWS, as_generator, real
from ebcd.priors._kernels import OVERWHELMING, AbstractKernel, Flat, PointMass
from ebcd.priors._validation import as_observations, as_values, check_lengths, check_ratio

if TYPE_CHECKING:  # families build priors, so they come later
    from ebcd.priors._family import AbstractPriorFamily

# Entries times components that are worked on at once, and that are kept in memory.
BLOCK, CELLS = 500_000, 40_000_000
_FACTOR = real("a number above 0 and up to 1e200", lambda factor: 0 < factor <= 1e200)


@dataclass(frozen=True)
class Posterior:
    """Posterior summaries, one per observation.

    Attributes
    ----------
    mean, sd : ndarray
        Posterior mean and standard deviation.
    lfsr : ndarray
        Local false sign rate: the probability that the sign of `mean`, or a claim that the
        value is not zero, is wrong. It is ``P(theta = 0) + min(P(theta < 0), P(theta > 0))``.
    """

    mean: Array
    sd: Array
    lfsr: Array


class FittedPrior(ABC):
    """A prior with all its parameters known.

    Obtained from `ebcd.ebnm` (attribute ``prior`` of the result), `make_prior` or `from_dict`.

    Attributes
    ----------
    family : str
        Name of the family, a key of `PRIORS`.
    parameters : dict
        The parameters, enough to build the prior again with `make_prior`.
    proper : bool
        Whether it is a distribution; the flat prior is none, and observations have no likelihood.
    """

    family: str
    parameters: dict[str, Any]
    proper: bool = True
    # Whether the order of the entries means nothing; see `AbstractPriorFamily`.
    exchangeable: ClassVar[bool] = True

    @abstractmethod
    def describe(self) -> str:
        """Say in words what the prior is."""

    @abstractmethod
    def log_likelihood(self, x: ArrayLike, s: ArrayLike = 1.0) -> float:
        """Log-likelihood of ``x`` under the prior plus normal noise of sd `s`.

        Entries with infinite `s` are not observed and contribute nothing. It is NaN under the flat
        prior, which has no density.

        Examples
        --------
        >>> from ebcd.priors import make_prior
        >>> prior = make_prior("normal", scale=2.0)
        >>> round(prior.log_likelihood([1.0, -3.0], s=1.0), 4)
        -4.4473
        """

    @abstractmethod
    def posterior(self, x: ArrayLike, s: ArrayLike = 1.0) -> Posterior:
        """Posterior mean, sd and local false sign rate of every entry.

        Examples
        --------
        >>> from ebcd.priors import make_prior
        >>> prior = make_prior("point_laplace", weight=0.1, scale=2.0)
        >>> prior.posterior([0.5, 6.0], s=1.0).mean.round(3)
        array([0.017, 5.5  ])
        """

    @abstractmethod
    def log_marginal(self, x: Array, s: Array) -> Array:
        """Log marginal density of every entry of the checked arrays `x` and `s`."""

    @abstractmethod
    def evaluate(self, x: Array, s: Array) -> Any:
        """Log marginal densities, posterior means and variances of checked arrays.

        The first is one number, that of all entries, if the prior is one of whole vectors.
        """

    @abstractmethod
    def tails(self, x: Array, s: Array) -> tuple[Array, Array]:
        """Posterior probabilities of ``theta <= 0`` and of ``theta >= 0`` of checked arrays."""

    def spike_probability(self, x: ArrayLike, s: ArrayLike = 1.0) -> Array:
        """Posterior probability that an entry is exactly the mode; zero if there is no spike.

        Examples
        --------
        >>> from ebcd.priors import make_prior
        >>> prior = make_prior("point_laplace", weight=0.1, scale=2.0)
        >>> prior.spike_probability([0.5, 6.0], s=1.0).round(3)
        array([0.95, 0.  ])
        """
        return np.zeros(as_observations(x, s)[0].shape)

    def shrink(self, x: ArrayLike, s: ArrayLike = 1.0) -> Array:
        """Posterior mean: the proximal operator of `penalty`.

        Examples
        --------
        >>> from ebcd.priors import make_prior
        >>> make_prior("normal", scale=1.0).shrink([-2.0, 0.0, 4.0], s=1.0)
        array([-1.,  0.,  2.])
        """
        return self.posterior(x, s).mean

    @abstractmethod
    def penalty(self, values: ArrayLike, s: float = 1.0) -> Array:
        """Penalty that the prior induces, in nats (Kang and Stephens, Proposition 2).

        The posterior mean minimizes ``(x - l)^2 / (2 s^2) + penalty(l, s)`` over ``l``. With
        ``x`` such that ``shrink(x) = l`` it equals
        ``-log(sqrt(2 pi) s m(x)) - (x - l)^2 / (2 s^2)``, ``m`` being the marginal density.
        It is infinite outside the convex hull of the prior's support.

        Examples
        --------
        >>> from ebcd.priors import make_prior
        >>> prior = make_prior("normal", scale=1.0)  # induces a ridge penalty
        >>> (prior.penalty([0.0, 1.0, 2.0], s=1.0) - prior.penalty(0.0, s=1.0)).round(6)
        array([0. , 0.5, 2. ])
        """

    @abstractmethod
    def sample(self, n: int, random_state: Any = None) -> Array:
        """Draw `n` values from the prior.

        Examples
        --------
        >>> from ebcd.priors import make_prior
        >>> make_prior("point_mass", mode=3.0).sample(2, random_state=0)
        array([3., 3.])
        """

    @abstractmethod
    def sample_posterior(
        self, x: ArrayLike, s: ArrayLike = 1.0, n: int = 1, random_state: Any = None
    ) -> Array:
        """Draw `n` times from the posterior of every entry; the result is n x p.

        Examples
        --------
        >>> from ebcd.priors import make_prior
        >>> prior = make_prior("point_normal", weight=0.5, scale=1.0)
        >>> prior.sample_posterior([0.0, 5.0, -5.0], n=4, random_state=0).shape
        (4, 3)
        """

    @abstractmethod
    def rescaled(self, factor: float) -> FittedPrior:
        """Return the prior of ``factor * theta``, ``factor > 0``."""

    @abstractmethod
    def mirrored(self) -> FittedPrior:
        """Return the prior of ``-theta``; one-sided families have none."""

    @abstractmethod
    def shifted(self, offset: float) -> FittedPrior:
        """Return the prior of ``theta + offset``."""

    def to_dict(self) -> dict[str, Any]:
        """Family and parameters as plain Python values, ready for JSON."""
        plain = {
            key: value.tolist() if isinstance(value, np.ndarray) else value
            for key, value in self.parameters.items()
        }
        return {"family": self.family, "parameters": plain}

    @staticmethod
    def from_dict(description: Mapping[str, Any]) -> FittedPrior:
        """Make a prior from the dictionary that `to_dict` gave.

        Examples
        --------
        >>> from ebcd.priors import FittedPrior, make_prior
        >>> prior = make_prior("normal", scale=2.0)
        >>> FittedPrior.from_dict(prior.to_dict()) == prior
        True
        """
        from ebcd.priors._family import make_prior  # families are built on this module

        missing = {"family", "parameters"} - set(description)
        if missing:
            raise ValueError(f"not a description of a prior: it lacks {', '.join(sorted(missing))}")
        return make_prior(description["family"], **description["parameters"])

    def __repr__(self) -> str:
        return f"<{self.family} prior: {self.describe()}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FittedPrior) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]


class MixturePrior(FittedPrior):
    """A finite mixture of kernels: every proper prior of the package.

    Parameters
    ----------
    family : class
        The family, a value of `PRIORS`.
    parameters : mapping
        Parameters of the family, for people and for `to_dict`.
    weights : array
        Mixture weights, in the order of the components of `kernels`; they sum to one.
    kernels : sequence of AbstractKernel
        The components.
    words : str, optional
        What `describe` says; by default it lists the components.
    prior_sd : float, optional
        Standard deviation, if it is not that of the mixture.
    """

    def __init__(
        self,
        family: type[AbstractPriorFamily],
        parameters: Mapping[str, Any],
        weights: ArrayLike,
        kernels: Sequence[AbstractKernel],
        words: str | None = None,
        prior_sd: float | None = None,
    ) -> None:
        self.family = family.name
        self._family = family
        self.parameters = dict(parameters)
        self.weights = np.asarray(weights, dtype=np.float64)
        self.kernels = tuple(kernels)
        self._words = words
        self._prior_sd = prior_sd

    def describe(self) -> str:
        if self._words is not None:
            return self._words
        labels = [label for kernel in self.kernels for label in kernel.labels()]
        order = np.argsort(-self.weights, kind="stable")
        order = order[self.weights[order] > 1e-8]  # less is rounding of zero
        said = [f"{100 * self.weights[i]:.3g}% {labels[i]}" for i in order[:6]]
        rest = [f"{order.size - 6} more components"] if order.size > 6 else []
        return ", ".join(said + rest)

    def observed(self, x: ArrayLike, s: ArrayLike) -> tuple[Array, Array]:
        """Check observations, also against the lengths of the prior.

        What was not observed gets noise that drowns the prior: the posterior is the prior to the
        last digit.
        """
        x, s = as_observations(x, s)
        self._check_noise(s)
        unseen = np.isinf(s)
        if not unseen.any():
            return x, s
        noise = OVERWHELMING * (self.sizes.max() or 1.0)
        return np.where(unseen, 0.0, x), np.where(unseen, noise, s)

    def _check_noise(self, s: Array) -> None:
        """Refuse noise of another size than the prior altogether."""
        scales = [np.ravel(getattr(kernel, "scale", 0.0)) for kernel in self.kernels]
        check_lengths(self.sizes, np.abs(np.concatenate(scales)), s)

    def log_likelihood(self, x: ArrayLike, s: ArrayLike = 1.0) -> float:
        seen = np.isfinite(as_observations(x, s)[1])
        x, s = self.observed(x, s)
        return float(self.log_marginal(x[seen], s[seen]).sum())

    def log_marginal(self, x: Array, s: Array) -> Array:
        return self.blockwise(lambda x, s: special.logsumexp(self._joint(x, s), axis=0), x, s)

    def posterior(self, x: ArrayLike, s: ArrayLike = 1.0) -> Posterior:
        x, s = as_observations(x, s)
        self._check_noise(s)
        seen, found = np.isfinite(s), np.empty((3, x.size))
        found[:, seen] = self._summary(x[seen], s[seen])
        if not seen.all():
            found[:, ~seen] = self._summary(*self.observed([0.0], np.inf))
            if self._prior_sd is not None:
                found[1, ~seen] = self._prior_sd
        return Posterior(*found)

    def _summary(self, x: Array, s: Array) -> tuple[Array, Array, Array]:
        """Posterior means, standard deviations and sign rates for finite noise."""
        standard, unit = self._standard(s)
        _, mean, variance = standard.evaluate(x / unit, s / unit)
        lfsr = np.minimum(*standard.tails(x / unit, s / unit))
        return unit * mean, unit * np.sqrt(variance), lfsr

    def evaluate(self, x: Array, s: Array) -> Array:
        """Log marginal densities, posterior means and variances; `s` may have a single entry."""
        return self.blockwise(self._moments_block, x, s)

    def tails(self, x: Array, s: Array) -> tuple[Array, Array]:
        below, above = self.blockwise(self._tails_block, x, s)
        return below, above

    def spike_probability(self, x: ArrayLike, s: ArrayLike = 1.0) -> Array:
        x, s = self.observed(x, s)
        spike = self._atoms_at(self.parameters.get("mode", 0.0))
        standard, unit = self._standard(s)
        return standard.blockwise(
            lambda x, s: standard.shares(x, s)[spike].sum(axis=0), x / unit, s / unit
        )

    def penalty(self, values: ArrayLike, s: float = 1.0) -> Array:
        values, s = as_values(values, s)
        check_ratio(np.ravel(values), np.array([s]))
        self._check_noise(np.array([s]))
        prior = self.rescaled_mixture(1 / s)
        flat = values.ravel() / s
        lower, upper = prior._hull()
        result = np.full(flat.shape, np.inf)
        inside = (flat > lower) & (flat < upper)
        if inside.any():
            result[inside] = prior._unit_penalty(flat[inside], lower, upper)
        for end in {lower, upper}:
            mass = sum(weight for place, weight in prior.atoms() if place == end)
            if mass > 0:  # approached as x runs to infinity, where only this atom counts
                result[flat == end] = -np.log(mass)
        return result.reshape(values.shape)

    def _unit_penalty(self, values: Array, lower: float, upper: float) -> Array:
        """Penalty for unit noise at values inside the hull."""
        x = self._inverse(values)
        marginal = self.log_marginal(x, np.ones_like(x))
        result = -marginal - num.LOG_SQRT_2PI - 0.5 * (x - values) ** 2
        # near an end x is far beyond it, and the two squares cancel
        for end, beyond in ((lower, x < lower), (upper, x > upper)):
            if beyond.any():
                log_excess = [kernel.log_excess(x[beyond], end) for kernel in self.rows]
                log_weights = np.log(np.maximum(self.weights, 1e-300))[:, None]
                tilt = (values[beyond] - end) * (x[beyond] - 0.5 * (values[beyond] + end))
                joint = np.concatenate(log_excess) + log_weights
                result[beyond] = tilt - special.logsumexp(joint, axis=0)
        return result

    def _inverse(self, wanted: Array) -> Array:
        """Find ``x`` with posterior mean `wanted` for unit noise: the mean rises with ``x``."""

        def excess(x: Array, rows: Any = slice(None)) -> Array:
            return np.asarray(self.evaluate(x, np.ones(1))[1] - wanted[rows])

        low, high = wanted - 1.0, wanted + 1.0
        for bound, side in ((low, -1.0), (high, 1.0)):
            step = 1.0
            while (outside := side * excess(bound) < 0).any() and step < 1e200:
                bound[outside] += side * step
                step *= 2
        return num.rising_root(excess, low, high)

    def sample(self, n: int, random_state: Any = None) -> Array:
        return self.sample_posterior([0.0], np.inf, n, random_state)[:, 0]

    def sample_posterior(
        self, x: ArrayLike, s: ArrayLike = 1.0, n: int = 1, random_state: Any = None
    ) -> Array:
        N_DRAWS.check("n", n)
        x, s = self.observed(x, s)
        rng = as_generator(random_state)
        draws = np.empty((n, x.size))
        cumulative = np.cumsum(self.blockwise(self.shares, x, s).T, axis=-1)
        for rows in num.chunks(n, max(1, BLOCK // cumulative.size)):
            threshold = rng.random((*draws[rows].shape, 1)) * cumulative[:, -1:]
            component = (cumulative <= threshold).sum(axis=-1).ravel()
            drawn = np.empty(component.size)
            for kernel, part in self.parts():
                own = np.flatnonzero((component >= part.start) & (component < part.stop))
                at = own % x.size
                drawn[own] = kernel.take(component[own] - part.start).draw(x[at], s[at], rng)
            draws[rows] = drawn.reshape(-1, x.size)
        return draws

    def rescaled(self, factor: float) -> FittedPrior:
        _FACTOR.check("factor", factor)
        if factor == 1:
            return self
        return self._family.build(**self._family.rescale(self.parameters, factor))

    def mirrored(self) -> FittedPrior:
        return self._family.build(**self._family.mirror(self.parameters))

    def shifted(self, offset: float) -> FittedPrior:
        real("a finite number").check("offset", offset)
        return self._family.build(**self._family.shift(self.parameters, offset))

    def rescaled_mixture(self, factor: float) -> MixturePrior:
        """Scale the components only, without the family's view of them."""
        kernels = [kernel.scaled(factor) for kernel in self.kernels]
        return MixturePrior(
            self._family, self.parameters, self.weights, kernels, self._words, self._prior_sd
        )

    def _standard(self, s: Array) -> tuple[MixturePrior, float]:
        """Return the mixture in a unit in which the noise is about one, and the unit."""
        unit = num.typical(s)
        return self.rescaled_mixture(1 / unit), unit

    def shares(self, x: Array, s: Array) -> Array:
        """Posterior probabilities of the components, components x entries."""
        return np.asarray(special.softmax(self._joint(x, s), axis=0))

    def parts(self) -> list[tuple[AbstractKernel, slice]]:
        """Kernels, and the numbers of their components."""
        ends = np.cumsum([kernel.size for kernel in self.kernels])
        return [
            (kernel, slice(end - kernel.size, end))
            for kernel, end in zip(self.kernels, ends, strict=True)
        ]

    def blockwise(
        self, function: Callable[[Array, Array], Array], x: Array, s: Array, cost: int = 1
    ) -> Array:
        """Apply `function` to blocks of entries that keep components x entries in memory.

        Its `cost` is the memory it takes, in that of posterior moments.
        """
        size = max(1, BLOCK // (cost * self.weights.size))
        if x.size <= size:
            return function(x, s)
        parts = num.chunks(x.size, size)
        blocks = [function(x[part], s if s.size == 1 else s[part]) for part in parts]
        return np.concatenate(blocks, axis=-1)

    def atoms(self) -> list[tuple[float, float]]:
        """Return places and probabilities of the point masses."""
        return [
            (float(place), float(weight))
            for kernel, part in self.parts()
            if isinstance(kernel, PointMass)
            for place, weight in zip(kernel.location, self.weights[part], strict=True)
        ]

    def _atoms_at(self, place: float) -> np.ndarray:
        """Mark the components that have all their mass at a place."""
        return np.concatenate(
            [isinstance(kernel, PointMass) & (kernel.location == place) for kernel in self.kernels]
        )

    def _hull(self) -> tuple[float, float]:
        """Convex hull of the support."""
        ends = [
            kernel.take(np.flatnonzero(self.weights[part] > 0)).hull()
            for kernel, part in self.parts()
            if (self.weights[part] > 0).any()
        ]
        return min(low for low, _ in ends), max(high for _, high in ends)

    @cached_property
    def sizes(self) -> Array:
        """Largest absolute value of the parameters of each component."""
        return np.concatenate([kernel.sizes for kernel in self.kernels])

    @cached_property
    def rows(self) -> list[AbstractKernel]:
        """Kernels that evaluate observations in one row per component."""
        return [kernel.take((slice(None), None)) for kernel in self.kernels]

    def _joint(self, x: Array, s: Array) -> Array:
        """Log of weight times marginal, one row per component."""
        joint = np.concatenate([kernel.log_marginal(x, s) for kernel in self.rows])
        joint += self._log_weights
        return joint

    @property
    def _log_weights(self) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.weights)[:, None])

    def _moments_block(self, x: Array, s: Array) -> Array:
        share, means, variances = _joined(kernel.evaluate(x, s) for kernel in self.rows)
        share += self._log_weights
        top = share.max(axis=0)
        share -= top
        np.exp(share, out=share)
        total = share.sum(axis=0)
        share /= total
        mean = np.einsum("kn,kn->n", share, means)
        means -= mean
        means *= means
        variances += means
        return np.array([np.log(total) + top, mean, np.einsum("kn,kn->n", share, variances)])

    def _tails_block(self, x: Array, s: Array) -> Array:
        below, above = _joined(kernel.tails(x, s) for kernel in self.rows)
        return np.asarray((self.shares(x, s) * [below, above]).sum(axis=1))


def _joined(parts: Iterable[tuple[Array, ...]]) -> list[Array]:
    """Put the components of all kernels below each other."""
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


class FlatPrior(MixturePrior):
    """The improper uniform prior on the real line: no shrinkage.

    Its density is any constant, so that a likelihood means nothing and is NaN. Fits compare only
    values of their own, and see the constant one (`log_marginal`).
    """

    proper = False

    def __init__(self, family: type[AbstractPriorFamily]) -> None:
        super().__init__(family, {}, [1.0], [Flat(np.zeros(1), np.zeros(1))], "no shrinkage")

    def log_likelihood(self, x: ArrayLike, s: ArrayLike = 1.0) -> float:
        """Return NaN: zero would beat every real prior."""
        as_observations(x, s)
        return np.nan

    def penalty(self, values: ArrayLike, s: float = 1.0) -> Array:
        """Zero everywhere."""
        return np.zeros_like(as_values(values, s)[0])

    def sample(self, n: int, random_state: Any = None) -> Array:
        """Raise: an improper prior cannot be sampled."""
        raise ValueError("the flat prior is improper and cannot be sampled")

    def _check_noise(self, s: Array) -> None:
        none = "an entry that was not observed has no posterior under the flat prior"
        _check_all_observed(s, f"{none}; use a proper prior or leave the entry out")


class Evaluated(NamedTuple):
    """Log-likelihood of observations, or a bound on it, and their posterior moments."""

    value: float
    mean: Array
    variance: Array


class AbstractJointPrior(FittedPrior):
    """A prior of a whole vector: all entries are given together, and in their order."""

    exchangeable: ClassVar[bool] = False

    @abstractmethod
    def interval(self, x: Array, s: Array, probability: float) -> tuple[Array, Array]:
        """Return both ends of the equal-tailed credible interval of every entry."""

    def log_likelihood(self, x: ArrayLike, s: ArrayLike = 1.0) -> float:
        """Log-likelihood of all entries together."""
        return float(self.evaluate(*self._observations(x, s))[0])

    def posterior(self, x: ArrayLike, s: ArrayLike = 1.0) -> Posterior:
        x, s = self._observations(x, s)
        _, mean, variance = self.evaluate(x, s)
        return Posterior(mean, np.sqrt(variance), np.minimum(*self.tails(x, s)))

    def log_marginal(self, x: Array, s: Array) -> Array:
        """Raise: entries have no marginals of their own."""
        raise ValueError(
            f"entries under a {self.family} prior depend on each other and have no marginal "
            "densities; use log_likelihood, which is that of all of them"
        )

    def penalty(self, values: ArrayLike, s: float = 1.0) -> Array:
        """Raise: entries have no penalties of their own."""
        raise ValueError(f"a {self.family} prior penalizes all loadings together, not each of them")

    def shifted(self, offset: float) -> FittedPrior:
        """Raise: the prior is centered at zero."""
        raise ValueError(f"a {self.family} prior has no mode that could be moved")

    def _observations(self, x: ArrayLike, s: ArrayLike) -> tuple[Array, Array]:
        x, s = as_observations(x, s)
        advice = "interpolate it and give it a large s, or use another prior"
        _check_all_observed(s, f"a {self.family} prior needs every entry observed; {advice}")
        return x, s


def _check_all_observed(s: Array, rule: str) -> None:
    """Refuse entries that were not observed by saying a rule."""
    unseen = np.flatnonzero(np.isinf(s))
    if unseen.size:
        raise ValueError(f"s is infinite at position {unseen[0]}: {rule}")

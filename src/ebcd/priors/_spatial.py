"""Smooth values in an order: wavelet coefficients have priors, one for each level.

The vector is shifted circularly by one of T shifts, all equally likely; the coefficients of what
results, in an orthonormal wavelet basis, are independent with a prior ``g_j`` on level j. If the
posterior of the shift is held at the uniform one, with ``W_t`` the shifted basis,

    (1)  F = mean_t log p(x | t, g)

is a lower bound on the log-likelihood. It is maximized over ``g`` by one normal-means problem for
each level, whose observations are the coefficients of all shifts. Averaged over the shifts,
posterior means are the estimate of cycle spinning. The averages of the coarsest level are not
independent but a Gaussian field on a ring: what is smooth there has a few waves only. Of several
wavelets, each as likely as another,

    (2)  F = log mean_w exp(F_w),   with posterior probabilities proportional to exp(F_w).

Noise of unequal precisions ``d_j`` is not independent in another basis. Since for every ``c``

    (3)  -d_j (x - l)^2 >= -D (y - l)^2 - d_j (1 - d_j / D) (x - c)^2,   D = max d,
         y = c + (d_j / D) (x - c),

the bound for observations ``y`` of precision ``D``, plus constants, is a bound for ``x``. It is
highest where ``c`` is the posterior mean, so that to put it there again and again never lowers it.
Deviations from the mean are enlarged by the noise of their entry over the smallest one: the
quadratic terms ``d_j (x_j - l_j)^2`` then have the expectation that (3) gives them, and the bound
that of an ordinary posterior.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ebcd._numerics import Array
from ebcd._parameters import N_DRAWS, as_generator, unknown_name
from ebcd.priors._family import (
    NEGLIGIBLE,
    PRIORS,
    AbstractPriorFamily,
    Columns,
    Fits,
    make_family,
    register,
)
from ebcd.priors._fitted import AbstractJointPrior, Evaluated, FittedPrior
from ebcd.priors._graphs import waves
from ebcd.priors._solve import Prior, solve_columns
from ebcd.priors._wavelets import FILTERS, Basis, basis

Levels = list[FittedPrior]


@dataclass(frozen=True)
class _Settings:
    shifts: int = 16  # more change the error by a few percent
    rounds: int = 30  # of (3), at most, for a cold start and for a prior that is kept
    warm_rounds: int = 2  # of a warm start, which is as a rule followed by others
    draws: int = 400  # for signs and intervals: a rate of 0.05 has a standard error of 0.011


SETTINGS = _Settings()


@dataclass(frozen=True)
class _Denoised(Evaluated):
    """Also the priors of every wavelet, and posterior probabilities of the wavelets."""

    priors: dict[str, Levels]
    shares: Array


def _majorised(x: Array, s: Array, centre: Array) -> tuple[Array, float, float]:
    """Return observations of (3) at a center, their common noise, and the sum of the constants."""
    noise = float(s.min())
    share = (noise / s) ** 2
    constant = 0.5 * (np.log(share) - share * (1 - share) * ((x - centre) / noise) ** 2).sum()
    return centre + share * (x - centre), noise, float(constant)


def _shifts(p: int) -> NDArray[np.intp]:
    """Return the entries (p x T) of every shifted vector.

    An odd step between shifts takes all remainders of small powers of two, and the shifts are
    spread over the whole vector, so that those of coarse levels differ, too.
    """
    step = p // SETTINGS.shifts | 1
    return np.asarray((np.arange(p)[:, None] + step * np.arange(SETTINGS.shifts)) % p)


def _unshifted(values: Array, places: NDArray[np.intp]) -> Array:
    """Put entries of shifted vectors back to their places."""
    out = np.empty_like(values)
    np.put_along_axis(out, places, values, axis=0)
    return out


def _at_level(priors: Sequence[Any], level: int, n_levels: int) -> Any:
    """Return the prior of a level: the last is that of averages, others may serve several."""
    return priors[-1] if level == n_levels - 1 else priors[min(level, max(len(priors) - 2, 0))]


def _one_wavelet(
    base: Basis, y: Array, noise: float, priors: Sequence[Prior], starts: Sequence[Any]
) -> tuple[Levels, float, Array, Array]:
    """Maximize (1); priors that are fitted already are kept."""
    places = _shifts(y.size)
    coefficients = base.analyse(y[places])
    mean, variance = np.empty_like(coefficients), np.empty_like(coefficients)
    fitted, value = [], 0.0
    for j, level in enumerate(base.levels):
        x = coefficients[level]
        prior = _at_level(priors, j, len(base.levels))
        start = _at_level(starts, j, len(base.levels))
        if prior.exchangeable:
            fit = solve_columns(x.reshape(1, -1), np.asarray(noise), [prior], [start])
            mean[level], variance[level] = fit.mean.reshape(x.shape), fit.variance.reshape(x.shape)
            value += float(fit.log_likelihood[0]) / places.shape[1]
        else:
            # the mean of the log-likelihoods is that of one vector with the mean of the spectra
            ring = waves(len(x))
            typical = ring.back(np.sqrt((ring.to(x.T) ** 2).mean(axis=0)))
            fit = solve_columns(typical[None], np.asarray(noise), [prior], [start])
            every_wave = ring.back(np.ones(len(x)))
            kept = fit.priors[0].posterior_moments(every_wave, np.full(len(x), noise))[0]
            mean[level] = ring.back(ring.to(kept) * ring.to(x.T)).T
            variance[level] = fit.variance.T
            value += float(fit.log_likelihood[0])
        fitted.append(fit.priors[0])
    means = _unshifted(base.synthesise(mean), places)
    spread = _unshifted(base.spread(variance), places).mean(axis=1)
    return fitted, value, means.mean(axis=1), spread + means.var(axis=1)


def _denoised(
    y: Array,
    noise: float,
    priors: Mapping[str, Sequence[Prior]],
    starts: Mapping[str, Sequence[Any]] | None = None,
) -> _Denoised:
    """Maximize (2), with common noise."""
    fits = [
        _one_wavelet(basis(name, y.size), y, noise, some, starts[name] if starts else [None])
        for name, some in priors.items()
    ]
    values = np.array([value for _, value, _, _ in fits])
    shares = special.softmax(values)
    means = np.array([mean for _, _, mean, _ in fits])
    mean = shares @ means
    variance = shares @ (np.array([variance for *_, variance in fits]) + (means - mean) ** 2)
    value = float(special.logsumexp(values) - np.log(values.size))
    found = {name: fit[0] for name, fit in zip(priors, fits, strict=True)}
    return _Denoised(value, mean, variance, found, shares)


def _climbed(
    x: Array,
    s: Array,
    priors: Mapping[str, Sequence[Prior]],
    starts: Mapping[str, Sequence[Any]] | None = None,
    centre: Array | None = None,
    rounds: int = SETTINGS.rounds,
) -> _Denoised:
    """Maximize (2), by rounds of (3) if the noise differs."""
    if (s == s[0]).all():
        return _denoised(x, float(s[0]), priors, starts)
    if centre is None or centre.shape != x.shape:
        centre = np.zeros_like(x)
    before = -np.inf
    for _ in range(rounds):
        y, noise, constant = _majorised(x, s, centre)
        found = _denoised(y, noise, priors, starts)
        own = found.variance * (s / noise) ** 2
        found = replace(found, value=found.value + constant, variance=own)
        if found.value < before + NEGLIGIBLE:
            break
        before, starts, centre = found.value, found.priors, found.mean
    return found


class SpatialPrior(AbstractJointPrior):
    """Independent priors of the wavelet coefficients of a vector that is shifted at random.

    Entries are not exchangeable: the posterior of each depends on its neighbors, so that all are
    given together and in their order. The log-likelihood is the lower bound (2).

    Parameters
    ----------
    priors : mapping from str to list of FittedPrior
        For each wavelet the priors of its levels, the finest details first, averages last.
    centre : ndarray, optional
        Where the search for the posterior mean begins if entries differ in their noise: the
        posterior mean of the data that the prior was fitted to.
    """

    family = "spatial"

    def __init__(self, priors: Mapping[str, Levels], centre: Array | None = None) -> None:
        self.levels = dict(priors)
        self.centre = centre
        described = {name: [g.to_dict() for g in some] for name, some in self.levels.items()}
        self.parameters = {"priors": described, "centre": centre}

    def describe(self) -> str:
        """Say which wavelets it has, and on how many levels."""
        said = [f"{name} ({len(some) - 1})" for name, some in self.levels.items()]
        return "smooth, by wavelets (levels): " + ", ".join(said)

    def evaluated(self, x: Array, s: Array) -> _Denoised:
        """Lower bound (2) on the log-likelihood, and posterior mean and variance."""
        return _climbed(x, s, self.levels, centre=self.centre)

    def tails(self, x: Array, s: Array) -> tuple[Array, Array]:
        """Share of draws with ``theta <= 0`` and with ``theta >= 0``."""
        draws = self.sample_posterior(x, s, SETTINGS.draws, random_state=0)
        return (draws <= 0).mean(axis=0), (draws >= 0).mean(axis=0)

    def interval(self, x: Array, s: Array, probability: float) -> tuple[Array, Array]:
        """Return quantiles of draws: both ends of the credible interval of every entry."""
        draws = self.sample_posterior(x, s, SETTINGS.draws, random_state=0)
        lower, upper = np.quantile(
            draws, [0.5 - 0.5 * probability, 0.5 + 0.5 * probability], axis=0
        )
        return lower, upper

    def sample(self, n: int, random_state: Any = None) -> Array:
        """Draw one vector of length `n` from the prior."""
        N_DRAWS.check("n", n)
        rng = as_generator(random_state)
        names = list(self.levels)
        name = names[int(rng.choice(len(names)))]
        base, some = basis(name, n), self.levels[name]
        drawn = np.empty((n, 1))
        for j, level in enumerate(base.levels):
            prior = _at_level(some, j, len(base.levels))
            drawn[level, 0] = prior.sample(level.stop - level.start, rng)
        places = _shifts(n)[:, [int(rng.choice(SETTINGS.shifts))]]
        return _unshifted(base.synthesise(drawn), places)[:, 0]

    def sample_posterior(
        self, x: ArrayLike, s: ArrayLike = 1.0, n: int = 1, random_state: Any = None
    ) -> Array:
        """Draw `n` vectors from the posterior of all entries; the result is n x p."""
        N_DRAWS.check("n", n)
        x, s = self._observations(x, s)
        rng = as_generator(random_state)
        found = self.evaluated(x, s)
        y, noise, _ = _majorised(x, s, found.mean)
        places, draws, done = _shifts(x.size), np.empty((n, x.size)), 0
        kinds = [(name, t) for name in self.levels for t in range(SETTINGS.shifts)]
        shares = np.repeat(found.shares, SETTINGS.shifts) / SETTINGS.shifts
        numbers = np.bincount(rng.choice(len(kinds), size=n, p=shares), minlength=len(kinds))
        for (name, t), number in zip(kinds, numbers.tolist(), strict=True):
            if number:
                rows = draws[done : done + number]
                rows[:, places[:, t]] = self._drawn(name, y[places[:, t]], noise, number, rng)
                done += number
        if noise < s.max():
            draws = found.mean + (s / noise) * (draws - found.mean)
        return np.asarray(draws[rng.permutation(n)])

    def _drawn(self, name: str, y: Array, noise: float, n: int, rng: Any) -> Array:
        """Draw vectors given the wavelet and the shift."""
        base, some = basis(name, y.size), self.levels[name]
        coefficients = base.analyse(y)
        drawn = np.empty((n, y.size))
        for j, level in enumerate(base.levels):
            prior = _at_level(some, j, len(base.levels))
            drawn[:, level] = prior.sample_posterior(coefficients[level], noise, n, rng)
        return base.synthesise(drawn.T).T

    def rescaled(self, factor: float) -> FittedPrior:
        return self if factor == 1 else self._changed(lambda g: g.rescaled(factor), factor)

    def mirrored(self) -> FittedPrior:
        return self._changed(lambda g: g.mirrored(), -1.0)

    def _changed(self, change: Callable[[FittedPrior], FittedPrior], factor: float) -> SpatialPrior:
        changed = {name: [change(g) for g in some] for name, some in self.levels.items()}
        return SpatialPrior(changed, None if self.centre is None else factor * self.centre)


@register
@dataclass(frozen=True)
class Spatial(AbstractPriorFamily):
    """Smooth values with occasional jumps and spikes, for ordered features.

    Translation-invariant wavelet shrinkage with a prior for each level. The first and the last
    entry are neighbors.

    Attributes
    ----------
    wavelet : {"auto", "haar", "db3", "sym8"}
        "haar" suits jumps and "sym8" smooth curves; "auto" weights all three by how well they fit.
    family : str
        Prior of the details, a symmetric one. Averages at the coarsest level are a Gaussian field
        on a ring, as in ``gmrf``.

    Examples
    --------
    >>> import numpy as np
    >>> import ebcd
    >>> curve = 3 * np.sin(np.linspace(0, 2 * np.pi, 256))
    >>> x = curve + np.random.default_rng(0).normal(size=256)
    >>> result = ebcd.ebnm(x, 1.0, ebcd.priors.make_family("spatial", wavelet="sym8"))
    >>> bool(np.mean((result.mean - curve) ** 2) < 0.1)
    True
    """

    name: ClassVar[str] = "spatial"
    positions: ClassVar[tuple[str, ...]] = ()
    has_mode: ClassVar[bool] = False
    binned: ClassVar[bool] = False
    exchangeable: ClassVar[bool] = False
    wavelet: str = "auto"
    family: str = "point_laplace"

    def __post_init__(self) -> None:
        if str(self.wavelet) not in ("auto", *FILTERS):
            raise unknown_name("wavelet", self.wavelet, ("auto", *FILTERS))
        known = [name for name, kind in PRIORS.items() if kind.exchangeable and not kind.side]
        if str(self.family) not in known or self.family == "flat":
            raise unknown_name("family", self.family, [name for name in known if name != "flat"])

    @classmethod
    def build(cls, **parameters: Any) -> FittedPrior:
        """Make the prior from `priors` of all levels of each wavelet, and perhaps a `centre`."""
        centre = parameters.get("centre")
        priors = {}
        for name, levels in parameters["priors"].items():
            if name not in FILTERS:
                raise unknown_name("wavelet", name, FILTERS)
            priors[name] = [FittedPrior.from_dict(level) for level in levels]
        return SpatialPrior(priors, None if centre is None else np.asarray(centre, dtype=float))

    def fit_column(self, column: Columns, start: FittedPrior | None) -> tuple[FittedPrior, float]:
        return self.fit(column, [start]).priors[0], np.nan

    def fit(
        self, columns: Columns, starts: Sequence[FittedPrior | None], unit: float = 1.0
    ) -> Fits:
        """Fit every column; priors and starts are in other units, `unit` times as large."""
        names = list(FILTERS) if self.wavelet == "auto" else [self.wavelet]
        averages: Prior = make_family("gmrf", adjacency="ring", order=3)
        families: dict[str, list[Prior]] = {
            name: [make_family(self.family), averages] for name in names
        }
        differ = columns.s.size > 1 and bool(np.ptp(columns.s))
        found, priors = [], []
        for x, start in zip(columns.x, starts, strict=True):
            begin: Any = start and start.rescaled(1 / unit)
            warm = begin is not None and begin.levels.keys() == families.keys()
            fit = _climbed(
                x,
                columns.noise,
                families,
                begin.levels if warm else None,
                begin.centre if begin else None,
                SETTINGS.warm_rounds if begin else SETTINGS.rounds,
            )
            found.append(fit)
            prior = SpatialPrior(fit.priors, fit.mean if differ else None)
            priors.append(prior.rescaled(unit))
        return Fits(
            priors,
            np.array([fit.value for fit in found]),
            np.array([fit.mean for fit in found]),
            np.array([fit.variance for fit in found]),
            np.full(len(found), np.nan),
        )

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

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ebcd._numerics import Array, chunks
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
from ebcd.priors._fitted import BLOCK, AbstractJointPrior, FittedPrior
from ebcd.priors._graphs import waves
from ebcd.priors._solve import solve_columns
from ebcd.priors._wavelets import FILTERS, Basis, basis

Levels = list[FittedPrior]


@dataclass(frozen=True)
class _Settings:
    shifts: int = 16  # more change the error by a few per cent
    rounds: int = 30  # of (3), at most, for a cold start and for a prior that is kept
    warm_rounds: int = 2  # of a warm start, which is as a rule followed by others
    draws: int = 400  # for signs and intervals: a rate of 0.05 has a standard error of 0.011


SETTINGS = _Settings()


class _Denoised(NamedTuple):
    """Bounds and posterior moments of c columns; for each of them the priors of every wavelet.

    `shares` are the posterior probabilities of the wavelets, c x wavelets.
    """

    value: Array
    mean: Array
    variance: Array
    priors: NDArray[np.object_]
    shares: Array


def _majorised(x: Array, s: Array, centre: Array) -> tuple[Array, float, Array]:
    """Return observations of (3) at a center, their common noise, and the sum of the constants."""
    noise = float(s.min())
    share = (noise / s) ** 2
    constant = 0.5 * (np.log(share) - share * (1 - share) * ((x - centre) / noise) ** 2)
    return centre + share * (x - centre), noise, constant.sum(axis=-1)


@lru_cache(maxsize=2)
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


class _Shifted:
    """All shifts of a column in one basis: coefficients (p x T), and what is found about them."""

    def __init__(
        self, base: Basis, y: Array, priors: Sequence[Any], starts: Sequence[Any] | None
    ) -> None:
        self.base, self._given = base, (priors, starts or [None])
        self.x = base.analyse(y[_shifts(y.size)])
        self.mean, self.variance = np.empty((2, *self.x.shape))
        self.fitted: Levels = []
        self.value = 0.0

    def prior_and_start(self, level: int) -> tuple[Any, Any]:
        """Return a fitted prior or a family, and where its fit starts."""
        prior, start = (_at_level(some, level, len(self.base.levels)) for some in self._given)
        return prior, start

    def moments(self) -> tuple[Array, Array]:
        """Return posterior mean and variance of every entry."""
        places = _shifts(len(self.x))
        means = _unshifted(self.base.synthesise(self.mean), places)
        spread = self.base.spread(self.variance, places)
        return means.mean(axis=1), spread + means.var(axis=1)


def _solve_details(some: list[_Shifted], level: int, noise: float) -> None:
    """Maximize (1) over the priors of a level of details, which is as long in all bases."""
    own = some[0].base.levels[level]
    x = np.array([one.x[own].ravel() for one in some])
    priors, starts = zip(*(one.prior_and_start(level) for one in some), strict=True)
    fits = solve_columns(x, np.asarray(noise), priors, starts)
    for k, one in enumerate(some):
        one.mean[own].flat, one.variance[own].flat = fits.mean[k], fits.variance[k]
        one.value += float(fits.log_likelihood[k]) / SETTINGS.shifts
        one.fitted.append(fits.priors[k])


def _solve_averages(one: _Shifted, noise: float) -> None:
    """Maximize (1) over the field of averages.

    The mean of the log-likelihoods is that of one vector with the mean of the spectra.
    """
    own = one.base.levels[-1]
    x, n = one.x[own].T, own.stop - own.start
    ring = waves(n)
    typical = ring.back(np.sqrt((ring.to(x) ** 2).mean(axis=0)))
    prior, start = one.prior_and_start(len(one.base.levels) - 1)
    fit = solve_columns(typical[None], np.asarray(noise), [prior], [start])
    kept = fit.priors[0].evaluate(ring.back(np.ones(n)), np.full(n, noise))[1]  # of every wave
    one.mean[own] = ring.back(ring.to(kept) * ring.to(x)).T
    one.variance[own] = fit.variance.T
    one.value += float(fit.log_likelihood[0])
    one.fitted.append(fit.priors[0])


def _denoised(
    y: Array, noise: float, priors: Mapping[str, Sequence[Any]], starts: Iterable[Any]
) -> _Denoised:
    """Maximize (2) for every row of `y`, with common noise.

    `priors` are those of every wavelet's levels, the fitted ones being kept. For each row there is
    a mapping from wavelets to starts, maybe empty.
    """
    names = list(priors)
    table = [
        [_Shifted(basis(name, x.size), x, some, start.get(name)) for name, some in priors.items()]
        for x, start in zip(y, starts, strict=True)
    ]
    every = [one for line in table for one in line]
    for level in range(max(len(one.base.levels) for one in every) - 1):
        some = [one for one in every if level < len(one.base.levels) - 1]
        _solve_details(some, level, noise)
    for one in every:
        _solve_averages(one, noise)
    values = np.array([[one.value for one in line] for line in table])
    shares = special.softmax(values, axis=1)
    moments = np.array([[one.moments() for one in line] for line in table])
    mean = np.einsum("cw,cwp->cp", shares, moments[:, :, 0])
    total = moments[:, :, 1] + (moments[:, :, 0] - mean[:, None]) ** 2
    variance = np.einsum("cw,cwp->cp", shares, total)
    found = [{name: one.fitted for name, one in zip(names, line, strict=True)} for line in table]
    value = special.logsumexp(values, axis=1) - np.log(len(names))
    return _Denoised(value, mean, variance, np.array(found, dtype=object), shares)


def _climbed(
    x: Array,
    s: Array,
    priors: Mapping[str, Sequence[Any]],
    starts: Iterable[Any],
    centre: Array,
    rounds: Array,
) -> _Denoised:
    """Maximize (2) for every row of `x`, by at most `rounds` rounds of (3) if noise differs."""
    if (s == s[0]).all():
        return _denoised(x, float(s[0]), priors, starts)
    value, shares = np.full(len(x), -np.inf), np.empty((len(x), len(priors)))
    found = _Denoised(value, centre.copy(), np.empty(x.shape), np.array(starts), shares)
    rows = np.arange(len(x))
    for done in range(1, rounds.max() + 1):
        y, noise, constant = _majorised(x[rows], s, found.mean[rows])
        new = _denoised(y, noise, priors, found.priors[rows])
        new = new._replace(value=new.value + constant, variance=new.variance * (s / noise) ** 2)
        risen = new.value >= found.value[rows] + NEGLIGIBLE
        for part, own in zip(found, new, strict=True):
            part[rows] = own
        rows = rows[risen & (rounds[rows] > done)]
        if not rows.size:
            break
    return found


class SpatialPrior(AbstractJointPrior):
    """Independent priors of the wavelet coefficients of a vector that is shifted at random.

    Entries are not exchangeable: the posterior of each depends on its neighbours, so that all are
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

    def evaluate(self, x: Array, s: Array) -> Any:
        """Lower bound (2) on the log-likelihood, and posterior mean and variance."""
        value, mean, variance, *_ = self._evaluated(x, s)
        return float(value[0]), mean[0], variance[0]

    def _evaluated(self, x: Array, s: Array) -> _Denoised:
        rounds = np.array([SETTINGS.rounds])
        return _climbed(x[None], s, self.levels, [{}], self.centre_for(x.size)[None], rounds)

    def centre_for(self, p: int) -> Array:
        """Return the centre at which the search begins for `p` entries."""
        if self.centre is None or self.centre.size != p:
            return np.zeros(p)
        return self.centre

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
        found = self._evaluated(x, s)
        mean = found.mean[0]
        y, noise, _ = _majorised(x, s, mean)
        places, draws, done = _shifts(x.size), np.empty((n, x.size)), 0
        kinds = [(name, t) for name in self.levels for t in range(SETTINGS.shifts)]
        shares = np.repeat(found.shares[0], SETTINGS.shifts) / SETTINGS.shifts
        numbers = np.bincount(rng.choice(len(kinds), size=n, p=shares), minlength=len(kinds))
        for (name, t), number in zip(kinds, numbers.tolist(), strict=True):
            if number:
                rows = draws[done : done + number]
                rows[:, places[:, t]] = self._drawn(name, y[places[:, t]], noise, number, rng)
                done += number
        if noise < s.max():
            draws = mean + (s / noise) * (draws - mean)
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
    entry are neighbours.

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

    def fit(self, columns: Columns, starts: Sequence[FittedPrior | None]) -> Fits:
        names = list(FILTERS) if self.wavelet == "auto" else [self.wavelet]
        averages = make_family("gmrf", adjacency="ring", order=3)
        families = {name: [make_family(self.family), averages] for name in names}
        p, s, parts = columns.x.shape[1], columns.noise, []
        for rows in chunks(columns.n_columns, max(1, BLOCK // (p * SETTINGS.shifts))):
            begin: Any = starts[rows]
            same = [g is not None and g.levels.keys() == families.keys() for g in begin]
            found = _climbed(
                columns.x[rows],
                s,
                families,
                [g.levels if warm else {} for g, warm in zip(begin, same, strict=True)],
                np.array([np.zeros(p) if g is None else g.centre_for(p) for g in begin]),
                np.array([SETTINGS.warm_rounds if g else SETTINGS.rounds for g in begin]),
            )
            centres = found.mean if np.ptp(s) else [None] * len(begin)
            priors = [SpatialPrior(*pair) for pair in zip(found.priors, centres, strict=True)]
            parts.append(Fits(list(priors), *found[:3]))
        return Fits.joined(parts)

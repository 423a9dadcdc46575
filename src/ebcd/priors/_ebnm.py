"""Empirical Bayes normal means, for people: checks its input and returns a result to look at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ebcd import _axes
from ebcd._numerics import Array
from ebcd._parameters import (
    NONE,
    PROBABILITY,
    Constraint,
    Parsed,
    check_parameters,
    choice,
    instance,
    real,
)
from ebcd.priors._family import AbstractPriorFamily, Fits, as_prior
from ebcd.priors._fitted import FittedPrior
from ebcd.priors._horseshoe import search
from ebcd.priors._intervals import posterior_interval, sign_rates
from ebcd.priors._solve import Prior, solve_columns
from ebcd.priors._validation import as_noise, as_vector, check_ratio

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, repr=False, eq=False)
class EBNMResult:
    """Solution of an empirical Bayes normal-means problem.

    Attributes
    ----------
    prior : FittedPrior
        The fitted prior, or the one that was passed.
    mean, sd : ndarray
        Posterior mean and standard deviation of every entry.
    lfsr : ndarray
        Local false sign rate of every entry, see `Posterior`; computed on first access.
    lfdr : ndarray
        Local false discovery rate: the posterior probability that a value is exactly the mode of
        the prior, usually zero. It is 0 for families without a spike; atoms of ``npmle`` and
        ``deconvolver`` count if they are at zero.
    svalue : ndarray
        Mean lfsr of all entries with this lfsr or a smaller one (Stephens 2017): the expected share
        of wrong signs if all their signs are claimed.
    log_likelihood : float
        Log-likelihood of the observations under the prior; NaN under the flat one.
    """

    prior: FittedPrior
    mean: Array
    sd: Array
    log_likelihood: float
    _x: Array
    _s: Array

    @cached_property
    def lfsr(self) -> Array:
        """Local false sign rate of every entry."""
        if np.isfinite(self._s).all():
            return sign_rates(self._x, _common(self._s), self.prior)
        return self.prior.posterior(self._x, self._s).lfsr

    @cached_property
    def lfdr(self) -> Array:
        """Local false discovery rate of every entry."""
        return self.prior.spike_probability(self._x, self._s)

    @cached_property
    def svalue(self) -> Array:
        """Mean lfsr of the entries whose lfsr is no larger."""
        ordered = np.sort(self.lfsr)
        count = np.searchsorted(ordered, self.lfsr, side="right")
        return np.asarray(ordered.cumsum()[count - 1] / count)

    def intervals(self, level: float = 0.95) -> Array:
        """Return credible intervals: quantiles of the posteriors, equal tails left out.

        An atom at an end belongs to the interval, which may therefore hold more than `level`.

        Parameters
        ----------
        level : float, default 0.95
            Posterior probability of an interval.

        Returns
        -------
        ndarray of shape (2, p)
            Lower and upper ends.

        Examples
        --------
        >>> import ebcd
        >>> result = ebcd.ebnm([0.3, -0.1, 7.0, 0.5, -6.0], s=1.0)
        >>> lower, upper = result.intervals(0.9)
        >>> (lower <= result.mean).all() and (result.mean <= upper).all()
        np.True_
        """
        PROBABILITY.check("level", level)
        return np.array(posterior_interval(self.prior, self._x, self._s, level))

    def plot(self, ax: Any = None) -> Axes:
        """Draw posterior means against observations, with 95 % credible intervals.

        Entries that were not observed are left out. `ebcd.plots.shrinkage` draws the curve on
        which the means lie if the noise is the same for all.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        Axes

        Examples
        --------
        >>> import ebcd
        >>> ax = ebcd.ebnm([0.3, -0.1, 7.0, 0.5, -6.0], s=1.0).plot()
        >>> ax.get_ylabel()
        'posterior mean, 95% interval'
        """
        axes = _axes.one_axes(ax, 5.4, 4.2)
        seen = np.broadcast_to(np.isfinite(self._s), self._x.shape)
        x, (lower, upper) = self._x[seen], self.intervals()[:, seen]
        axes.axline((x[0], x[0]), slope=1, color=_axes.GRAY, linewidth=1)  # no shrinkage
        axes.vlines(x, lower, upper, color=_axes.GRAY, linewidth=1)
        axes.plot(x, self.mean[seen], "o", color=_axes.BLUE, markersize=3)
        axes.set_xlabel("observation")
        axes.set_ylabel("posterior mean, 95% interval")
        _axes.tidy(axes)
        return axes

    def sample(self, n: int = 1, random_state: Any = None) -> Array:
        """Draw from the posterior.

        Parameters
        ----------
        n : int
            Number of draws of every entry.
        random_state : int, Generator or None

        Returns
        -------
        ndarray, n x p

        Examples
        --------
        >>> import ebcd
        >>> result = ebcd.ebnm([0.3, -0.1, 7.0, 0.5, -6.0], s=1.0)
        >>> result.sample(10, random_state=0).shape
        (10, 5)
        """
        return self.prior.sample_posterior(self._x, self._s, n=n, random_state=random_state)

    def __repr__(self) -> str:
        return (
            f"EBNMResult({self.mean.size} entries, log-likelihood {self.log_likelihood:.6g}, "
            f"{int((self.lfsr < 0.05).sum())} with lfsr < 0.05)\n  {self.prior!r}"
        )


def ebnm(
    x: ArrayLike,
    s: ArrayLike = 1.0,
    prior: str | AbstractPriorFamily | FittedPrior = "point_laplace",
    *,
    mode: float | str = 0.0,
    start: FittedPrior | EBNMResult | None = None,
) -> EBNMResult:
    """Solve a normal-means problem by empirical Bayes.

    The observations are ``x_j ~ N(theta_j, s_j^2)``, with unknown values ``theta_j`` from a common
    prior ``g``. The prior is estimated by maximum likelihood within a family, and each value by its
    posterior under that prior.

    Parameters
    ----------
    x : array-like of shape (p,)
        Observations.
    s : float or array-like of shape (p,), default 1.0
        Their standard deviations; ``inf`` marks an entry that was not observed, whose
        posterior is the prior.
    prior : str, family or fitted prior, default "point_laplace"
        Name of a family (see `ebcd.priors.PRIORS`), a family with options (see
        `ebcd.priors.make_family`), or a prior that is known and kept fixed.
    mode : float or "estimate", default 0.0
        Center of the prior, where its spike is if it has one. Families without a center (``npmle``,
        ``deconvolver``, ``flat``) accept only the default.
    start : FittedPrior or EBNMResult, optional
        Where to start: the solution of a similar problem, from the same family.

    Returns
    -------
    EBNMResult

    Examples
    --------
    >>> import numpy as np
    >>> import ebcd
    >>> rng = np.random.default_rng(0)
    >>> theta = np.where(rng.random(1000) < 0.1, rng.laplace(scale=4.0, size=1000), 0.0)
    >>> x = theta + rng.normal(size=1000)
    >>> result = ebcd.ebnm(x, s=1.0)
    >>> result.prior
    <point_laplace prior: ...
    >>> bool(np.mean((result.mean - theta) ** 2) < 0.4 * np.mean((x - theta) ** 2))
    True
    """
    check_parameters({"prior": prior, "mode": mode, "start": start}, _DECLARED)
    x = as_vector(x)
    s = as_noise(s, x.size)
    seen = np.broadcast_to(np.isfinite(s), x.shape)
    every = bool(seen.all())
    x_seen, s_seen = (x, s) if every else (x[seen], s[seen] if s.ndim else s)
    check_ratio(x_seen, s_seen)
    fixed_or_family = as_prior(prior)
    centre = _as_mode(mode, fixed_or_family)
    begin = _as_start(start, fixed_or_family)
    if centre:
        check_ratio(x_seen - centre, s_seen, "x - mode")
    if not seen.any():
        raise ValueError("s is infinite everywhere: nothing was observed, so nothing can be fitted")
    if not every and not fixed_or_family.exchangeable:
        raise ValueError(
            "s is infinite for some entries: this prior needs all of them, in their order; "
            "interpolate them and give them a large s, or use another prior"
        )
    fit = _solve(x_seen, _common(s_seen), fixed_or_family, centre, begin)
    found = fit.priors[0]
    mean, sd = fit.mean[0], np.sqrt(fit.variance[0], out=fit.variance[0])
    if not every:
        filled = found.posterior(x, s)
        filled.mean[seen], filled.sd[seen] = mean, sd
        mean, sd = filled.mean, filled.sd
    value = float(fit.log_likelihood[0]) if found.proper else np.nan
    return EBNMResult(found, mean, sd, value, x, s)


_DECLARED: dict[str, Constraint | Parsed] = {
    "prior": Parsed(lambda prior: as_prior(prior)),
    "mode": real("a finite number") | choice("estimate"),
    "start": instance("a fitted prior", FittedPrior)
    | instance("a result of ebnm", EBNMResult)
    | NONE,
}


def _common(s: Array) -> Array:
    """Make equal standard deviations one number, which is solved much faster."""
    return s[0] if s.ndim and (s == s[0]).all() else s


def _solve(x: Array, s: Array, prior: Prior, mode: float | None, start: FittedPrior | None) -> Fits:
    if mode is None and isinstance(prior, AbstractPriorFamily):
        mode = _estimate_mode(x, s, prior, start)
    mode = mode or 0.0
    if start is not None and mode:
        start = start.shifted(-start.parameters["mode"])
    if isinstance(prior, FittedPrior):
        return solve_columns(x[None], s, [prior])
    fit = solve_columns((x - mode if mode else x)[None], s, [prior], [start])
    if not mode:
        return fit
    return fit._replace(priors=[fit.priors[0].shifted(mode)], mean=fit.mean + mode)


def _estimate_mode(
    x: Array, s: Array, family: AbstractPriorFamily, start: FittedPrior | None
) -> float:
    """Maximize the log-likelihood over the mode as well.

    The derivative of the profile is ``sum (x - posterior mean) / s^2``. It can have several zeros,
    so that candidates are ranked: quantiles of the data, and even steps.
    """
    average = float(np.average(x, weights=np.broadcast_to(s, x.shape) ** -2.0))
    if family.name == "point_mass":
        return average
    known = [] if start is None else [start.parameters["mode"]]
    centred = None if start is None else start.shifted(-start.parameters["mode"])
    quantiles, even = np.quantile(x, np.linspace(0, 1, 25)), np.linspace(x.min(), x.max(), 12)
    modes = np.unique([*quantiles, *even, average, *known])
    many = [family.for_search()] * modes.size
    values = solve_columns(x - modes[:, None], s, many, [centred] * modes.size).log_likelihood

    def profile(mode: float) -> tuple[float, float]:
        fit = solve_columns((x - mode)[None], s, [family], [centred])
        return float(fit.log_likelihood[0]), float(np.sum((x - mode - fit.mean[0]) / s**2))

    return search(profile, modes, values)[0]


def _as_mode(mode: float | str, prior: Prior) -> float | None:
    """Return the mode, which the family must support; None stands for an estimated one."""
    value = None if isinstance(mode, str) else float(mode)
    if value == 0.0:
        return value
    if isinstance(prior, FittedPrior):
        raise ValueError("mode cannot be changed for a fitted prior, which is kept fixed")
    if not prior.has_mode:
        raise ValueError(f"prior {prior.name!r} has no mode; leave mode at its default 0")
    return value


def _as_start(start: FittedPrior | EBNMResult | None, prior: Prior) -> FittedPrior | None:
    if start is None:
        return None
    if isinstance(start, EBNMResult):
        start = start.prior
    wanted = prior.family if isinstance(prior, FittedPrior) else prior.name
    if start.family != wanted:
        raise ValueError(
            f"start is a {start.family!r} prior, but the family to fit is {wanted!r}; "
            "leave start out or give one of the same family"
        )
    return start

"""What a family of priors is, what it is given, and every family by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ebcd._numerics import LOG_SQRT_2PI, Array
from ebcd._parameters import (
    NON_NEGATIVE,
    POSITIVE,
    Constraint,
    check_options,
    real,
    shown,
    unknown_name,
)
from ebcd.priors._fitted import FittedPrior, MixturePrior

Parameters = dict[str, Any]
NEGLIGIBLE = 1e-6  # nats, far below the differences between likelihoods that matter
# Where |x| / s is larger, the null's log-likelihood is so low that the sum loses digits.
_CANCELS_FROM = 1e3


@dataclass(frozen=True)
class Columns:
    """Columns of one normal-means problem each, stored as rows.

    Attributes
    ----------
    x : array, k x n or 1 x n
        Observations; one row is shared by all columns if they differ in their counts only.
    s : array, 1 x 1 or 1 x n
        Noise standard deviations.
    counts : array, k x n, or None
        How often each entry occurs; None means once.
    """

    x: Array
    s: Array
    counts: Array | None = None

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.x if self.counts is None else self.counts)

    @cached_property
    def z(self) -> Array:
        """Observations in units of their noise."""
        return self.x / self.s

    @property
    def noise(self) -> Array:
        """Noise standard deviation of every entry."""
        return np.asarray(np.broadcast_to(self.s, self.x.shape)[0])

    @property
    def weights(self) -> Array:
        """How often each entry of every column occurs; one row if all do once."""
        return np.ones((1, self.x.shape[1])) if self.counts is None else self.counts

    @cached_property
    def totals(self) -> Array:
        """Number of observations in each column."""
        return np.asarray(np.broadcast_to(self.weights.sum(axis=1), self.n_columns))

    @cached_property
    def null_log_likelihood(self) -> Array:
        """Log-likelihood of each column if all its values are zero."""
        log_s = self.totals * np.log(self.s[0, 0])
        if self.s.size > 1:
            log_s = np.vecdot(self.weights, np.log(self.s))
        return np.asarray(-0.5 * self.dot(self.z, self.z) - self.totals * LOG_SQRT_2PI - log_s)

    def log_likelihood(self, ratio: Array, priors: Sequence[FittedPrior]) -> Array:
        """Log-likelihoods, given the logarithms of their ratios to the null."""
        if np.abs(self.z).max() <= _CANCELS_FROM:
            return np.asarray(self.null_log_likelihood + ratio)
        pairs = zip(priors, self.each(), strict=True)
        return np.array([log_likelihood(prior, column) for prior, column in pairs])

    @cached_property
    def largest(self) -> Array:
        """Largest ``|x|`` in each column."""
        x = self.x if self.counts is None else np.where(self.counts != 0, self.x, 0.0)
        return np.asarray(np.abs(x).max(axis=1))

    def dot(self, a: Array, b: Array) -> Array:
        """Sum of ``a * b`` over the observations of each column."""
        return np.asarray(np.vecdot(a if self.counts is None else self.counts * a, b))

    def select(self, index: np.ndarray) -> Columns:
        """Pick columns by number, repeats allowed."""
        x = self.x if self.counts is not None and len(self.x) == 1 else self.x[index]
        return Columns(x, self.s, None if self.counts is None else self.counts[index])

    def each(self) -> list[Columns]:
        """Take the columns apart."""
        return [self.select(np.array([k])) for k in range(self.n_columns)]


class Fits(NamedTuple):
    """Solved columns: priors, log-likelihoods and posterior moments of every entry."""

    priors: list[FittedPrior]
    log_likelihood: Array
    mean: Array
    variance: Array

    @classmethod
    def joined(cls, fits: Sequence[Fits]) -> Fits:
        """Put the columns of several fits below each other."""
        priors = [prior for fit in fits for prior in fit.priors]
        return cls(priors, *map(np.concatenate, list(zip(*fits, strict=True))[1:]))


@dataclass(frozen=True)
class AbstractPriorFamily(ABC):
    """A family of priors; the attributes of a subclass are its options.

    To add a family, say how one column is fitted (`fit_column`), how a prior is built from
    parameters that a person can read (`build`), usually as a `MixturePrior` of `kernels`, and
    which of these are lengths; give the class to `register`.
    """

    name: ClassVar[str]
    # Parameters that are multiplied if ``theta`` is, and those that move with it as well.
    lengths: ClassVar[tuple[str, ...]] = ()
    positions: ClassVar[tuple[str, ...]] = ("mode",)
    # Whether the family has a center that `mode` can move.
    has_mode: ClassVar[bool] = True
    # Whether log marginals are smooth on the scale of |x| itself far from the mode, so that a
    # geometric grid can represent them there. Edges and atoms need an even one.
    smooth_tails: ClassVar[bool] = False
    # Whether many entries with common noise are binned; not worth it if there is nothing to fit.
    binned: ClassVar[bool] = True
    # Whether the order of the entries means nothing. If it does, a family is given all of them.
    exchangeable: ClassVar[bool] = True
    # Side of the mode on which the family lies, +1 or -1; 0 if on both, so that it can be mirrored.
    side: ClassVar[int] = 0

    @classmethod
    @abstractmethod
    def build(cls, **parameters: Any) -> FittedPrior:
        """Make the prior with these parameters."""

    @classmethod
    def rescale(cls, parameters: Parameters, factor: float) -> Parameters:
        """Parameters of the prior of ``factor * theta``."""
        changed = {key: parameters[key] * factor for key in cls.lengths + cls.positions}
        return {**parameters, **changed}

    @classmethod
    def mirror(cls, parameters: Parameters) -> Parameters:
        """Parameters of the prior of ``-theta``."""
        if cls.side:
            raise ValueError(f"{cls.name} is one-sided: the prior of -theta is not in the family")
        return {**parameters, **{key: 0.0 - parameters[key] for key in cls.positions}}

    @classmethod
    def shift(cls, parameters: Parameters, offset: float) -> Parameters:
        """Parameters of the prior of ``theta + offset``."""
        return {**parameters, **{key: parameters[key] + offset for key in cls.positions}}

    def in_units(self, unit: float) -> Self:
        """Return the same family for data divided by `unit`: options that are lengths change."""
        return self

    def for_search(self) -> Self:
        """Return a cheaper version of the family that ranks candidates nearly as well."""
        return self

    def cost(self, prior: FittedPrior) -> float:
        """Return what a fit subtracts from the log-likelihood: nothing unless it is penalized."""
        return 0.0

    def fit_column(self, column: Columns, start: FittedPrior | None) -> FittedPrior:
        """Fit the only column, with the mode at zero."""
        raise NotImplementedError(f"{type(self).__name__} needs a method fit_column")

    def fit(self, columns: Columns, starts: Sequence[FittedPrior | None]) -> Fits:
        """Fit every column, with the mode at zero."""
        pairs = zip(columns.each(), starts, strict=True)
        return evaluate([self.fit_column(column, start) for column, start in pairs], columns)


def log_likelihood(prior: FittedPrior, column: Columns) -> float:
    """Log-likelihood of the only column under a prior of single entries."""
    return float(column.weights[0] @ prior.log_marginal(column.x[0], column.noise))


def evaluate(priors: list[FittedPrior], columns: Columns) -> Fits:
    """Log-likelihood and posterior moments of every column under its prior."""
    mean, variance = np.empty((2, columns.n_columns, columns.x.shape[1]))
    values = np.empty(columns.n_columns)
    for k, (prior, column) in enumerate(zip(priors, columns.each(), strict=True)):
        s = column.s[0] if isinstance(prior, MixturePrior) else column.noise
        value, mean[k], variance[k] = prior.evaluate(column.x[0], s)
        values[k] = column.weights[0] @ value if prior.exchangeable else value
    return Fits(priors, values, mean, variance)


_REGISTRY: dict[str, type[AbstractPriorFamily]] = {}
PRIORS: Mapping[str, type[AbstractPriorFamily]] = MappingProxyType(_REGISTRY)


def register(family: type[AbstractPriorFamily]) -> type[AbstractPriorFamily]:
    """Register your own family under its name; use as a decorator.

    Parameters
    ----------
    family : subclass of AbstractPriorFamily
        Its ``name`` must be new. A class of the same name from the same module replaces the old
        one, so that a notebook cell can be run again.

    Returns
    -------
    type
        The class itself.

    Examples
    --------
    The gallery has a family written from scratch. A class that is known already changes nothing:

    >>> from ebcd.priors import PRIORS, register
    >>> register(PRIORS["normal"]) is PRIORS["normal"]
    True
    """
    given: object = family
    if not (isinstance(given, type) and issubclass(given, AbstractPriorFamily)):
        raise TypeError(f"family must be a subclass of AbstractPriorFamily, got {family!r}")
    known = _REGISTRY.get(family.name, family)
    if (known.__module__, known.__qualname__) != (family.__module__, family.__qualname__):
        raise ValueError(f"a prior {family.name!r} already exists; choose another name")
    _REGISTRY[family.name] = family
    return family


def _family_class(name: str) -> type[AbstractPriorFamily]:
    if name in PRIORS:
        return PRIORS[name]
    raise unknown_name("prior", name, PRIORS)


def make_family(name: str, **options: Any) -> AbstractPriorFamily:
    """Make a family of priors, with options.

    Parameters
    ----------
    name : str
        One of `PRIORS`.
    **options
        Options of that family, for example ``grid`` of ``npmle``.

    Examples
    --------
    >>> from ebcd.priors import make_family
    >>> make_family("generalized_binary", spread=0.2)
    GeneralizedBinary(spread=0.2)
    """
    family = _family_class(name)
    check_options("prior", name, family, options)
    return family(**options)


def make_prior(name: str, **parameters: Any) -> FittedPrior:
    """Make a prior with known parameters.

    Parameters
    ----------
    name : str
        One of `PRIORS`.
    **parameters
        Its parameters, as in the attribute ``parameters`` of a fitted prior.

    Examples
    --------
    >>> from ebcd.priors import make_prior
    >>> make_prior("point_laplace", weight=0.25, scale=2.0)
    <point_laplace prior: 75% exactly 0, 25% Laplace(scale 2)>
    """
    try:
        prior = _family_class(name).build(**parameters)
    except KeyError as error:
        raise ValueError(f"prior {name!r} needs the parameter {error.args[0]!r}") from None
    unknown = sorted(set(parameters) - set(prior.parameters))
    if unknown:
        has = ", ".join(prior.parameters) or "none"
        raise ValueError(f"prior {name!r} has no parameter {unknown[0]!r}; its parameters: {has}")
    return prior


def as_prior(prior: Any) -> AbstractPriorFamily | FittedPrior:
    """Turn what users may give as a prior into a family or a fitted prior."""
    if isinstance(prior, str):
        return make_family(prior)
    if isinstance(prior, type) and issubclass(prior, AbstractPriorFamily):
        return prior()
    if isinstance(prior, AbstractPriorFamily | FittedPrior):
        return prior
    raise TypeError(
        "prior must be the name of a family, a family from ebcd.priors, or a fitted prior, "
        f"got {shown(prior)} ({type(prior).__name__})"
    )


def as_priors(given: Any) -> list[AbstractPriorFamily | FittedPrior]:
    """Turn one prior, or a list with one for each component, into families or fitted priors."""
    priors = given if isinstance(given, list | tuple) else [given]
    if len(priors) == 0:
        raise ValueError("prior must be a prior or a list of at least one, got an empty list")
    return [as_prior(prior) for prior in priors]


def _number(name: str, value: Any, constraint: Constraint) -> float:
    constraint.check(name, value)
    return float(value)


def as_weight(value: Any) -> float:
    """Check the weight of a component."""
    return _number("weight", value, real("a number from 0 to 1", lambda w: 0 <= w <= 1))


def as_scale(value: Any, name: str = "scale") -> float:
    """Check a scale, which may be zero."""
    return _number(name, value, NON_NEGATIVE)


def as_positive(value: Any, name: str) -> float:
    """Check a positive number."""
    return _number(name, value, POSITIVE)


def as_mode(parameters: Parameters) -> float:
    """Check the mode among parameters of a prior; zero if it is not given."""
    return _number("mode", parameters.get("mode", 0.0), real("a finite number"))

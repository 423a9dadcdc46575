"""What a family of priors is: the interface between `ebnm` and the solvers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ebcd._numerics import Array
from ebcd.priors._columns import Columns
from ebcd.priors._fitted import FittedPrior

Parameters = dict[str, Any]


class Fits(NamedTuple):
    """Solved columns: priors, log-likelihoods and posterior moments of every entry.

    `certificates` bound what is missing to the maximum where that is known, in nats per
    observation; NaN elsewhere.
    """

    priors: list[FittedPrior]
    log_likelihood: Array
    mean: Array
    variance: Array
    certificates: Array


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
    # Whether the family has a centre that `mode` can move.
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
        """Return what a fit subtracts from the log-likelihood: nothing unless it is penalised."""
        return 0.0

    @abstractmethod
    def fit_column(self, column: Columns, start: FittedPrior | None) -> tuple[FittedPrior, float]:
        """Fit the only column, with the mode at zero; return the prior and its certificate."""

    def fit(
        self, columns: Columns, starts: Sequence[FittedPrior | None], unit: float = 1.0
    ) -> Fits:
        """Fit every column, with the mode at zero.

        The columns are in units of `unit`; starts and fitted priors are not.
        """
        fitted = [
            self.fit_column(columns.select(np.array([k])), start and start.rescaled(1 / unit))
            for k, start in enumerate(starts)
        ]
        certificates = np.array([certificate for _, certificate in fitted])
        fits = evaluate([prior for prior, _ in fitted], columns, certificates)
        return fits._replace(priors=[prior.rescaled(unit) for prior in fits.priors])


def log_likelihood(priors: Sequence[FittedPrior], columns: Columns) -> Array:
    """Log-likelihood of every column under its prior."""
    s = np.broadcast_to(columns.s, columns.x.shape)[0]
    pairs = zip(priors, columns.each(), strict=True)
    return np.array(
        [column.sum(prior.log_marginal(column.x[0], s)[None])[0] for prior, column in pairs]
    )


def evaluate(priors: list[FittedPrior], columns: Columns, certificates: Array) -> Fits:
    """Log-likelihood and posterior moments of every column under its prior."""
    s = np.broadcast_to(columns.s, columns.x.shape)[0]
    mean, variance = np.empty((2, columns.n_columns, s.size))
    for k, (prior, column) in enumerate(zip(priors, columns.each(), strict=True)):
        mean[k], variance[k] = prior.posterior_moments(column.x[0], s)
    return Fits(priors, log_likelihood(priors, columns), mean, variance, certificates)

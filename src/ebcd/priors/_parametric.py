"""Families with a spike and one slab, or the slab alone; the point mass; no prior at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ebcd._numerics import LOG_SQRT_2PI, Array
from ebcd._parameters import real
from ebcd.priors import _kernels as kernels
from ebcd.priors._family import (
    AbstractPriorFamily,
    Columns,
    Fits,
    Parameters,
    as_mode,
    as_positive,
    as_scale,
    as_weight,
    register,
)
from ebcd.priors._fitted import FittedPrior, FlatPrior, MixturePrior
from ebcd.priors._kernels import AbstractKernel, AbstractSlab
from ebcd.priors._two_group import fit_two_groups


@dataclass(frozen=True)
class _TwoGroups(AbstractPriorFamily):
    slab: ClassVar[type[AbstractSlab]]
    has_spike: ClassVar[bool] = True
    lengths: ClassVar[tuple[str, ...]] = ("scale",)
    smooth_tails: ClassVar[bool] = True

    @classmethod
    def build(cls, **parameters: Any) -> FittedPrior:
        """Make the prior from its length, `mode` and, with a spike, the slab's `weight`."""
        [length] = cls.lengths
        mode, scale = as_mode(parameters), as_scale(parameters[length], length)
        kept = {"weight": as_weight(parameters["weight"])} if cls.has_spike else {}
        weight = kept.get("weight", 1.0)
        kept |= {length: scale, **cls._shape(parameters), "mode": mode}
        spike = kernels.PointMass(np.array([mode]))
        if scale == 0 or weight == 0:  # a slab of no width or no weight is the spike
            return MixturePrior(cls, kept, [1.0], [spike])
        slab = cls._kernel(np.array([mode]), np.array([scale]), kept)
        if weight == 1:
            return MixturePrior(cls, kept, [1.0], [slab])
        return MixturePrior(cls, kept, [1 - weight, weight], [spike, slab])

    @classmethod
    def _shape(cls, parameters: Parameters) -> Parameters:
        """Parameters that give the slab its shape."""
        return {}

    @classmethod
    def _kernel(cls, location: Array, scale: Array, parameters: Parameters) -> AbstractKernel:
        return cls.slab(location, scale)

    def with_slab(self, weight: float, scale: float) -> FittedPrior:
        """Make the prior with a slab of this weight, if there is a spike, and this scale."""
        return self.build(scale=scale, **({"weight": weight} if self.has_spike else {}))

    def fit(self, columns: Columns, starts: Sequence[FittedPrior | None]) -> Fits:
        begin, [length] = None, self.lengths
        if any(starts):  # one without a length is searched as if cold
            found = [{length: 0.0} if start is None else start.parameters for start in starts]
            weight = np.array([parameters.get("weight", 1.0) for parameters in found])
            begin = weight, np.array([parameters[length] for parameters in found])
        weight, scale, ratio, mean, variance = fit_two_groups(
            self.slab, columns, self.has_spike, begin
        )
        pairs = zip(weight.tolist(), scale.tolist(), strict=True)
        priors = [self.with_slab(*pair) for pair in pairs]
        value = columns.log_likelihood(ratio, priors)
        return Fits(priors, value, mean, variance)


@register
@dataclass(frozen=True)
class PointNormal(_TwoGroups):
    """Spike and normal slab: ``(1 - weight) delta_mode + weight N(mode, scale^2)``."""

    name: ClassVar[str] = "point_normal"
    slab: ClassVar[type[AbstractSlab]] = kernels.Normal


@register
@dataclass(frozen=True)
class PointLaplace(_TwoGroups):
    """Spike and Laplace slab: ``(1 - weight) delta_mode + weight Laplace(mode, scale)``."""

    name: ClassVar[str] = "point_laplace"
    slab: ClassVar[type[AbstractSlab]] = kernels.Laplace


@register
@dataclass(frozen=True)
class PointExponential(_TwoGroups):
    """Spike and exponential slab above it, of mean `scale`: for non-negative values."""

    name: ClassVar[str] = "point_exponential"
    slab: ClassVar[type[AbstractSlab]] = kernels.Exponential
    side: ClassVar[int] = 1


@register
@dataclass(frozen=True)
class Normal(PointNormal):
    """Normal prior ``N(mode, scale^2)``."""

    name: ClassVar[str] = "normal"
    has_spike: ClassVar[bool] = False

    def fit(self, columns: Columns, starts: Sequence[FittedPrior | None]) -> Fits:
        """Fit every column, with the mode at zero; in closed form if the noise is common."""
        if columns.s.size > 1:
            return super().fit(columns, starts)
        noise = float(columns.s[0, 0])
        power = columns.dot(columns.z, columns.z) / columns.totals
        whole = np.maximum(power, 1.0)  # variance of the observations in units of the noise
        value = -columns.totals * (0.5 * np.log(whole) + 0.5 * power / whole)
        value -= columns.totals * (LOG_SQRT_2PI + np.log(noise))
        share = (1 - 1 / whole)[:, None]
        scale = noise * np.sqrt(whole - 1)
        priors = [self.build(scale=number, mode=0.0) for number in scale.tolist()]
        variance = noise**2 * share + np.zeros_like(columns.x)
        return Fits(priors, value, share * columns.x, variance)


@register
@dataclass(frozen=True)
class Laplace(PointLaplace):
    """Laplace prior with the spike left out, unlike the paper's experiments."""

    name: ClassVar[str] = "laplace"
    has_spike: ClassVar[bool] = False


@register
@dataclass(frozen=True)
class Exponential(PointExponential):
    """Exponential prior of mean `scale` above `mode`."""

    name: ClassVar[str] = "exponential"
    has_spike: ClassVar[bool] = False


@register
@dataclass(frozen=True)
class GeneralizedBinary(_TwoGroups):
    """Nearly binary values: a spike at `mode` and a narrow bump at a positive distance.

    ``(1 - weight) delta_mode + weight (mode + N(mean, (spread mean)^2) restricted above 0)``.

    Parameters
    ----------
    spread : float, default 0.1
        Standard deviation of the bump in units of its distance from the spike.
    """

    name: ClassVar[str] = "generalized_binary"
    lengths: ClassVar[tuple[str, ...]] = ("mean",)
    smooth_tails: ClassVar[bool] = False
    binned: ClassVar[bool] = False  # the change from spike to bump may be sharper than the grid
    side: ClassVar[int] = 1

    spread: float = 0.1

    def __post_init__(self) -> None:
        real("a number from 1e-4 to 100", lambda a: 1e-4 <= a <= 100).check("spread", self.spread)

    @property
    def slab(self) -> kernels.Bump:  # type: ignore[override]
        """The bump, of any size."""
        return kernels.Bump(self.spread)

    def with_slab(self, weight: float, scale: float) -> FittedPrior:
        """Make the prior with a bump at this distance."""
        return self.build(weight=weight, mean=scale, spread=self.spread)

    @classmethod
    def _shape(cls, parameters: Parameters) -> Parameters:
        return {"spread": as_positive(parameters.get("spread", cls.spread), "spread")}

    @classmethod
    def _kernel(cls, location: Array, scale: Array, parameters: Parameters) -> AbstractKernel:
        return kernels.TruncatedNormal(location, scale, parameters["spread"] * scale)


@register
@dataclass(frozen=True)
class Flat(AbstractPriorFamily):
    """No prior: the estimate is the observation."""

    name: ClassVar[str] = "flat"
    positions: ClassVar[tuple[str, ...]] = ()
    has_mode: ClassVar[bool] = False
    binned: ClassVar[bool] = False

    @classmethod
    def build(cls, **parameters: Any) -> FittedPrior:
        """Make the prior; it has no parameters."""
        return FlatPrior(cls)

    def fit_column(self, column: Columns, start: FittedPrior | None) -> FittedPrior:
        """Nothing to fit."""
        return self.build()


@register
@dataclass(frozen=True)
class PointMass(AbstractPriorFamily):
    """All values equal `mode`."""

    name: ClassVar[str] = "point_mass"
    binned: ClassVar[bool] = False

    @classmethod
    def build(cls, **parameters: Any) -> FittedPrior:
        """Make the prior from `mode`."""
        mode = as_mode(parameters)
        return MixturePrior(cls, {"mode": mode}, [1.0], [kernels.PointMass(np.array([mode]))])

    def fit_column(self, column: Columns, start: FittedPrior | None) -> FittedPrior:
        """Nothing to fit with the mode at zero."""
        return self.build(mode=0.0)

"""Families of priors, fitted priors, and the normal-means solver `ebnm`."""

# PRIORS has families in the order of these imports.
from ebcd.priors._parametric import (
    Exponential,
    Flat,
    GeneralizedBinary,
    Laplace,
    Normal,
    PointExponential,
    PointLaplace,
    PointMass,
    PointNormal,
)

# isort: split
from ebcd.priors import _kernels as kernels
from ebcd.priors._ebnm import EBNMResult, ebnm
from ebcd.priors._family import PRIORS, AbstractPriorFamily, make_family, make_prior, register
from ebcd.priors._fitted import FittedPrior, MixturePrior, Posterior
from ebcd.priors._horseshoe import Horseshoe
from ebcd.priors._mixtures import (
    NPMLE,
    Deconvolver,
    NormalScaleMixture,
    Unimodal,
    UnimodalNonnegative,
    UnimodalNonpositive,
    UnimodalSymmetric,
)
from ebcd.priors._spatial import Spatial, SpatialPrior

# isort: split
from ebcd.priors._gmrf import GMRF, GMRFPrior

__all__ = [
    "GMRF",
    "NPMLE",
    "PRIORS",
    "AbstractPriorFamily",
    "Deconvolver",
    "EBNMResult",
    "Exponential",
    "FittedPrior",
    "Flat",
    "GMRFPrior",
    "GeneralizedBinary",
    "Horseshoe",
    "Laplace",
    "MixturePrior",
    "Normal",
    "NormalScaleMixture",
    "PointExponential",
    "PointLaplace",
    "PointMass",
    "PointNormal",
    "Posterior",
    "Spatial",
    "SpatialPrior",
    "Unimodal",
    "UnimodalNonnegative",
    "UnimodalNonpositive",
    "UnimodalSymmetric",
    "ebnm",
    "kernels",
    "make_family",
    "make_prior",
    "register",
]

"""Families of priors, fitted priors, and the normal-means solver `ebnm`."""

from ebcd.priors import _kernels as kernels
from ebcd.priors._deconvolver import Deconvolver
from ebcd.priors._ebnm import EBNMResult, ebnm
from ebcd.priors._family import AbstractPriorFamily
from ebcd.priors._fitted import FittedPrior, Posterior
from ebcd.priors._mixture_prior import MixturePrior
from ebcd.priors._mixtures import (
    NPMLE,
    NormalScaleMixture,
    Unimodal,
    UnimodalNonnegative,
    UnimodalNonpositive,
    UnimodalSymmetric,
)
from ebcd.priors._parametric import (
    Exponential,
    Flat,
    Laplace,
    Normal,
    PointExponential,
    PointLaplace,
    PointMass,
    PointNormal,
)
from ebcd.priors._profiled import GeneralizedBinary, Horseshoe
from ebcd.priors._registry import PRIORS, make_family, make_prior, register

__all__ = [
    "NPMLE",
    "PRIORS",
    "AbstractPriorFamily",
    "Deconvolver",
    "EBNMResult",
    "Exponential",
    "FittedPrior",
    "Flat",
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

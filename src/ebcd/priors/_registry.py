"""Every family by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ebcd._lookup import check_options, unknown_name
from ebcd.priors._deconvolver import Deconvolver
from ebcd.priors._family import AbstractPriorFamily
from ebcd.priors._fitted import FittedPrior
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

_FAMILIES: tuple[type[AbstractPriorFamily], ...] = (
    PointNormal,
    PointLaplace,
    PointExponential,
    Normal,
    Laplace,
    Exponential,
    NormalScaleMixture,
    Unimodal,
    UnimodalSymmetric,
    UnimodalNonnegative,
    UnimodalNonpositive,
    NPMLE,
    Deconvolver,
    Horseshoe,
    GeneralizedBinary,
    Flat,
    PointMass,
)

_REGISTRY: dict[str, type[AbstractPriorFamily]] = {family.name: family for family in _FAMILIES}

PRIORS: Mapping[str, type[AbstractPriorFamily]] = MappingProxyType(_REGISTRY)


def register(family: type[AbstractPriorFamily]) -> type[AbstractPriorFamily]:
    """Make a family of your own known by its name; to be used as a decorator.

    Parameters
    ----------
    family : subclass of AbstractPriorFamily
        Its ``name`` must be new. A class of the same name from the same module takes the place
        of the old one, so that a cell of a notebook can be run again.

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
    known = _REGISTRY.get(family.name)
    if known is not None and _origin(known) != _origin(family):
        raise ValueError(f"there is a prior {family.name!r} already; choose another name")
    _REGISTRY[family.name] = family
    return family


def _origin(family: type) -> tuple[str, str]:
    return family.__module__, family.__qualname__


def family_class(name: str) -> type[AbstractPriorFamily]:
    """Look a family up by name; suggest the nearest name if there is none."""
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
    family = family_class(name)
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
        prior = family_class(name).build(**parameters)
    except KeyError as error:
        raise ValueError(f"prior {name!r} needs the parameter {error.args[0]!r}") from None
    unknown = sorted(set(parameters) - set(prior.parameters))
    if unknown:
        has = ", ".join(prior.parameters) or "none"
        raise ValueError(f"prior {name!r} has no parameter {unknown[0]!r}; its parameters: {has}")
    return prior


def prior_from_dict(description: Mapping[str, Any]) -> FittedPrior:
    """Make a prior from the dictionary that its method ``to_dict`` gave."""
    missing = {"family", "parameters"} - set(description)
    if missing:
        raise ValueError(f"not a description of a prior: it lacks {', '.join(sorted(missing))}")
    return make_prior(description["family"], **description["parameters"])

"""Every family by its name alone: those that cannot do without an option are given it."""

import ebcd
from ebcd import priors

NEEDED = {"gmrf": {"adjacency": "chain"}}


def make_family(name, **options):
    """Make a family, with the options that it needs."""
    return priors.make_family(name, **NEEDED.get(name, {}), **options)


def ebnm(x, s=1.0, prior="point_laplace", **options):
    """Solve a normal-means problem, with a family that may need options."""
    return ebcd.ebnm(x, s, make_family(prior) if prior in list(NEEDED) else prior, **options)

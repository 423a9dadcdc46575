"""What several tests share: families by kind, and integrals by Gauss's rule on many panels."""

from itertools import pairwise

import numpy as np
from scipy import stats

# Families whose fit is a convex problem in the weights of a grid.
CONVEX = [
    "normal_scale_mixture",
    "unimodal",
    "unimodal_symmetric",
    "unimodal_nonnegative",
    "unimodal_nonpositive",
    "npmle",
]

NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(24)


def panels(low, high, breaks, step):
    """Nodes and weights of Gauss's rule on panels no wider than `step`."""
    breaks = [point for point in breaks if low < point < high]
    ends = np.unique([low, *breaks, high])
    edges = [np.linspace(a, b, int(np.ceil((b - a) / step)) + 1) for a, b in pairwise(ends)]
    left = np.concatenate([edge[:-1] for edge in edges])
    width = np.concatenate([np.diff(edge) for edge in edges])
    nodes = left[:, None] + 0.5 * width[:, None] * (1 + NODES)
    return nodes.ravel(), (0.5 * width[:, None] * NODE_WEIGHTS).ravel()


def moments(theta, weights):
    """Log mass, mean, variance and tails at zero of weighted points."""
    mass = weights.sum()
    mean = weights @ theta / mass
    variance = weights @ (theta - mean) ** 2 / mass
    below, above = weights[theta <= 0].sum() / mass, weights[theta >= 0].sum() / mass
    return np.log(mass), mean, variance, below, above


def posterior_of_points(theta, weights, x, s):
    """`moments` of a prior of weighted points after an observation `x` with noise `s`."""
    log_likelihood = stats.norm.logpdf(x, theta, s)
    top = log_likelihood.max()  # which may be too small for a float
    log_mass, *rest = moments(theta, weights * np.exp(log_likelihood - top))
    return log_mass + top, *rest

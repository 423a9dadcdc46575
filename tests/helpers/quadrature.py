"""Normal means by adaptive quadrature: densities written out from the definition of each family.

Nothing here uses the package. A prior is a list of atoms ``(weight, place)`` and a list of pieces
with a density; both follow from the documented parameters of its family.
"""

from itertools import pairwise
from typing import NamedTuple

import mpmath as mp
import numpy as np
from scipy import special

NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)
ACCURACY = 1e-12  # of the mass of a panel, as a share of all
NEGLIGIBLE = 1e-17  # weight of a component that cannot be seen in double precision


class Piece(NamedTuple):
    """Part of a prior that has a density; `middle` is where it is not smooth, or largest."""

    weight: float
    log_density: object
    middle: float
    length: float
    low: float = -mp.inf
    high: float = mp.inf


def normal(weight, mode, scale):
    return Piece(weight, log_normal(mode, scale), mode, scale)


def log_normal(mean, sd):
    """Log density of a normal distribution, as a function."""
    constant, half_precision = -mp.log(2 * mp.pi * sd**2) / 2, 1 / (2 * sd**2)
    return lambda t: constant - half_precision * (t - mean) ** 2


def laplace(weight, mode, scale):
    constant = -mp.log(2 * scale)
    return Piece(weight, lambda t: constant - abs(t - mode) / scale, mode, scale)


def exponential(weight, mode, scale):
    constant = -mp.log(scale)
    return Piece(weight, lambda t: constant - (t - mode) / scale, mode, scale, mode)


def uniform(weight, low, high):
    constant = -mp.log(high - low)
    return Piece(weight, lambda t: constant, low, high - low, low, high)


def horseshoe(mode, scale):
    """A normal whose standard deviation is `scale` times a half-Cauchy variable."""
    constant = -mp.log(2 * mp.pi**3) / 2 - mp.log(scale)

    def log_density(t):
        u = float((t - mode) / scale) ** 2 / 2  # e^u E_1(u) = U(1, 1, u), to double precision
        return constant + float(np.log(special.hyperu(1, 1, u) if u > 5 else exp_e1(u)))

    def exp_e1(u):
        return np.exp(u) * special.exp1(u)

    return Piece(1, log_density, mode, scale)


def bump(weight, mode, mean, spread):
    """A normal around `mode + mean` above `mode`."""
    whole, log_mass = log_normal(mode + mean, spread * mean), mp.log(mp.ncdf(1 / spread))
    return Piece(weight, lambda t: whole(t) - log_mass, mode + mean, spread * mean, mode)


SLABS = {
    "point_normal": normal,
    "point_laplace": laplace,
    "point_exponential": exponential,
    "normal": normal,
    "laplace": laplace,
    "exponential": exponential,
}


def parts_of(family, parameters):
    """Atoms and pieces of a prior."""
    value = {key: mp.mpf(v) for key, v in parameters.items() if not hasattr(v, "__len__")}
    mode = value.get("mode", mp.mpf(0))
    if family == "point_mass":
        return [(1, mode)], []
    if family in SLABS:
        weight = value.get("weight", mp.mpf(1))
        return [(1 - weight, mode)], [SLABS[family](weight, mode, value["scale"])]
    if family == "horseshoe":
        return [], [horseshoe(mode, value["scale"])]
    if family == "generalized_binary":
        weight = value["weight"]
        slab = bump(weight, mode, value["mean"], value.get("spread", mp.mpf("0.1")))
        return [(1 - weight, mode)], [slab]
    if family in ("npmle", "deconvolver"):
        return listed(parameters["weights"], parameters["locations"]), []
    if family == "normal_scale_mixture":
        parts = listed(parameters["weights"], parameters["scales"])
        return [(w, mode) for w, b in parts if b == 0], [normal(w, mode, b) for w, b in parts if b]
    parts = [  # the families of unimodal priors
        (w, a, b)
        for (w, a), (_, b) in zip(
            listed(parameters["weights"], parameters["lower"], 0),
            listed(parameters["weights"], parameters["upper"], 0),
            strict=True,
        )
        if w > NEGLIGIBLE
    ]
    atoms = [(w, a) for w, a, b in parts if a == b]
    return atoms, [uniform(w, a, b) for w, a, b in parts if a < b]


def listed(weights, places, least=NEGLIGIBLE):
    """Pairs of exact numbers."""
    pairs = zip(weights, places, strict=True)
    return [(mp.mpf(float(w)), mp.mpf(float(a))) for w, a in pairs if w >= least]


class Posterior(NamedTuple):
    """What an observation says about an effect."""

    log_marginal: float
    mean: float
    sd: float
    lfsr: float


def posterior(family, parameters, x, s):
    """Posterior of an effect with this prior after an observation x with noise s."""
    x, s = mp.mpf(x), mp.mpf(s)
    atoms, pieces = parts_of(family, parameters)
    masses = [(w * mp.npdf(x, at, s), at) for w, at in atoms]
    for piece in pieces:
        masses.extend(joint_masses(piece, x, s))
    total = mp.fsum(mass for mass, _ in masses)
    mean = mp.fsum(mass * at for mass, at in masses) / total
    variance = mp.fsum(mass * (at - mean) ** 2 for mass, at in masses) / total
    below = mp.fsum(mass for mass, at in masses if at <= 0) / total
    above = mp.fsum(mass for mass, at in masses if at >= 0) / total
    numbers = mp.log(total), mean, mp.sqrt(variance), min(below, above)
    return Posterior(*(float(number) for number in numbers))


def joint_masses(piece, x, s):
    """The joint density of effect and observation as masses at points, by Gauss's rule.

    Panels are halved until that changes no panel's mass.
    """

    def rule(low, high):
        half, centre = (high - low) / 2, (high + low) / 2
        points = [centre + half * node for node in NODES]
        return [(half * w * joint(t), t) for w, t in zip(WEIGHTS, points, strict=True)]

    log_noise, log_weight = log_normal(x, s), mp.log(piece.weight)

    def joint(t):
        return mp.exp(log_weight + piece.log_density(t) + log_noise(t))

    points = breakpoints(piece, x, s)
    panels = [(low, high, rule(low, high)) for low, high in pairwise(points)]
    total = mp.fsum(mass for *_, masses in panels for mass, _ in masses)
    done = []
    while panels:
        low, high, masses = panels.pop()
        middle = (low + high) / 2
        halves = [(low, middle, rule(low, middle)), (middle, high, rule(middle, high))]
        finer = [*halves[0][2], *halves[1][2]]
        change = mp.fsum(m for m, _ in finer) - mp.fsum(m for m, _ in masses)
        total += change
        if abs(change) < ACCURACY * total or high - low < ACCURACY * s:
            done.extend(finer)
        else:
            panels.extend(halves)
    return done


def breakpoints(piece, x, s):
    """Where to split the integral: around the observation, around the prior's middle, and at 0."""
    places = {x, piece.middle, mp.mpf(0)}
    places |= {x + sign * step * s for sign in (-1, 1) for step in (2, 6, 14)}
    places |= {piece.middle + sign * step * piece.length for sign in (-1, 1) for step in (1, 6, 40)}
    reach = {x - 40 * s, x + 40 * s, piece.middle - 40 * s, piece.middle + 40 * s, mp.mpf(0)}
    low, high = max(min(reach), piece.low), min(max(reach), piece.high)
    return sorted({low, high} | {t for t in places if low < t < high})

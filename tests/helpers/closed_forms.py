"""Posteriors in closed form, with many digits: truncated normals, of the definition of each family.

Nothing here uses the package.
"""

import mpmath as mp

INF = mp.inf


def components(family, p):
    """The prior as ``(weight, low, high, square, linear, constant)``.

    Each has the density ``weight exp(square t^2 + linear t + constant)`` between `low` and
    `high`; an atom has ``low = high``.
    """
    mode = mp.mpf(p.get("mode", 0.0))
    weight = mp.mpf(p.get("weight", 1.0))
    spike = [(1 - weight, mode, mode, 0, 0, 0)] if weight < 1 else []
    if family == "point_mass":
        return [(mp.mpf(1), mode, mode, 0, 0, 0)]
    if family in ("point_normal", "normal"):
        return [*spike, gaussian(weight, mode, mp.mpf(p["scale"]))]
    if family in ("point_laplace", "laplace"):
        up, down = (one_sided(weight / 2, mode, sign * mp.mpf(p["scale"])) for sign in (1, -1))
        return [*spike, up, down]
    if family in ("point_exponential", "exponential"):
        return [*spike, one_sided(weight, mode, mp.mpf(p["scale"]))]
    if family == "generalized_binary":
        mean = mp.mpf(p["mean"])
        sd = mp.mpf(p["spread"]) * mean
        return [*spike, gaussian(weight, mode + mean, sd, mode)]
    weights = [mp.mpf(w) for w in p["weights"]]
    if family in ("npmle", "deconvolver"):
        places = [mp.mpf(at) for at in p["locations"]]
        return [(w, at, at, 0, 0, 0) for w, at in zip(weights, places, strict=True)]
    if family == "normal_scale_mixture":
        scales = [mp.mpf(b) for b in p["scales"]]
        return [
            gaussian(w, mode, b) if b > 0 else (w, mode, mode, 0, 0, 0)
            for w, b in zip(weights, scales, strict=True)
        ]
    ends = [(mp.mpf(a), mp.mpf(b)) for a, b in zip(p["lower"], p["upper"], strict=True)]
    return [
        (w, a, b, 0, 0, -mp.log(b - a) if b > a else 0)
        for w, (a, b) in zip(weights, ends, strict=True)
    ]


def gaussian(weight, mean, sd, low=-INF):
    """Normal, restricted to what lies above `low`."""
    kept = mp.log(upper_tail((low - mean) / sd)) if low > -INF else 0
    constant = -(mean**2) / (2 * sd**2) - mp.log(sd * mp.sqrt(2 * mp.pi)) - kept
    return weight, low, INF, -1 / (2 * sd**2), mean / sd**2, constant


def one_sided(weight, mode, scale):
    low, high = (mode, INF) if scale > 0 else (-INF, mode)
    return weight, low, high, 0, -1 / scale, mode / scale - mp.log(abs(scale))


def upper_tail(t):
    return mp.erfc(t / mp.sqrt(2)) / 2


def density(t):
    return mp.exp(-t * t / 2) / mp.sqrt(2 * mp.pi) if abs(t) < INF else mp.mpf(0)


def product(component, x, s):
    """Log mass, mean and second moment of one component times the normal likelihood."""
    weight, low, high, square, linear, constant = component
    if low == high:
        z = (x - low) / s
        return mp.log(weight) - z * z / 2 - mp.log(s * mp.sqrt(2 * mp.pi)), low, low**2
    precision = 1 / s**2 - 2 * square
    sd, centre = 1 / mp.sqrt(precision), (linear + x / s**2) / precision
    log_whole = constant - x**2 / (2 * s**2) + centre**2 * precision / 2 + mp.log(sd / s)
    a, b = ((end - centre) / sd for end in (low, high))
    mass = upper_tail(a) - upper_tail(b) if a + b > 0 else upper_tail(-b) - upper_tail(-a)
    first = (density(a) - density(b)) / mass
    edges = sum(sign * end * density(end) for sign, end in ((1, a), (-1, b)) if abs(end) < INF)
    second = 1 + edges / mass
    moment = centre**2 + 2 * centre * sd * first + sd**2 * second
    return mp.log(weight) + log_whole + mp.log(mass), centre + sd * first, moment


def posterior(family, parameters, x, s, digits=150):
    """Log marginal, mean, sd and sign rate of one observation."""
    with mp.workdps(digits):
        x, s = mp.mpf(x), mp.mpf(s)
        pieces = components(family, parameters)
        parts = [product(piece, x, s) for piece in pieces]
        top = max(log_mass for log_mass, _, _ in parts)
        shares = [mp.exp(log_mass - top) for log_mass, _, _ in parts]
        total = mp.fsum(shares)
        log_mass = top + mp.log(total)
        mean = mp.fsum(w * part[1] for w, part in zip(shares, parts, strict=True)) / total
        square = mp.fsum(w * part[2] for w, part in zip(shares, parts, strict=True)) / total
        lfsr = min(
            mp.fsum(mp.exp(mass - log_mass) for mass in masses)
            for masses in one_side_masses(pieces, x, s)
        )
        return tuple(map(float, (log_mass, mean, mp.sqrt(abs(square - mean**2)), lfsr)))


def one_side_masses(pieces, x, s):
    """Log masses of what lies below zero, and of what lies above; atoms there count in both."""
    below, above = [], []
    for weight, low, high, *shape in pieces:
        for masses, ends in ((below, (low, min(high, 0))), (above, (max(low, 0), high))):
            if ends[0] < ends[1] or (low == high and ends[0] == ends[1]):
                masses.append(product((weight, *ends, *shape), x, s)[0])
    return below, above

"""EBCD by brute force: the objective written out from the model, and its maximum on tiny problems.

Nothing here uses the package. With posteriors at their optimum the objective depends on the scores,
the precisions and the priors only,

    1/2 sum_j n (log(tau_j / 2 pi) - tau_j S_jj) + sum_jk log(m_k(b_jk) / N(b_jk; 0, s_j^2)),

where ``b = X'Z/n``, ``s_j^2 = 1/(n tau_j)`` and ``m_k`` is the density of an observation: the k-th
prior convolved with normal noise of variance ``s_j^2``. The best scores lie in the column space of
``X = U D V'``, so ``Z = sqrt(n) U R`` with orthonormal columns in ``R``.
"""

from typing import NamedTuple

import numpy as np
from scipy import optimize
from scipy.special import erfcx, log_ndtr

# With noise per feature every feature counts as seen in a further fifth of the samples as pure
# noise, which is part of the objective.
PSEUDO_SAMPLES = 0.2


def normal_ratio(z, scale):
    """Log of the density of z = b/s under a normal slab, over that under a spike at zero."""
    return 0.5 * (z**2 * scale**2 / (1 + scale**2) - np.log1p(scale**2))


def exponential_ratio(z, scale):
    """The same for an exponential slab."""
    shift = z - 1 / scale
    below = np.log(0.5 * erfcx(-np.minimum(shift, 0.0) / np.sqrt(2)))  # nothing cancels
    above = 0.5 * shift**2 + log_ndtr(np.maximum(shift, 0.0))
    return np.where(shift < 0, below, above) + 0.5 * np.log(2 * np.pi) - np.log(scale)


def laplace_ratio(z, scale):
    """The same for a Laplace slab, which is half an exponential on either side."""
    both = np.logaddexp(exponential_ratio(z, scale), exponential_ratio(-z, scale))
    return both - np.log(2)


# slab, whether there is a spike beside it
FAMILIES = {
    "point_laplace": (laplace_ratio, True),
    "point_normal": (normal_ratio, True),
    "point_exponential": (exponential_ratio, True),
    "normal": (normal_ratio, False),
    "laplace": (laplace_ratio, False),
}


class Problem(NamedTuple):
    """A tiny problem: centred data and what to fit to them."""

    name: str
    X: np.ndarray
    k: int
    family: str
    noise: str


def objective(problem, Z, tau, weight, scale):
    """The objective at scores n x k, precisions (p,), slab weights (k,) and slab scales (k,).

    Any of them may have further axes in front, as many as the others.
    """
    X = problem.X
    n = len(X)
    slab, _ = FAMILIES[problem.family]
    variances = (X**2).mean(axis=0)
    value = 0.5 * n * (np.log(tau / (2 * np.pi)) - tau * variances).sum(axis=-1)
    if problem.noise == "per_feature":
        ratio = tau * variances
        value = value + 0.5 * PSEUDO_SAMPLES * n * (np.log(ratio) - ratio).sum(axis=-1)
    root = np.sqrt(n * tau)[..., :, None]  # 1/s
    z = np.swapaxes(Z, -1, -2) @ X
    z = np.swapaxes(z, -1, -2) / n * root
    ratios = slab(z, scale[..., None, :] * root)
    with np.errstate(divide="ignore"):
        spike, rest = np.log1p(-weight), np.log(weight)
    return value + np.logaddexp(spike[..., None, :], rest[..., None, :] + ratios).sum(axis=(-2, -1))


def climb(value, start, bounds, step=1e-6, **options):
    """Return the maximum near a start; its value and all differences are one evaluation."""
    shifts = step * np.concatenate([np.eye(start.size), -np.eye(start.size)])

    def loss(at):
        values = value(np.vstack([at, at + shifts]))
        up, down = np.split(values[1:], 2)
        return -values[0], -(up - down) / (2 * step)

    found = optimize.minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    return -found.fun


class Search:
    """Maximises the objective over unconstrained parameters, from the best of many random ones."""

    def __init__(self, problem, seed=0):
        self.problem = problem
        n, p = problem.X.shape
        self.left, d, _ = np.linalg.svd(problem.X, full_matrices=False)
        self.left = self.left[:, d > 1e-9 * d[0]] * np.sqrt(n)
        self.rank, self.k = self.left.shape[1], problem.k
        self.taus = p if problem.noise == "per_feature" else 1
        self.has_spike = FAMILIES[problem.family][1]
        self.rng = np.random.default_rng(seed)

    def unpack(self, parameters):
        """Scores, precisions, weights and scales of parameters (..., size)."""
        ends = np.cumsum([self.rank * self.k, self.taus, self.k])
        free, log_tau, log_scale, logit = np.split(parameters, ends, axis=-1)
        free = free.reshape(*free.shape[:-1], self.rank, self.k)
        u, _, vt = np.linalg.svd(free, full_matrices=False)
        p = self.problem.X.shape[1]
        tau = np.broadcast_to(np.exp(log_tau), (*log_tau.shape[:-1], p))
        weight = 1 / (1 + np.exp(-logit)) if self.has_spike else np.ones_like(log_scale)
        return self.left @ (u @ vt), tau, weight, np.exp(log_scale)

    def value(self, parameters):
        """The objective, for one or many sets of parameters."""
        return objective(self.problem, *self.unpack(parameters))

    def random(self, number):
        """Draw rotations, precisions and priors all over the place."""
        rng, k, X = self.rng, self.k, self.problem.X
        size = X.std() * np.ones(self.taus) if self.taus == 1 else X.std(axis=0)
        log_tau = rng.uniform(0.0, 4.0, (number, self.taus)) - 2 * np.log(size)
        log_scale = rng.uniform(-3.0, 1.0, (number, k)) + np.log(X.std())
        logit = rng.uniform(-2.0, 4.0, (number, k if self.has_spike else 0))
        free = rng.normal(size=(number, self.rank * k))
        return np.concatenate([free, log_tau, log_scale, logit], axis=1)

    def climb(self, start):
        """Maximise from one start."""
        bounds = [(None, None)] * (self.rank * self.k) + [(-60, 60)] * (self.taus + self.k)
        bounds += [(-30, 30)] * (self.k * self.has_spike)
        return climb(self.value, start, bounds, maxiter=300)

    def best(self, draws=4000, climbs=12):
        """Return the best value found."""
        starts = self.random(draws)
        values = self.value(starts)
        order = np.argsort(-values)[:climbs]
        return max(self.climb(starts[i]) for i in order)


# family, noise, number of problems
KINDS = (
    ("point_laplace", "constant", 50),
    ("point_laplace", "per_feature", 10),
    ("point_normal", "constant", 10),
    ("point_exponential", "constant", 10),
    ("normal", "constant", 10),
    ("laplace", "constant", 5),
    ("normal", "per_feature", 5),
)


def tiny_problems():
    """Draw 100 problems with at most six features and two components, fewer than the rank."""
    drawn = []
    for family, noise, number in KINDS:
        for seed in range(number):
            rng = np.random.default_rng([31, seed])
            p, n, k = (int(rng.integers(*ends)) for ends in ((4, 7), (12, 60), (1, 3)))
            shown = rng.random((p, k)) < rng.choice([0.4, 0.7, 1.0])
            L = rng.laplace(size=(p, k)) * shown * rng.choice([1.0, 2.0, 4.0])
            L = np.abs(L) if family == "point_exponential" else L
            X = rng.normal(size=(n, k)) @ L.T + rng.normal(size=(n, p))
            name = f"{family}-{noise}-{seed:02d}"
            drawn.append(Problem(name, X - X.mean(axis=0), k, family, noise))
    return drawn

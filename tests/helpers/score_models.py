"""Bounds of models with other scores, written out, and their maxima by brute force.

Nothing here uses the package. Scores and loadings have posteriors that factorise; what is left of
the bound after those of the loadings are at their optimum is, for one component,

    np/2 log(tau / 2 pi) - n tau/2 tr S + term(C) + sum_j log int g(l) exp(n tau (b_j l - C l^2/2))

where ``b = X'E[z]/n``, ``C = E[z'z]/n``, and ``term`` is minus the divergence of the posterior of
the scores from their prior: normal scores that are integrated out, scores that are estimated while
their mean square follows the law of normal ones, or any prior (EBMF). For several components with
normal priors the posteriors of the loadings are normal, too, with means and variances of their own.
"""

import numpy as np
from decomposition import FAMILIES
from scipy import optimize

NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)


def ratios(family, weight, scale, b, precision):
    """Log of the integral above for observations ``b`` of a loading with these precisions."""
    slab, has_spike = FAMILIES[family]
    root = np.sqrt(precision)
    found = slab(b * root, scale * root)
    return np.logaddexp(np.log1p(-weight), np.log(weight) + found) if has_spike else found


def log_term(model, n, second, spread):
    """What scores add to the bound: ``second`` is E[Z'Z]/n, ``spread`` their covariance."""
    k = len(second)
    if model == "integrated":
        return 0.5 * n * (np.linalg.slogdet(spread)[1] + k - np.trace(second))
    log_det = np.linalg.slogdet(second)[1]
    return 0.5 * (n - k - 1) * log_det - 0.5 * n * (np.trace(second) - k)


def sigmoid(logit):
    return 1 / (1 + np.exp(-logit))


class OneComponent:
    """One component with a prior that may have a spike; scores relaxed or integrated."""

    def __init__(self, X, model, family):
        self.X, self.model, self.family = X, model, family
        left, d, _ = np.linalg.svd(X, full_matrices=False)
        self.left = left[:, d > 1e-9 * d[0]] * np.sqrt(len(X))  # the best scores lie within

    def start(self, rng):
        tail = [rng.uniform(-4, 0), rng.uniform(0, 3), rng.uniform(-1, 3), rng.uniform(-1, 1)]
        return np.concatenate([rng.normal(size=self.left.shape[1]) / 2, tail])

    def value(self, at):
        log_spread, log_tau, logit, log_scale = at[-4:]
        n, p = self.X.shape
        z, tau = self.left @ at[:-4], np.exp(log_tau)
        spread = np.exp(log_spread) if self.model == "integrated" else 0.0
        second = z @ z / n + spread
        value = 0.5 * n * p * np.log(tau / (2 * np.pi)) - 0.5 * tau * (self.X**2).sum()
        value += log_term(self.model, n, np.array([[second]]), np.array([[spread]]))
        b = self.X.T @ z / n / second
        parts = ratios(self.family, sigmoid(logit), np.exp(log_scale), b, n * tau * second)
        return value + parts.sum()


class NormalComponents:
    """Several components with normal priors; posteriors of loadings follow from the scores."""

    def __init__(self, X, k, model):
        self.X, self.k, self.model = X, k, model
        left, d, _ = np.linalg.svd(X, full_matrices=False)
        self.left = left[:, d > 1e-9 * d[0]] * np.sqrt(len(X))
        self.ends = np.cumsum([self.left.shape[1] * k, k * k, 1])

    def start(self, rng):
        return 0.5 * rng.normal(size=self.ends[-1] + self.k)

    def value(self, at):
        n, p = self.X.shape
        free, root, log_tau, log_scale = np.split(at, self.ends)
        Z, tau = self.left @ free.reshape(-1, self.k), np.exp(log_tau[0])
        if self.model == "orthogonal":  # where the term of relaxed scores is zero
            Z = np.linalg.qr(Z).Q * np.sqrt(n)
        root = np.tril(root.reshape(self.k, self.k))
        spread = root @ root.T if self.model == "integrated" else np.zeros((self.k, self.k))
        second, prior = Z.T @ Z / n + spread, np.exp(-2 * log_scale)
        mean = np.linalg.solve(n * tau * second + np.diag(prior), tau * Z.T @ self.X).T
        variance = np.tile(1 / (n * tau * np.diag(second) + prior), (p, 1))
        gram = mean.T @ mean + np.diag(variance.sum(axis=0))
        fit = (self.X**2).sum() - 2 * ((self.X @ mean) * Z).sum() + n * (second * gram).sum()
        value = 0.5 * n * p * np.log(tau / (2 * np.pi)) - 0.5 * tau * fit
        ratio = variance * prior
        divergence = 0.5 * (ratio - 1 - np.log(ratio) + mean**2 * prior).sum()
        return value + log_term(self.model, n, second, spread) - divergence


class OneFactor:
    """EBMF with Laplace priors with a spike on both sides; the scale of the scores' is one."""

    def __init__(self, X):
        self.X = X

    def start(self, rng):
        z = np.linalg.svd(self.X)[0][:, 0] * np.sqrt(len(self.X)) * rng.choice([-1, 1])
        tail = [rng.uniform(0, 3), rng.uniform(0, 2), *rng.uniform(-1, 3, 2), rng.uniform(-1, 1)]
        return np.concatenate([z + 0.5 * rng.normal(size=z.size), tail])

    def value(self, at):
        n, p = self.X.shape
        log_precision, log_tau, own, other, log_scale = at[-5:]
        precision, tau = np.exp(log_precision), np.exp(log_tau)
        # the posterior of a score is its prior times a normal likelihood of (b, precision)
        mean, square, log_mass = spike_and_laplace(at[:-5], precision, sigmoid(own))
        divergence = -log_mass - 0.5 * precision * (square - 2 * at[:-5] * mean)
        energy = square.sum()
        b = self.X.T @ mean / energy
        value = 0.5 * n * p * np.log(tau / (2 * np.pi)) - 0.5 * tau * (self.X**2).sum()
        parts = ratios("point_laplace", sigmoid(other), np.exp(log_scale), b, tau * energy)
        return value - divergence.sum() + parts.sum()


def spike_and_laplace(b, precision, weight):
    """Moments of a posterior by quadrature, and log of ``int g(f) exp(d (b f - f^2/2))``."""
    width = 12 / np.sqrt(precision)
    mean = square = mass = 0.0
    for low, high in (
        (np.minimum(b - width, -width), 0 * b),
        (0 * b, np.maximum(b + width, width)),
    ):
        f = low[:, None] + 0.5 * (high - low)[:, None] * (1 + NODES)
        density = 0.5 * weight * np.exp(-np.abs(f) - 0.5 * precision * f * (f - 2 * b[:, None]))
        part = 0.5 * (high - low)[:, None] * WEIGHTS * density
        mass, mean, square = (
            mass + part.sum(1),
            mean + (part * f).sum(1),
            square + (part * f**2).sum(1),
        )
    mass = mass + 1 - weight
    return mean / mass, square / mass, np.log(mass)


def brute_force(problem, seed=0, climbs=6):
    """Return the best value that climbs from random points reach."""
    rng = np.random.default_rng(seed)
    return max(climb(problem, problem.start(rng)) for _ in range(climbs))


def climb(problem, start):
    """Climb from a point, with gradients by differences."""
    with np.errstate(all="ignore"):
        result = optimize.minimize(
            lambda at: -np.nan_to_num(problem.value(at), nan=-1e10, posinf=-1e10, neginf=-1e10),
            start,
            method="L-BFGS-B",
            bounds=[(-15, 15)] * start.size,
            options={"maxiter": 2000, "maxfun": 10**6, "ftol": 1e-13, "gtol": 1e-7},
        )
    return -result.fun

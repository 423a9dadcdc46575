"""Bounds of models with other scores, written out, and their maxima by brute force.

Nothing here uses the package. Scores and loadings have posteriors that factorise; what is left of
the bound after those of the loadings are at their optimum is, for one component,

    np/2 log(tau / 2 pi) - n tau/2 tr S + term(C) + sum_j log int g(l) exp(n tau (b_j l - C l^2/2))

where ``b = X'E[z]/n``, ``C = E[z'z]/n``, and ``term`` is minus the divergence of the posterior of
the scores from their prior: normal scores that are integrated out, scores that are estimated while
their mean square follows the law of normal ones, or any prior (EBMF). For several components with
normal priors the posteriors of the loadings are normal, too, with means and variances of their own.
"""

import decomposition
import numpy as np
from decomposition import FAMILIES

NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)


def ratios(family, weight, scale, b, precision):
    """Log of the integral above for observations ``b`` of a loading with these precisions."""
    slab, has_spike = FAMILIES[family]
    root = np.sqrt(precision)
    found = slab(b * root, scale * root)
    return np.logaddexp(np.log1p(-weight), np.log(weight) + found) if has_spike else found


def log_term(model, n, second, spread):
    """What scores add to the bound: ``second`` is E[Z'Z]/n, ``spread`` their covariance."""
    k = second.shape[-1]
    trace = np.trace(second, axis1=-2, axis2=-1)
    if model == "integrated":
        return 0.5 * n * (np.linalg.slogdet(spread)[1] + k - trace)
    return 0.5 * (n - k - 1) * np.linalg.slogdet(second)[1] - 0.5 * n * (trace - k)


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
        log_spread, log_tau, logit, log_scale = np.moveaxis(at[..., -4:], -1, 0)
        n, p = self.X.shape
        z, tau = at[..., :-4] @ self.left.T, np.exp(log_tau)
        spread = np.exp(log_spread) if self.model == "integrated" else 0 * log_spread
        second = (z**2).mean(axis=-1) + spread
        value = 0.5 * n * p * np.log(tau / (2 * np.pi)) - 0.5 * tau * (self.X**2).sum()
        value += log_term(self.model, n, second[..., None, None], spread[..., None, None])
        b = z @ self.X / n / second[..., None]
        prior = sigmoid(logit)[..., None], np.exp(log_scale)[..., None]
        return value + ratios(self.family, *prior, b, (n * tau * second)[..., None]).sum(axis=-1)


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
        free, root, log_tau, log_scale = np.split(at, self.ends, axis=-1)
        Z = self.left @ free.reshape(*at.shape[:-1], -1, self.k)
        tau = np.exp(log_tau)
        if self.model == "orthogonal":  # where the term of relaxed scores is zero
            Z = np.linalg.qr(Z).Q * np.sqrt(n)
        root = np.tril(root.reshape(*at.shape[:-1], self.k, self.k))
        root = root if self.model == "integrated" else 0 * root
        spread, prior = root @ root.mT, np.exp(-2 * log_scale)
        second, products = Z.mT @ Z / n + spread, Z.mT @ self.X
        ridge = n * tau[..., None] * second + prior[..., None] * np.eye(self.k)
        mean = np.linalg.solve(ridge, tau[..., None] * products)
        variance = 1 / (n * tau * np.diagonal(second, axis1=-2, axis2=-1) + prior)
        gram = mean @ mean.mT + p * variance[..., None] * np.eye(self.k)
        fit = (self.X**2).sum() - 2 * (products * mean).sum(axis=(-2, -1))
        fit = fit + n * (second * gram).sum(axis=(-2, -1))
        value = 0.5 * (n * p * np.log(tau / (2 * np.pi)) - tau * fit[..., None])[..., 0]
        ratio = variance * prior
        divergence = 0.5 * p * (ratio - 1 - np.log(ratio)).sum(axis=-1)
        divergence += 0.5 * (mean**2 * prior[..., None]).sum(axis=(-2, -1))
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
        places, tail = at[..., :-5], np.exp(at[..., -5:])
        precision, tau, own, other, scale = np.split(tail, 5, axis=-1)
        # the posterior of a score is its prior times a normal likelihood of (b, precision)
        mean, square, log_mass = spike_and_laplace(places, precision, own / (1 + own))
        divergence = -log_mass - 0.5 * precision * (square - 2 * places * mean)
        energy = square.sum(axis=-1, keepdims=True)
        b = mean @ self.X / energy
        value = 0.5 * n * p * np.log(tau / (2 * np.pi)) - 0.5 * tau * (self.X**2).sum()
        parts = ratios("point_laplace", other / (1 + other), scale, b, tau * energy)
        return value[..., 0] - divergence.sum(axis=-1) + parts.sum(axis=-1)


def spike_and_laplace(b, precision, weight):
    """Moments of a posterior by quadrature, and log of ``int g(f) exp(d (b f - f^2/2))``."""
    width = 12 / np.sqrt(precision)
    b, precision, weight = b[..., None], precision[..., None], weight[..., None]
    mean = square = mass = 0.0
    for low, high in (
        (np.minimum(b, 0) - width[..., None], 0 * b),
        (0 * b, np.maximum(b, 0) + width[..., None]),
    ):
        f = low + 0.5 * (high - low) * (1 + NODES)
        density = 0.5 * weight * np.exp(-np.abs(f) - 0.5 * precision * f * (f - 2 * b))
        part = 0.5 * (high - low) * WEIGHTS * density
        mass, mean, square = (
            mass + part.sum(axis=-1),
            mean + (part * f).sum(axis=-1),
            square + (part * f**2).sum(axis=-1),
        )
    mass = mass + 1 - weight[..., 0]
    return mean / mass, square / mass, np.log(mass)


def brute_force(problem, seed=0, climbs=6):
    """Return the best value that climbs from random points reach."""
    rng = np.random.default_rng(seed)
    return max(climb(problem, problem.start(rng)) for _ in range(climbs))


def climb(problem, start):
    """Climb from a point; where a value is not a number is as low as can be."""

    def value(at):
        return np.nan_to_num(problem.value(at), nan=-1e10, posinf=-1e10, neginf=-1e10)

    bounds = [(-15, 15)] * start.size
    with np.errstate(all="ignore"):
        return decomposition.climb(value, start, bounds, maxiter=2000, ftol=1e-13, gtol=1e-7)

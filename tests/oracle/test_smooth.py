"""Smooth priors against dense matrices: wavelets from their equations, fields by inverses."""

import itertools

import numpy as np
import pytest
from brute_force import moments, panels
from decomposition import laplace_ratio
from scipy import optimize, stats

from ebcd import ebnm
from ebcd.priors import make_family, make_prior
from ebcd.priors._spatial import _shifts
from ebcd.priors._wavelets import Basis

NODES, WEIGHTS = panels(-60.0, 60.0, [0.0], 0.25)
DETAIL = {"weight": 0.4, "scale": 1.7}
AVERAGE = 2.5  # standard deviation


def daubechies(vanishing):
    """The filter with so many vanishing moments, by spectral factorisation of its square."""
    # |m(y)|^2 = (1 - y)^N sum_k binom(N - 1 + k, k) y^k with y = (2 - z - 1/z) / 4
    y = np.array([-0.25, 0.5, -0.25])
    power, poly = np.ones(1), np.zeros(2 * vanishing - 1)
    binomial = 1.0
    for k in range(vanishing):
        pad = vanishing - 1 - k
        poly += binomial * np.pad(power, pad)
        power, binomial = np.convolve(power, y), binomial * (vanishing + k) / (k + 1)
    roots = np.roots(poly)
    taps = np.real(np.poly(roots[np.abs(roots) < 1])) if vanishing > 1 else np.ones(1)
    for _ in range(vanishing):
        taps = np.convolve(taps, [1.0, 1.0])
    return np.sqrt(2) * taps / taps.sum()


def matrix(taps, p):
    """An orthonormal basis of periodic vectors, and the level of every row."""
    rows, levels, averages, level = [], [], np.eye(p), 0
    other = taps[::-1] * (-1.0) ** np.arange(taps.size)
    while len(averages) >= max(taps.size, 4):
        half = len(averages) // 2
        steps = np.zeros((2, half, 2 * half))
        for i, (j, tap) in itertools.product(range(half), enumerate(range(taps.size))):
            steps[0, i, (2 * i + j) % (2 * half)] += other[tap]
            steps[1, i, (2 * i + j) % (2 * half)] += taps[tap]
        rows.append(steps[0] @ averages)
        levels += [level] * half
        averages, level = steps[1] @ averages, level + 1
    return np.concatenate([*rows, averages]), np.array(levels + [level] * len(averages))


def coefficient(x, s, average, weight, scale):
    """Log of the marginal density, mean and variance of one coefficient."""
    if average:
        total = scale**2 + s**2
        log = stats.norm.logpdf(x, 0.0, np.sqrt(total))
        return log, x * scale**2 / total, scale**2 * s**2 / total
    slab = weight * WEIGHTS * stats.laplace.pdf(NODES, scale=scale)
    theta, prior = np.append(NODES, 0.0), np.append(slab, 1 - weight)
    return moments(theta, prior * stats.norm.pdf(x, theta, s))[:3]


@pytest.mark.parametrize("p", [8, 16])
@pytest.mark.parametrize(("wavelet", "vanishing"), [("haar", 1), ("db3", 3)])
def test_wavelets(wavelet, vanishing, p):
    """The bound and the moments are means over all circular shifts."""
    W, levels = matrix(daubechies(vanishing), p)
    np.testing.assert_allclose(W @ W.T, np.eye(p), atol=1e-12)
    x, s = np.random.default_rng(p).normal(size=p) * 2, 0.8
    values, means, squares = [], [], []
    for shift in range(p):
        basis = np.roll(W, shift, axis=1)
        found = [
            coefficient(c, s, level == levels[-1], DETAIL["weight"], scale)
            for c, level, scale in zip(
                basis @ x,
                levels,
                np.where(levels == levels[-1], AVERAGE, DETAIL["scale"]),
                strict=True,
            )
        ]
        log, mean, variance = np.array(found).T
        values.append(log.sum())
        means.append(basis.T @ mean)
        squares.append((basis**2).T @ variance + means[-1] ** 2)
    details = [make_prior("point_laplace", **DETAIL).to_dict()] * levels[-1]
    average = make_prior("normal", scale=AVERAGE).to_dict()
    prior = make_prior("spatial", priors={wavelet: [*details, average]})
    assert prior.log_likelihood(x, s) == pytest.approx(np.mean(values), abs=1e-8)
    posterior, mean = prior.posterior(x, s), np.mean(means, axis=0)
    np.testing.assert_allclose(posterior.mean, mean, atol=1e-8)
    np.testing.assert_allclose(posterior.sd**2, np.mean(squares, axis=0) - mean**2, atol=1e-8)


@pytest.mark.parametrize("p", [13, 16])
def test_field_of_averages(p):
    """With normal details all is normal given the shift, averages with the precision of a field."""
    s, size, scale, kappa = 0.8, 1.3, 2.0, 0.4
    field = make_prior("gmrf", adjacency="ring", order=3, scale=scale, kappa=kappa)
    levels = [make_prior("normal", scale=size).to_dict(), field.to_dict()]
    prior = make_prior("spatial", priors={"haar": levels})
    base = Basis("haar", p)
    W, n = base.analyse(np.eye(p)), p - base.levels[-1].start
    steps = np.eye(n) - np.roll(np.eye(n), 1, axis=1)
    rough = np.linalg.matrix_power(steps.T @ steps, 3) + kappa * np.eye(n)
    covariance = size**2 * np.eye(p)
    covariance[-n:, -n:] = scale**2 * np.linalg.inv(rough)
    x = np.random.default_rng(p).normal(size=p) * 2
    values, means, squares = [], [], []
    for places in _shifts(p).T:
        basis = W[:, np.argsort(places)]  # entry j of the vector is at its place in the shifted one
        signal = basis.T @ covariance @ basis
        total = signal + s**2 * np.eye(p)
        gain = signal @ np.linalg.inv(total)
        values.append(stats.multivariate_normal.logpdf(x, np.zeros(p), total))
        means.append(gain @ x)
        squares.append(np.diag(signal - gain @ signal) + means[-1] ** 2)
    mean = np.mean(means, axis=0)
    assert prior.log_likelihood(x, s) == pytest.approx(np.mean(values), rel=1e-10)
    posterior = prior.posterior(x, s)
    np.testing.assert_allclose(posterior.mean, mean, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(posterior.sd**2, np.mean(squares, axis=0) - mean**2, rtol=1e-8)


def test_no_wavelet_priors_are_better():
    W, levels = matrix(daubechies(1), 8)
    x = np.array([4.0, 4.3, 3.9, 4.1, -2.0, -2.2, -1.7, 0.3])
    coefficients = np.array([np.roll(W, shift, axis=1) @ x for shift in range(8)])
    best = 0.0
    for level in range(levels[-1] + 1):
        some = coefficients[:, levels == level].ravel()

        def loss(at, some=some, average=level == levels[-1]):
            weight, scale = 1 / (1 + np.exp(-at[0])), np.exp(at[1])
            if average:
                return -stats.norm.logpdf(some, 0.0, np.hypot(1.0, scale)).sum()
            slab = np.log(weight) + laplace_ratio(some, scale)
            ratios = np.logaddexp(np.log1p(-weight), slab)
            return -(ratios + stats.norm.logpdf(some)).sum()

        starts = itertools.product((-4.0, 0.0, 4.0), (-2.0, 0.5))
        bounds = [(-15, 15), (-9, 5)]
        found = [optimize.minimize(loss, at, method="L-BFGS-B", bounds=bounds) for at in starts]
        best -= min(result.fun for result in found) / 8
    fit = ebnm(x, 1.0, make_family("spatial", wavelet="haar"))
    assert fit.log_likelihood == pytest.approx(best, abs=1e-4)


def laplacian(adjacency, p):
    """Degrees less neighbours."""
    W = np.zeros((p, p))
    if isinstance(adjacency, np.ndarray):
        return np.diag(adjacency.sum(axis=0)) - adjacency
    if adjacency == "chain":
        pairs = [(i, i + 1) for i in range(p - 1)]
    else:
        _, rows, columns = adjacency
        cells = np.arange(p).reshape(rows, columns)
        pairs = [*zip(cells[:-1].ravel(), cells[1:].ravel(), strict=True)]
        pairs += [*zip(cells[:, :-1].ravel(), cells[:, 1:].ravel(), strict=True)]
    for i, j in pairs:
        W[i, j] = W[j, i] = 1.0
    return np.diag(W.sum(axis=0)) - W


GRAPH = np.array([[0, 1, 1, 0, 0], [1, 0, 1, 0, 0], [1, 1, 0, 2, 0], [0, 0, 2, 0, 1.0], [0] * 5])
GRAPH[4, 3] = 1.0
FIELDS = {"chain": ("chain", 9), "grid": (("grid", 3, 4), 12), "graph": (GRAPH, 5)}


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("equal", [True, False])
def test_fields(name, order, equal):
    """The likelihood and the posterior are those of multivariate normals, and none is higher."""
    adjacency, p = FIELDS[name]
    rng = np.random.default_rng(5)
    x = np.cumsum(rng.normal(size=p)) + rng.normal(size=p)
    s = np.full(p, 0.9) if equal else rng.uniform(0.4, 2.0, p)
    rough = np.linalg.matrix_power(laplacian(adjacency, p), order)

    def normal(logs):
        scale, kappa = np.exp(logs)
        covariance = scale**2 * np.linalg.inv(rough + kappa * np.eye(p))
        return stats.multivariate_normal.logpdf(x, cov=covariance + np.diag(s**2)), covariance

    prior = make_prior("gmrf", adjacency=adjacency, order=order, scale=1.3, kappa=0.2)
    value, covariance = normal(np.log([1.3, 0.2]))
    assert prior.log_likelihood(x, s) == pytest.approx(value, abs=1e-8)
    gain = covariance @ np.linalg.inv(covariance + np.diag(s**2))
    posterior = prior.posterior(x, s)
    np.testing.assert_allclose(posterior.mean, gain @ x, atol=1e-8)
    np.testing.assert_allclose(posterior.sd**2, np.diag(covariance - gain @ covariance), atol=1e-8)
    starts = itertools.product((-1.0, 1.0), (-6.0, -2.0, 1.0))
    bounds = [(-10, 10), (-18, 10)]
    best = max(
        -optimize.minimize(lambda at: -normal(at)[0], at, method="L-BFGS-B", bounds=bounds).fun
        for at in starts
    )
    fit = ebnm(x, s, make_family("gmrf", adjacency=adjacency, order=order))
    assert fit.log_likelihood >= best - 1e-6

"""Empirical Bayes PCA: principal components, denoised in turn by approximate message passing.

Zhong, Su and Fan (2022). In units where the noise has variance ``1 / n`` the data are

    (1)  Y = U diag(s) V' / n + W,   W_ij ~ N(0, 1 / n),   g = p / n

where the rows of ``U`` (n x k) and of ``V`` (p x k) are draws from two distributions in k
dimensions whose second moments are the identity. With signals above ``g^(-1/4)``, singular
values of ``Y`` and the squared cosines between sample and true singular vectors tend to

    (2)  l^2 = (g s^2 + 1)(s^2 + 1) / s^2
    (3)  a^2 = 1 - (1 + s^2) / (s^2 (1 + g s^2)),   b^2 = 1 - (1 + g s^2) / (g s^2 (1 + s^2))

for ``U`` and ``V``. Sample vectors of length ``sqrt(n)`` are therefore like ``a u + noise`` of
variance ``1 - a^2``. From there on

    (4)  G = Y' U_t - V_(t-1) J',   J = mean of d U_t / d F over the n rows
    (5)  F = Y V_t - U_t (g K)',   K = mean of d V_t / d G over the p rows

where ``U_t`` and ``V_t`` are posterior means of the rows given ``F`` and ``G``. The subtracted
terms remove what comes back from the step before, so that the rows of ``G`` are again normal, with
mean ``C diag(s) v`` and covariance ``C = U_t' U_t / n``, and those of ``F`` the same with
``C = V_t' V_t / n``. Principal components are the fixed point of the same iteration with linear
denoisers, which gives the ``V_(-1)`` of the first step: the right vectors times
``sqrt((1 - a^2) / g)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from ebcd._numerics import Array
from ebcd.data import DataCovariance
from ebcd.data._settings import SETTINGS as DATA
from ebcd.fitting._deflation import ACCURATE
from ebcd.fitting._rotation import NEGLIGIBLE
from ebcd.priors._weights import fit_weights

_ATOMS = 1_000  # of a distribution: rows, or a sample of them
_ROWS = 4_000  # that a distribution is fitted to: enough to know it


class Spectrum(NamedTuple):
    """Leading singular vectors of the data and what (2) and (3) make of them."""

    noise: float  # its standard deviation, in working units
    left: Array  # n x k: sample singular vectors of length sqrt(n)
    right: Array  # p x k: of length sqrt(p)
    signals: Array  # the s of (1)
    alignment: tuple[Array, Array]  # a^2 and b^2 of (3)
    exact: bool  # whether components fit the data exactly, so that the noise is at its floor


def spectrum(data: DataCovariance, k: int) -> Spectrum:
    """Find the leading components, at most `k`, that stand out from noise.

    The noise variance is the mean square of what is left without them.
    """
    n, p = data.n_samples, data.n_features
    right = data.leading(k, ACCURATE)[1]
    image = data.scores(right)
    values = np.linalg.norm(image, axis=0)
    order = np.argsort(-values)
    left = (image / np.where(values > 0, values, 1.0))[:, order]
    values, right = values[order], right[:, order]
    ratio = p / n
    power = n * data.trace()
    while True:
        left_over = max(power - float((values[:k] ** 2).sum()), 0.0) / (n * p)
        floor = NEGLIGIBLE * power / (n * p)
        noise = float(np.sqrt(max(left_over, floor)))
        excess = (values[:k] / noise) ** 2 / n - 1 - ratio
        if k == 0 or excess[-1] > 2 * np.sqrt(ratio) * (1 + 1e-6):
            break
        k -= 1
    squared = (excess + np.sqrt(excess**2 - 4 * ratio)) / (2 * ratio)
    alignment = (
        1 - (1 + squared) / (squared * (1 + ratio * squared)),
        1 - (1 + ratio * squared) / (ratio * squared * (1 + squared)),
    )
    return Spectrum(
        noise,
        left[:, :k] * np.sqrt(n),
        right[:, :k] * np.sqrt(p),
        np.sqrt(squared),
        alignment,
        left_over <= floor,
    )


class Rows(NamedTuple):
    """Posterior of rows: means, standard deviations, local false sign rates, mean covariance."""

    mean: Array
    sd: Array
    lfsr: Array
    covariance: Array


@dataclass(frozen=True)
class JointPrior:
    """A discrete distribution of rows: `support` (m x k) with `weights`."""

    support: Array
    weights: Array

    def posterior(self, x: Array, map_: Array, covariance: Array) -> Rows:
        """Compute the posterior of rows ``u`` given ``x ~ N(map_ u, covariance)``."""
        support, logs = self.support, np.log(self.weights)[:, None]
        mean, sd, lfsr = np.empty((3, *x.shape))
        spread = np.zeros_like(map_)
        size = max(1, DATA.small // len(self.weights))
        for part in (slice(i, i + size) for i in range(0, len(x), size)):
            odds = softmax(log_densities(x[part], support, map_, covariance) + logs, axis=0).T
            mean[part] = odds @ support
            sd[part] = np.sqrt(np.maximum(odds @ support**2 - mean[part] ** 2, 0.0))
            lfsr[part] = np.minimum(odds @ (support <= 0), odds @ (support >= 0))
            spread += (support.T * odds.sum(axis=0)) @ support - mean[part].T @ mean[part]
        return Rows(mean, sd, np.minimum(lfsr, 1.0), spread / len(x))


class Denoised(NamedTuple):
    """Rows after denoising."""

    mean: Array  # posterior means
    slope: Array  # k x k: mean derivative of the posterior means
    prior: JointPrior  # distribution of the rows that was found
    observed: tuple[Array, Array, Array]  # rows, their map and the covariance of their noise
    chosen: list[np.ndarray]  # numbers of the rows that it was fitted to, of its atoms
    weights: Array  # of those atoms


def denoise(
    x: Array,
    map_: Array,
    covariance: Array,
    rng: np.random.Generator,
    previous: Denoised | None = None,
) -> Denoised:
    """Estimate rows ``u`` of ``x ~ N(map_ u, covariance)`` and their distribution.

    The distribution is the maximum likelihood estimate among those with atoms at the rows
    themselves, ``map_^-1 x``, or at a sample of them; then each coordinate is scaled to the mean
    square of one that (1) says it has, since the estimate from a few noisy rows is too wide.
    `previous` is the same a round before, to start from: each atom has moved a little with its row.
    """
    chosen: list[np.ndarray]
    if previous is None:
        n, start = len(x), None
        chosen = [
            np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))
            for most in (_ROWS, _ATOMS)
        ]
    else:
        chosen, start = previous.chosen, previous.weights
    rows, atoms = x[chosen[0]], np.linalg.solve(map_, x[chosen[1]].T).T
    weights = fit_weights(log_densities(rows, atoms, map_, covariance), start=start).weights
    used = weights > 0
    size = np.sqrt(weights @ atoms**2)
    prior = JointPrior(atoms[used] / np.where(size > 0, size, 1.0), weights[used])
    found = prior.posterior(x, map_, covariance)
    slope: Array = np.linalg.solve(covariance, map_ @ found.covariance).T.astype(np.float64)
    return Denoised(found.mean, slope, prior, (x, map_, covariance), chosen, weights)


def log_densities(x: Array, atoms: Array, map_: Array, covariance: Array) -> Array:
    """Log-likelihoods of rows of `x` (columns) given each atom (rows), up to a constant of x."""
    root = np.linalg.cholesky(covariance)  # in these coordinates the noise is standard normal
    whitened, images = np.linalg.solve(root, x.T), np.linalg.solve(root, map_ @ atoms.T).T
    return np.asarray(images @ whitened - 0.5 * (images**2).sum(axis=1)[:, None])


def pass_messages(
    data: DataCovariance, start: Spectrum, n_iter: int, rng: np.random.Generator
) -> tuple[Denoised, Denoised, list[float]]:
    """Iterate (4) and (5) from principal components; return scores, loadings, changes of these.

    Ends early if the denoised vectors no longer span as many dimensions as there are components.
    """
    n, ratio = data.n_samples, data.n_features / data.n_samples
    unit = np.sqrt(n) * start.noise
    signals = np.diag(start.signals)
    scores = _denoised_start(start.left, start.alignment[0], rng)
    before = start.right * np.sqrt((1 - start.alignment[0]) / ratio)
    loadings: Denoised | None = None
    old = start.right * np.sqrt(start.alignment[1])  # posterior means if the prior were normal
    changes: list[float] = []
    while True:
        gram = scores.mean.T @ scores.mean / n
        if len(changes) == n_iter or _degenerate(gram):
            break
        message = data.transposed(scores.mean) / unit - before @ scores.slope.T
        loadings = denoise(message, gram @ signals, gram, rng, loadings)
        before = loadings.mean
        change = np.linalg.norm((before - old) @ signals) / np.linalg.norm(old @ signals)
        changes.append(float(change))
        old = before
        gram = before.T @ before / n
        if _degenerate(gram):
            break
        message = data.scores(before) / unit - scores.mean @ (ratio * loadings.slope).T
        scores = denoise(message, gram @ signals, gram, rng, scores)
    if loadings is None:
        loadings = _denoised_start(start.right, start.alignment[1], rng)
    return scores, loadings, changes


def _denoised_start(vectors: Array, alignment: Array, rng: np.random.Generator) -> Denoised:
    return denoise(vectors, np.diag(np.sqrt(alignment)), np.diag(1 - alignment), rng)


def _degenerate(gram: Array) -> bool:
    values = np.linalg.eigvalsh(gram)
    return values.size == 0 or bool(values[0] <= NEGLIGIBLE * values[-1])

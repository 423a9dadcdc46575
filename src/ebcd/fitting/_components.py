"""How many components the data have: compare eigenvalues with those of pure noise."""

from __future__ import annotations

import numpy as np
from scipy import optimize

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance

# 99 % quantile of the Tracy-Widom distribution of order one (Johnstone 2001; Bejan 2005).
_TRACY_WIDOM_99 = 2.0234
_FIRST_LOOK = 20
_SPARE = 5  # directions beside those that are tested, for accuracy
_FACTOR_STEPS = 4
_SMALLEST_SHARE = 0.05  # of a feature's variance that is noise


class Standardized(AbstractCovariance):
    """A covariance whose features are divided by standard deviations of their own.

    Parameters
    ----------
    covariance : AbstractCovariance
    variances : array of length p, optional
        Squares of what the features are divided by; by default their variances, which makes this
        the correlation matrix.
    """

    def __init__(self, covariance: AbstractCovariance, variances: Array | None = None) -> None:
        self._covariance = covariance
        self.n_samples, self.n_features = covariance.n_samples, covariance.n_features
        self.unit = 1.0
        whole = covariance.diagonal()
        variances = whole if variances is None else variances
        positive = (whole > 0) & (variances > 0)
        self._inverse = np.where(positive, 1 / np.sqrt(np.where(positive, variances, 1.0)), 0.0)
        self._diagonal = np.where(positive, whole / np.where(positive, variances, 1.0), 0.0)

    def matmul(self, v: Array) -> Array:
        """Product with the standardised matrix."""
        return self._inverse[:, None] * self._covariance.matmul(self._inverse[:, None] * v)

    @property
    def factor(self) -> Array | None:
        """Rows whose cross-products are the standardised matrix."""
        factor = self._covariance.factor
        return None if factor is None else factor * self._inverse

    def diagonal(self) -> Array:
        """Variances after the division, zero for constant features."""
        return self._diagonal


class Spectrum:
    """Leading eigenvalues of a covariance, found a few at a time."""

    def __init__(self, covariance: AbstractCovariance, most: int) -> None:
        self._covariance, self._most = covariance, most
        self._pairs: tuple[Array, Array] = (np.empty(0), np.empty((covariance.n_features, 0)))

    def given(self, k: int) -> tuple[Array, Array, Array]:
        """Return more than k leading eigenvalues, their vectors (p x ...), and the diagonal."""
        if k >= self._pairs[0].size:
            self._pairs = self._covariance.leading(min(max(_FIRST_LOOK, 2 * k), self._most))
        return *self._pairs, self._covariance.diagonal()


class FactorSpectrum:
    """Leading eigenvalues after division by the noise, estimated with k components in place.

    The variances of the features are signal and noise together, so that a correlation matrix has
    uneven noise wherever there is signal. A few steps of factor analysis tell them apart: the
    noise is what the k leading components of the standardised matrix leave of each variance.
    """

    def __init__(self, covariance: AbstractCovariance, most: int) -> None:
        self._covariance, self._most = covariance, most
        self._standardized = Standardized(covariance)
        self._basis = np.empty((covariance.n_features, 0))

    def given(self, k: int) -> tuple[Array, Array, Array]:
        """Return more than k leading eigenvalues, their vectors (p x ...), and the diagonal."""
        if k + _SPARE > self._basis.shape[1]:
            size = min(max(_FIRST_LOOK, 2 * k), self._most)
            values, self._basis = self._standardized.leading(size)
            if k == 0:
                return values, self._basis, self._standardized.diagonal()
        for _ in range(_FACTOR_STEPS):
            values, vectors = self._sharpened()
            self._divide_by_noise(values[:k], vectors[:, :k])
        return *self._sharpened(), self._standardized.diagonal()

    def _sharpened(self) -> tuple[Array, Array]:
        """Turn the basis towards the leading directions; return the eigenpairs within it."""
        basis, _ = np.linalg.qr(self._standardized.matmul(self._basis))
        values, rotation = np.linalg.eigh(basis.T @ self._standardized.matmul(basis))
        self._basis = basis @ rotation[:, ::-1]
        return np.maximum(values[::-1], 0.0), self._basis

    def _divide_by_noise(self, values: Array, vectors: Array) -> None:
        whole = self._standardized.diagonal()
        share = 1 - vectors**2 @ values / np.where(whole > 0, whole, 1.0)
        variances = self._covariance.diagonal() * np.maximum(share, _SMALLEST_SHARE)
        self._standardized = Standardized(self._covariance, variances)


def count_components(
    covariance: AbstractCovariance,
    degrees_of_freedom: int,
    per_feature: bool = False,
) -> int:
    """Count the eigenvalues that pure noise would exceed with a probability below 1 %.

    The components are taken away one by one. The largest eigenvalue that is left is compared with
    the 99 % quantile of the largest eigenvalue of noise of the size that is left, twice:

    (1) of noise with one variance, estimated from the eigenvalues that are left (Kritchman and
        Nadler 2008, with the centring and scaling of Ma 2012);
    (2) of noise whose variances differ between features as those that are left do (El Karoui 2007;
        Dobriban and Owen 2019). This is what random signs would show on average, without drawing
        any, so that covariances will do. Variances of a sample spread by chance; their spread is
        reduced by as much. Features whose noise is even pass (2) whenever they pass (1).

    A component of few features hides in (2) as long as it is part of what is left. So what fails
    (2) only is tested once more with the noise divided out, feature by feature, which shows whether
    features are correlated; and the next component is tried before giving up.

    Parameters
    ----------
    covariance : AbstractCovariance
    degrees_of_freedom : int
        Number of samples, less one if the data are centred.
    per_feature : bool
        Whether the noise is divided out first, feature by feature.
    """
    p = int((covariance.diagonal() > 0).sum())
    most = min(degrees_of_freedom, p) - 1
    if most < 1:
        return 0
    divided = FactorSpectrum(covariance, most)
    spectrum = divided if per_feature else Spectrum(covariance, most)
    found, ahead = 0, 0 if per_feature else 1

    def left(source: Spectrum | FactorSpectrum, k: int) -> _Left:
        return _Left(*source.given(k), k, covariance.n_samples, degrees_of_freedom)

    for k in range(most):
        if k > found + ahead:
            break
        rest = left(spectrum, k)
        if not rest.exceeds_even_noise():
            break
        if rest.exceeds_uneven_noise() or (not per_feature and left(divided, k).exceeds_both()):
            found = k + 1
    return found


class _Left:
    """What `k` components leave of the data, and its largest eigenvalue."""

    def __init__(
        self, values: Array, vectors: Array, diagonal: Array, k: int, n_samples: int, n: int
    ) -> None:
        alive = diagonal > 0
        p = int(alive.sum())
        self._trace = float(diagonal.sum())
        self._shape = n - k - 0.5, p - k - 0.5  # halves: Ma 2012
        left = self._trace - float(values[:k].sum())
        self._variance = n_samples * left / ((n - k) * (p - k))
        self._largest = n_samples * values[k]
        self._features = diagonal[alive], vectors[alive, :k], values[:k]
        self._spread_by_chance = 2 / (n - k)

    def exceeds_both(self) -> bool:
        """Compare with either kind of noise."""
        return self.exceeds_even_noise() and self.exceeds_uneven_noise()

    def exceeds_even_noise(self) -> bool:
        """Compare with noise of one variance."""
        if self._variance <= 1e-12 * self._trace:  # nothing but rounding is left
            return False
        return bool(self._largest > self._variance * even_edge(*self._shape))

    def exceeds_uneven_noise(self) -> bool:
        """Compare with noise of the variances that the features have left."""
        diagonal, vectors, values = self._features
        variances = np.maximum(diagonal - vectors**2 @ values, 0.0)
        variances /= variances.mean()
        spread = float(variances.var())
        if spread <= self._spread_by_chance:
            return True
        variances = 1 + np.sqrt(1 - self._spread_by_chance / spread) * (variances - 1)
        top, size = float(variances.max()), self._largest / self._variance
        if size > top * even_edge(*self._shape):  # clear without further computation
            return True
        return bool(size > uneven_edge(*self._shape, variances))


def even_edge(n: float, p: float, quantile: float = _TRACY_WIDOM_99) -> float:
    """Quantile of the largest eigenvalue of ``X'X`` for n x p noise of variance one."""
    rows, columns = np.sqrt(n), np.sqrt(p)
    spread = (rows + columns) * (1 / rows + 1 / columns) ** (1 / 3)
    return float((rows + columns) ** 2 + quantile * spread)


def uneven_edge(n: float, p: float, variances: Array, quantile: float = _TRACY_WIDOM_99) -> float:
    """Quantile of the largest eigenvalue of ``X'X`` for n x p noise with variances like these.

    With ``r_j = v_j c / (1 - v_j c)`` and ``c`` such that the mean of ``r^2`` is ``n / p``, the
    centre is ``(n + p mean(r)) / c`` and the spread ``(n + p mean(r^3))^(1/3) / c``.
    """

    def ratio(c: float) -> Array:
        return np.asarray(variances * c / (1 - variances * c))

    def excess(c: float) -> float:
        return float(np.log(np.mean(ratio(c) ** 2) * p / n))

    # all variances as large as the largest, or all but the largest zero
    shares = (np.sqrt(n / p), np.sqrt(n / p * variances.size))
    low, high = (share / (1 + share) / float(variances.max()) for share in shares)
    c = optimize.brentq(excess, low, high, rtol=1e-8) if excess(low) < 0 < excess(high) else low
    r = ratio(c)
    return float((n + p * r.mean() + quantile * (n + p * (r**3).mean()) ** (1 / 3)) / c)

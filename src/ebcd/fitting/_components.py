"""How many components the data have: compare eigenvalues with those of pure noise."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize, special

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance, from_matrix
from ebcd.data._settings import SETTINGS
from ebcd.fitting._rotation import NEGLIGIBLE

# The Tracy-Widom distribution of order one: 99 % quantile, mean and variance (Bejan 2005).
_TRACY_WIDOM_99, _TRACY_WIDOM_MEAN, _TRACY_WIDOM_VARIANCE = 2.0234, -1.2065, 1.6078
_SPARE = 10  # directions beside those that are tested, for accuracy
_FACTOR_STEPS = 4
_SMALLEST_SHARE = 0.05  # of a feature's variance that is noise
_CLEAR = 3.0  # standard errors by which lengths of rows spread more than Gaussian ones


class Standardized(AbstractCovariance):
    """A covariance whose features are divided by standard deviations of their own.

    By default `variances`, their squares, are those of the features, which makes this the
    correlation matrix.
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
        """Product with the standardized matrix."""
        return self._inverse[:, None] * self._covariance.matmul(self._inverse[:, None] * v)

    def exact_pairs(self, k: int, width: int, weights: Any = None) -> tuple[Array, Array] | None:
        """Return exact eigenpairs if the covariance can."""
        return self._covariance.exact_pairs(k, width, self._inverse)

    @property
    def most_rank(self) -> int:
        """Number that the rank does not exceed."""
        return self._covariance.most_rank

    def diagonal(self) -> Array:
        """Variances after the division, zero for constant features."""
        return self._diagonal


class Spectrum:
    """Leading eigenvalues of a covariance, found a few at a time unless some are known."""

    def __init__(
        self, covariance: AbstractCovariance, most: int, known: tuple[Array, Array] | None = None
    ) -> None:
        self._covariance, self._most = covariance, most
        self._pairs = known or (np.empty(0), np.empty((covariance.n_features, 0)))

    def given(self, k: int) -> tuple[Array, Array, Array]:
        """Return more than k leading eigenvalues, their vectors (p x ...), and the diagonal."""
        if k >= self._pairs[0].size:
            self._pairs = self._covariance.leading(min(2 * (k + _SPARE), self._most))
        return *self._pairs, self._covariance.diagonal()


class FactorSpectrum:
    """Leading eigenvalues after division by the noise, estimated with k components in place.

    The variances of the features are signal and noise together, so that a correlation matrix has
    uneven noise wherever there is signal. A few steps of factor analysis tell them apart. In units
    of the noise, eigenvalues ``t`` of the k leading components include that noise, so that their
    signal is ``t - level``, with the mean of the other eigenvalues as the level (Joreskog 1967):

        noise_j <- noise_j (variance_j - sum_i (t_i - level) v_ji^2).

    Without the level a feature that dominates a component would lose most of its noise to it.

    Among many features the correlation of a few is no large eigenvalue. So as long as there are no
    components, a feature that is clearly correlated with another loses that share of its noise.
    """

    def __init__(self, covariance: AbstractCovariance, most: int, degrees_of_freedom: int) -> None:
        self._covariance, self._most, self._n = covariance, most, degrees_of_freedom
        self._noise = covariance.diagonal()
        self._standardized = Standardized(covariance)
        self._basis = np.empty((covariance.n_features, 0))

    def given(self, k: int) -> tuple[Array, Array, Array]:
        """Return more than k leading eigenvalues, their vectors (p x ...), and the diagonal."""
        if k + _SPARE > self._basis.shape[1]:
            self._look(k)
        for _ in range(_FACTOR_STEPS if k else 0):
            values, vectors = self._sharpened()
            whole = self._standardized.diagonal()
            level = (whole.sum() - values[:k].sum()) / max(int((whole > 0).sum()) - k, 1)
            signal = vectors[:, :k] ** 2 @ np.maximum(values[:k] - level, 0.0)
            del vectors  # large, and to be found again
            self._divide_by(self._noise * (whole - signal))
        if k == 0 and (shared := self._shared()).any():
            self._divide_by(self._noise * (1 - shared))
            self._look(k)
        return *self._sharpened(), self._standardized.diagonal()

    def _look(self, k: int) -> None:
        size = min(2 * (k + _SPARE), self._most)
        self._basis = self._standardized.leading(size)[1]

    def _sharpened(self) -> tuple[Array, Array]:
        """Turn the basis toward the leading directions; return the eigenpairs within it."""
        size = self._basis.shape[1]
        if self._covariance.most_rank <= 4 * size:  # exact ones cost no more than two products
            self._basis = np.empty((0, 0))  # large
            values, self._basis = self._standardized.leading(size)
            return values, self._basis
        basis, _ = np.linalg.qr(self._standardized.matmul(self._basis))
        values, rotation = np.linalg.eigh(basis.T @ self._standardized.matmul(basis))
        self._basis = basis @ rotation[:, ::-1]
        return np.maximum(values[::-1], 0.0), self._basis

    def _divide_by(self, noise: Array) -> None:
        self._noise = np.maximum(noise, _SMALLEST_SHARE * self._covariance.diagonal())
        self._standardized = Standardized(self._covariance, self._noise)

    def _shared(self) -> Array:
        """Return the largest correlation of each feature, zero if it may be chance."""
        p = self._covariance.n_features
        if p**3 > SETTINGS.exact_operations:  # all correlations would cost more than the fit
            return np.zeros(p)
        correlations = np.abs(self._standardized.matmul(np.eye(p)))
        np.fill_diagonal(correlations, 0.0)
        largest = correlations.max(axis=0)
        return np.where(largest > correlation_edge(self._n, p), largest, 0.0)


def count_components(
    covariance: AbstractCovariance,
    centred: bool,
    per_feature: bool = False,
    limit: int | None = None,
    known: tuple[Array, Array] | None = None,
) -> int:
    """Count the eigenvalues that pure noise would exceed with a probability below 1 %.

    The components are taken away one by one. The largest eigenvalue that is left is compared with
    the 99 % quantile of the largest eigenvalue of noise of the size that is left, twice:

    (1) of noise with one variance, estimated from the eigenvalues that are left (Kritchman and
        Nadler 2008, with the centering and scaling of Ma 2012), which include the one that is
        tested (Nadler 2011);
    (2) of noise whose variances differ between features as those that are left do (El Karoui 2007;
        Dobriban and Owen 2019). This is what random signs would show on average, without drawing
        any, so that covariances will do. Variances of a sample spread by chance; their spread is
        reduced by as much. Features whose noise is even pass (2) whenever they pass (1).

    A component of few features hides in (2) as long as it is part of what is left. So it also
    passes if it is likelier than uneven noise. What fails is tested once more with the noise
    divided out, feature by feature, which shows whether features are correlated; and the next
    component is tried before giving up.

    Parameters
    ----------
    covariance : AbstractCovariance
        Of rows with the same variances.
    centered : bool
        Whether the data are centered, which takes a degree of freedom.
    per_feature : bool
        Whether the noise is divided out first, feature by feature.
    limit : int, optional
        Largest number of interest.
    known : pair of arrays, optional
        Leading eigenvalues and eigenvectors (p x ...), if they have been found already.
    """
    p = int((covariance.diagonal() > 0).sum())
    degrees_of_freedom = max(covariance.n_samples - centred, 1)
    most = min(degrees_of_freedom, p) - 1
    if most < 1:
        return 0
    last = most if limit is None else min(limit, most)
    divided = FactorSpectrum(covariance, min(most, last + _SPARE), degrees_of_freedom)
    spectrum = divided if per_feature else Spectrum(covariance, min(most, last + 1), known)
    found, ahead = 0, 0 if per_feature else 1

    def left(source: Spectrum | FactorSpectrum, k: int) -> _Left:
        n = covariance.n_samples
        return _Left(source.given(k), k, n, degrees_of_freedom, source is divided)

    for k in range(last):
        if k > found + ahead:
            break
        rest = left(spectrum, k)
        if not rest.exceeds_even_noise():
            break
        if rest.stands_out() or left(divided, k).stands_out():
            found = k + 1
    return found


def count_in_rows(
    rows: Array, centred: bool, per_feature: bool = False, limit: int | None = None
) -> int:
    """Count the components of rows whose variances may differ, which adds spurious ones.

    Where the residuals of components have lengths that spread more than those of Gaussian rows,
    rows are divided by the lengths, which makes the noise of scaled Gaussian rows equal: first by
    those of the rows, then by what the components leave that are found so far, until there are no
    more of them. Copies of rows count once.
    """
    rows = distinct_rows(rows)
    if min(rows.shape) < 2:
        return 0
    sample = plain = _Sample(rows, np.ones(len(rows)), centred)
    total, k = plain.count(per_feature, limit), 0
    if all(plain.looks_gaussian(j) for j in range(total + 1)):
        return total
    while k < total:
        sample = _Sample(plain.rows, sample.weights(k), centred)
        # lengths still have the signal of further components in them, so that few can be trusted
        found = sample.count(per_feature, min(max(1, 2 * k), total))
        if found <= k:  # unless the scores of one more are all that spreads
            return total if total == k + 1 and plain.looks_gaussian(total) else found
        k = found
    return total


def rows_look_alike(rows: Array, k: int) -> bool:
    """Whether what the k leading components leave of the rows has the same variance in each."""
    sample = _Sample(rows, np.ones(len(rows)), False)
    sample.look(k)
    return sample.looks_gaussian(k)


def distinct_rows(rows: Array) -> Array:
    """Return each row once, unless columns of so few values are alike by chance."""
    places = {row.tobytes(): i for i, row in enumerate(rows)}
    if len(places) == len(rows):
        return rows
    distinct = rows[sorted(places.values())]
    pairs = len(distinct) * (len(distinct) - 1)
    expected = pairs / 2  # pairs of rows that are alike if the columns are independent
    for column in distinct.T:
        times = np.unique(column, return_counts=True)[1]
        expected *= float(times @ (times - 1)) / max(pairs, 1)
    return distinct if expected < 0.01 else rows  # the level of the other tests


class _Sample:
    """Rows with weights: inverse standard deviations of the rows, up to a factor."""

    def __init__(self, rows: Array, weights: Array, centred: bool) -> None:
        mean = weights**2 @ rows / (weights @ weights)
        # a copy only if it differs, for there may be a million columns
        off = np.abs(mean).max() > NEGLIGIBLE * max(rows.max(), -rows.min())
        self.rows = rows - mean if centred and off else rows
        self._centred = centred
        weighted = self.rows if (weights == 1).all() else self.rows * weights[:, None]
        self._covariance = from_matrix(weighted, False, False).covariance
        # some rows tell whether lengths spread; products of all would cost more than the fit
        some = int(np.sqrt(SETTINGS.exact_operations / rows.shape[1]))
        self._some = self.rows[:: max(len(rows) // some, 1)] if some < len(rows) else self.rows
        wide = self._some.shape[1] > len(self._some)
        turned = self._some if wide else self._some.T
        self._products = float(np.square(turned @ turned.T).sum())
        self._vectors = np.empty((rows.shape[1], 0))

    def count(self, per_feature: bool, limit: int | None) -> int:
        """Count components as if the weighted rows were alike."""
        found = count_components(self._covariance, self._centred, per_feature, limit)
        self.look(found)
        return found

    def look(self, k: int) -> None:
        """Find the k leading directions."""
        self._vectors = self._covariance.leading(max(k, 1))[1]

    def looks_gaussian(self, k: int) -> bool:
        """Whether squared lengths of what k components leave spread no more than Gaussian ones.

        Those have the relative variance ``2 tr(S^2) / tr(S)^2``, whatever the covariance ``S``;
        products of different rows show what ``tr(S^2)`` is.
        """
        rows, vectors = self._some, self._vectors[:, :k]
        n, squares, back = len(rows), _squares(rows, vectors), rows.T @ (rows @ vectors)
        products = self._products - 2 * (back**2).sum() + ((vectors.T @ back) ** 2).sum()
        total = float(squares.sum())
        if total <= NEGLIGIBLE * (rows**2).sum():
            return True
        expected = 2 * (products - (squares**2).sum()) * n / (n - 1) / total**2
        expected = max(expected, 2 / rows.shape[1])  # as if all variances were equal
        error = np.sqrt((2 + 6 * expected) / n)  # relative, of the variance of chi-squares
        return bool(n**2 * squares.var() / total**2 <= expected * (1 + _CLEAR * error))

    def weights(self, k: int) -> Array:
        """Return weights that make what k components leave equally long, if it should be."""
        if self.looks_gaussian(k):
            return np.ones(len(self.rows))
        squares = _squares(self.rows, self._vectors[:, :k])
        least = _SMALLEST_SHARE * np.median(squares[squares > 0])
        return np.asarray(1 / np.sqrt(np.maximum(squares, least)))


def _squares(rows: Array, vectors: Array) -> Array:
    """Return squared lengths of what orthonormal directions (p x k) leave of rows."""
    squares = np.vecdot(rows, rows) - ((rows @ vectors) ** 2).sum(axis=1)
    return np.asarray(np.maximum(squares, 0.0))


class _Left:
    """What `k` components leave of the data, and its largest eigenvalue.

    `pairs` are eigenvalues, eigenvectors and diagonal of a covariance of `n_samples` rows with `n`
    degrees of freedom; `divided`, if each feature was divided by its noise.
    """

    def __init__(
        self, pairs: tuple[Array, Array, Array], k: int, n_samples: int, n: int, divided: bool
    ) -> None:
        values, vectors, diagonal = pairs
        alive, unit = diagonal > 0, n_samples / (n - k)
        taken = vectors[alive, :k] ** 2
        self._n, self._p, self._divided = n - k, int(alive.sum()) - k, divided
        self._freedom = np.maximum(1 - taken.sum(axis=1), NEGLIGIBLE)
        self._variances = unit * np.maximum(diagonal[alive] - taken @ values[:k], 0.0)
        self._total = unit * float(diagonal.sum() - values[:k].sum())
        self._largest = unit * float(values[k]) if k < values.size else 0.0
        self._is_rounding = (
            self._total <= NEGLIGIBLE * unit * diagonal.sum() * self._p / alive.sum()
        )

    def stands_out(self) -> bool:
        """Compare with either kind of noise."""
        return self.exceeds_even_noise() and self.exceeds_uneven_noise()

    def exceeds_even_noise(self) -> bool:
        """Compare with noise of one variance, estimated from what is left.

        What is divided by has a relative variance: that of the mean square of all entries, or, of
        features divided by their own, of the mean square along a direction, ``2 / n sum(v^4)``. The
        sum is 3 / (p + 2) if the direction is random; 2 / (p + 1) keeps the level for small p.
        """
        n, p = self._n, self._p
        estimated = 2 / n * (2 / (p + 1) if self._divided else 1 / p)
        edge = ratio_edge(n - 0.5, p - 0.5, estimated)  # halves: Ma 2012
        return not self._is_rounding and bool(n * self._largest > edge * self._total / p)

    def exceeds_uneven_noise(self) -> bool:
        """Compare with noise of the variances that the features have left."""
        if self._is_likelier_than_uneven_noise():
            return True
        variances = self._variances / self._variances.mean()
        spread, by_chance = float(variances.var()), 2 / self._n
        if spread <= by_chance:
            return True
        variances = 1 + np.sqrt(1 - by_chance / spread) * (variances - 1)
        shape = self._n - 0.5, self._p - 0.5
        size = self._largest * self._n * self._p / self._total
        if size > float(variances.max()) * even_edge(*shape):  # clear without further computation
            return True
        return bool(size > uneven_edge(*shape, variances))

    def _is_likelier_than_uneven_noise(self) -> bool:
        """Compare the likelihood of a component in even noise with that of uneven noise.

        Of noise with one larger variance, the former gains a chi-square of p - 1 directions and the
        latter one of p - 2 variances; so 2 % of the first alone are about 1 % of the difference.
        """
        p, floor = self._p, NEGLIGIBLE * self._total
        if p < 2 or self._largest <= floor:
            return False
        rest = max(self._total - self._largest, floor) / (p - 1)
        uneven = self._freedom @ np.log(np.maximum(self._variances / self._freedom, floor))
        gain = uneven - np.log(self._largest) - (p - 1) * np.log(rest)
        return bool(self._n * gain > special.chdtri(p - 1, 0.02))


def correlation_edge(n: float, p: int) -> float:
    """Bound that no correlation of p features of n samples of noise exceeds, but with 1 %."""
    t = -float(special.stdtrit(n - 1, 0.01 / (p * (p - 1)))) if n > 1 else np.inf
    return float(1 / np.sqrt(1 + (n - 1) / t**2))


def even_edge(n: float, p: float, quantile: float = _TRACY_WIDOM_99) -> float:
    """Quantile of the largest eigenvalue of ``X'X`` for n x p noise of variance one."""
    rows, columns = np.sqrt(n), np.sqrt(p)
    spread = (rows + columns) * (1 / rows + 1 / columns) ** (1 / 3)
    return float((rows + columns) ** 2 + quantile * spread)


def ratio_edge(n: float, p: float, known: float) -> float:
    """Quantile of the largest eigenvalue divided by a variance estimated from the same noise.

    The ratio is independent of the estimate, whose relative variance is `known`; so it has the mean
    of the eigenvalue, and its variance is smaller by that of the estimate.
    """
    mean, quantile = even_edge(n, p, _TRACY_WIDOM_MEAN), even_edge(n, p)
    variance = _TRACY_WIDOM_VARIANCE * (even_edge(n, p, 1.0) - even_edge(n, p, 0.0)) ** 2
    return mean + (quantile - mean) * float(np.sqrt(max(1 - known * mean**2 / variance, 0.0)))


def uneven_edge(n: float, p: float, variances: Array, quantile: float = _TRACY_WIDOM_99) -> float:
    """Quantile of the largest eigenvalue of ``X'X`` for n x p noise with variances like these.

    With ``r_j = v_j c / (1 - v_j c)`` and ``c`` such that the mean of ``r^2`` is ``n / p``, the
    center is ``(n + p mean(r)) / c`` and the spread ``(n + p mean(r^3))^(1/3) / c``.
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

"""Missing entries: the bound of what was observed, and its maximum.

Loadings and precisions see only what was observed, so each feature has moments of the scores of its
own, over the rows in which it was observed. Let row i lack some features, ``G_i`` be the part of
``G`` of the others, ``r_i = L T x_i`` over them, and ``w_i`` their share. With the weights ``W`` of
a score model, complete rows have the scores ``W r``, as ever. The others have

    (1)  z_i = (G_i + w_i (W^-1 - G) + (1 - w_i) I)^(-1) r_i.

Integrated scores have ``W^-1 = G + I``, and (1) is their posterior mean. Estimated scores are held
by the score model in the share of the row that was observed, and by their normal prior, which the
objective includes as ``-(1 - w_i) (|z_i|^2 - k) / 2``, in the share that was not: a row of which little
is known has scores near zero. The score model is that of ``N = sum_i w_i`` rows, of which each
counts by its share; its equation for ``W`` sees them through what complete rows would have been,

    (2)  A = sum_i w_i q_i q_i' / N,   w_i q_i = w_i W^-1 z_i = r_i + (w_i G - G_i - (1 - w_i) I) z_i.

(1) and (2) are repeated until they agree, and maximise the objective over the scores. The means of
the features maximise it as well: they are those of ``x_ij - l_j' z_i`` over the rows observed. Then
estimated scores have mean zero, weighted by shares: their mean is subtracted from ``q``.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ebcd._numerics import Array
from ebcd.data import Observed
from ebcd.fitting._decompose import Fit, Problem, decompose, finished, nothing, shrinker_for
from ebcd.fitting._noise import AbstractNoise, ConstantNoise
from ebcd.fitting._progress import Monitor
from ebcd.fitting._scores import (
    AbstractScores,
    IntegratedScores,
    Moments,
    OrthogonalScores,
    Point,
    Seen,
    point_of,
    settle,
)
from ebcd.fitting._shrinkers import SpikeSlabShrinker
from ebcd.fitting._states import Model
from ebcd.priors._fitted import FittedPrior
from ebcd.priors._family import PRIORS


@dataclass(frozen=True)
class MissingSettings:
    """How far fits go before and between the iterations that count."""

    rounds: int = 30  # of (1) and (2), which agree after about ten
    accuracy: float = 1e-10  # of scores, whose mean square is about one
    tol: float = 0.1  # nats: where the completed data are good enough to search for a start
    max_iter: int = 100  # for that


SETTINGS = MissingSettings()


class Information(NamedTuple):
    """What rows say about their scores: ``G``, ``G - G_i`` and ``w_i`` of rows with holes."""

    gram: Array
    lost: Array
    shares: Array

    @classmethod
    def of(cls, loadings: Array, variances: Array, precision: Array, gone: Any) -> Information:
        """Compute it; `gone` has ones where entries are missing."""
        k, p = loadings.shape
        pairs = (loadings * precision)[:, None] * loadings
        pairs[np.arange(k), np.arange(k)] += precision * variances
        lost = (gone @ pairs.reshape(k * k, p).T).reshape(-1, k, k)
        return cls(pairs.sum(axis=-1), lost, 1 - np.diff(gone.indptr) / p)

    def scores(self, weights: Array, r: Array) -> Array:
        """Solve (1), multiplied by ``W``, which is singular where components are empty."""
        share, unit = self.shares[:, None, None], np.eye(len(weights))
        left = weights @ (self.gram - self.lost + (1 - share) * unit)
        left += share * (unit - weights @ self.gram)
        return np.asarray(np.linalg.solve(left, (r @ weights.T)[..., None])[..., 0])

    def completed(self, z: Array, r: Array) -> Array:
        """Return ``q`` of (2)."""
        share = self.shares[:, None]
        rest = ((share[..., None] - 1) * self.gram + self.lost) @ z[..., None]
        return np.asarray((r + rest[..., 0] - (1 - share) * z) / share)


class IncompleteRows:
    """Data with missing entries, as an iteration sees them.

    Parameters
    ----------
    observed : Observed
    """

    def __init__(self, observed: Observed) -> None:
        self.observed = observed

    def scores_given(self, scores: AbstractScores, start: Point) -> tuple[Moments, Array]:
        """Return the moments of the scores, and the data rotated to them."""
        observed, holed, k = self.observed, self.observed.holed, start.loadings.shape[1]
        at, found, z = self._solved(scores, start)
        inverse = np.linalg.inv(np.eye(k) + at.gram - at.lost)
        whole = np.linalg.inv(np.eye(k) + at.gram)
        unknown = (len(z) - holed.size) * whole + inverse.sum(axis=0)
        pairs, total = z[holed, :, None] * z[holed, None], z.T @ z
        if scores.uncertain:
            pairs, total = pairs + inverse, total + unknown
            known = (len(z) - holed.size) * np.linalg.slogdet(whole)[1]
            known += np.linalg.slogdet(inverse)[1].sum()
            term = 0.5 * np.array([known + k * len(z) - np.trace(total)])
        else:
            term = found.term - 0.5 * ((1 - at.shares)[:, None] * (z[holed] ** 2 - 1)).sum()
        second, spread = self._seen(total, pairs), self._seen(unknown, inverse)
        centre = self._seen(z.sum(axis=0), z[holed]) * observed.center
        second -= centre[:, None] * centre
        own = np.einsum("kkp->kp", second)
        own[own <= 0] = 1.0  # an empty component, whose scores are zero
        seen = Seen(second[None], spread[None], centre[None])
        rotated = z.T @ observed.values / observed.counts
        return found._replace(term=term, seen=seen), rotated[None]

    def expected(self, scores: AbstractScores, start: Point) -> Array:
        """Return the expectations of the missing entries, row by row."""
        z = self._solved(scores, start)[2]
        return self._entries(z, start)

    def drawn(self, start: Point, rng: np.random.Generator) -> Array:
        """Draw the missing entries, given scores that are integrated out, row by row."""
        at, _, z = self._solved(IntegratedScores(), start)
        inverse = np.linalg.inv(np.eye(z.shape[1]) + at.gram - at.lost)
        chance = rng.standard_normal((len(inverse), z.shape[1], 1))
        z[self.observed.holed] += (np.linalg.cholesky(inverse) @ chance)[..., 0]
        sd = np.broadcast_to(1 / np.sqrt(start.precision[0]), self.observed.counts.shape)
        noise = sd[self.observed.missing.indices]
        return self._entries(z, start) + noise * rng.standard_normal(noise.size)

    def _entries(self, z: Array, start: Point) -> Array:
        rows, columns = self.observed.missing.nonzero()
        return np.einsum("ik,ki->i", z[rows], start.loadings[0][:, columns]) + start.shift[0, columns]

    def _solved(self, scores: AbstractScores, start: Point) -> tuple[Information, Moments, Array]:
        """Repeat (1) and (2); return what was known, the score model's moments, and scores."""
        observed, loadings, shift = self.observed, start.loadings[0], start.shift[0]
        weighted, holed = loadings * start.precision[0], observed.holed
        at = Information.of(loadings, start.spread[0], start.precision[0], observed.gone)
        r = observed.values @ weighted.T - weighted @ shift
        r[holed] += observed.gone @ (weighted * shift).T
        weights = np.linalg.inv(np.eye(len(loadings)) + at.gram)
        n, centred = float(observed.shares.sum()), observed.center and not scores.uncertain
        mean = np.zeros(len(loadings))
        for _ in range(SETTINGS.rounds):
            z = at.scores(weights, r[holed] - at.shares[:, None] * mean)
            q = r.copy()
            q[holed] = at.completed(z, r[holed])
            mean = observed.shares @ q / n if centred else mean
            q -= mean
            energy = (q.T * observed.shares) @ q / n
            found = scores.moments(at.gram[None], energy[None], n, len(r) - n)
            new = found.weights[0]
            change = np.abs(q[holed] @ new.T - z).max(initial=0.0)
            weights = new
            if change <= SETTINGS.accuracy:
                break
        return at, found, q @ weights.T

    def _seen(self, total: Array, rows: Array) -> Array:
        """Sum something over the rows in which each feature was observed; divide by their number.

        `total` is the sum over all rows, `rows` those with holes.
        """
        gone = (self.observed.gone.T @ rows.reshape(len(rows), -1)).T
        sums = total.reshape(-1, 1) - gone
        return np.asarray(sums / self.observed.counts).reshape(*total.shape, -1)


def principal_point(observed: Observed, noise: AbstractNoise, k: int, monitor: Monitor) -> Point:
    """Fit probabilistic principal components, from those of the data with zeros."""
    covariance = observed.covariance()
    values, vectors = covariance.leading(k)
    loadings = (np.sqrt(values) * vectors).T
    precision = noise.precision(np.maximum(noise.variances - (loadings**2).sum(axis=0), 0.0))
    s = np.sqrt(1 / (noise.n_samples * precision))
    shrinker = SpikeSlabShrinker(PRIORS["normal"](), slopes=False)
    spread = np.broadcast_to(s**2, loadings.shape)
    priors = shrinker.first(loadings[None], s[None, None])
    start = Point(loadings[None], spread[None], precision[None], priors, np.zeros_like(s)[None])
    model = _model(observed, noise, shrinker)
    settled = settle(
        model,
        IntegratedScores(),
        start,
        lambda states: monitor.out_of_time(),
        tol=SETTINGS.tol,
        max_iter=SETTINGS.max_iter,
    )
    return point_of(settled.states)


def _model(observed: Observed, noise: AbstractNoise, shrinker: Any) -> Model:
    nothing_known = np.empty((0, observed.counts.size))
    return Model(
        nothing_known, observed.variances, noise, shrinker, incomplete=IncompleteRows(observed)
    )


def count_observed(
    observed: Observed, count: Callable[[Array], int], monitor: Monitor, most: int
) -> int:
    """Count components of data with missing entries, which are drawn from what was found so far.

    First they are noise, so that data of noise stay noise, and then they follow the components
    that stood out, until no more of them do. What holes hide, a next round may find.
    """
    noise = ConstantNoise(observed.counts, observed.variances)
    rng, k = np.random.default_rng(0), 0
    sd = np.sqrt(observed.variances)[observed.missing.indices]
    entries = sd * rng.standard_normal(sd.size)
    while (found := min(count(observed.filled(entries)), most)) > k:
        k = found
        point = principal_point(observed, noise, k, monitor)
        entries = IncompleteRows(observed).drawn(point, rng)
    return k


def decompose_observed(
    problem: Problem,
    observed: Observed,
    start: Any,
    rng: np.random.Generator,
    saved: dict[str, Any] | None = None,
) -> Fit:
    """Fit the components of data with missing entries; as `decompose` otherwise.

    The search for a start is that of data completed by principal components.
    """
    scores, monitor = problem.scores or OrthogonalScores(), problem.monitor
    if saved is None:
        monitor.stage("filling in missing values")
        point = principal_point(observed, problem.noise, len(problem.priors), monitor)
        covariance = observed.covariance(
            IncompleteRows(observed).expected(IntegratedScores(), point)
        )
        apart = copy(monitor)  # whose path and checkpoint are about other data
        apart.path, apart.checkpoint = [], None
        noise = type(problem.noise)(covariance.n_samples, covariance.diagonal())
        complete = replace(
            problem,
            covariance=covariance,
            noise=noise,
            tol=max(problem.tol, SETTINGS.tol),
            monitor=apart,
        )
        found = decompose(complete, start, rng)
        if not found.priors:
            return nothing(problem)._replace(converged=found.converged)
        state, monitor.started = found.state, apart.started
        priors, fitted = found.priors, state.fitted
        parts = state.mean, state.variance, state.precision
        shift = np.zeros(observed.counts.size)
    else:
        monitor.path[:], monitor.started = saved["path"][:-1], True
        fitted = [FittedPrior.from_dict(prior) for prior in saved["priors"]]
        priors, shift = problem.priors[: len(fitted)], saved["shift"]
        parts = saved["loadings"], saved["spread"], saved["precision"]
    problem = replace(problem, priors=priors, scores=scores)
    model = _model(observed, problem.noise, shrinker_for(priors, observed.counts.size))
    begun = model.shrinker.begun(fitted)
    point = Point(*(part[None] for part in parts), begun, shift[None])
    return finished(problem, model, True, point, start)


def incomplete_map(
    observed: Observed, scores: AbstractScores | None, state: Any
) -> tuple[Array, Array]:
    """Return the matrix (p x k) whose product with complete rows are their scores.

    And what the means of the features differ by from those of what was observed.
    """
    shift = -(state.moments.seen.centre * state.mean).sum(axis=0)
    parts = (part[None] for part in (state.mean, state.variance, state.precision))
    point = Point(*parts, None, shift[None])
    moments, _ = IncompleteRows(observed).scores_given(scores or OrthogonalScores(), point)
    return (moments.weights[0] @ (state.mean * state.precision)).T, shift

"""Missing entries: the bound of what was observed, and its maximum.

Loadings and precisions see only what was observed, so each feature has moments of the scores of its
own, over the rows in which it was observed. Let row i lack some features, ``G_i`` be the part of
``G`` of the others, ``r_i = L T x_i`` over them, and ``w_i`` their share. With the weights ``W`` of
a score model, complete rows have the scores ``W r``, as ever. The others have

    (1)  z_i = K_i^-1 r_i,   K_i = G_i + w_i H + (1 - w_i) I,   H = W^-1 - G.

Integrated scores have ``H = I``, and (1) is their posterior mean. Estimated scores are held by the
score model in the share of the row that was observed, and by their normal prior, which the
objective includes as ``-(1 - w_i) (|z_i|^2 - k) / 2``, in the share that was not: a row of which
little is known has scores near zero. The score model is that of ``N = sum_i w_i`` rows, of which
each counts by its share, and sees them as if they were complete, with ``W^-1 z_i`` for ``r_i``:

    (2)  A = W^-1 (sum_i w_i z_i z_i' / N) W^-1.

Where (1) and (2) agree, the objective has its maximum over the scores. ``H`` holds them to their
model as a multiplier does, and it minimises the convex function

    (3)  D(H) = sum_i r_i' K_i^-1 r_i / 2 + d(H),   d the score model's,

where all ``K_i`` are positive; a step from (1) to (2) that does not lower it is shortened. The
means of the features maximise the objective as well: they are those of ``x_ij - l_j' z_i`` over the
rows observed. Then estimated scores have mean zero, weighted by shares, with a multiplier of its
own that is subtracted from ``r``.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ebcd._numerics import Array
from ebcd.data import Observed
from ebcd.data._settings import SETTINGS as DATA
from ebcd.fitting._decompose import (
    SIZES,
    Fit,
    Problem,
    decompose,
    finished,
    nothing,
    shrinker_for,
)
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
from ebcd.fitting._search import SearchSettings
from ebcd.fitting._shrinkers import SpikeSlabShrinker
from ebcd.fitting._states import Model
from ebcd.priors._family import PRIORS
from ebcd.priors._fitted import FittedPrior


@dataclass(frozen=True)
class MissingSettings:
    """How well (1) and (2) have to agree."""

    rounds: int = 50  # until they do; ten are usual
    accuracy: float = 1e-10  # of scores, whose mean square is about one
    least: float = 1e-6  # precision of a score: where it is near zero, (1) is rounding


SETTINGS, SEARCH = MissingSettings(), SearchSettings()


class Information(NamedTuple):
    """What rows say about their scores: ``G``, ``G - G_i`` and ``w_i`` of rows with holes."""

    gram: Array
    lost: Array
    shares: Array

    @classmethod
    def of(cls, loadings: Array, variances: Any, precision: Array, gone: Any) -> Information:
        """Compute it; `gone` has ones where entries are missing."""
        k, p = loadings.shape
        pairs = (loadings * precision)[:, None] * loadings
        pairs[np.arange(k), np.arange(k)] += precision * variances
        lost = (gone @ pairs.reshape(k * k, p).T).reshape(gone.shape[0], k, k)
        return cls(pairs.sum(axis=-1), lost, 1 - np.diff(gone.indptr) / p)

    def precisions(self, held: Array) -> Array:
        """Return ``K_i`` of (1), given ``H``."""
        share, unit = self.shares[:, None, None], np.eye(len(held))
        return np.asarray(self.gram - self.lost + share * held + (1 - share) * unit)

    def scores(self, weights: Array, r: Array) -> Array:
        """Return the scores (1) of new rows, given ``W``.

        Estimated scores of the training data have positive ``K_i``; rows of which less is known
        are held by at least half of their prior.
        """
        held = np.linalg.pinv(weights) - self.gram
        values, vectors = np.linalg.eigh(self.precisions(0.5 * (held + held.T)))
        values = np.maximum(values, 0.5 * (1 - self.shares)[:, None])
        along = np.einsum("ijk,ij->ik", vectors, r) / values
        return np.asarray(np.einsum("ijk,ik->ij", vectors, along))


class Estimate(NamedTuple):
    """What follows from some ``H``: scores (1), ``W^-1 z_i``, moments from (2), and ``D(H)``."""

    held: Array
    scores: Array
    completed: Array
    moments: Moments
    value: float

    @property
    def proposed(self) -> Array:
        """``W^-1`` of the score model."""
        inverse = np.linalg.pinv(self.moments.weights[0])
        return np.asarray(0.5 * (inverse + inverse.T))

    @property
    def allowed(self) -> Array:
        """Scores that follow from (2), which the score model allows in any case."""
        return np.asarray(self.completed @ self.moments.weights[0].T)


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
        inverse = np.asarray(np.linalg.inv(at.precisions(np.eye(k))), dtype=np.float64)
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
        seen = Seen(second[None], spread[None], centre[None])
        rotated = z.T @ observed.values / observed.counts
        return found._replace(term=term, seen=seen), rotated[None]

    def entries(self, start: Point) -> Array:
        """Return the expectations of missing entries, row by row, with scores integrated out."""
        z = self._solved(IntegratedScores(), start)[2]
        rows, columns = self.observed.missing.nonzero()
        means = np.einsum("ik,ki->i", z[rows], start.loadings[0][:, columns])
        return np.asarray(means + start.shift[0, columns])

    def _solved(self, scores: AbstractScores, start: Point) -> tuple[Information, Moments, Array]:
        """Return what rows say about their scores, moments of the score model, and scores."""
        observed, loadings, shift = self.observed, start.loadings[0], start.shift[0]
        weighted, holed, k = loadings * start.precision[0], observed.holed, len(loadings)
        at = Information.of(loadings, start.spread[0], start.precision[0], observed.gone)
        r = observed.values @ weighted.T - weighted @ shift
        r[holed] += observed.gone @ (weighted * shift).T
        if scores.uncertain:
            found = scores.moments(at.gram[None], (r.T @ r)[None] / len(r), len(r))
            z = r @ found.weights[0]
            z[holed] = np.linalg.solve(at.precisions(np.eye(k)), r[holed, :, None])[..., 0]
            return at, found, z
        alive = np.flatnonzero(weighted.any(axis=1))  # empty components have no scores
        pairs = np.ix_(alive, alive)
        some = Information(at.gram[pairs], at.lost[:, alive][:, :, alive], at.shares)
        best = self._estimated(scores, some, r[:, alive])
        z, second, weights = np.zeros((len(r), k)), np.zeros((k, k)), np.zeros((k, k))
        second[pairs], weights[pairs] = best.moments.second[0], best.moments.weights[0]
        z[:, alive] = best.allowed
        return at, Moments(second[None], weights[None], best.moments.term, 0 * second[None]), z

    def _estimated(self, scores: AbstractScores, at: Information, r: Array) -> Estimate:
        """Minimise (3), by repeating (1) and (2)."""
        best = self._estimate(scores, at, r, 0.5 * np.eye(len(at.gram)))
        assert best is not None  # with half of its prior every row is within bounds
        step = best.proposed - at.gram - best.held
        for _ in range(SETTINGS.rounds):
            new = self._estimate(scores, at, r, best.held + step)
            if new is None or new.value > best.value:
                step = 0.5 * step
                continue
            best, step = new, new.proposed - at.gram - new.held
            if np.abs(new.allowed - new.scores).max(initial=0.0) <= SETTINGS.accuracy:
                break
        return best

    def _estimate(
        self, scores: AbstractScores, at: Information, r: Array, held: Array
    ) -> Estimate | None:
        """Do (1) and (2) for some ``H``; None if that is out of bounds."""
        observed, holed = self.observed, self.observed.holed
        shares, whole = observed.shares, at.gram + held
        precisions = np.concatenate([at.precisions(held), whole[None]])
        least = np.linalg.eigvalsh(precisions)[:, 0] if np.isfinite(precisions).all() else -1.0
        if not np.min(least) > SETTINGS.least:
            return None
        inverses = np.linalg.inv(precisions)
        z = r @ inverses[-1]
        z[holed] = (inverses[:-1] @ r[holed, :, None])[..., 0]
        if observed.center:
            weights = np.einsum("i,ijk->jk", at.shares**2, inverses[:-1])
            weights += (len(r) - holed.size) * inverses[-1]
            mean = np.linalg.solve(weights, shares @ z)
            r = r - shares[:, None] * mean
            z -= mean @ inverses[-1]
            z[holed] = (inverses[:-1] @ r[holed, :, None])[..., 0]
        n = float(shares.sum())
        completed = z @ whole
        energy = (completed.T * shares) @ completed / n
        value = 0.5 * np.vdot(r, z) + scores.dual(held, n, len(r) - n)
        found = scores.moments(at.gram[None], energy[None], n, len(r) - n)
        return Estimate(held, z, completed, found, float(value))

    def _seen(self, total: Array, rows: Array) -> Array:
        """Sum something over the rows in which each feature was observed; divide by their number.

        `total` is the sum over all rows, `rows` those with holes.
        """
        gone = (self.observed.gone.T @ rows.reshape(len(rows), total.size)).T
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
    many = observed.values.size / DATA.small  # where so many nats are less than anyone can see
    settled = settle(
        model,
        IntegratedScores(),
        start,
        lambda states: monitor.out_of_time(),
        tol=max(SEARCH.tol, SIZES.coarse_tol * many),
        max_iter=SEARCH.max_iter,
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
    """Count components of data whose missing entries are what is expected of them.

    At first that is the mean, so that noise stays noise, if with fewer entries, and then what
    follows from the components that stood out. They are added few at a time: those that are not
    among them yet are noise of uneven variances where entries are missing.
    """
    noise, k = ConstantNoise(observed.counts, observed.variances), 0
    entries: Any = 0.0
    while (found := min(count(observed.filled(entries)), most)) > k:
        k = min(found, k + 1 + k // 4)
        point = principal_point(observed, noise, k, monitor)
        entries = IncompleteRows(observed).entries(point)
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
        covariance = observed.covariance(IncompleteRows(observed).entries(point))
        apart = copy(monitor)  # whose path and checkpoint are about other data
        apart.path, apart.checkpoint = [], None
        noise = type(problem.noise)(covariance.n_samples, covariance.diagonal())
        complete = replace(problem, covariance=covariance, noise=noise, monitor=apart)
        found = decompose(complete, start, rng)
        if not found.priors:
            return nothing(problem)._replace(converged=found.converged)
        state, monitor.started = found.state, apart.started
        priors, fitted = found.priors, state.fitted
        mean, variance, precision = state.mean, state.variance, state.precision
        shift = np.zeros(observed.counts.size)
    else:
        monitor.path[:], monitor.started = saved["path"][:-1], True
        fitted = [FittedPrior.from_dict(prior) for prior in saved["priors"]]
        priors, shift = problem.priors[: len(fitted)], saved["shift"]
        mean, variance, precision = saved["loadings"], saved["spread"], saved["precision"]
    problem = replace(problem, priors=priors, scores=scores)
    model = _model(observed, problem.noise, shrinker_for(priors, observed.counts.size))
    begun = model.shrinker.begun(fitted)
    point = Point(mean[None], variance[None], precision[None], begun, shift[None])
    return finished(problem, model, True, point, start)


def incomplete_map(
    observed: Observed, scores: AbstractScores | None, state: Any
) -> tuple[Array, Array]:
    """Return the matrix (p x k) whose product with complete rows are their scores.

    And what the means of the features differ by from those of what was observed.
    """
    shift = -(state.moments.seen.centre * state.mean).sum(axis=0)
    mean, variance, precision = state.mean[None], state.variance[None], state.precision[None]
    point = Point(mean, variance, precision, None, shift[None])
    moments, _ = IncompleteRows(observed).scores_given(scores or OrthogonalScores(), point)
    return (moments.weights[0] @ (state.mean * state.precision)).T, shift

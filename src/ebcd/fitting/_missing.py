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
model as a multiplier does, and it minimizes the convex function

    (3)  D(H) = sum_i r_i' K_i^-1 r_i / 2 + d(H),   d the score model's,

where all ``K_i`` are positive; a step from (1) to (2) that does not lower it is shortened. The
means of the features maximize the objective as well: they are those of ``x_ij - l_j' z_i`` over the
rows observed. Then estimated scores have mean zero, weighted by shares, with a multiplier of its
own that is subtracted from ``r``.

Of the population, an estimate of loadings is a regression on what is known of the scores. Let
``E_j`` be the mean of ``(I + G_i)^-1``, the covariance of what is not known, over the ``n_j`` rows
in which feature j was observed, ``K_j = C_j - E_j`` the second moments of what is known, ``l_j``
the loadings of the feature, ``V_kj`` their variances, ``u_j = 1/t_j + l_j' E_j l_j`` the variance
of the residuals, and ``d_j = B_j - C_j l_j`` the slope of the likelihood with scores integrated out
over ``n_j t_j``. A step of Fisher's scoring, for one loading after the other, leads to

    (4)  x_kj = l_kj + u_j t_j d_kj / h_kj,   h_kj = [K_j]_kk + 2 [E_j l_j]_k^2 / u_j,

which has the noise ``u_j / (n_j h_kj) + sum_{i != k} ([K_j]_ki / h_kj)^2 V_ij``. Three things are
in it that the fit leaves out. Scores follow from the loadings and pull ``B_j`` toward them, the
more the less is known (the fraction of missing information), so that the fit stays short of ``x``.
What is not known of the scores adds to the residuals. And errors of estimated scores are correlated
where loadings overlap, which mixes components. Posterior means given ``x`` are better loadings than
those of the fit, and further steps take up what the first has moved. A sample of scores adds
``sum_k l_kj^2 / (2 N)`` to the noise of the population (see `population` in `_scores`); it is all
rows that fix lengths and rotation, so that this does not depend on ``n_j``. Estimated scores have
the noise of complete data, plus what holes add to that of integrated ones. Loadings go as much less
far as there are rows without holes, and so does ``x`` of estimated scores, so that they are those
of complete data where hardly anything is missing.

What is known has to be that of the rows at hand: with its mean ``I - E_j`` for ``K_j``, steps of
the few rows of a feature are too short or too long by chance, and large loadings are held back
(with half of 60 x 200 entries missing by 0.18 of their noise on average).

Estimated scores also make loadings too long, and residuals too small: with m entries of a row
observed by ``1 - k / m``. Lengths are those with which normal scores make what was observed most
likely; orthogonal scores get the lengths that complete data would lead to, whose squares are in
units of the noise by one larger.
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
    resumed,
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
from ebcd.fitting._search import SETTINGS as SEARCH
from ebcd.fitting._shrinkers import SpikeSlabShrinker
from ebcd.fitting._starts import promax, varimax_start
from ebcd.fitting._states import Model
from ebcd.priors._family import PRIORS
from ebcd.priors._fitted import FittedPrior


@dataclass(frozen=True)
class MissingSettings:
    """How well (1) and (2) have to agree, and how far (4) goes."""

    rounds: int = 50  # until they do; ten are usual
    accuracy: float = 1e-10  # of scores, whose mean square is about one
    steps: int = 3  # of scoring: two leave loadings too short, five make them too long


SETTINGS = MissingSettings()


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

    def covariances(self, variances: Any = 1.0) -> tuple[Array, Array]:
        """Return those of normal scores with such variances, of rows with holes and of others."""
        whole = self.gram + np.eye(len(self.gram)) / variances
        return np.asarray(np.linalg.inv(whole - self.lost)), np.asarray(np.linalg.inv(whole))

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
    """Data with missing entries, as an iteration sees them."""

    def __init__(self, observed: Observed) -> None:
        self.observed = observed

    def scores_given(self, scores: AbstractScores, start: Point) -> tuple[Moments, Array]:
        """Return the moments of the scores, and the data rotated to them."""
        starts = [start.take(slice(i, i + 1)) for i in range(len(start.loadings))]
        found = [self._scores_of_one(scores, one) for one in starts]
        return Moments.together([m for m, _ in found]), np.concatenate([b for _, b in found])

    def _scores_of_one(self, scores: AbstractScores, start: Point) -> tuple[Moments, Array]:
        """Do it for a single start."""
        observed, holed, k = self.observed, self.observed.holed, start.loadings.shape[1]
        at, found, z = self._solved(scores, start)
        if observed.center and scores.uncertain:
            z = z - z.mean(axis=0)  # at the optimum it is zero
        pairs, total = z[holed, :, None] * z[holed, None], z.T @ z
        if scores.uncertain:
            inverse, whole = at.covariances()
            pairs, total = pairs + inverse, total + self._sum(inverse, whole)
            known = self._sum(np.linalg.slogdet(inverse)[1], np.linalg.slogdet(whole)[1])
            term = 0.5 * np.array([known + k * len(z) - np.trace(total)])
            found = replace(found, second=total[None] / len(z))
        else:
            term = found.term - 0.5 * ((1 - at.shares)[:, None] * (z[holed] ** 2 - 1)).sum()
        second = self._seen(total, pairs)
        centre = self._seen(z.sum(axis=0), z[holed]) * observed.center
        second -= centre[:, None] * centre
        seen = Seen(second[None], centre[None])
        rotated = z.T @ observed.values / observed.counts
        return replace(found, term=term, seen=seen), rotated[None]

    @staticmethod
    def stretched(point: Point, moments: Moments) -> Point:
        """Scale scores that are integrated out to mean square one, and loadings with them.

        Without it lengths are what takes longest: an iteration changes them by the share of the
        information that is not missing. With loadings and priors alike nothing else changes.
        """
        if not moments.spread.any():
            return point
        factor = np.sqrt(np.diagonal(moments.second, axis1=1, axis2=2))
        priors = point.priors.copy()
        if priors.dtype == object:
            for at, prior in np.ndenumerate(priors):
                priors[at] = prior.rescaled(float(factor[at]))
        else:
            priors[..., 1] += np.log(factor)
        each = factor[..., None]
        return point._replace(
            loadings=each * point.loadings, spread=each**2 * point.spread, priors=priors
        )

    def entries(self, start: Point) -> Array:
        """Return the expectations of missing entries, row by row, with scores integrated out."""
        z = self._solved(IntegratedScores(), start)[2]
        rows, columns = self.observed.missing.nonzero()
        means = np.einsum("ik,ki->i", z[rows], start.loadings[0][:, columns])
        return np.asarray(means + start.shift[0, columns])

    def _solved(self, scores: AbstractScores, start: Point) -> tuple[Information, Moments, Array]:
        """Return what rows say about their scores, moments of the score model, and scores."""
        loadings, spread, precision, shift = (start[i][0] for i in (0, 1, 2, 4))
        weighted, k = loadings * precision, len(loadings)
        at = Information.of(loadings, spread, precision, self.observed.gone)
        r = self._along(weighted, shift)
        if scores.uncertain:
            found = scores.moments(at.gram[None], (r.T @ r)[None] / len(r), len(r))
            return at, found, self._means(r, *at.covariances())
        alive = np.flatnonzero(weighted.any(axis=1))  # empty components have no scores
        pairs = np.ix_(alive, alive)
        some = Information(at.gram[pairs], at.lost[:, alive][:, :, alive], at.shares)
        best = self._estimated(scores, some, r[:, alive])
        z, second, weights = np.zeros((len(r), k)), np.zeros((k, k)), np.zeros((k, k))
        second[pairs], weights[pairs] = best.moments.second[0], best.moments.weights[0]
        z[:, alive] = best.allowed
        return at, Moments(second[None], weights[None], best.moments.term, 0 * second[None]), z

    def _estimated(self, scores: AbstractScores, at: Information, r: Array) -> Estimate:
        """Minimize (3), by repeating (1) and (2)."""
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
        observed = self.observed
        shares, whole = observed.shares, at.gram + held
        precisions = np.concatenate([at.precisions(held), whole[None]])
        least = np.linalg.eigvalsh(precisions)[:, 0] if np.isfinite(precisions).all() else -1.0
        if not np.min(least) > SETTINGS.accuracy:  # where (1) would be rounding
            return None
        inverses = np.linalg.inv(precisions)
        z = self._means(r, inverses[:-1], inverses[-1])
        if observed.center:
            squares = (at.shares**2)[:, None, None]
            mean = np.linalg.solve(self._sum(squares * inverses[:-1], inverses[-1]), shares @ z)
            r = r - shares[:, None] * mean
            z = self._means(r, inverses[:-1], inverses[-1])
        n = float(shares.sum())
        completed = z @ whole
        energy = (completed.T * shares) @ completed / n
        value = 0.5 * np.vdot(r, z) + scores.dual(held, n, len(r) - n)
        found = scores.moments(at.gram[None], energy[None], n, len(r) - n)
        return Estimate(held, z, completed, found, float(value))

    def score_map(self, scores: AbstractScores | None, state: Any) -> Array:
        """Return the matrix (p x k) whose product with complete rows are their scores."""
        point = _point(state.mean, state.variance, state.precision, shift_of(state))
        moments = self._solved(scores or OrthogonalScores(), point)[1]
        return np.asarray((moments.weights[0] @ (state.mean * state.precision)).T)

    def population(self, scores: AbstractScores | None, state: Any) -> Any:
        """Return a state with loadings, lengths and noise about the population; see the module."""
        (k, p), counts = state.mean.shape, self.observed.counts
        n, lengths, precision = len(self.observed.values), np.ones(k), state.precision
        estimated = scores is None or not scores.uncertain
        if estimated:
            entries = counts.sum() / n
            precision = precision * max(entries - k, 1.0) / entries
            lengths = self._lengths(state, precision)
        fitted = [g.rescaled(float(f)) for g, f in zip(state.fitted, lengths, strict=True)]
        mean, variance = lengths[:, None] * state.mean, lengths[:, None] ** 2 * state.variance
        longer, shift = np.sqrt(1 + 1 / (mean**2 * precision).sum(axis=1)), shift_of(state)
        whole = 1 - self.observed.holed.size / n
        for _ in range(SETTINGS.steps):
            before = mean
            x, noise, centre = self._scored(_point(mean, variance, precision, shift))
            rows = zip(fitted, x, np.sqrt(noise), strict=True)
            found = [prior.posterior(values, s) for prior, values, s in rows]
            step = np.array([posterior.mean for posterior in found]) - before
            mean = before + (1 - whole) * step
            variance = np.array([posterior.sd**2 for posterior in found])
            shift = -(centre * mean).sum(axis=0)
        chance = 0.5 * (before**2).sum(axis=0)
        error = np.linalg.inv(np.eye(k) + (before * precision) @ before.T)
        unknown = (before * (error @ before)).sum(axis=0)
        known = np.maximum(1 - np.diagonal(error), SETTINGS.accuracy)[:, None]
        complete = (1 / precision + unknown) / known
        if estimated:
            x = before + (x - before) * (1 - whole + whole / (complete * precision))
            noise = np.maximum(noise - complete / n, 0.0)
            residual = max(p - k, 1.0) / p / precision
            if scores is None:
                noise += (residual - chance) / n
                mean, x = longer[:, None] * mean, longer[:, None] * x
                fitted = [g.rescaled(float(f)) for g, f in zip(fitted, longer, strict=True)]
            else:  # as in `population`
                inverse = np.linalg.inv(state.moments.second * longer**2)
                noise += np.diagonal(inverse)[:, None] * (residual + unknown) / n
        noise += chance / counts.mean()
        return state._replace(b=x, mean=mean, noise=np.sqrt(noise), fitted=fitted)

    def _scored(self, point: Point) -> tuple[Array, Array, Array]:
        """Return (4): estimates and their variances; and the means of the scores."""
        loadings, variances, precision = point.loadings[0], point.spread[0], point.precision[0]
        at = Information.of(loadings, variances, precision, self.observed.gone)
        rows, whole = at.covariances()
        error = self._seen(self._sum(rows, whole), rows)
        moments, rotated = self._scores_of_one(IntegratedScores(), point)
        assert moments.seen is not None
        second, centre = moments.seen.second[0], moments.seen.centre[0]
        slope = rotated[0] - _times(second, loadings)
        along, known = _times(error, loadings), second - error
        residual = 1 / precision + (loadings * along).sum(axis=0)
        own = np.diagonal(known).T + 2 * along**2 / residual
        own = np.maximum(own, SETTINGS.accuracy)  # a feature that was observed once says nothing
        others = _times(known**2, variances) - np.diagonal(known).T ** 2 * variances
        noise = residual / own / self.observed.counts + others / own**2
        return loadings + residual * precision * slope / own, noise, centre

    def _lengths(self, state: Any, precision: Array) -> Array:
        """Return standard deviations of normal scores that make what was observed most likely."""
        at = Information.of(state.mean, state.variance, precision, self.observed.gone)
        r = self._along(state.mean * precision, shift_of(state))
        variances = np.ones(len(state.mean))
        for _ in range(SETTINGS.rounds):
            before, (rows, whole) = variances, at.covariances(variances)
            squares = (self._means(r, rows, whole) ** 2).sum(axis=0)
            variances = (squares + np.diagonal(self._sum(rows, whole))) / len(r)
            variances = np.maximum(variances, 0.01)  # so that the direction can still be seen
            if np.abs(variances - before).max() <= SETTINGS.accuracy:
                break
        return np.sqrt(variances)

    def _along(self, weighted: Array, shift: Array) -> Array:
        """Return ``r_i``, given ``L T`` and what means differ by."""
        observed = self.observed
        r = observed.values @ weighted.T - weighted @ shift
        r[observed.holed] += observed.gone @ (weighted * shift).T
        return np.asarray(r)

    def _means(self, r: Array, rows: Array, whole: Array) -> Array:
        """Return ``r_i`` times matrices, those of rows with holes and of others."""
        z, holed = r @ whole, self.observed.holed
        z[holed] = (rows @ r[holed, :, None])[..., 0]
        return np.asarray(z)

    def _sum(self, rows: Array, whole: Array) -> Array:
        """Sum something over all rows: those with holes, and others that are alike."""
        others = len(self.observed.values) - self.observed.holed.size
        return np.asarray(rows.sum(axis=0) + others * whole)

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
    shrinker = SpikeSlabShrinker(PRIORS["normal"]())
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
    noise = ConstantNoise(observed.counts, observed.variances)

    def found(k: int) -> int:
        entries: Any = 0.0
        if k:
            point = principal_point(observed, noise, k, monitor)
            entries = IncompleteRows(observed).entries(point)
        return min(count(observed.filled(entries)), most)

    before, k = 0, 0
    while (more := found(k)) > k:
        before, k = k, min(more, k + 1 + k // 4)
    # a step of several may have gone too far, and what was filled in confirms itself
    return next((fewer for fewer in range(before + 1, k) if found(fewer) <= fewer), k)


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
    monitor = problem.monitor
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
        priors, fitted, scores = found.priors, state.fitted, found.scores
        mean, variance, precision = state.mean, state.variance, state.precision
        shift = np.zeros(observed.counts.size)
    else:
        monitor.path[:], monitor.started = saved["path"][:-1], True
        fitted = [FittedPrior.from_dict(prior) for prior in saved["priors"]]
        scores = resumed(problem, saved).scores
        priors, shift = problem.priors[: len(fitted)], saved["shift"]
        mean, variance, precision = saved["loadings"], saved["spread"], saved["precision"]
    problem = replace(problem, priors=priors, scores=scores or OrthogonalScores())
    model = _model(observed, problem.noise, shrinker_for(priors, observed.counts.size))
    starts = [mean]
    searched = isinstance(start, str) and start == "auto" and saved is None
    if searched and observed.values.size < DATA.small:
        # the search took what is missing for known; these two did not
        starts += [rotated := varimax_start(mean), promax(rotated)]
    rest = (variance, precision, model.shrinker.begun(fitted)[0], shift)
    point = Point(np.array(starts), *(np.stack([part] * len(starts)) for part in rest))
    return finished(problem, model, True, point, start)._replace(scores=scores)


def _times(matrices: Array, rows: Array) -> Array:
    """Multiply the matrix of each feature (k x k x p) by its column (k x p)."""
    return np.asarray(np.einsum("ikp,kp->ip", matrices, rows))


def _point(mean: Array, variance: Array, precision: Array, shift: Array) -> Point:
    return Point(mean[None], variance[None], precision[None], np.array(None)[None], shift[None])


def shift_of(state: Any) -> Array:
    """Return what the means of the features differ by from those of what was observed."""
    return np.asarray(-(state.moments.seen.centre * state.mean).sum(axis=0))

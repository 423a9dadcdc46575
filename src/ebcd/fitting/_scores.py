"""Score models other than the paper's: scores that are correlated by chance, or uncertain.

The paper fixes ``Z'Z = n I``. Here the scores are normal, and either estimated ("relaxed") or
integrated out ("integrated"). Either way a fit needs two of their moments only,

    (1)  C = E[Z'Z] / n  (k x k)   and   B = E[Z]'X / n = W L T S  (k x p),

where rows of ``L`` are posterior means of loadings, ``T`` is the diagonal matrix of the precisions
of the features, and the weights ``W`` (k x k) follow from

    (2)  A = L T S T L',   G = L T L' + diag(sum_j t_j V_kj),   V the variances of the loadings.

Given these moments, each component is a normal-means problem,

    (3)  x_k = (B_k - sum_{i != k} C_ki l_i) / C_kk   with noise   s_kj^2 = 1 / (n t_j C_kk),

and the mean squared residuals of the features are

    (4)  diag S + sum_k (C L - 2 B)_k o L_k + sum_k C_kk V_k.

The objective is the log-likelihood of the residuals, plus a `term` of the score model, minus the
divergences of the loadings' posteriors from their priors. Every step of an iteration maximizes it
over something while the rest is fixed, so that it cannot fall.

Where entries are missing, each feature has moments ``C`` and ``B`` of its own, over the rows in
which it was observed; n is the number of those, and all else stays the same (see `_missing`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance
from ebcd.fitting._climb import Callback, Climbed, ClimbSettings
from ebcd.fitting._rotation import inverse_root
from ebcd.fitting._shrinkers import Shrunk, Stack
from ebcd.fitting._states import AbstractStates, Model
from ebcd.fitting._trail import Trail


@dataclass(frozen=True)
class Seen(Stack):
    """Moments of the scores over the rows in which a feature was observed.

    Attributes
    ----------
    second : array, m x k x k x p
        ``C`` of (1), about the mean if features have means.
    centre : array, m x k x p
        Means, zero if features have none.
    """

    second: Array
    centre: Array


@dataclass(frozen=True)
class Moments(Stack):
    """Moments of the scores of m fits, and what they add to the objective.

    Attributes
    ----------
    second : array, m x k x k
        ``C`` of (1).
    weights : array, m x k x k
        ``W`` of (1).
    term : array of length m
    spread : array, m x k x k
        Posterior covariance of the scores of a sample; zero if they are estimated.
    seen : Seen, optional
        Moments for each feature, if entries are missing.
    """

    second: Array
    weights: Array
    term: Array
    spread: Array
    seen: Seen | None = None

    def of(self, order: Any, size: Array) -> Moments:
        """Return those of components of one fit in some order, of scores divided by `size`."""
        at, pairs, seen = np.ix_(order, order), np.outer(size, size), self.seen
        if seen is not None:
            centre = seen.centre[order] / size[:, None]
            seen = Seen(seen.second[at] / pairs[:, :, None], centre)
        matrices = (self.second, self.weights, self.spread)
        second, weights, spread = (matrix[at] / pairs for matrix in matrices)
        return Moments(second, weights, self.term, spread, seen)


class AbstractScores(ABC):
    """A model of the scores.

    It is `uncertain` if they are integrated out, not estimated. Its `rival`, if any, is what to
    take instead where the objective is hardly higher with correlations.
    """

    uncertain: ClassVar[bool] = False
    rival: ClassVar[UncorrelatedScores | None] = None

    @abstractmethod
    def moments(
        self, gram: Array, energy: Array, n_samples: float, missing: float = 0.0
    ) -> Moments:
        """Return the best moments of the scores, given ``G`` and ``A`` of (2), m x k x k each.

        Of so many samples, and others that are `missing` but count for the density of scores.
        """

    def dual(self, held: Array, n_samples: float, missing: float) -> float:
        """Return ``d(H)`` of `_missing`, for scores that are estimated."""
        raise NotImplementedError

    def mean_square(self, n_samples: float, k: int, missing: float = 0.0) -> float:
        """Return the mean square of the scores at which the `term` is largest."""
        return 1.0

    def lengths(self, loadings: Array, precision: Array, moments: Moments) -> Array:
        """Return what to multiply components by (k), so that they have population lengths."""
        return np.ones(len(loadings))


class OrthogonalScores(AbstractScores):
    """The paper's, for data with missing entries; those of complete data are `States`."""

    def moments(
        self, gram: Array, energy: Array, n_samples: float, missing: float = 0.0
    ) -> Moments:
        """Take the nearest uncorrelated ones."""
        second = np.broadcast_to(np.eye(gram.shape[-1]), gram.shape).copy()
        zero = np.zeros(len(gram))
        return Moments(second, inverse_root(energy), zero, np.zeros_like(second))

    def dual(self, held: Array, n_samples: float, missing: float) -> float:
        """Return that of a constraint."""
        return 0.5 * n_samples * float(np.trace(held))


class UncorrelatedScores(OrthogonalScores):
    """Relaxed scores whose correlations are left at zero, the mean of their prior.

    Suppose the data determine a correlation with variance v, and its prior has variance ``1/n``.
    Estimating it then raises the objective by ``1 / (2 n v)`` on average. Where that is below half
    a nat, the prior says more than the data, and small errors of the priors for the loadings decide
    (dense loadings, for example, look a little sparser if scores are correlated).
    """

    def lengths(self, loadings: Array, precision: Array, moments: Moments) -> Array:
        """Take out the noise of estimated scores, and give them mean square one."""
        return np.sqrt(np.diagonal(moments.second)) * shortening(loadings, precision)

    @staticmethod
    def worth(k: int) -> float:
        """Return what the correlations of k scores have to raise the objective by."""
        return 0.25 * k * (k - 1)


class RelaxedScores(AbstractScores):
    """Scores are estimated; their covariance has the Wishart law of normal ones.

    With ``a = (n - k - 1) / n`` the objective is, but for constants,
    ``n a/2 log det C - n/2 tr C + n tr(Y A^(1/2)) - n/2 tr(C G)`` for ``C = Y'Y``. In terms of
    ``N = Y K`` with ``K = (G + I)^(1/2)`` its maximum has the singular vectors of
    ``A^(1/2) K^(-1) = U diag(d) R'`` and singular values ``y`` with ``d - y + a/y = 0``.
    """

    rival = UncorrelatedScores()
    lengths = UncorrelatedScores.lengths

    def moments(
        self, gram: Array, energy: Array, n_samples: float, missing: float = 0.0
    ) -> Moments:
        """See the class."""
        k = gram.shape[-1]
        a = self.mean_square(n_samples, k, missing)
        back, inverse = inverse_root(gram + np.eye(k)), inverse_root(energy)
        u, d, right = np.linalg.svd(energy @ inverse @ back)
        y = (u * (0.5 * (d + np.sqrt(d * d + 4 * a)))[..., None, :]) @ right @ back
        second = y.swapaxes(-1, -2) @ y
        trace = np.trace(second, axis1=-2, axis2=-1)
        term = 0.5 * n_samples * (a * np.linalg.slogdet(second)[1] - trace + k)
        weights = y.swapaxes(-1, -2) @ inverse
        return Moments(second, weights, term, np.zeros_like(second))

    def mean_square(self, n_samples: float, k: int, missing: float = 0.0) -> float:
        """Return ``a``."""
        return (n_samples + missing - k - 1) / n_samples

    def dual(self, held: Array, n_samples: float, missing: float) -> float:
        """Return that of the log-density of the covariance of the scores."""
        rest = np.linalg.eigvalsh(np.eye(len(held)) - held)
        if not rest.min() > 0:
            return np.inf
        return -0.5 * (n_samples + missing - len(held) - 1) * float(np.log(rest).sum())


class IntegratedScores(AbstractScores):
    """Scores are normal, independent between samples and components, and integrated out.

    Those of a sample ``x`` have the posterior covariance ``(I + G)^(-1)``, and its product with
    ``L T x`` as posterior mean. The objective is a lower bound of the log-likelihood.

    It may be higher without the weakest component. Dropping that would lose half of the components
    of the paper's second simulation (mean angle of the second .56 -> .71), so a component that was
    asked for is kept while it is at an optimum.
    """

    uncertain = True

    def moments(
        self, gram: Array, energy: Array, n_samples: float, missing: float = 0.0
    ) -> Moments:
        """See the class."""
        k = gram.shape[-1]
        spread = np.asarray(np.linalg.inv(np.eye(k) + gram), dtype=np.float64)
        second = spread + spread @ energy @ spread
        trace = np.trace(second, axis1=-2, axis2=-1)
        term = 0.5 * n_samples * (np.linalg.slogdet(spread)[1] + k - trace)
        return Moments(second, spread, term, spread)


SCORES: dict[str, AbstractScores | None] = {
    "orthogonal": None,  # the paper's: scores are coordinates, see `States`
    "relaxed": RelaxedScores(),
    "integrated": IntegratedScores(),
}


@dataclass(frozen=True)
class ScoredStates(AbstractStates):
    """Fits with other scores: ``B`` of (1), `rotated`; ``x`` and ``s`` of (3), `b` and `noise`."""

    moments: Moments
    rotated: Array


class Point(NamedTuple):
    """What an iteration starts from: loadings, ``sum_j t_j V_kj``, precisions and priors.

    If entries are missing, `spread` holds the variances ``V`` themselves, and `shift` (m x p) what
    the means of the features differ by from those of what was observed.
    """

    loadings: Array
    spread: Array
    precision: Array
    priors: Any
    shift: Array

    def take(self, index: Any) -> Point:
        """Return some of the starts."""
        return Point(*(part[index] for part in self))

    def only(self, alive: Any) -> Point:
        """Return some of the components."""
        loadings, spread, priors = self.loadings[:, alive], self.spread[:, alive], self.priors
        return Point(loadings, spread, self.precision, priors[:, alive], self.shift)

    def as_vectors(self) -> Array:
        """Return vectors (m x d): loadings in units of the noise, logarithms of sizes, priors."""
        sizes = (np.log(np.maximum(part, 1e-300)) for part in (self.spread, self.precision))
        units = np.sqrt(self.precision)[:, None]
        parts = [self.loadings * units, *sizes, self.priors, self.shift]
        rows = (part.reshape(len(part), -1) for part in parts if part.dtype != object)
        return np.concatenate(list(rows), axis=1)

    def moved(self, vectors: Array) -> Point:
        """Return the points that vectors stand for; priors that are no numbers stay."""
        parts, end = list[Array](), 0
        for old in self:
            begin, end = end, end + (0 if old.dtype == object else old[0].size)
            parts.append(old if begin == end else vectors[:, begin:end].reshape(old.shape))
        loadings, spread, precision, priors, shift = parts
        spread, precision = np.exp(spread), np.exp(precision)
        if priors.dtype != object:
            priors = np.minimum(priors, [0.0, np.inf])  # weights are at most one
        return Point(loadings / np.sqrt(precision)[:, None], spread, precision, priors, shift)


def point_of(states: Any) -> Point:
    """Return where the next iteration of states starts from."""
    shrunk, precision = states.shrunk, states.precision
    seen = states.moments.seen if isinstance(states, ScoredStates) else None
    if seen is not None:
        shift = -(seen.centre * shrunk.mean).sum(axis=1)
        return Point(shrunk.mean, shrunk.variance, precision, shrunk.priors, shift)
    spread = (shrunk.variance * precision[:, None]).sum(axis=-1)
    return Point(shrunk.mean, spread, precision, shrunk.priors, np.empty((len(states), 0)))


def iterate(
    model: Model,
    scores: AbstractScores,
    start: Point,
    product: Array | None = None,
    one_by_one: bool = False,
) -> ScoredStates:
    """Do one iteration: moments (1) of the scores, shrinkage and precision steps.

    `product` is ``L T S``, by default with the model's factor in place of ``S``.
    """
    if model.incomplete is not None:
        moments, rotated = model.incomplete.scores_given(scores, start)
        return shrink_given(model, moments, rotated, start, one_by_one)
    loadings, n = start.loadings, model.noise.n_samples
    weighted = loadings * start.precision[:, None]
    if product is None:
        product = (weighted @ model.factor.swapaxes(-1, -2)) @ model.factor
    moments = _moments_given(scores, loadings, start.spread, weighted, product, n)
    rotated = moments.weights @ product
    del weighted, product  # large
    return shrink_given(model, moments, rotated, start, one_by_one)


def _moments_given(
    scores: AbstractScores, loadings: Array, spread: Array, weighted: Array, product: Array, n: Any
) -> Moments:
    """Return the moments that follow from (2), with ``L T`` and ``L T S`` known."""
    gram = weighted @ loadings.swapaxes(1, 2) + spread[:, :, None] * np.eye(spread.shape[1])
    energy = product @ weighted.swapaxes(1, 2)
    return scores.moments(gram, 0.5 * (energy + energy.swapaxes(1, 2)), n)


def shrink_given(
    model: Model, moments: Moments, rotated: Array, start: Point, one_by_one: bool
) -> ScoredStates:
    """Do the shrinkage and precision steps at given scores.

    Components are shrunk together, which may overshoot where scores are correlated, or one by one.
    """
    second, n = _second(moments), model.noise.n_samples
    own = _own(moments)
    noise = np.sqrt(1 / (n * start.precision[:, None] * own))
    if one_by_one:
        x, shrunk = _shrink_one_by_one(model, rotated, second, own, noise, start)
    else:
        x = start.loadings + (rotated - _times(second, start.loadings)) / own
        shrunk = model.shrinker.shrink(x, noise, start.priors)
    mean = shrunk.mean
    residual = ((_times(second, mean) - 2 * rotated) * mean + own * shrunk.variance).sum(axis=1)
    residual = np.maximum(model.diagonal + residual, 0.0)
    precision = model.noise.precision(residual)
    value = model.noise.value(precision, residual) + moments.term + shrunk.objective
    return ScoredStates(x, noise, shrunk, precision, value, moments, rotated)


def _shrink_one_by_one(
    model: Model, b: Array, second: Array, own: Array, noise: Array, start: Point
) -> tuple[Array, Shrunk]:
    """Shrink each component given those before it, as they are now."""
    loadings, x, parts = start.loadings.copy(), np.empty_like(b), []
    for k in range(b.shape[1]):
        at = slice(k, k + 1)
        x[:, at] = loadings[:, at] + (b[:, at] - _times(second[:, at], loadings)) / own[:, at]
        part = model.shrinker.only(at).shrink(x[:, at], noise[:, at], start.priors[:, at])
        loadings[:, at] = part.mean
        parts.append(part)
    return x, Shrunk.side_by_side(parts)


def _second(moments: Moments) -> Array:
    """Return ``C``, m x k x k for all features or m x k x k x p for each."""
    return moments.second if moments.seen is None else moments.seen.second


def _own(moments: Moments) -> Array:
    """Return the mean squares of the scores, m x k x 1 or p: the diagonal of ``C``.

    If features have means, which follow the loadings, ``C`` is about the mean; variances of
    loadings do not see that. Then (3) has the right slope, and curves at least as much as it has
    to, which cannot lower the objective.
    """
    own = np.diagonal(_second(moments), axis1=1, axis2=2)
    if moments.seen is None:
        return own[:, :, None]
    whole = own.swapaxes(1, 2) + moments.seen.centre**2
    return np.where(whole > 0, whole, 1.0)  # the scores of an empty component are zero


def _times(second: Array, rows: Array) -> Array:
    """Return ``C L``."""
    product = second @ rows if second.ndim == 3 else np.einsum("mikp,mkp->mip", second, rows)
    return np.asarray(product)


def shortening(loadings: Array, precision: Array) -> Array:
    """Return the factors (k) that take components with estimated scores to population lengths.

    The estimated score of a sample has noise of variance ``1 / l'Tl``. Since scores are held to
    mean square one, the noise makes loadings longer: ``l'Tl`` grows by ``p / (p - k)``, which is
    one but for the directions that the other components take up. What is no stronger than that
    keeps a hundredth of its variance, so that its direction can still be seen.
    """
    k, p = loadings.shape
    strength = (loadings**2 * precision).sum(axis=1)
    noise = p / max(p - k, 1)
    return np.asarray(np.sqrt(np.maximum(1 - noise / np.maximum(strength, noise), 0.01)))


def with_unit_scores(state: Any, given: Sequence[bool]) -> Any:
    """Return a state in which scores have mean square one also where priors do not see to it.

    That is where their scales were `given`, to which loadings adapt, and where priors are flat:
    there the objective prefers scores of mean square ``1 - p/n`` or so, with longer loadings.
    """
    free = [prior.proper and not held for prior, held in zip(state.fitted, given, strict=True)]
    size = np.where(free, 1.0, np.sqrt(np.diagonal(state.moments.second)))
    rows = size[:, None]
    return state._replace(
        b=state.b * rows,
        mean=state.mean * rows,
        variance=state.variance * rows**2,
        noise=state.noise * rows,
        fitted=[g.rescaled(float(f)) for g, f in zip(state.fitted, size, strict=True)],
        moments=state.moments.of(np.arange(len(size)), size),
    )


def population(scores: AbstractScores, state: Any, n_samples: Any) -> Any:
    """Return a state with lengths and noise that are about the population, not this sample.

    To the noise of the loadings given the scores come three terms:

    (5)  s_kj^2 = [K^-1]_kk (1/t_j + l_j' E l_j) / n + l_kj^2 / (2n) + sum_{i != k} l_ij^2 / (2n),

    ``l_j`` the loadings of feature j. The first is a regression on the scores, with ``K`` the
    second moments of what is known of them, and ``E = (I + L T L')^-1`` the covariance of what is
    not, which adds to the residuals. The second is that a sample of n scores has mean square
    ``1 +- sqrt(2/n)``, half of which goes into the length of the loadings. The third is that scores
    are correlated by chance, ``0 +- 1/sqrt(n)``, of which one of two components takes up all and
    the other nothing, or something in between; on average that is half of the square. Where entries
    are missing see `_missing`.

    Uncertain scores also hold estimates back: they were imputed from the loadings as they are,
    which shrinkage has made short. So ``x`` of (3) goes only part of the way from there to what the
    data say, ``K_kk / (C_kk t_j (1/t_j + l_j' E l_j))`` of it, and has to go all of it.
    """
    lengths = scores.lengths(state.mean, state.precision, state.moments)
    mean = lengths[:, None] * state.mean
    weighted = mean * state.precision
    error = np.linalg.inv(np.eye(len(mean)) + weighted @ mean.T)
    moments = state.moments.second - state.moments.spread
    # never below the inverse of the diagonal, but for rounding where components are alike; nor is
    # the diagonal negative, but for rounding where nothing is known of a component
    least = np.maximum(np.diagonal(moments), np.finfo(float).eps)
    known = lengths**2 * np.maximum(np.diagonal(np.linalg.inv(moments)), 1 / least)
    residual = 1 / state.precision + (mean * (error @ mean)).sum(axis=0)
    chance = 0.5 * (mean**2).sum(axis=0)
    x = lengths[:, None] * state.b
    if scores.uncertain:
        further = np.minimum(np.diagonal(state.moments.second) / least, SETTINGS.furthest)
        x = mean + further[:, None] * residual * state.precision * (x - mean)
    return state._replace(
        b=x,
        mean=mean,
        noise=np.sqrt((known[:, None] * residual + chance) / n_samples),
        fitted=[g.rescaled(float(f)) for g, f in zip(state.fitted, lengths, strict=True)],
    )


@dataclass(frozen=True)
class ScoreSettings:
    """How fits with other score models go on."""

    hope: float = 100.0  # times the last gain: what was behind a goal by more never reached it
    empty: float = 1e-3  # of the mean square of a score: if less is known, there is no component
    furthest: float = 100.0  # as far from loadings to the data, where next to nothing is known


SETTINGS = ScoreSettings()


def upwards(
    model: Model, scores: AbstractScores, start: Point, least: Any, product: Array | None = None
) -> ScoredStates:
    """Iterate; components one by one where the objective would fall below `least` otherwise."""
    new = iterate(model, scores, start, product)
    if (new.value >= least).all():
        return new
    return iterate(model, scores, start, product, one_by_one=True)


class _Going:
    """Starts that iterate together: where they stand, and where they go next.

    An iteration starts from where the last few lead to. One that lowers the objective is repeated
    from the last result alone, and if need be with priors as they were and components one by one,
    which cannot lower it.
    """

    def __init__(
        self, model: Model, scores: AbstractScores, start: Point, least: Any = -np.inf
    ) -> None:
        self._model, self._scores = model, scores
        self.quiet = np.zeros(len(start.loadings), dtype=int)  # iterations that gained nothing
        self._radii = np.full(len(start.loadings), ClimbSettings.radius)  # of steps of the priors
        self._begin_at(upwards(model, scores, start, least))

    def _begin_at(self, states: ScoredStates) -> None:
        self._stand_at(states)
        self._trail = Trail(self._vectors, states.b[0].size)

    def _stand_at(self, states: ScoredStates) -> None:
        self.states = states
        self._plain = _next_point(self._model, self._scores, states, self._radii)
        self._vectors = self._plain.as_vectors()

    def advance(self, tol: float) -> Array:
        """Do one iteration; return what it gained."""
        states, plain, fewer = self.states, self._plain, self._without_empty()
        if fewer is not None:
            self._begin_at(fewer)
            return np.asarray(fewer.value - states.value)
        ahead = self._trail.ahead()
        before = self._vectors.copy() if ahead is None else ahead
        point = plain if ahead is None else plain.moved(ahead)
        new = iterate(self._model, self._scores, point)
        lowest = states.value - ClimbSettings.rounding * np.abs(states.value)
        fell = ~(new.value >= lowest)
        if fell.any() and ahead is not None:
            before[fell] = self._vectors[fell]
            new.fill(fell, self._iterated(plain, fell))
        stuck = ~(new.value >= lowest)
        if stuck.any():
            last = point_of(states)
            before[stuck] = last.as_vectors()[stuck]
            new.fill(stuck, self._iterated(last, stuck, one_by_one=True))
            new.put(~(new.value >= lowest), states)  # only where a bound moves
        # where a step of the priors went too far, the next ones are shorter
        longer = np.minimum(2 * self._radii, ClimbSettings.radius)
        self._radii = np.where(stuck, self._radii / 4, longer)
        gain = np.asarray(new.value - states.value)
        del states, plain, point  # large
        self._stand_at(new)
        self._trail.add(before, self._vectors, fell)
        self.quiet = np.where(gain < tol, self.quiet + 1, 0)
        return gain

    def _without_empty(self) -> ScoredStates | None:
        """Iterate without components that have become empty, unless the objective is lower then.

        It would take many more iterations until their weights and scales have come to rest. Where
        entries are missing they may still come back.
        """
        states, model, moments = self.states, self._model, self.states.moments
        apart = model.factor.ndim == 3 or model.incomplete is not None
        if apart or not self._scores.uncertain or len(states) > 1:
            return None
        alive = np.asarray(np.diagonal(moments.second[0] - moments.spread[0]) > SETTINGS.empty)
        if alive.all() or not alive.any() or model.shrinker.only(alive) is not model.shrinker:
            return None
        new = iterate(model, self._scores, self._plain.only(alive))
        return new if new.value >= states.value else None

    def _iterated(self, point: Point, which: Any, one_by_one: bool = False) -> ScoredStates:
        """Do an iteration of some of the starts."""
        model = self._model.of(which)
        return iterate(model, self._scores, point.take(which), one_by_one=one_by_one)

    def keep(self, index: Any) -> None:
        """Go on with some of the starts."""
        self._model, self.states = self._model.of(index), self.states.take(index)
        self._plain, self._vectors = self._plain.take(index), self._vectors[index]
        self.quiet, self._radii = self.quiet[index], self._radii[index]
        self._trail.keep(index)


def settle(
    model: Model,
    scores: AbstractScores,
    start: Point,
    callback: Callback,
    *,
    tol: float,
    max_iter: int,
    least: Any = -np.inf,
    patience: int = 2,
    goal: float = -np.inf,
) -> Climbed:
    """Iterate until each gains less than `tol`, `patience` times in a row; the best first.

    `least` is the value of the objective that the points have reached. It ends where none can be
    hoped to reach the `goal`. Fits to different data, whose model has a factor for each, stay apart
    and in their order; nothing is spent on those at rest while the slowest go on.
    """
    apart = model.factor.ndim == 3
    going = _Going(model, scores, start, least)
    found: Any = going.states if apart else None  # large
    places = np.arange(len(start.loadings))
    stops, converged, n_iter = callback(going.states), False, 1
    while n_iter < max_iter and not (stops or converged):
        gain = np.maximum(going.advance(tol), 0.0)
        stops, n_iter = callback(going.states), n_iter + 1
        leaves, value = going.quiet >= patience, going.states.value
        converged = bool(leaves.all())
        if apart:
            found.fill(places, going.states)
            places = places[~leaves]
        elif n_iter > 2:
            stops = stops or bool((goal - value > SETTINGS.hope * gain).all())
            leaves = _behind(going.states, gain)
        if (apart or n_iter > 2) and leaves.any() and not converged:
            going.keep(~leaves)
    if apart:
        return Climbed(found, converged, n_iter, stops)
    best_first = np.argsort(-going.states.value, kind="stable")
    return Climbed(going.states.take(best_first), converged, n_iter, stops)


def with_solved_priors(model: Model, states: ScoredStates, fitted: Any) -> ScoredStates:
    """Solve the normal-means problems of the components to the end, at the same scores."""
    # the noise of the normal means is that of the precision that the scores were found with
    before = 1 / (model.noise.n_samples * states.noise[:, 0] ** 2)
    before /= _own(states.moments)[:, 0]
    start = point_of(states)._replace(priors=fitted, precision=before)
    found = shrink_given(model, states.moments, states.rotated, start, one_by_one=False)
    fell = ~(found.value >= states.value)
    if fell.any():
        some, start = states.take(fell), start.take(fell)
        again = shrink_given(model.of(fell), some.moments, some.rotated, start, one_by_one=True)
        found.fill(fell, again)
    return found


def _behind(states: ScoredStates, gain: Array) -> Any:
    """Whether each state is behind the best one without hope, or has its loadings."""
    if len(states) == 1:
        return np.zeros(1, dtype=bool)
    best = int(states.value.argmax())
    hopeless = states.value[best] - states.value > ClimbSettings.hope * gain
    means = states.shrunk.mean
    units = means / np.maximum(np.linalg.norm(means, axis=-1, keepdims=True), 1e-300)
    alike = np.abs(units @ units[best].T).max(axis=-1) > ClimbSettings.same
    return (hopeless | alike.all(axis=-1)) & (np.arange(len(states)) != best)


def _next_point(model: Model, scores: AbstractScores, states: ScoredStates, radii: Array) -> Point:
    """Return where the next iteration starts from, with a step of the priors.

    Scores may be shorter if loadings and the scales of their priors are longer by as much. All that
    changes is the `term` of the score model, which is largest at its own mean square; iterations
    alone take long to get there.
    """
    point = point_of(states)._replace(priors=model.shrinker.next_priors(states, 0.0, radii))
    if model.incomplete is not None:
        stretched: Point = model.incomplete.stretched(point, states.moments)
        return stretched
    if model.shrinker.light_tails:  # not every scale is free
        return point
    square = np.diagonal(states.moments.second, axis1=1, axis2=2)
    stretch = square / scores.mean_square(model.noise.n_samples, square.shape[1])
    if point.priors.dtype != object:  # others are solved anew
        point.priors[..., 1] += 0.5 * np.log(stretch)
    return point._replace(
        loadings=point.loadings * np.sqrt(stretch)[..., None], spread=point.spread * stretch
    )


def score_weights(covariance: AbstractCovariance, scores: AbstractScores, state: Any) -> Array:
    """Return the matrix ``T L' W'`` (p x k) whose product with the data are their scores."""
    weighted = state.mean * state.precision
    spread = (state.variance * state.precision).sum(axis=-1)
    product = covariance.matmul(weighted.T).T
    known = state.mean[None], spread[None], weighted[None], product[None]
    moments = _moments_given(scores, *known, covariance.n_samples)
    return np.asarray((moments.weights[0] @ weighted).T)

"""The search of `EBMF`: factors added one by one, fitted together, dropped if useless.

Some steps move a factorisation to another place, from which coordinate ascent goes on. The
posteriors that they leave solve no normal means problem, so their divergences from the priors are
not known: the next iteration replaces them, whatever they are, and shows what they are worth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance
from ebcd.fitting._deflation import ACCURATE
from ebcd.fitting._starts import varimax_start
from ebcd.peers._ebmf_model import Factor, Model, Noise, Observations, moments_of, side_of

_ROUGH = 1e-2  # tolerance of a factor that is worth having: it is fitted again with the others
_LONGEST = 1e4  # times the last step: without a maximum of the ELBO steps would grow for ever
_SETTLED = 1e-11  # relative change of the scores of fixed loadings at which they are final

Progress = Callable[[str, Model], None]


class Search:
    """A fit in progress: the model, its ELBO after every iteration, and how many there were."""

    def __init__(
        self, model: Model, *, tol: float, max_iter: int, progress: Progress | None = None
    ) -> None:
        self.model, self.path = model, [model.value]
        self.n_iter, self.converged = 0, True
        self._tol, self._max_iter, self._progress = tol, max_iter, progress

    def run(self, most: int) -> None:
        """Add factors until one is useless or there are `most`, then fit them together."""
        while len(self.model.factors) < most and self.add():
            pass
        self.backfit()

    def add(self) -> bool:
        """Add a factor to the residual and fit it alone; return whether it is worth having."""
        trial, before = self.model.copy(), self.model.value
        number = len(trial.factors)
        trial.factors.append(oriented(self.model, leading_factor(self.model, number)))
        trial.settle()
        trial.value = -np.inf  # a start has no divergence yet, so its ELBO means nothing
        trial, path = self._ascend(trial, [number], "greedy", before)
        if not (trial.factors[-1].alive and trial.value > before + self._tol):
            return False
        self.model = trial
        self.path += [value for value in path if value > before]
        return True

    def backfit(self) -> None:
        """Fit all factors together and drop those without which the ELBO is higher."""
        self._rotate()
        while self.model.factors:
            everything = range(len(self.model.factors))
            self.model, path = self._ascend(self.model, everything, "backfit")
            self.path += path
            if not (self._drop_useless() or self._rotate()):
                return

    def _ascend(
        self, model: Model, which: Sequence[int], stage: str, enough: float = np.inf
    ) -> tuple[Model, list[float]]:
        """Iterate until the ELBO rises by less than the tolerance, twice, or a factor is empty.

        An ELBO above `enough` need not be known exactly. If the gain of an iteration is ``r^2``
        times the gain before, steps shrink by ``r``, and those still to come add up to
        ``r / (1 - r)`` times the last one: iterations go on from there if that is better. It saves
        a third of the iterations of 25 varied problems, and two thirds of the longest ones.
        """
        path: list[float] = []
        before, gain, ratio, longest = model, np.inf, 0.0, 1.0
        quiet = n_iter = 0
        while n_iter < self._max_iter:
            stretch = min(longest, ratio / (1 - ratio)) if ratio < 1 else longest
            last, n_iter = gain, n_iter + 1
            new = extrapolated(before, model, stretch) if stretch > 0 else model.copy()
            gain = new.iterate(which)
            if stretch > 0 and not gain > 0:
                longest, n_iter = longest / 4, n_iter + 1
                new = model.copy()
                gain = new.iterate(which)
            elif stretch == longest:
                longest = min(2 * longest, _LONGEST)
            if gain < 0:  # rounding, which precisions at their limit magnify
                break
            ratio = np.sqrt(gain / last) if 0 < last < np.inf else 0.0
            before, model = model, new
            path.append(model.value)
            if self._progress is not None:
                self._progress(stage, model)
            tol = max(_ROUGH, self._tol) if model.value > enough else self._tol
            quiet = quiet + 1 if gain < tol else 0
            if quiet == 2 or not all(model.factors[k].alive for k in which):
                break
        else:
            self.converged = False
        self.n_iter += n_iter
        return model, path

    def _drop_useless(self) -> bool:
        """Drop the factor whose loss raises the ELBO most, or that is empty, if there is one."""
        trials = [self.model.without(k) for k in range(len(self.model.factors))]
        best = max(trials, key=lambda trial: trial.value)
        return best.value >= self.model.value and self._move_to(best)

    def _rotate(self) -> bool:
        """Rotate factors towards few large loadings each, if the ELBO is then higher.

        Rotation is the slow direction of coordinate ascent: along it the residuals hardly
        change, and thousands of iterations can pass before the priors take hold.
        """
        if len(self.model.factors) < 2:
            return False
        trial = rotated(self.model)
        trial.iterate(range(len(trial.factors)))
        self.n_iter += 1
        return trial.value > self.model.value + self._tol and self._move_to(trial)

    def _move_to(self, model: Model) -> bool:
        self.model = model
        self.path.append(model.value)
        return True


class _Residual(AbstractCovariance):
    """Cross-products of the standardised residual, about one side of the data.

    Every entry is divided by the standard deviation of its noise, missing ones are zero: otherwise
    the noisiest features or samples would be found first.
    """

    def __init__(self, model: Model) -> None:
        self.n_features, self.n_samples = sorted(model.data.shape)
        self.unit, self.side = 1.0, int(self.n_features != model.data.shape[0])
        self.roots = [np.sqrt(precision) for precision in model.weights(0)]
        self._model = model

    def product(self, side: int, rows: Array) -> Array:
        """Multiply the residual by vectors of the other side."""
        data, rows = self._model.data, rows * self.roots[1 - side]
        product = data.product(side, rows)
        there, here = self._model.stacked(1 - side), self._model.stacked(side)
        for i, row in enumerate(rows):
            product[i] -= data.fitted_along(side, there, row, here)
        return np.asarray(product * self.roots[side])

    def matmul(self, v: Array) -> Array:
        """Multiply by the residual and its transpose."""
        return self.product(self.side, self.product(1 - self.side, v.T)).T

    def diagonal(self) -> Array:
        """Return the sums of squares."""
        return np.diagonal(self.matmul(np.eye(self.n_features)))


def leading_factor(model: Model, number: int) -> Factor:
    """Compute leading singular vectors of the standardised residual as a factor.

    Scores have mean square one.
    """
    residual = _Residual(model)
    side, roots = residual.side, residual.roots
    vector = residual.leading(1, ACCURATE)[1].T
    image = residual.product(1 - side, vector)
    pair = vector[0] / roots[side], image[0] / roots[1 - side]
    scores, loadings = pair if side == 0 else (pair[1], pair[0])
    size = float(np.sqrt(np.mean(scores**2))) or 1.0
    scores, loadings = scores / size, loadings * size
    return Factor((scores, loadings), (scores**2, loadings**2), number)


def extrapolated(old: Model, new: Model, stretch: float) -> Model:
    """Go on from `new` in the direction that led there, `stretch` times as far.

    Scores are compared at equal size: that of scores and loadings means nothing by itself, and
    would run away.
    """
    model = new.copy()
    for k, (start, end) in enumerate(zip(old.factors, new.factors, strict=True)):
        if end is start or None in start.prior:
            continue
        size = np.linalg.norm(end.mean[0]) / np.linalg.norm(start.mean[0])
        scores = end.mean[0] + stretch * (end.mean[0] - size * start.mean[0])
        loadings = end.mean[1] + stretch * (end.mean[1] - start.mean[1] / size)
        spread = end.variances
        model.factors[k] = replace(
            end,
            mean=(scores, loadings),
            second=(scores**2 + spread[0], loadings**2 + spread[1]),
            evidence=(-np.inf, -np.inf),
            product=None,
        )
    return model


def rotated(model: Model) -> Model:
    """Rotate scores and loadings by varimax of the loadings."""
    size = np.sqrt(np.mean(model.stacked(0) ** 2, axis=1, keepdims=True))
    scores, loadings = model.stacked(0) / size, model.stacked(1) * size
    turned = varimax_start(loadings)
    rotation = turned @ np.linalg.pinv(loadings)
    spread = [np.stack(rows) for rows in zip(*(f.variances for f in model.factors), strict=True)]
    share = rotation**2
    means = rotation @ scores, turned
    second = (
        means[0] ** 2 + share @ (spread[0] / size**2),
        turned**2 + share @ (spread[1] * size**2),
    )
    factors = [
        oriented(
            model, Factor((means[0][k], turned[k]), (second[0][k], second[1][k]), factor.number)
        )
        for k, factor in enumerate(model.factors)
    ]
    return replace(model, factors=factors)


def oriented(model: Model, factor: Factor) -> Factor:
    """Choose the sign under which most of a factor is on the sides where its priors are."""
    sides = [side_of(model.prior(t, factor.number)) for t in (0, 1)]

    def kept(sign: float) -> float:
        parts = [
            float(np.linalg.norm(np.maximum(side * sign * mean, 0.0))) if side else 1.0
            for mean, side in zip(factor.mean, sides, strict=True)
        ]
        return parts[0] * parts[1]

    if kept(1.0) >= kept(-1.0):
        return factor
    return replace(factor, mean=(-factor.mean[0], -factor.mean[1]))


@dataclass(frozen=True)
class Fitted:
    """What is left of a model when the training data are gone: enough for other samples."""

    factors: list[Factor]
    precision: Array
    side: int | None
    floor: float


def remember(model: Model) -> Fitted:
    """Forget everything about single samples."""
    none: Array = np.empty(0)
    factors = [
        replace(
            factor,
            mean=(none, factor.mean[1]),
            second=(none, factor.second[1]),
            observed=((none, none), factor.observed[1]),
            product=None,
        )
        for factor in model.factors
    ]
    return Fitted(factors, model.precision, model.noise.side, model.noise.floor)


def with_fixed_priors(model: Model) -> Model:
    """Return the model with the priors that were found, kept fixed from now on."""
    scores, loadings = ([factor.found(side) for factor in model.factors] for side in (0, 1))
    factors = [replace(factor, number=k) for k, factor in enumerate(model.factors)]
    return replace(model, priors=(scores, loadings), factors=factors)


def improve_scores(model: Model, max_iter: int) -> None:
    """Update the scores, in place, until they no longer change; each step raises the ELBO.

    Noise of single samples belongs to the samples and is updated with their scores.
    """
    for _ in range(max_iter if model.factors else 0):
        before, precision = model.stacked(0), model.precision
        model.update(0, range(len(model.factors)))
        if model.noise.side == 0:
            model.settle()
        after = model.stacked(0)
        change = np.abs(after - before).max() / np.abs(after).max(initial=1e-300)
        if max(change, np.abs(model.precision / precision - 1).max()) <= _SETTLED:
            break
    model.settle(keep_precision=True)


def scores_of(fitted: Fitted, data: Observations, max_iter: int) -> Array:
    """Compute posterior means of the scores of samples, k x n, given a fitted factorisation."""
    noise = Noise(data, fitted.side)
    noise.floor = fitted.floor
    precision = fitted.precision
    if fitted.side == 0:  # start from the typical noise: that of the samples is not known
        precision = np.full(data.shape[0], 1 / np.mean(1 / fitted.precision))
    model = with_fixed_priors(Model(data, noise, ([], []), list(fitted.factors), precision))
    scores = _gaussian_scores(model)
    for k, factor in enumerate(model.factors):
        model.factors[k] = replace(
            factor,
            mean=(scores[k], factor.mean[1]),
            second=(scores[k] ** 2, factor.second[1]),
            evidence=(-np.inf, factor.evidence[1]),
        )
    improve_scores(model, max_iter)
    return model.stacked(0)


def _gaussian_scores(model: Model) -> Array:
    """Compute scores as if the priors were normal, with their means and variances.

    That is where to start, and the answer if the priors are normal.
    """
    k = len(model.factors)
    loadings = model.stacked(1)
    own, there = model.weights(0)
    priors = [factor.found(0) for factor in model.factors]
    moments = [(0.0, np.inf) if prior.family == "flat" else moments_of(prior) for prior in priors]
    centre, spread = np.array(moments).reshape(k, 2).T[:, :, None]
    information = 1 / np.maximum(spread, 1e-15) ** 2
    wanted = own * model.data.product(0, loadings * there) + information * centre
    # one matrix for all samples if nothing tells them apart
    count = np.broadcast(own, model.data.total(0, np.zeros(loadings.shape[1]))).size
    matrices = np.empty((count, k, k))
    for i, factor in enumerate(model.factors):
        for j in range(k):
            row = factor.second[1] if i == j else loadings[i] * loadings[j]
            matrices[:, i, j] = own * model.data.total(0, there * row)
        matrices[:, i, i] += information[i]
    return np.ascontiguousarray(np.linalg.solve(matrices, wanted.T[:, :, None])[:, :, 0].T)

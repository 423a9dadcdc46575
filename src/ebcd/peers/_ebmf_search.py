"""The search of `EBMF`: factors added one by one, fitted together, dropped if useless.

Some steps move a factorization to another place, from which coordinate ascent goes on. The
posteriors that they leave solve no normal means problem, so their divergences from the priors are
not known: the next iteration replaces them, whatever they are, and shows what they are worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance
from ebcd.fitting._deflation import ACCURATE
from ebcd.fitting._rotation import NEGLIGIBLE
from ebcd.fitting._starts import varimax_start
from ebcd.peers._ebmf_model import Model, Noise, Observations, moments_of, started


class Search:
    """A fit in progress: the model, its ELBO after every iteration, and how many there were.

    `priors` are those of scores and of loadings, one for each factor in the order in which they are
    added; the last serves all further ones. Iterations are printed if there is a `shift`, what the
    unit of the data adds to the ELBO.
    """

    def __init__(
        self,
        data: Observations,
        noise: Noise,
        priors: Sequence[Sequence[Any]],
        *,
        tol: float,
        max_iter: int,
        shift: float | None = None,
    ) -> None:
        empty = [np.empty((0, size)) for size in data.shape]
        self.model = Model(data, noise, started([[], []], empty, empty))
        self.path, self._priors = [self.model.value], priors
        self.n_iter, self.converged = 0, True
        self._tol, self._max_iter, self._shift, self._shown = tol, max_iter, shift, 0

    def run(self, most: int) -> None:
        """Add factors until one is useless or there are `most`, then fit them together."""
        while self.model.size < most and self.add():
            pass
        self.backfit()

    def add(self) -> bool:
        """Add a factor to the residual and fit it alone; return whether it is worth having."""
        before, number = self.model.value, self.model.size
        families = [priors[min(number, len(priors) - 1)] for priors in self._priors]
        trial = self.model.with_factor(families, leading_vectors(self.model))
        trial, path = self._ascend(trial, [number], "greedy")
        if not (alive(trial, [number]) and trial.value > before + self._tol):
            return False
        self.model = trial
        self.path += [value for value in path if value > before]
        return True

    def backfit(self) -> None:
        """Fit all factors together and drop those without which the ELBO is higher."""
        self._rotate()
        while self.model.size:
            self.model, path = self._ascend(self.model, range(self.model.size), "backfit")
            self.path += path
            if not (self._drop_useless() or self._rotate()):
                return

    def _ascend(self, model: Model, which: Sequence[int], stage: str) -> tuple[Model, list[float]]:
        """Iterate until the ELBO rises by less than the tolerance, twice, or a factor is empty.

        If the gain of an iteration is ``r^2`` times the gain before, steps shrink by ``r``, and
        those still to come add up to ``r / (1 - r)`` times the last one: iterations go on from
        there if that is better. It saves a third of the iterations of 25 varied problems, and two
        thirds of the longest ones.
        """
        path: list[float] = []
        before, gain, ratio, longest = model, np.inf, 0.0, 1.0
        quiet = n_iter = 0
        while n_iter < self._max_iter:
            stretch = min(longest, ratio / (1 - ratio)) if ratio < 1 else longest
            last, n_iter = gain, n_iter + 1
            new = extrapolated(before, model, which, stretch) if stretch > 0 else model.copy()
            gain = new.iterate(which)
            if stretch > 0 and not gain > 0:
                longest, n_iter = longest / 4, n_iter + 1
                new = model.copy()
                gain = new.iterate(which)
            elif stretch == longest:
                # without a maximum of the ELBO steps would grow forever
                longest = min(2 * longest, self._max_iter)
            if gain < 0:  # rounding, which precisions at their limit magnify
                break
            ratio = np.sqrt(gain / last) if 0 < last < np.inf else 0.0
            before, model = model, new
            path.append(model.value)
            if self._shift is not None:
                self._shown += 1
                print(  # noqa: T201 - asked for by verbose
                    f"iteration {self._shown:5d}   {stage:8s}   {model.size} components   "
                    f"ELBO {model.value - self._shift:16.4f}"
                )
            quiet = quiet + 1 if gain < self._tol else 0
            if quiet == 2 or not alive(model, which):
                break
        else:
            self.converged = False
        self.n_iter += n_iter
        return model, path

    def _drop_useless(self) -> bool:
        """Drop the factor whose loss raises the ELBO most, or that is empty, if there is one."""
        trials = [self.model.copy(np.arange(self.model.size) != k) for k in range(self.model.size)]
        for trial in trials:
            trial.settle()
        best = max(trials, key=lambda trial: trial.value)
        # without an empty factor the ELBO may be lower by rounding
        useless = best.value >= self.model.value or not alive(self.model, range(self.model.size))
        return useless and self._move_to(best)

    def _rotate(self) -> bool:
        """Rotate factors toward few large loadings each, if the ELBO is then higher.

        Rotation is the slow direction of coordinate ascent: along it the residuals hardly
        change, and thousands of iterations can pass before the priors take hold.
        """
        if self.model.size < 2:
            return False
        trial = rotated(self.model)
        trial.iterate(range(trial.size))
        self.n_iter += 1
        return trial.value > self.model.value + self._tol and self._move_to(trial)

    def _move_to(self, model: Model) -> bool:
        self.model = model
        self.path.append(model.value)
        return True


class _Residual(AbstractCovariance):
    """Cross-products of the standardized residual, about one side of the data.

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
        there, here = self._model.sides[1 - side].mean, self._model.sides[side].mean
        for i, row in enumerate(rows):
            product[i] -= (data.total(side, there * row) * here).sum(axis=0)
        return np.asarray(product * self.roots[side])

    def matmul(self, v: Array) -> Array:
        """Multiply by the residual and its transpose."""
        return self.product(self.side, self.product(1 - self.side, v.T)).T

    def diagonal(self) -> Array:
        """Return the sums of squares."""
        return np.diagonal(self.matmul(np.eye(self.n_features)))


def leading_vectors(model: Model) -> tuple[Array, Array]:
    """Compute leading singular vectors of the standardized residual, as scores and loadings.

    Scores have mean square one.
    """
    residual = _Residual(model)
    side, roots = residual.side, residual.roots
    vector = residual.leading(1, ACCURATE)[1].T
    image = residual.product(1 - side, vector)
    pair = vector[0] / roots[side], image[0] / roots[1 - side]
    scores, loadings = pair if side == 0 else (pair[1], pair[0])
    size = float(np.sqrt(np.mean(scores**2))) or 1.0
    return scores / size, loadings * size


def alive(model: Model, which: Sequence[int]) -> bool:
    """Whether both sides of factors differ from zero."""
    return all(side.mean[which].any(axis=1).all() for side in model.sides)


def extrapolated(old: Model, new: Model, which: Sequence[int], stretch: float) -> Model:
    """Move some factors on from `new` in the direction that led there, `stretch` times as far.

    Scores are compared at equal size: that of scores and loadings means nothing by itself, and
    would run away.
    """
    model = new.copy()
    start, end = (np.linalg.norm(m.sides[0].mean[which], axis=1) for m in (old, new))
    size = (end / start)[:, None]
    for side, before, factor in zip(model.sides, old.sides, (size, 1 / size), strict=True):
        side.mean[which] += stretch * (side.mean[which] - factor * before.mean[which])
        side.evidence[which] = -np.inf
    return model


def rotated(model: Model) -> Model:
    """Rotate scores and loadings by varimax of the loadings."""
    scores, loadings = model.sides
    size = np.sqrt(np.mean(scores.mean**2, axis=1, keepdims=True))
    turned = varimax_start(loadings.mean * size)
    rotation = turned @ np.linalg.pinv(loadings.mean * size)
    means = rotation @ (scores.mean / size), turned
    variances = [rotation**2 @ v for v in (scores.variance / size**2, loadings.variance * size**2)]
    new = model.copy()
    new.sides = started([side.family for side in model.sides], means, variances)
    return new


@dataclass(frozen=True)
class Factor:
    """A factor of a model in a file; pairs are of scores and loadings."""

    mean: tuple[Array, Array]
    second: tuple[Array, Array]  # means of the squares
    number: int
    prior: tuple[Any, Any]
    observed: tuple[tuple[Array, Array], tuple[Array, Array]]  # b and s of (1)
    evidence: tuple[float, float] = (0.0, 0.0)
    product: None = None


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
    scores, loadings = model.sides
    factors = [
        Factor(
            (none, loadings.mean[k]),
            (none, loadings.second[k]),
            k,
            (scores.prior[k], loadings.prior[k]),
            ((none, none), (loadings.b[k], loadings.s[k])),
        )
        for k in range(model.size)
    ]
    return Fitted(factors, model.precision, model.noise.side, model.noise.floor)


def improve_scores(model: Model, max_iter: int) -> None:
    """Update the scores, in place, until they no longer change; each step raises the ELBO.

    Noise of single samples belongs to the samples and is updated with their scores.
    """
    scores = model.sides[0]
    for _ in range(max_iter if model.size else 0):
        before, precision = scores.mean.copy(), model.precision
        model.update(0, range(model.size))
        if model.noise.side == 0:
            model.settle()
        change = np.abs(scores.mean - before).max() / np.abs(scores.mean).max(initial=1e-300)
        if max(change, np.abs(model.precision / precision - 1).max()) <= NEGLIGIBLE:
            break


def scores_of(fitted: Fitted, data: Observations, max_iter: int) -> Array:
    """Compute posterior means of the scores of samples, k x n, given a fitted factorization."""
    noise = Noise(data, fitted.side)
    noise.floor = fitted.floor
    precision = fitted.precision
    if fitted.side == 0:  # start from the typical noise: that of the samples is not known
        precision = np.full(data.shape[0], 1 / np.mean(1 / fitted.precision))
    loadings = np.reshape([factor.mean[1] for factor in fitted.factors], (-1, data.shape[1]))
    second = np.reshape([factor.second[1] for factor in fitted.factors], loadings.shape)
    families = [[factor.prior[side] for factor in fitted.factors] for side in (0, 1)]
    zero = np.zeros((len(loadings), data.shape[0]))
    spread = np.maximum(second - loadings**2, 0.0)
    model = Model(data, noise, started(families, (zero, loadings), (zero, spread)))
    model.precision = precision
    if model.size:
        model.sides[0].mean = _gaussian_scores(model)
    improve_scores(model, max_iter)
    return model.sides[0].mean


def _gaussian_scores(model: Model) -> Array:
    """Compute scores as if the priors were normal, with their means and variances.

    That is where to start, and the answer if the priors are normal.
    """
    data, (scores, loadings) = model.data, model.sides
    own, there = model.weights(0)
    priors = scores.family
    moments = [(0.0, np.inf) if prior.family == "flat" else moments_of(prior) for prior in priors]
    center, spread = np.array(moments).T[:, :, None]
    information = 1 / np.maximum(spread, 1e-15) ** 2
    wanted = own * data.product(0, loadings.mean * there) + information * center
    matrices = []  # for each sample, or one for all if nothing tells them apart
    for k, row in enumerate(loadings.mean):
        rows = loadings.mean * row
        rows[k] += loadings.variance[k]
        rows = own * data.total(0, there * rows)
        rows[k] += information[k]
        matrices.append(rows.T)
    solved = np.linalg.solve(np.stack(matrices, axis=1), wanted.T[:, :, None])
    return np.ascontiguousarray(solved[:, :, 0].T)

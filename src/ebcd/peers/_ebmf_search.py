"""Which factors a factorisation has: added one by one, fitted together, dropped if useless."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ebcd._numerics import Array
from ebcd.peers._ebmf_fit import Factor, Model
from ebcd.peers._ebmf_moves import extrapolated, oriented, rotated

_QUIET = 2  # iterations with a gain below the tolerance before a loop stops
_CLEAR = 1.0  # gain of a new factor, in nats, that settles that it is worth having
_ROUGH = 1e-2  # tolerance for such a factor: it is fitted again together with the others
_WORTH_MOVING = 1e-3  # nats
_FIRST_REACH = 4.0
_WORTH_REACHING = 0.25
_LARGEST_RATIO = 0.99
_EXACT_UP_TO = 400  # length of the shorter side up to which starts are exact
_OVERSAMPLING = 8
_PRODUCTS = 12

Progress = Callable[[str, Model], None]


class Search:
    """A fit in progress: the model, its ELBO after every iteration, and how many there were."""

    def __init__(
        self,
        model: Model,
        *,
        tol: float,
        max_iter: int,
        rng: np.random.Generator,
        progress: Progress | None = None,
    ) -> None:
        self.model, self.path = model, [model.value]
        self.n_iter, self.converged = 0, True
        self._tol, self._max_iter, self._rng, self._progress = tol, max_iter, rng, progress

    def run(self, most: int) -> None:
        """Add factors until one is useless or there are `most`, then fit them together."""
        while len(self.model.factors) < most and self.add():
            pass
        self.backfit()

    def add(self) -> bool:
        """Add a factor to the residual and fit it alone; tell whether it is worth having."""
        trial, before = self.model.copy(), self.model.value
        number = len(trial.factors)
        trial.factors.append(oriented(self.model, leading_factor(self.model, number, self._rng)))
        trial.settle()
        trial.value = -np.inf  # a start has no divergence yet, so its ELBO means nothing
        trial, path = self._ascend(trial, [number], "greedy", before + _CLEAR)
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
        self, model: Model, which: Sequence[int], stage: str, clear: float = np.inf
    ) -> tuple[Model, list[float]]:
        """Iterate until the ELBO rises by less than the tolerance, twice, or a factor is empty.

        An ELBO above `clear` need not be known exactly.
        """
        walk = _Walk(model, which)
        path: list[float] = []
        quiet = 0
        while walk.n_iter < self._max_iter:
            gain = walk.advance()
            path.append(walk.model.value)
            if self._progress is not None:
                self._progress(stage, walk.model)
            rough = walk.model.value > clear
            quiet = quiet + 1 if gain < (_ROUGH if rough else self._tol) else 0
            if quiet >= _QUIET or not all(walk.model.factors[k].alive for k in which):
                break
        else:
            self.converged = False
        self.n_iter += walk.n_iter
        return walk.model, path

    def _drop_useless(self) -> bool:
        """Drop the factor whose loss raises the ELBO most, or that is empty, if there is one."""
        trials = [self.model.without(k) for k in range(len(self.model.factors))]
        best = max(trials, key=lambda trial: trial.value)
        if not best.value >= self.model.value:
            return False
        return self._move_to(best)

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
        worth_it = trial.value > self.model.value + _WORTH_MOVING
        return worth_it and self._move_to(trial)

    def _move_to(self, model: Model) -> bool:
        self.model = model
        self.path.append(model.value)
        return True


class _Walk:
    """Coordinate ascent that goes further in the direction of slow progress.

    If the gain of an iteration is ``r^2`` times the gain before, the steps shrink by ``r``, and
    those still to come add up to ``r / (1 - r)`` times the last one.
    """

    def __init__(self, model: Model, which: Sequence[int]) -> None:
        self.model, self._which = model, which
        self.n_iter = 0
        self._before: Model | None = None
        self._gain, self._ratio, self._reach = np.inf, 0.0, _FIRST_REACH

    def advance(self) -> float:
        """Do one iteration, further if that is better; return what it gained."""
        begin, before = self.model, self._before
        reach = min(self._reach, self._ratio / (1 - self._ratio))
        if before is None or reach < _WORTH_REACHING:
            new, gain = self._iterated(begin.copy())
            self._learn(gain)
        else:
            new, gain = self._iterated(extrapolated(before, begin, reach))
            if gain > 0:
                self._reach = 2 * self._reach if reach == self._reach else self._reach
                self._learn(gain)
            else:
                self._reach = max(self._reach / 4, _WORTH_REACHING)
                new, gain = self._iterated(begin.copy())
                self._learn(gain)
        self._before, self.model, self._gain = begin, new, gain
        return gain

    def _iterated(self, model: Model) -> tuple[Model, float]:
        self.n_iter += 1
        gain = model.iterate(self._which)
        return model, gain

    def _learn(self, gain: float) -> None:
        """Note how fast gains shrink."""
        known = np.isfinite(self._gain) and self._gain > 0 and gain > 0
        self._ratio = min(np.sqrt(gain / self._gain), _LARGEST_RATIO) if known else 0.0


def leading_factor(model: Model, number: int, rng: np.random.Generator) -> Factor:
    """Leading singular vectors of the residual, missing entries as zero, as a factor.

    Exact if one side is short, else by subspace iteration. Scores have mean square one.
    """
    n, p = model.data.shape
    side, length = (0, n) if n <= p else (1, p)
    basis = np.eye(length)
    if length > _EXACT_UP_TO:
        basis = rng.standard_normal((1 + _OVERSAMPLING, length))
        for _ in range(_PRODUCTS):
            basis = _residual_product(model, side, _residual_product(model, 1 - side, basis))
            basis = np.linalg.qr(basis.T)[0].T
    image = _residual_product(model, 1 - side, basis)
    vector = np.linalg.eigh(image @ image.T)[1][:, -1]
    pair = vector @ basis, vector @ image
    scores, loadings = pair if side == 0 else (pair[1], pair[0])
    size = float(np.sqrt(np.mean(scores**2))) or 1.0
    scores, loadings = scores / size, loadings * size
    return Factor((scores, loadings), (scores**2, loadings**2), number)


def _residual_product(model: Model, side: int, rows: Array) -> Array:
    """Product of the residual with vectors of the other side."""
    product = model.data.product(side, rows)
    if model.factors:
        there, here = model.stacked(1 - side), model.stacked(side)
        for i, row in enumerate(rows):
            product[i] -= model.data.fitted_along(side, there, row, here)
    return product

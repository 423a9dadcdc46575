"""The plain alternating loop of sparse PCA: rotate the scores, shrink the loadings, repeat.

Several fits run together as one stack of loadings, fits x k x p, so that an iteration is a few
large products: several starts of one fit, or every strength of a penalty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebcd._numerics import Array

Index = NDArray[np.integer[Any]]
# From loadings to ``B = X'Z / n``.
Rotate = Callable[[Array], Array]
# From ``B`` to loadings and the criterion, to be large, for the given fits of a stack; None if the
# method has no criterion.
Shrink = Callable[[Array, Index], tuple[Array, Array | None]]
Progress = Callable[[int, Array, Array], None]


@dataclass(frozen=True)
class LoopSettings:
    """When several starts compete, and how an iteration is lengthened."""

    # After so many iterations only so many starts go on: starts that end higher are ahead by then.
    cuts: tuple[tuple[int, int], ...] = ((10, 12), (30, 1))
    # Relative gain below which momentum sets in. Long steps early on lead to other optima than the
    # start would, and on average not to better ones.
    small_gain: float = 1e-5
    # Largest share of the last step that is added to the next; more overshoots near the end.
    momentum: float = 0.95


SETTINGS = LoopSettings()


class Fit(NamedTuple):
    """Where one fit of a stack ended."""

    loadings: Array  # k x p, after the last shrinkage
    observed: Array  # k x p, what that shrinkage was applied to
    # The criterion after every iteration; if the method has none, how far each iteration turned
    # the subspace of the loadings (squared sine of the largest angle).
    path: Array
    converged: bool


@dataclass
class _Stack:
    """The fits that still run; arrays have one entry for each of them."""

    fits: Index
    loadings: Array
    proposal: Array  # what is rotated next: the loadings, or beyond them
    value: Array
    age: Array  # iterations with small gains since momentum began

    def only(self, kept: NDArray[np.bool_]) -> None:
        """Go on with some of the fits."""
        if kept.all():
            return
        for name, array in vars(self).items():
            setattr(self, name, array[kept])


def alternate(
    rotate: Rotate,
    shrink: Shrink,
    starts: Array,
    *,
    tol: float,
    max_iter: int,
    size: float | None = None,
    momentum: bool = False,
    compete: bool = False,
    rival: float = -np.inf,
    progress: Progress | None = None,
) -> list[Fit]:
    """Alternate rotation and shrinkage from every start until the criteria stop rising.

    A criterion that is convex in the scores, as all in this package are, rises in every plain
    iteration (Journée et al. 2010). A fit has converged when its gain is at most `tol`.

    Parameters
    ----------
    starts : array, fits x k x p
        Loadings to start from.
    size : float, optional
        What gains are relative to; by default the criterion itself.
    momentum : bool
        Whether to lengthen iterations by part of the one before. A step that lowers the criterion
        is taken back.
    compete : bool
        Whether the starts compete, so that only promising ones are followed to the end.
    rival : float
        Criterion that a start must exceed after one iteration to be followed any further.
    progress : callable, optional
        Called after every iteration with its number, the criteria and the loadings.

    Returns
    -------
    list of Fit
        In the order of the starts; those that were not followed to the end are left out.
    """
    count = len(starts)
    stack = _Stack(np.arange(count), starts, starts, np.full(count, -np.inf), np.zeros(count))
    paths: list[Array] = []  # a row for each iteration, NaN where a fit had ended
    ended: dict[int, tuple[Array, Array, int, bool]] = {}
    values = np.full(count, -np.inf)
    for iteration in range(1, max_iter + 1):
        observed = rotate(stack.proposal)
        path, rising = _move(stack, *shrink(observed, stack.fits), tol, size, momentum)
        paths.append(np.full(count, np.nan))
        paths[-1][stack.fits] = path
        values[stack.fits] = stack.value
        if progress is not None:
            progress(iteration, path, stack.loadings)
        stays = rising if iteration < max_iter else np.zeros_like(rising)
        for i in np.flatnonzero(~stays):
            fit = int(stack.fits[i])
            ended[fit] = stack.loadings[i], observed[i], iteration, not rising[i]
        if iteration == 1 and rival > -np.inf:
            stays = stays & (stack.value > rival)
        if compete and iteration in (cuts := dict(SETTINGS.cuts)):
            rivals = np.sort(values[[*ended, *stack.fits[stays]]])
            stays = stays & (stack.value >= rivals[-cuts[iteration] :][0])
        stack.only(stays)
        if stack.fits.size == 0:
            break
    table = np.array(paths)
    return [
        Fit(loadings, observed, table[:n_iter, fit], converged)
        for fit, (loadings, observed, n_iter, converged) in sorted(ended.items())
    ]


def _move(
    stack: _Stack,
    new: Array,
    criterion: Array | None,
    tol: float,
    size: float | None,
    momentum: bool,
) -> tuple[Array, NDArray[np.bool_]]:
    """Move to new loadings, in place; return what goes on the paths, and which fits still rise."""
    if criterion is None:
        turn = _turned(stack.loadings, new)
        stack.loadings = stack.proposal = new
        return turn, ~(turn <= tol) & new.any(axis=(1, 2))
    overshot = (stack.age > 0) & (criterion < stack.value)
    if overshot.any():
        new = np.where(overshot[:, None, None], stack.loadings, new)
        criterion = np.where(overshot, stack.value, criterion)
    unit = np.abs(criterion) if size is None else size
    gain = criterion - stack.value
    proposal = new
    if momentum:
        stack.age = np.where(overshot | (gain > SETTINGS.small_gain * unit), 0.0, stack.age + 1)
        if stack.age.any():
            share = np.minimum(stack.age / (stack.age + 3), SETTINGS.momentum)
            proposal = new - stack.loadings
            proposal *= share[:, None, None] * new.any(axis=2, keepdims=True)  # empty ones stay so
            proposal += new
    stack.loadings, stack.proposal, stack.value = new, proposal, criterion
    least = min(float(tol), 1e100) * unit  # in range, whatever the tol
    return criterion, overshot | (gain > least)


def _turned(old: Array, new: Array) -> Array:
    """Squared sine of the largest angle between subspaces with orthonormal rows.

    NaN where the dimension has changed, since there is no such angle then.
    """
    left = new - (new @ old.swapaxes(1, 2)) @ old
    angle = np.linalg.norm(left, 2, axis=(1, 2)) ** 2
    same = (old.any(axis=2) == new.any(axis=2)).all(axis=1)
    return np.where(same, angle, np.nan)

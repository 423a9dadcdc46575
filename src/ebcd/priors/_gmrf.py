"""Values that are alike where nodes of a graph are neighbors: a Gaussian Markov random field.

The prior is ``N(0, Q^-1)`` with ``Q = (L + kappa I) / scale^2``, where ``L`` is the Laplacian or,
in a field of order 2 or 3, its square or cube. Given observations ``x`` with precisions ``D``, the
posterior is normal with precision ``P = Q + D`` and mean ``m = P^-1 D x``; the log-likelihood is

    (1)  2 log p(x) = log|Q| + log|D / 2 pi| - log|P| - (x - m)' D (x - m) - m' Q m.

With ``tau = 1 / scale^2`` and ``delta = kappa / scale^2`` its derivatives are

    (2)  2 d/d log tau   = tau (tr(Q^-1 L) - tr(P^-1 L) - m' L m),
         2 d/d log delta = delta (tr Q^-1 - tr P^-1 - m' m),

and ``tr(P^-1 (Q + D)) = p`` reduces all traces of P to the posterior variances. It has no limit
without kappa: as delta falls to zero the log-likelihood falls to minus infinity, like half its
logarithm for every connected part of the graph, an isolated node being one. As tau falls to zero
entries become independent, as it grows they become equal in every part, as delta grows they vanish.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special

from ebcd._numerics import Array, typical
from ebcd._parameters import N_DRAWS, as_generator
from ebcd.priors._family import AbstractPriorFamily, Columns, as_positive, as_scale, register
from ebcd.priors._fitted import AbstractJointPrior, Evaluated, FittedPrior
from ebcd.priors._graphs import Banded, Graph, Spectral, as_adjacency, as_graph


@dataclass(frozen=True)
class _Settings:
    # Of tau times the largest eigenvalue of L, and of delta, in units of the noise.
    # Neighbors that differ by 1e-5 of the noise are equal; more is lost to rounding of P.
    largest: float = 1e10
    # kappa at cold starts, of the largest eigenvalue: from waves across any graph to independence
    kappas: tuple[float, ...] = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
    # and which share of the squares of x is signal: in noise, too, there is a faint best one
    shares: tuple[float, ...] = (1.0, 0.1, 0.01)


SETTINGS = _Settings()
_HALF_THE_DIGITS = float(np.sqrt(np.finfo(float).eps))


class _Observed(NamedTuple):
    """Observations and their precisions, in coordinates of a graph."""

    at: Spectral | Banded
    eigenvalues: Array
    x: Array
    d: Array

    def solved(self, tau: float, delta: float) -> tuple[Evaluated, Array]:
        """Evaluate (1), and (2) in the logarithms of tau and delta."""
        at, eigenvalues, x, d = self
        if tau == np.inf:  # all values are zero
            value = 0.5 * float(np.log(d / (2 * np.pi)).sum() - d @ x**2)
            return Evaluated(value, np.zeros(x.size), np.zeros(x.size)), np.zeros(2)
        log_det, variance, solve = at.factor(tau, delta + d)
        mean, q = solve(d * x), tau * eigenvalues + delta
        rough, size = tau * at.energy(mean), delta * float(mean @ mean)
        logs = float(np.log(q).sum() + np.log(d / (2 * np.pi)).sum())
        seen = float((1 - (d + delta) * variance).sum())
        slopes = (
            float((tau * eigenvalues / q).sum()) - seen - rough,
            delta * float((1 / q).sum() - variance.sum()) - size,
        )
        value = logs - log_det - float(d @ (x - mean) ** 2) - rough - size
        return Evaluated(0.5 * value, mean, variance), 0.5 * np.array(slopes)

    def fitted(self, start: tuple[float, float] | None) -> tuple[float, float, float]:
        """Return the highest (1) and its tau and delta, infinite if nothing else is better."""
        top, squares = float(self.eigenvalues.max()) or 1.0, float(self.x @ self.x)
        nothing = self.solved(np.inf, np.inf)[0].value, np.inf, np.inf
        if not squares:
            return nothing
        if start is None:
            kappas = [kappa * top for kappa in SETTINGS.kappas]
            sizes = [float((1 / (self.eigenvalues + kappa)).sum()) / squares for kappa in kappas]
            start = max(
                (
                    (tau / share, kappa * tau / share)
                    for tau, kappa in zip(sizes, kappas, strict=True)
                    for share in SETTINGS.shares
                ),
                key=lambda at: self.solved(*at)[0].value,
            )
        first = np.log(start) + np.log([top, 1.0])
        # no delta is below 1 / |x|^2, and far below that a smaller tau makes no difference
        low = np.minimum(first, np.log(_HALF_THE_DIGITS / (1 + squares)))
        high = np.maximum(first, np.log(SETTINGS.largest))

        def minus(logs: Array) -> tuple[float, Array]:
            found, gradient = self.solved(float(np.exp(logs[0])) / top, float(np.exp(logs[1])))
            return -found.value, -gradient

        bounds = list(zip(low, high, strict=True))
        logs, worst, _ = optimize.fmin_l_bfgs_b(minus, first, bounds=bounds, factr=0.0)
        if -worst <= nothing[0] + _HALF_THE_DIGITS:  # nats: more than rounding
            return nothing
        return -float(worst), float(np.exp(logs[0])) / top, float(np.exp(logs[1]))


def _observed(graph: Graph, x: Array, s: Array) -> _Observed:
    graph, d = graph.of_length(x.size), s**-2.0
    eigenvalues = graph.spectral.eigenvalues
    if (d == d[0]).all():
        return _Observed(graph.spectral, eigenvalues, graph.spectral.to(x), d)
    return _Observed(graph.banded, eigenvalues, graph.banded.to(x), graph.banded.to(d))


class GMRFPrior(AbstractJointPrior):
    """A normal prior of a vector, with precision ``(L + kappa I) / scale^2``.

    ``L`` is the Laplacian of a graph, its square or its cube. Log-likelihood and posterior are
    exact.

    Parameters
    ----------
    graph : Graph
        The nodes and their neighbors, and the order of the field.
    scale : float
        Standard deviation of the difference that is allowed between neighbors, roughly, or in a
        field of order 2 between a node and the mean of its neighbors; zero if all values are zero.
    kappa : float
        Pull toward zero, as that of one more neighbor with this weight.
    """

    family = "gmrf"

    def __init__(self, graph: Graph, scale: float, kappa: float) -> None:
        self.graph, self.scale, self.kappa = graph, scale, kappa
        of_graph = {"adjacency": graph.adjacency, "order": graph.order}
        self.parameters = {**of_graph, "scale": scale, "kappa": kappa}

    def describe(self) -> str:
        """Say what it is smooth on, and how much."""
        if self.scale == 0:
            return "exactly 0"
        smooth = f"smooth on a {self.graph}, order {self.graph.order}"
        return f"{smooth}, scale {self.scale:.4g}, kappa {self.kappa:.4g}"

    def evaluate(self, x: Array, s: Array) -> Evaluated:
        """Log-likelihood (1), and posterior mean and variance."""
        unit = typical(s)
        data = _observed(self.graph, x / unit, s / unit)
        found, _ = data.solved(*self.precisions(unit))
        return Evaluated(
            found.value - x.size * float(np.log(unit)),
            unit * data.at.back(found.mean),
            unit**2 * data.at.spread(found.variance),
        )

    def tails(self, x: Array, s: Array) -> tuple[Array, Array]:
        if self.scale == 0:
            return np.ones(x.shape), np.ones(x.shape)
        _, mean, variance = self.evaluate(x, s)
        z = mean / np.sqrt(variance)
        return special.ndtr(-z), special.ndtr(z)

    def spike_probability(self, x: ArrayLike, s: ArrayLike = 1.0) -> Array:
        """Posterior probability of being exactly zero: one if all are, and zero otherwise."""
        return np.full(self._observations(x, s)[0].shape, float(self.scale == 0))

    def interval(self, x: Array, s: Array, probability: float) -> tuple[Array, Array]:
        _, mean, variance = self.evaluate(x, s)
        width = special.ndtri(0.5 + 0.5 * probability) * np.sqrt(variance)
        return mean - width, mean + width

    def sample(self, n: int, random_state: Any = None) -> Array:
        """Draw one vector of length `n` from the prior."""
        N_DRAWS.check("n", n)
        return np.asarray(self._drawn(1, n, as_generator(random_state))[0])

    def sample_posterior(
        self, x: ArrayLike, s: ArrayLike = 1.0, n: int = 1, random_state: Any = None
    ) -> Array:
        """Draw `n` vectors from the posterior of all entries; the result is n x p.

        A draw from the prior, plus the posterior mean of what is left of the data after it and
        noise of its own have been subtracted, is a draw from the posterior.
        """
        N_DRAWS.check("n", n)
        x, s = self._observations(x, s)
        rng, unit = as_generator(random_state), typical(s)
        drawn = self._drawn(n, x.size, rng) / unit
        if self.scale == 0:
            return drawn
        at, _, y, d = _observed(self.graph, x / unit, s / unit)
        noisy = drawn + s / unit * rng.normal(size=drawn.shape)
        tau, delta = self.precisions(unit)
        left = at.factor(tau, delta + d).solve(d * (y - at.to(noisy)))
        return unit * (drawn + at.back(left))

    def rescaled(self, factor: float) -> FittedPrior:
        return self if factor == 1 else GMRFPrior(self.graph, factor * self.scale, self.kappa)

    def mirrored(self) -> FittedPrior:
        """Return the prior of ``-theta``, which is the same."""
        return self

    def precisions(self, unit: float = 1.0) -> tuple[float, float]:
        """Return tau and delta for values divided by `unit`."""
        tau = (unit / self.scale) ** 2 if self.scale else np.inf
        return tau, tau * self.kappa

    def _drawn(self, n: int, p: int, rng: np.random.Generator) -> Array:
        """Draw `n` vectors of length `p` from the prior."""
        at = self.graph.of_length(p).spectral
        return at.back(self.scale / np.sqrt(at.eigenvalues + self.kappa) * rng.normal(size=(n, p)))


@register
@dataclass(frozen=True, repr=False)
class GMRF(AbstractPriorFamily):
    """Values that are similar at neighboring nodes of a chain, a grid or any graph.

    A Gaussian Markov random field (Rue and Held, 2005), with precision ``(L + kappa I) / scale^2``,
    where ``L`` is the Laplacian, its square or its cube. Both parameters are fitted, so the
    smoothness is learned from the data. Unlike ``spatial``, it blurs jumps, but it is exact even if
    the noise differs between entries, and it is not limited to one dimension.

    Attributes
    ----------
    adjacency : "chain", "ring", ("grid", rows, columns), or matrix
        Which nodes are neighbors. The ends of a ring are; those of a chain are if that is more
        likely, unless `order` is given. The nodes of a grid are in the order of the pixels of a
        flattened image, row by row. A symmetric matrix, sparse or not, has the non-negative weights
        of all pairs of up to 3,000 nodes; its diagonal is ignored.
    order : {"auto", 1, 2, 3}
        Which differences are small: those between neighbors (1), those between a node and the
        mean of its neighbors (2), or the differences of those (3). Order 1 suits jumps and rough
        surfaces, order 2 curves and hills, and order 3 very smooth ones. By default
        the order with the highest likelihood is used; a warm start keeps its order.

    Examples
    --------
    >>> import numpy as np
    >>> import ebcd
    >>> hill = 3 * np.outer(np.hanning(12), np.hanning(20))
    >>> x = hill.ravel() + np.random.default_rng(0).normal(size=240)
    >>> result = ebcd.ebnm(x, 1.0, ebcd.priors.make_family("gmrf", adjacency=("grid", 12, 20)))
    >>> bool(np.mean((result.mean - hill.ravel()) ** 2) < 0.2)
    True
    """

    name: ClassVar[str] = "gmrf"
    positions: ClassVar[tuple[str, ...]] = ()
    has_mode: ClassVar[bool] = False
    binned: ClassVar[bool] = False
    exchangeable: ClassVar[bool] = False
    adjacency: Any = None
    order: int | str = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", as_adjacency(self.adjacency))
        if self.order not in ("auto", 1, 2, 3):
            raise ValueError(f"order must be 1, 2, 3 or 'auto', got {self.order!r}")

    def __repr__(self) -> str:
        return f"GMRF({self.graphs[0]}, order={self.order})"

    @cached_property
    def graphs(self) -> list[Graph]:
        """The graphs among which the likelihood chooses."""
        if self.order != "auto":
            return [as_graph(self.adjacency, int(self.order))]
        kinds = ("chain", "ring") if self.adjacency == "chain" else (self.adjacency,)
        return [as_graph(kind, order) for kind in kinds for order in (1, 2, 3)]

    @classmethod
    def build(cls, **parameters: Any) -> FittedPrior:
        """Make the prior from `adjacency`, `scale`, `kappa` and perhaps `order`."""
        [graph] = cls(parameters["adjacency"], parameters.get("order", 1)).graphs
        scale, kappa = as_scale(parameters["scale"]), as_positive(parameters["kappa"], "kappa")
        return GMRFPrior(graph, scale, kappa)

    def fit_column(self, column: Columns, start: FittedPrior | None) -> FittedPrior:
        graphs, warm = self.graphs, None
        if isinstance(start, GMRFPrior) and start.scale:
            same = [graph for graph in graphs if graph == start.graph]
            graphs, warm = same or graphs, start.precisions() if same else None
        fits = [_observed(graph, column.x[0], column.noise).fitted(warm) for graph in graphs]
        best = int(np.argmax([value for value, *_ in fits]))
        _, tau, delta = fits[best]
        kappa = delta / tau if tau < np.inf else 1.0
        return GMRFPrior(graphs[best], tau**-0.5, kappa)

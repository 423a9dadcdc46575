"""Prior families compared on the same data, with the same number of components."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.model_selection import cross_val_score

from ebcd import _axes
from ebcd._parameters import shown
from ebcd.estimators._base import family_of
from ebcd.estimators._ebcd import EBCD
from ebcd.priors._family import PRIORS, as_prior
from ebcd.priors._fitted import FittedPrior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FAMILIES = ("point_laplace", "normal", "point_exponential", "generalized_binary")
# Nats that a larger family must gain: about what a parameter is worth by the Bayesian information
# criterion, log(p) / 2, with 400 features.
WORTHWHILE = 3.0


@dataclass(frozen=True, eq=False, repr=False)
class PriorComparison:
    """Fits with several priors to the same data, as `compare_priors` returns them.

    Attributes
    ----------
    table : pandas.DataFrame, or list of dict without pandas
        A line for each prior: ``family``; ``elbo``; ``held_out``, the mean log-likelihood of a
        sample that was left out, if `cv` was given; ``nonzero``, the share of the loadings that
        are not exactly zero, as the posterior expects it; ``seconds`` of the fit; and
        ``n_components``, of which a fit may have dropped some.
    best : str or None
        The prior with the highest ELBO; but if a family with fewer parameters is within 3 nats of
        that, the smaller family. None if no prior has an ELBO (``flat`` has none). With relaxed
        scores, fits with and without correlations between scores may differ by half a nat or more
        for each pair of components for that reason alone.
    models : dict
        The fitted estimators by the names of their priors.
    """

    table: Any
    best: str | None
    models: dict[str, EBCD]

    def plot(self, ax: Any = None) -> Axes:
        """Draw how far the ELBO of each prior is below the highest.

        The line marks 3 nats, within which a smaller family is preferred; the best is blue. It
        draws on `ax`, or on a new figure, and returns the axes.

        Examples
        --------
        >>> import ebcd
        >>> X = ebcd.datasets.load_elnino().data
        >>> ax = ebcd.compare_priors(X, ["point_laplace", "normal"], n_components=2).plot()
        >>> [label.get_text() for label in ax.get_yticklabels()]
        ['point_laplace', 'normal']
        """
        axes = _axes.one_axes(ax, 5.6, 1.2 + 0.4 * len(self.models))
        elbos = np.array([model.elbo_ for model in self.models.values()])
        below = np.fmax.reduce(elbos) - elbos
        colors = [_axes.BLUE if name == self.best else _axes.GRAY for name in self.models]
        axes.barh(range(below.size), below, color=colors)
        axes.axvline(WORTHWHILE, color=_axes.INK, linewidth=1, linestyle=":")
        axes.set_yticks(range(below.size), list(self.models), parse_math=False)
        axes.invert_yaxis()
        axes.set_xlabel("ELBO below the highest (nats)")
        _axes.tidy(axes)
        return axes

    def __repr__(self) -> str:
        lines = [f"  {name:20} ELBO {model.elbo_:.1f}" for name, model in self.models.items()]
        return "\n".join([f"PriorComparison(best: {self.best})", *lines])


def compare_priors(
    X: Any,
    priors: Any = None,
    *,
    n_components: int | str = "auto",
    cv: Any = None,
    **options: Any,
) -> PriorComparison:
    """Fit `EBCD` with several priors and compare the results.

    The ELBO is a bound on the log-likelihood with the loadings integrated out, so it can be used to
    compare families with the same number of components. The number is chosen once. A family with
    more parameters should be better by more than chance: within 3 nats, the smaller one wins.

    Parameters
    ----------
    X : array-like, sparse matrix or data frame of shape (n, p)
        Data, or anything else that `EBCD.fit` accepts.
    priors : list of priors, or dict, optional
        Names of families, families or fitted priors, or a dict of these with your own names. By
        default point_laplace, normal, point_exponential and generalized_binary.
    n_components : int, "auto" or "paper", default "auto"
        Number of components of all fits; "auto" counts those that stand out from noise.
    cv : int, splitter or None, default None
        If given, samples are held out as in `sklearn.model_selection.cross_val_score`, and the
        table has their log-likelihoods. It does not decide which prior is best.
    **options
        Other parameters of `EBCD`, for example ``scores="integrated"``.

    Returns
    -------
    PriorComparison

    Examples
    --------
    >>> import ebcd
    >>> X, V, Sigma = ebcd.datasets.make_simulation(random_state=0)  # loadings are zero or equal
    >>> comparison = ebcd.compare_priors(X)
    >>> comparison.best
    'generalized_binary'
    >>> comparison.models["normal"].n_components_
    2
    """
    if "prior" in options:
        raise TypeError("compare_priors has no parameter prior; pass a list as priors")
    named = _named(FAMILIES if priors is None else priors)
    k, models, rows = n_components, {}, []
    for name, prior in named.items():
        model = models[name] = EBCD(k, prior=prior, **options)
        began = time.perf_counter()
        with warnings.catch_warnings():
            if isinstance(k, str):  # an error says the same
                warnings.filterwarnings("ignore", "no component was found")
            model.fit(X)
        seconds = time.perf_counter() - began
        k = _counted(model)
        row = {"family": name, "elbo": model.elbo_}
        if cv is not None:
            try:
                left_out = cross_val_score(EBCD(k, prior=prior, **options), X, cv=cv)
            except (IndexError, TypeError, ValueError) as error:
                raise ValueError(f"cv={shown(cv)} does not work: {error}") from error
            row["held_out"] = float(left_out.mean())
        nonzero = float(model._memberships().mean()) if model.n_components_ else 0.0
        row |= {"nonzero": nonzero, "seconds": seconds}
        rows.append(row | {"n_components": model.n_components_})
    return PriorComparison(_as_table(rows), best_prior(models, named), models)


def _named(priors: Any) -> dict[str, Any]:
    """Return priors by name."""
    if not isinstance(priors, Mapping | list | tuple) or not priors:
        raise ValueError(
            f"priors must be a list of at least one prior, or a dict, got {shown(priors)}"
        )
    if isinstance(priors, Mapping):
        return {str(name): as_prior(prior) for name, prior in priors.items()}
    found = [as_prior(prior) for prior in priors]
    names = [family_of(prior) for prior in found]
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise ValueError(f"two priors are called {twice[0]!r}; pass a dict to name them")
    return dict(zip(names, found, strict=True))


def _counted(model: EBCD) -> int:
    """Return the number of components of all fits, once the first one has counted them."""
    if not isinstance(model.n_components, str):
        return model.n_components
    counted = model.n_components == "auto" and isinstance(model.start, str)
    # scores that are integrated out may have dropped some of those that were counted
    k = model._signal if counted else model.n_components_
    if k == 0:
        raise ValueError(
            "no component stands out from noise, so there is nothing to compare priors on; "
            "pass n_components as a number to use the strongest directions anyway"
        )
    return int(k)


def best_prior(models: dict[str, EBCD], priors: dict[str, Any]) -> str | None:
    """Return the smallest family among those near the highest ELBO."""
    elbos = {name: model.elbo_ for name, model in models.items() if np.isfinite(model.elbo_)}
    if not elbos:
        return None
    near = [name for name in elbos if elbos[name] >= max(elbos.values()) - WORTHWHILE]
    return min(near, key=lambda name: (_n_parameters(models[name], priors[name]), -elbos[name]))


def _n_parameters(model: EBCD, prior: Any) -> int:
    """Return the number of parameters that were fitted to a component, the most of any."""
    if isinstance(prior, FittedPrior):
        return 0
    fixed = {"mode", *(field.name for field in fields(PRIORS[prior.name]))}
    found = [one.parameters.items() for one in model.priors_]
    free = [sum(np.size(value) for key, value in items if key not in fixed) for items in found]
    return max(free, default=0)


def _as_table(rows: list[dict[str, Any]]) -> Any:
    try:
        import pandas as pd
    except ImportError:
        return rows
    return pd.DataFrame(rows)

"""Fitted components for people: the largest loadings, tables and a summary in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ebcd._numerics import Array
from ebcd._parameters import N_DRAWS, PROBABILITY, as_generator, integer, real
from ebcd.data import Input
from ebcd.estimators._base import Decomposition
from ebcd.estimators._html import AT_ONCE, components_table, one_line
from ebcd.estimators._stability import stability
from ebcd.priors._intervals import posterior_interval

CLEAR_SIGN = 0.05  # largest local false sign rate of a loading with a clear sign
UNEVEN = 100.0  # ratio of variances of features from which scaling is recommended
HINT = "the variances of the features differ more than a hundredfold; consider scale=True"
_LEVEL = real("a number from 0 to 1", lambda value: 0 <= value <= 1)


class Scope(NamedTuple):
    """What uncertainties are about, and how true that was in simulations."""

    words: str
    covered: str  # share of clearly non-zero loadings in their 90% intervals, on average
    between: str  # the same in the worst and in the best design
    wrong: str  # share of wrong signs among those with lfsr < 0.01
    most: str  # the same in the worst design

    @property
    def line(self) -> str:
        """All in a line."""
        covered = f"90% intervals cover {self.covered} of true loadings in simulations"
        return f"uncertainties are {self.words}: {covered}"


# Measured by benchmarks/bench_uncertainty.py in 20 designs, in which an oracle that knows the
# scores covers 88%.
SCOPES = {
    "orthogonal": Scope("given the scores", "62%", "31% to 82%", "2%", "15%"),
    "relaxed": Scope("about the population", "83%", "64% to 91%", "0.5%", "5.1%"),
    "integrated": Scope("about the population", "86%", "68% to 91%", "0.05%", "1.3%"),
}


class Feature(NamedTuple):
    """One loading of a component, with its uncertainty if the method has any."""

    name: str
    loading: float
    sd: float | None = None
    lfsr: float | None = None


class Shrinkage(NamedTuple):
    """The shrinkage of one component, in the units of the data (of the scaled data if scaled)."""

    observed: Array  # what was shrunk last: loadings X'z / n for scores z of mean square one
    shrink: Callable[[Array], Array]  # from observed loadings to what the method makes of them
    noise: float | None = None  # standard deviation of that of observed loadings, if there is any
    result: str = "loading"  # what comes out
    alone: bool = True  # whether each is shrunk on its own; if not, all are given to `shrink`


class Readable(Decomposition):
    """Summaries of a decomposition for people, with uncertainties where the method has any."""

    mean_: Any
    _criterion = "ELBO (nats)"  # what the path of a fit shows

    # scikit-learn takes an unfitted estimator with this method for a linear predictor
    @available_if(lambda self: hasattr(self, "lfsr_"))
    def sparsify(self, level: float = 0.05) -> Array:
        """Return the components with zeros where the sign of a loading is not clear.

        Posterior means are small where a loading is probably zero, but not exactly zero.

        With ``scores="orthogonal"`` false sign rates are given the scores: of the signs below 0.01,
        2% were wrong on average over 20 simulated designs, and up to 15% in one of them. With
        ``scores="integrated"`` 0.05% were wrong.

        Parameters
        ----------
        level : float, default 0.05
            Largest local false sign rate of a loading that is kept.

        Returns
        -------
        ndarray of shape (k, p)
        """
        _LEVEL.check("level", level)
        return np.where(self.lfsr_ <= level, self.components_, 0.0)

    @available_if(lambda self: hasattr(self, "_normal_means"))
    def sample_components(self, n: int = 1, random_state: Any = None) -> Array:
        """Draw components from their posterior, given the noise.

        With ``scores="orthogonal"`` they are also given the scores, and vary less than components
        do from sample to sample; see `credible_intervals`.

        Parameters
        ----------
        n : int
            Number of draws.
        random_state : int, Generator or None

        Returns
        -------
        ndarray of shape (n, k, p)
        """
        check_is_fitted(self)
        N_DRAWS.check("n", n)
        rng = as_generator(random_state)
        means = [self._normal_means(k) for k in range(self.n_components_)]
        draws = [g.sample_posterior(x, s, n=n, random_state=rng) * back for g, x, s, back in means]
        return np.reshape(draws, (len(draws), n, self.n_features_in_)).swapaxes(0, 1)

    @available_if(lambda self: hasattr(self, "lfsr_"))
    def credible_intervals(self, probability: float = 0.95) -> Array:
        """Return credible intervals of the loadings, given the noise.

        An interval leaves out the same probability on either side. It ends at zero where zero is
        likely, and stays within what the prior allows.

        With ``scores="orthogonal"`` intervals are also given the scores, and too short for the
        population: 90% intervals of clearly non-zero loadings covered 62% of the true values on
        average over 20 simulated designs (31 to 82%). With "relaxed" and "integrated" scores they
        are about the population and covered 83 and 86%, where an oracle that knows the scores
        covered 88%.

        Parameters
        ----------
        probability : float, default 0.95
            Posterior probability of an interval.

        Returns
        -------
        ndarray of shape (2, k, p)
            Lower and upper ends. Those of `ebcd.peers.EBPCA` are normal, from the standard
            deviation.

        Examples
        --------
        >>> from ebcd import EBCD
        >>> from ebcd.datasets import make_simulation
        >>> X, V, Sigma = make_simulation(random_state=0)
        >>> lower, upper = EBCD(2).fit(X).credible_intervals()
        >>> (lower[0] > 0).nonzero()[0]
        array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
        """
        PROBABILITY.check("probability", probability)
        ends = [self._intervals(k, slice(None), probability) for k in range(self.n_components_)]
        return np.reshape(ends, (self.n_components_, 2, self.n_features_in_)).swapaxes(0, 1)

    def _memberships(self) -> Array:
        """Return the probabilities that loadings are not exactly zero."""
        means = [self._normal_means(k) for k in range(self.n_components_)]
        found = [1 - prior.spike_probability(x, s) for prior, x, s, _ in means]
        return np.reshape(found, self.components_.shape)

    def _intervals(self, k: int, which: Any, probability: float) -> tuple[Array, Array]:
        """Return the ends of the intervals of some loadings of a component."""
        if not hasattr(self, "_normal_means"):
            width = ndtri(0.5 + 0.5 * probability) * self.components_sd_[k, which]
            return self.components_[k, which] - width, self.components_[k, which] + width
        prior, x, s, back = self._normal_means(k)
        back = np.broadcast_to(back, x.shape)[which]
        if prior.exchangeable:
            x, s, which = x[which], s[which], slice(None)
        lower, upper = posterior_interval(prior, x, s, probability)
        return lower[which] * back, upper[which] * back

    def _shrinkage(self, k: int) -> Shrinkage:
        """Return the last shrinkage step of a component.

        By default it gives posterior means, for the median noise if features differ in noise.
        """
        prior, x, s, back = self._normal_means(k)
        # one unit for all features: that of the data, or of the scaled data
        unit = float(np.ravel(back / getattr(self, "scale_", 1.0))[0])
        noise, alone = float(np.median(s)), prior.exchangeable

        def shrink(observed: Array) -> Array:
            return np.asarray(unit * prior.shrink(observed / unit, noise if alone else s))

        return Shrinkage(unit * x, shrink, unit * noise, "posterior mean", alone)

    def top_features(self, k: int = 0, n: int = 10, feature_names: Any = None) -> list[Feature]:
        """Return the features with the largest loadings of a component.

        Parameters
        ----------
        k : int
            Number of the component, counted from 0.
        n : int
            Number of features.
        feature_names : array-like of length p, optional
            Names of the features; by default those of the data, or x0, x1 and so on.

        Returns
        -------
        list of (name, loading, sd, lfsr)
            The last two are None if the method has no uncertainties.
        """
        check_is_fitted(self)
        if self.n_components_ == 0:
            raise ValueError("there is no component, so there are no features to list")
        integer(0, self.n_components_ - 1).check("k", k)
        integer(0).check("n", n)
        return self._features(k, self._largest(k, n), feature_names)

    def _largest(self, k: int, n: int, among: Any = True) -> NDArray[np.intp]:
        sizes = np.where(among, np.abs(self.components_[k]), 0.0)
        return np.argsort(-sizes, kind="stable")[:n]

    def _features(self, k: int, which: NDArray[np.intp], feature_names: Any) -> list[Feature]:
        columns = [self.components_[k, which]]
        if hasattr(self, "lfsr_"):
            columns += [self.components_sd_[k, which], self.lfsr_[k, which]]
        names = self._feature_names(feature_names)[which]
        values = np.stack(columns, axis=1).tolist()
        return [Feature(str(name), *row) for name, row in zip(names, values, strict=True)]

    def loadings_frame(self, feature_names: Any = None) -> Any:
        """Return the loadings as a pandas data frame: features in rows, components in columns.

        Features have the given names, those of the data, or x0, x1 and so on.
        """
        check_is_fitted(self)
        return self._as_frame(self.components_, feature_names)

    def _as_frame(self, values: Array, feature_names: Any) -> Any:
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("data frames need pandas: pip install pandas") from None
        return pd.DataFrame(
            values.T,
            index=pd.Index(self._feature_names(feature_names), name="feature"),
            columns=self.get_feature_names_out(),
        )

    def stability(
        self,
        X: Any,
        n_splits: int = 20,
        *,
        method: str = "random",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> Array:
        """Return how often each component is found again in half of the rows.

        Every fit has the settings of this one and starts from scratch; a number of components that
        was found automatically is kept. Components are matched one to one, the nearest pair first.
        A component is found again if its absolute cosine with its counterpart is above 0.8 (with
        ``scale=True``, in the units of the scaled data).

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, p)
            The data that the model was fitted to.
        n_splits : int, default 20
            Number of halves.
        method : "random" or "blocks", default "random"
            Halves are rows drawn at random without replacement, which must be independent; or
            blocks of consecutive rows, each beginning at a random row. Use blocks for rows in
            order, such as a time series, since random halves of it all have the same trends.
        n_jobs : int or None, default None
            Number of fits at a time, as in scikit-learn; -1 for one on each processor.
        random_state : int, Generator or None, default None
            Seed of the halves; with None, a fixed seed. The result does not depend on `n_jobs`.

        Returns
        -------
        ndarray of shape (k,)
            Share of the halves for each component, from 0 to 1.

        Notes
        -----
        Half of the rows contain less information than all of them, so a share below one does not
        mean that a component is wrong. But a component that is rarely found again should not be
        interpreted on its own. Components of similar size may mix differently in every half, and
        still span the same space together. `ebcd.plots.stability` draws the shares.

        Examples
        --------
        >>> from ebcd import EBCD
        >>> from ebcd.datasets import make_simulation
        >>> X, V, Sigma = make_simulation(random_state=0)
        >>> EBCD(3).fit(X).stability(X, n_splits=5)
        array([1., 1., 0.])
        """
        check_is_fitted(self)
        return stability(self, X, n_splits, method, n_jobs, random_state)

    def _store_common(self, data: Input) -> None:
        """Set the attributes that follow from ``components_`` and the data."""
        self._store_shares(float(data.variances.sum()))
        self.n_samples_, self.scale_ = data.covariance.n_samples, data.scale
        self._uneven = not self.scale and spread(data.variances) > UNEVEN
        self.__dict__.pop("mean_", None)  # of an earlier fit
        if data.mean is not None:
            self.mean_ = data.mean

    def _store_shares(self, total: float) -> None:
        """Set those that follow from ``components_`` and the total variance."""
        self.explained_variance_ = np.vecdot(self.components_, self.components_)
        self.explained_variance_ratio_ = self.explained_variance_ / (total or 1.0)
        self.n_components_, self._varies = len(self.components_), total > 0
        self._uneven = False  # by default nothing hints at scaling

    @property
    def _units(self) -> Array:
        """What loadings are divided by to compare features: the scale of a scaled fit, or one."""
        return np.asarray(self.scale_ if getattr(self, "scale", False) else np.ones(1))

    def _found(self) -> str:
        return f"{self.n_components_} component{'s' if self.n_components_ != 1 else ''}"

    def summary(self, feature_names: Any = None) -> str:
        """Summarize the fit in words.

        Features have the given names, those of the data, or x0, x1 and so on.
        """
        check_is_fitted(self)
        self._feature_names(feature_names)  # a mistake should not wait for a component
        lines = [self._title()]
        if self.n_components_ == 0:
            lines.append(f"  {self._why_nothing()}")
        for k in range(self.n_components_):
            lines += self._component_lines(k, feature_names)
        return "\n".join([*lines, "", *(f"  {line}" for line in self._remarks("hint: "))])

    def _remarks(self, before_hint: str = "") -> list[str]:
        """Say how the fit ended, what to beware of, and what uncertainties are about."""
        hint = before_hint + HINT if self._uneven else ""
        scope = self._scope.line if self._scope is not None and self.n_components_ else ""
        zero = "correlations of the scores are zero: the data say next to nothing about them"
        zero = zero if getattr(self, "_uncorrelated", False) else ""
        lines = [self._end(), zero, self._weak_components(), hint, self._dropped(), scope]
        return [line for line in lines if line]

    @property
    def _scope(self) -> Scope | None:
        """What uncertainties are about, if the model of the scores decides that."""
        return SCOPES.get(getattr(self, "scores", ""))

    def _dropped(self) -> str:
        """Say how many of the requested components are missing, if any."""
        wanted: Any = getattr(self, "n_components", "")
        if self._scope is None or isinstance(wanted, str) or wanted <= self.n_components_:
            return ""
        gone = wanted - self.n_components_
        which = "was dropped: all its" if gone == 1 else "were dropped: all their"
        hint = '; scores="orthogonal" keeps weak ones' if self.scores == "integrated" else ""
        return f"{gone} of {wanted} components {which} loadings are zero{hint}"

    def _repr_html_inner(self) -> str:
        """Return a table of the components; before a fit, scikit-learn's diagram."""
        if not hasattr(self, "components_"):
            return super()._repr_html_inner()
        return components_table(self, self._title(), self._remarks())

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle

    def _title(self) -> str:
        size = f"{self.n_samples_} samples x {self.n_features_in_} features"
        share = f"{100 * self.explained_variance_ratio_.sum():.1f}% of the variance"
        return f"{type(self).__name__} of {size}: {self._found()}, {share}"

    def _end(self) -> str:
        """Describe how the fit ended."""
        parts = [f"noise variance {float(np.mean(self.noise_variance_)):.4g}"]
        for name, attribute in (("ELBO", "elbo_"), ("criterion", "objective_")):
            value = getattr(self, attribute, np.nan)  # no ELBO either with a flat prior
            if not np.isnan(value):
                parts.append(f"{name} {value:.6g}")
        if hasattr(self, "alpha_"):
            parts.append(f"alpha {self.alpha_:.4g} by cross-validation")
        parts.append(f"{self.n_iter_} iterations")
        if not getattr(self, "converged_", True):
            parts.append("NOT CONVERGED")
        return ", ".join(parts)

    @property
    def _weak(self) -> list[int]:
        """Components that do not stand out from noise: the smallest ones, if the model knows."""
        order = np.argsort(-self.explained_variance_, kind="stable")
        return sorted(order[getattr(self, "n_signal_", self.n_components_) :].tolist())

    def _weak_components(self) -> str:
        weak = self._weak
        names, one = ", ".join(map(str, weak)), len(weak) == 1
        words = f"component{'' if one else 's'} {names} {'does' if one else 'do'}"
        return f"{words} not stand out from noise" if weak else ""

    def _why_nothing(self) -> str:
        """Return the reason why there is no component."""
        if not getattr(self, "_varies", True):  # unknown of models from older files
            return "the data do not vary"
        if hasattr(self, "lfsr_"):
            return "nothing stands out from noise"
        return "every loading was set to zero"

    def _used(self, k: int) -> tuple[NDArray[np.bool_], str]:
        """Return which loadings of a component count, and what they have in common."""
        clear = hasattr(self, "lfsr_")
        used = self.lfsr_[k] < CLEAR_SIGN if clear else self.components_[k] != 0
        has, are = ("has", "is") if used.sum() == 1 else ("have", "are")
        return used, f"{has} a clear sign (lfsr < {CLEAR_SIGN:g})" if clear else f"{are} not zero"

    def _largest_used(self, k: int, n: int, feature_names: Any = None) -> list[Feature]:
        used, _ = self._used(k)
        return self._features(k, self._largest(k, min(n, used.sum()), used), feature_names)

    def _component_lines(self, k: int, feature_names: Any) -> list[str]:
        ratio = self.explained_variance_ratio_[k]
        share = f"{'< 0.1' if 0 < ratio < 5e-4 else f'{100 * ratio:.1f}'}% of the variance"
        used, what = self._used(k)
        lines = [f"\n  component {k}: {share}, {used.sum()} of {used.size} loadings {what}"]
        if hasattr(self, "priors_"):
            lines.append(f"    prior: {self.priors_[k].describe()}{self._of_scaled()}")
        listed = self._largest_used(k, AT_ONCE, feature_names)
        values = _aligned([feature.loading for feature in listed])
        errors = [  # with two digits, as 160 rather than 1.6e+02
            "" if feature.sd is None else f" +- {float(f'{feature.sd:.2g}'):g}"
            for feature in listed
        ]
        width = max(map(len, errors), default=0)
        for value, error, feature in zip(values, errors, listed, strict=True):
            lines.append(f"    {value}{error:{width}}  {one_line(feature.name)}")
        if used.sum() > len(listed):
            lines.append(f"    and {used.sum() - len(listed)} more")
        return lines

    def _of_scaled(self) -> str:
        return " (of the scaled data)" if getattr(self, "scale", False) else ""


def _aligned(values: list[float]) -> list[str]:
    """Format numbers alike, with four significant digits of the largest."""
    largest = max((abs(value) for value in values), default=0.0) or 1.0
    decimals = 3 - int(np.floor(np.log10(largest)))
    plain = -2 <= decimals <= 7
    texts = [f"{v:+.{max(decimals, 0)}f}" if plain else f"{v:+.3e}" for v in values]
    return [text.rjust(max(map(len, texts))) for text in texts]


def spread(variances: Array) -> float:
    """Ratio of the largest to the smallest variance, but for zeros."""
    positive = variances[variances > 0]
    # of Python's numbers, whose ratio may be infinite without a warning
    return float(positive.max()) / float(positive.min()) if positive.size else 1.0

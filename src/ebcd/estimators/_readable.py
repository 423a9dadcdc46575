"""Fitted components for people: the largest loadings, tables and a summary in words."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ebcd._numerics import Array
from ebcd.estimators._base import Decomposition


class Feature(NamedTuple):
    """One loading of a component, with its uncertainty if the method has any."""

    name: str
    loading: float
    sd: float | None = None
    lfsr: float | None = None


class Readable(Decomposition):
    """What people read of a decomposition, whether or not its components have uncertainties."""

    # scikit-learn takes an unfitted estimator with this method for a linear predictor
    @available_if(lambda self: hasattr(self, "lfsr_"))
    def sparsify(self, level: float = 0.05) -> Array:
        """Components with zeros where the sign is in doubt.

        Posterior means are small where a loading is probably zero, but not exactly zero.

        Parameters
        ----------
        level : float, default 0.05
            Largest local false sign rate of a loading that is kept.

        Returns
        -------
        ndarray of shape (k, p)
        """
        return np.where(self.lfsr_ <= level, self.components_, 0.0)

    def top_features(self, k: int = 0, n: int = 10, feature_names: Any = None) -> list[Feature]:
        """Largest loadings of a component.

        Parameters
        ----------
        k : int
            Number of the component, from 0.
        n : int
            How many features.
        feature_names : array-like of length p, optional
            Names of the features; by default those of the data, or x0, x1 and so on.

        Returns
        -------
        list of (name, loading, sd, lfsr)
            The last two are None where the method has no uncertainties.
        """
        check_is_fitted(self)
        if not 0 <= k < self.n_components_:
            raise ValueError(f"component {k} does not exist; there are {self.n_components_}")
        names = self._feature_names(feature_names)
        order = np.argsort(-np.abs(self.components_[k]), kind="stable")[:n]
        loadings = [Feature(str(names[j]), float(self.components_[k, j])) for j in order]
        if not hasattr(self, "lfsr_"):
            return loadings
        return [
            feature._replace(sd=float(self.components_sd_[k, j]), lfsr=float(self.lfsr_[k, j]))
            for feature, j in zip(loadings, order, strict=True)
        ]

    def loadings_frame(self, feature_names: Any = None) -> Any:
        """Give loadings as a pandas data frame: one row per feature, one column per component.

        Parameters
        ----------
        feature_names : array-like of length p, optional
            Names of the features; by default those of the data, or x0, x1 and so on.

        Returns
        -------
        pandas.DataFrame
        """
        check_is_fitted(self)
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("loadings_frame needs pandas: pip install pandas") from None
        return pd.DataFrame(
            self.components_.T,
            index=pd.Index(self._feature_names(feature_names), name="feature"),
            columns=self.get_feature_names_out(),
        )

    def _found(self) -> str:
        return f"{self.n_components_} component{'s' if self.n_components_ != 1 else ''}"

    def summary(self, feature_names: Any = None) -> str:
        """Say in words what was found.

        Parameters
        ----------
        feature_names : array-like of length p, optional
            Names of the features; by default those of the data, or x0, x1 and so on.

        Returns
        -------
        str
        """
        check_is_fitted(self)
        self._feature_names(feature_names)  # a mistake should not wait for a component
        share = f"{100 * self.explained_variance_ratio_.sum():.1f}% of the variance"
        size = f"{self.n_samples_} samples x {self.n_features_in_} features"
        lines = [f"{type(self).__name__} of {size}: {self._found()}, {share}"]
        if self.n_components_ == 0:
            lines.append("  nothing stands out from noise")
        for k in range(self.n_components_):
            lines += self._component_lines(k, feature_names)
        noise = float(np.mean(self.noise_variance_))
        end = f"{self._reached()}{self.n_iter_} iterations"
        lines.append(f"\n  noise variance {noise:.4g}, {end}")
        if self._uneven:
            lines.append(
                "  hint: variances of the features differ more than a hundredfold; "
                "consider scale=True"
            )
        return "\n".join(lines)

    def _reached(self) -> str:
        for name, attribute in (("ELBO", "elbo_"), ("criterion", "objective_")):
            if hasattr(self, attribute):
                return f"{name} {getattr(self, attribute):.6g}, "
        return ""

    def _component_lines(self, k: int, feature_names: Any) -> list[str]:
        share = f"{100 * self.explained_variance_ratio_[k]:.1f}% of the variance"
        if hasattr(self, "lfsr_"):
            count, what = int((self.lfsr_[k] < 0.05).sum()), "with a sure sign"
        else:
            count, what = int(np.count_nonzero(self.components_[k])), "that are not zero"
        known = f"{count} of {self.n_features_in_} loadings {what}"
        lines = [f"\n  component {k}: {share}, {known}"]
        if hasattr(self, "priors_"):
            lines.append(f"    prior: {self.priors_[k].describe()}")
        for feature in self.top_features(k, 6, feature_names):
            spread = "" if feature.sd is None else f" +- {feature.sd:.2g}"
            if feature.loading != 0:
                lines.append(f"    {feature.loading:+10.4g}{spread}  {feature.name}")
        return lines

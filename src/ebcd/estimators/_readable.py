"""Fitted components for people: the largest loadings, tables and a summary in words."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ebcd._numerics import Array
from ebcd.estimators._base import Decomposition


class Feature(NamedTuple):
    """One loading of a component."""

    name: str
    loading: float
    sd: float
    lfsr: float


class Readable(Decomposition):
    """A decomposition whose components have uncertainties, and what people read of it."""

    # scikit-learn takes an unfitted estimator with this method for a linear predictor
    @available_if(lambda self: hasattr(self, "components_"))
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

    def top_features(self, k: int = 0, n: int = 10) -> list[Feature]:
        """Largest loadings of a component.

        Parameters
        ----------
        k : int
            Number of the component, from 0.
        n : int
            How many features.

        Returns
        -------
        list of (name, loading, sd, lfsr)
        """
        check_is_fitted(self)
        if not 0 <= k < self.n_components_:
            raise ValueError(f"component {k} does not exist; there are {self.n_components_}")
        names = self._feature_names()
        order = np.argsort(-np.abs(self.components_[k]), kind="stable")[:n]
        return [
            Feature(
                str(names[j]),
                float(self.components_[k, j]),
                float(self.components_sd_[k, j]),
                float(self.lfsr_[k, j]),
            )
            for j in order
        ]

    def loadings_frame(self) -> Any:
        """Give loadings as a pandas data frame: one row per feature, one column per component."""
        check_is_fitted(self)
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("loadings_frame needs pandas: pip install pandas") from None
        return pd.DataFrame(
            self.components_.T,
            index=pd.Index(self._feature_names(), name="feature"),
            columns=self.get_feature_names_out(),
        )

    def summary(self) -> str:
        """Say in words what was found."""
        check_is_fitted(self)
        return self._describe(f"ELBO {self.elbo_:.6g}, {self.n_iter_} iterations")

    def _describe(self, end: str) -> str:
        """Say what was found, with `end` on how the fit ended."""
        found = f"{self.n_components_} component{'s' if self.n_components_ != 1 else ''}"
        share = f"{100 * self.explained_variance_ratio_.sum():.1f}% of the variance"
        size = f"{self.n_samples_} samples x {self.n_features_in_} features"
        lines = [f"{type(self).__name__} of {size}: {found}, {share}"]
        if self.n_components_ == 0:
            lines.append("  nothing stands out from noise")
        for k in range(self.n_components_):
            sure = int((self.lfsr_[k] < 0.05).sum())
            share = f"{100 * self.explained_variance_ratio_[k]:.1f}% of the variance"
            known = f"{sure} of {self.n_features_in_} loadings with a sure sign"
            lines.append(f"\n  component {k}: {share}, {known}")
            lines.append(f"    prior: {self.priors_[k].describe()}")
            lines += [
                f"    {feature.loading:+10.4g} +- {feature.sd:.2g}  {feature.name}"
                for feature in self.top_features(k, 6)
            ]
        noise = float(np.mean(self.noise_variance_))
        lines.append(f"\n  noise variance {noise:.4g}, {end}")
        if self._uneven:
            lines.append(
                "  hint: variances of the features differ more than a hundredfold; "
                "consider scale=True"
            )
        return "\n".join(lines)

"""
Eleven methods on the same data
===============================

The package has several methods that find sparse components, and scikit-learn has two more to
compare with. What do they find in the same data, and what do you have to choose? The data are the
monthly growth of employment in fifteen sectors of the United States, as in the example on
:doc:`employment </generated/gallery/employment>`, which explains the components themselves.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.decomposition import PCA, SparsePCA
from sklearn.model_selection import KFold

from ebcd import EBCD, PenalizedPCA, PenalizedPCACV
from ebcd.datasets import load_us_employment
from ebcd.peers import EBMF, EBPCA, ITSPCA, SPC, USLPCA, GPower

jobs = load_us_employment()
growth = np.diff(np.log(jobs.data), axis=0)
X = (growth - growth.mean(axis=0)) / growth.std(axis=0)
sectors = [name.replace("_", " ") for name in jobs.feature_names]
sectors = np.array(sectors, dtype=object)
print(f"{X.shape[0]} months, {X.shape[1]} sectors")

# %%
# The methods
# -----------
#
# Each method fits three components. The list shows what else had to be chosen. We kept the
# defaults, right or wrong: the penalties of ``SparsePCA``, ``GPower`` and ``PenalizedPCA`` are not
# tuned to these data. ``USLPCA`` has no sparse default. It was given the number of loadings with a
# clear sign in the fit of ``EBCD``, so their agreement is not independent evidence. ``ITSPCA``
# looks for differences in variance, which standardized data do not have, hence ``scale=True``.

methods = {
    "PCA": (PCA(3), "nothing"),
    "SparsePCA": (SparsePCA(3, random_state=0), "alpha (default)"),
    "SPC": (SPC(3), "by cross-validation"),
    "GPower": (GPower(3), "gamma, mu (defaults)"),
    "ITSPCA": (ITSPCA(3, scale=True), "nothing"),
    "USLPCA": (USLPCA(3, n_nonzero=18), "n_nonzero"),
    "PenalizedPCA": (PenalizedPCA(3), "alpha (default)"),
    "PenalizedPCACV": (PenalizedPCACV(3), "by cross-validation"),
    "EBPCA": (EBPCA(3), "nothing"),
    "EBMF": (EBMF(3), "nothing"),
    "EBCD": (EBCD(3), "nothing"),
}
seconds = {}
for name, (model, _) in methods.items():
    began = time.perf_counter()
    model.fit(X)
    seconds[name] = time.perf_counter() - began

# %%
# Loadings side by side
# ---------------------
#
# All methods in this package return loadings for scores of mean square one. For these data such
# loadings are almost correlations. Those of scikit-learn are converted to the same scale. A loading
# counts as *used* if it is not zero. The three empirical Bayes methods have no exact zeros, so
# their loadings count if they have a clear sign (``sparsify``, a local false sign rate below 0.05).


def loadings(model):
    """Loadings for scores of mean square one, zero where they are not used."""
    if hasattr(model, "lfsr_"):
        return model.sparsify(0.05)
    if isinstance(model, PCA | SparsePCA):
        size = np.sqrt(np.mean(model.transform(X) ** 2, axis=0))
        return model.components_ * size[:, None]
    return model.components_


def matched(found, target):
    """Order components like those of the target, largest loadings positive."""
    cosines = target @ found.T / np.linalg.norm(found, axis=1)
    _, place = linear_sum_assignment(np.abs(cosines), maximize=True)
    found = found[place]
    largest = np.abs(found).argmax(axis=1)[:, None]
    return found * np.sign(np.take_along_axis(found, largest, axis=1))


target = methods["EBCD"][0].components_
tables = {}
for name, (model, _) in methods.items():
    tables[name] = matched(loadings(model), target)

group = np.argmax(np.abs(target) * [[1], [2], [2]], axis=0)
order = np.lexsort((-target[0], group))
colours = plt.get_cmap("RdBu_r").with_extremes(bad="0.85")
cells = {"cmap": colours, "vmin": -1, "vmax": 1, "edgecolor": "white"}
shared = {"sharex": True, "sharey": True, "layout": "constrained"}
figure, axes = plt.subplots(3, 1, figsize=(7.5, 10.5), **shared)
for k, ax in enumerate(axes):
    table = np.array([tables[name][k, order] for name in methods])
    image = ax.pcolormesh(np.ma.masked_equal(table, 0), **cells)
    for border in (2, 8):
        ax.axhline(border, color="black", linewidth=1.5)
    ax.set_title(("the business cycle", "outside the cycle", "mining")[k])
    ax.set_yticks(np.arange(len(methods)) + 0.5, methods)
    ax.tick_params(length=0)
axes[2].set_xticks(np.arange(len(order)) + 0.5, sectors[order], rotation=90)
axes[0].invert_yaxis()
label = "loading (gray: zero, or no clear sign)"
figure.colorbar(image, ax=axes, label=label, shrink=0.4)
plt.show()

# %%
# The black lines separate three groups: scikit-learn, thresholds and penalties, and empirical
# Bayes.
#
# Figures
# -------
#
# *Length* is the share of the variance explained by the loadings, the sum of
# ``explained_variance_ratio_`` (``SparsePCA`` has none, because its scores are correlated). *Space*
# is the share that lies in the space they span, regardless of their length. *Held out* is the same
# for months left out of the fit, a random fifth at a time.


def in_space(components, rows):
    """Share of the sum of squares that lies in the space of the components."""
    basis = np.linalg.qr(components.T).Q
    return np.sum((rows @ basis) ** 2) / np.sum(rows**2)


def held_out(model):
    """Mean of that share over months that were not used in the fit."""
    shares = []
    for train, test in KFold(5, shuffle=True, random_state=0).split(X):
        fit = clone(model).fit(X[train])
        rows = X[test] - X[train].mean(axis=0)
        shares.append(in_space(fit.components_, rows))
    return np.mean(shares)


print(f"{'':15}{'used':>10}  length  space  held out     ms  you choose")
for name, (model, chosen) in methods.items():
    used = ", ".join(map(str, np.count_nonzero(tables[name], axis=1)))
    ratios = getattr(model, "explained_variance_ratio_", None)
    length = "" if ratios is None else f"{ratios.sum():.0%}"
    space, later = in_space(model.components_, X), held_out(model)
    figures = f"{used:>10}{length:>8}{space:>7.0%}{later:>10.0%}"
    print(f"{name:15}{figures}{1000 * seconds[name]:>7.0f}  {chosen}")
print("PenalizedPCACV chose alpha =", methods["PenalizedPCACV"][0].alpha_)

# %%
# What differs, and why
# ---------------------
#
# **The first component is the same for all methods.** It explains half of the variance and has the
# same eleven sectors, with or without some mining. If the signal is strong, the choice of method
# matters little.
#
# **Penalties bias what they keep.** ``PenalizedPCA`` with its L1 penalty moves every loading
# toward zero by the same amount. It explains 50% of the variance, although the space it finds
# contains 65%. ``penalty="l0"`` or ``"mcp"`` do not. ``EBCD`` learns that large loadings of a
# component are real, and leaves them nearly unchanged.
#
# **One strength for all components is a compromise.** ``GPower`` has one threshold and a weight for
# each component. With its default weights, the third component is almost only utilities; with equal
# weights, the first two are mixtures of twelve sectors each.
#
# **Cross-validation is about prediction, not interpretation.** ``PenalizedPCACV`` chose no penalty
# at all: the space predicts best without one, and then all rotations of the principal components
# are equally good. ``SPC`` chose the other extreme from its second component on: education and
# health, then utilities, each nearly on its own. It finds components one by one and cannot undo
# what the first of them absorbed.
#
# **Orthogonal loadings are not sparse loadings.** ``ITSPCA`` thresholds first and makes components
# orthogonal afterward. Its third component is mining minus a faint copy of the first.
#
# **Priors on the scores shrink weak components.** ``EBMF`` finds the same components as ``EBCD``,
# but the second has two thirds of its length and the third less than half. It accounts for
# uncertain scores as well as uncertain loadings, and scores determined by one or three sectors are
# very uncertain: what those sectors share may be noise. ``EBCD`` estimates scores as if they were
# parameters. ``EBPCA`` learns how loadings are distributed, but does not rotate components to make
# them sparse, so nearly all its signs are clear, given the rotation of PCA. It is designed for
# hundreds of features.
#
# **Sparse components do not predict better here.** All methods are within a few percent of PCA on
# held-out months. The best of them is ``ITSPCA``, whose second and third components change least
# when months are left out. With a fifth of the months left out, ``EBCD`` often finds a different
# second or third component: these are weak, and the standard deviations of ``EBCD``, which are
# given the scores by default, do not reflect that.
#
# How many components?
# --------------------
#
# Only two of the methods estimate this, and they disagree:

print("EBCD:", EBCD().fit(X).n_components_)
print("EBCD, sectors may differ in noise:", EBCD(scale=True).fit(X).n_components_)
many = EBMF(10).fit(X)
print("EBMF, of at most ten:", many.n_components_)
print("  clear signs:", (many.lfsr_ < 0.05).sum(axis=1))

# %%
# ``EBCD`` counts the eigenvalues that stand out from noise. ``EBMF`` adds a component whenever its
# lower bound rises. Since there is only one noise variance for all sectors, a sector that is
# noisier than the others gets a component of its own; the last three are of this kind.
#
# Which to use
# ------------
#
# Fifteen sectors are few, and the truth is unknown here. :doc:`/guide/which_method` compares the
# accuracy of the methods on simulated data and explains which to use when.

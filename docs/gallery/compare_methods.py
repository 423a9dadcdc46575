"""
Eleven methods on the same data
===============================

The package has several methods that find components with few loadings, and scikit-learn has two
more to compare them with. What do they make of the same data, and what do they ask of you? The data
are monthly growth of employment in fifteen sectors of the United States, as in the example on
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
sectors = np.array([name.replace("_", " ") for name in jobs.feature_names])
print(f"{X.shape[0]} months, {X.shape[1]} sectors")

# %%
# The methods
# -----------
#
# All are asked for three components. Next to each is what had to be chosen besides. Defaults were
# left alone, right or wrong: the penalties of ``SparsePCA``, ``GPower`` and ``PenalizedPCA`` are
# not made for these data. ``USLPCA`` has no default that is sparse. It got the number of loadings
# whose sign is sure in the fit of ``EBCD``, so that their agreement is no independent evidence.
# ``ITSPCA`` takes differences of variance for signal, of which standardised data have none but by
# chance, and is told so by ``scale=True``.

methods = {
    "PCA": (PCA(3), "nothing"),
    "SparsePCA": (SparsePCA(3, random_state=0), "alpha = 1, the default"),
    "SPC": (SPC(3), "nothing: 3 bounds by cross-validation"),
    "GPower": (GPower(3), "gamma = 0.1, weights: the defaults"),
    "ITSPCA": (ITSPCA(3, scale=True), "nothing: thresholds from theory"),
    "USLPCA": (USLPCA(3, n_nonzero=18), "n_nonzero = 18"),
    "PenalizedPCA": (PenalizedPCA(3, alpha=1.0), "alpha = 1, the default"),
    "PenalizedPCACV": (PenalizedPCACV(3), "nothing: 1 alpha by cross-validation"),
    "EBPCA": (EBPCA(3), "nothing: distributions learnt"),
    "EBMF": (EBMF(3), "nothing: 3 + 3 priors learnt"),
    "EBCD": (EBCD(3), "nothing: 3 priors learnt"),
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
# Everything in this package has loadings for scores of mean square one, which for these data are
# almost correlations. Those of scikit-learn are brought to that scale. A loading counts as *used*
# if it is not zero; the three empirical Bayes methods have no exact zeros, and there it counts if
# its sign is sure (``sparsify``, a local false sign rate below 0.05).


def loadings(model):
    """Components for scores of mean square one, zero where they are not used."""
    if hasattr(model, "lfsr_"):
        return model.sparsify(0.05)
    if isinstance(model, PCA | SparsePCA):
        scores = model.transform(X)
        return model.components_ * np.sqrt(np.mean(scores**2, axis=0))[:, None]
    return model.components_


def matched(found, target):
    """Put components in the order of those of the target, their largest loadings positive."""
    cosines = target @ found.T / np.linalg.norm(found, axis=1)
    found = found[linear_sum_assignment(np.abs(cosines), maximize=True)[1]]
    largest = np.take_along_axis(found, np.abs(found).argmax(axis=1)[:, None], axis=1)
    return found * np.sign(largest)


target = methods["EBCD"][0].components_
tables = {name: matched(loadings(model), target) for name, (model, _) in methods.items()}

order = np.lexsort((-target[0], np.argmax(np.abs(target) * [[1], [2], [2]], axis=0)))
colours = plt.get_cmap("RdBu_r").with_extremes(bad="0.85")
shared = {"sharex": True, "sharey": True, "layout": "constrained"}
figure, axes = plt.subplots(1, 3, figsize=(11.5, 6.2), **shared)
for k, ax in enumerate(axes):
    table = np.column_stack([tables[name][k, order] for name in methods])
    image = ax.pcolormesh(
        np.ma.masked_equal(table, 0), cmap=colours, vmin=-1, vmax=1, edgecolor="white", linewidth=1
    )
    for border in (2, 8):
        ax.axvline(border, color="black", linewidth=1.5)
    ax.set_title(("the business cycle", "outside the cycle", "mining")[k])
    ax.set_xticks(np.arange(len(methods)) + 0.5, methods, rotation=90)
    ax.tick_params(length=0)
axes[0].set_yticks(np.arange(len(order)) + 0.5, sectors[order])
axes[0].invert_yaxis()
figure.colorbar(image, ax=axes, label="loading (grey: zero, or sign not sure)", shrink=0.7)
plt.show()

# %%
# The black lines part scikit-learn, thresholds and penalties, and empirical Bayes.
#
# Figures
# -------
#
# *Length* is the share of the variance that the loadings claim for themselves, the sum of
# ``explained_variance_ratio_`` (scores of ``SparsePCA`` are correlated, so it has none). *Space* is
# the share that lies in the space they span, whatever their length. *Held out* is the same for
# months that the fit has not seen, a fifth of them at a time, chosen at random.


def in_space(components, rows):
    """Share of the sum of squares that lies in the space of the components."""
    basis = np.linalg.qr(components.T).Q
    return np.sum((rows @ basis) ** 2) / np.sum(rows**2)


def held_out(model, n_folds=5):
    """Mean of that share over blocks of months that were not used in the fit."""
    shares = []
    for train, test in KFold(n_folds, shuffle=True, random_state=0).split(X):
        fit = clone(model).fit(X[train])
        shares.append(in_space(fit.components_, X[test] - X[train].mean(axis=0)))
    return np.mean(shares)


print(f"{'':15}{'used':>10}  length  space  held out     ms  had to be chosen")
for name, (model, chosen) in methods.items():
    used = ", ".join(str(number) for number in np.count_nonzero(tables[name], axis=1))
    length = "" if name == "SparsePCA" else f"{np.sum(model.explained_variance_ratio_):.0%}"
    space = in_space(model.components_, X)
    line = f"{name:15}{used:>10}{length:>8}{space:>7.0%}{held_out(model):>10.0%}"
    print(f"{line}{1000 * seconds[name]:>7.0f}  {chosen}")
print("PenalizedPCACV chose alpha =", methods["PenalizedPCACV"][0].alpha_)

# %%
# What differs, and why
# ---------------------
#
# **The first component is the same for all.** It has half of the variance, and eleven or twelve
# sectors stand out of it. Where the signal is strong, the choice of a method matters little.
#
# **Penalties shorten what they keep.** ``PenalizedPCA`` with its L1 penalty moves every loading
# towards zero by the same amount, and claims 50 % of the variance with a space that holds 65 %.
# ``penalty="l0"`` or ``"mcp"`` do not. ``EBCD`` learns that large loadings of a component are real,
# and leaves them nearly as they are.
#
# **One strength for all components is a compromise.** ``GPower`` has one threshold, and weights of
# the components besides. With its default weights the third component is utilities, nearly alone;
# with equal ones the first two are mixtures of twelve sectors each.
#
# **Cross-validation looks at prediction, not at reading.** ``PenalizedPCACV`` chose no penalty at
# all: the space predicts best without one, and without one every rotation of the principal
# components is as good as any other. ``SPC`` chose the other extreme from its second component on:
# education and health, then utilities, each nearly on its own. It finds components one by one and
# cannot take back what the first of them took.
#
# **Orthogonal loadings are not sparse loadings.** ``ITSPCA`` thresholds first and makes components
# orthogonal afterwards. Its third component is mining minus a faint copy of the first.
#
# **Priors on the scores shrink weak components.** ``EBMF`` has the components of ``EBCD``, but the
# second at two thirds of its length and the third at less than half. It is uncertain about scores
# as well as loadings, and scores that one or three sectors tell of are very uncertain: what they
# have in common may be noise. ``EBCD`` estimates scores as if they were parameters. ``EBPCA``
# learns how loadings are distributed, but does not turn components towards zeros: nearly all its
# signs are sure, given the rotation of PCA. It is made for hundreds of features.
#
# **Sparse components do not predict better here.** All methods are within a few per cent of PCA on
# held-out months. The best of them is ``ITSPCA``, whose second and third components change least
# when months are left out. With a fifth of the months gone, ``EBCD`` often finds another second or
# third component: they are weak, and its standard deviations, which are given the scores, do not
# include that.
#
# How many components?
# --------------------
#
# Only two of the methods have a say in this, and they disagree:

print("EBCD:", EBCD().fit(X).n_components_)
print("EBCD, sectors may differ in noise:", EBCD(scale=True).fit(X).n_components_)
many = EBMF(10).fit(X)
print("EBMF, of at most ten:", many.n_components_)
print("  sure signs:", (many.lfsr_ < 0.05).sum(axis=1))

# %%
# ``EBCD`` counts eigenvalues that stand out from noise. ``EBMF`` adds a component whenever its
# lower bound rises, and with one noise variance for all sectors a sector that has more noise than
# the others is worth a component of its own; the last three are such.
#
# Which to use
# ------------
#
# Fifteen sectors are few, and no truth is known here. :doc:`/guide/which_method` has accuracies on
# data whose truth is known, and says which method suits what.

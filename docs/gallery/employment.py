"""
US employment through the recession
===================================

Which sectors of the economy grow and shrink together? The data are monthly employment in fifteen
sectors of the United States from 2006 to 2015 (Bureau of Labor Statistics, public domain), through
the recession of 2008 and 2009.
"""

import matplotlib.pyplot as plt
import numpy as np

import ebcd

jobs = ebcd.datasets.load_us_employment()
growth = np.diff(np.log(jobs.data), axis=0)
X = (growth - growth.mean(axis=0)) / growth.std(axis=0)
sectors = [name.replace("_", " ") for name in jobs.feature_names]
sectors = np.array(sectors, dtype=object)
print(f"{X.shape[0]} months, {X.shape[1]} sectors")

# %%
# Levels of employment have trends, so we look at monthly growth, the differences of logarithms.
# Some sectors vary more than others, so each is standardized.
#
# The fit
# -------
#
# We ask for three components. (The end of this page discusses how many there are.) The sparsity of
# each is learned from the data. A data frame brings its own column names; for an array, pass the
# names to the summary.

model = ebcd.EBCD(n_components=3)
scores = model.fit_transform(X)
print(model.summary(feature_names=sectors))

# %%
# Loadings
# --------
#
# The data are standardized and the scores have mean square one, so a loading is almost the
# correlation of a sector with a component. Bars are 95% credible intervals, which end at zero if
# zero is likely. Gray loadings have no clear sign (a local false sign rate above 0.05). For
# comparison, crosses show the loadings of PCA.

order = np.argsort(model.components_[0])
places = np.arange(len(order))
left, singular, right = np.linalg.svd(X / np.sqrt(len(X)), full_matrices=False)
principal = singular[:3, None] * right[:3]
principal *= np.sign(np.vecdot(principal, model.components_))[:, None]

shared = {"sharex": True, "sharey": True, "layout": "constrained"}
figure, axes = plt.subplots(1, 3, figsize=(10, 4.6), **shared)
for k, ax in enumerate(axes):
    loading, (lower, upper) = model.components_[k, order], model.credible_intervals()[:, k, order]
    colour = np.where(model.lfsr_[k, order] < 0.05, "#3b6fb6", "0.75")
    ax.axvline(0, color="0.6", linewidth=0.8)
    ax.hlines(places, lower, upper, color=colour, linewidth=2)
    ax.scatter(loading, places, color=colour, s=28, zorder=3)
    crosses = ax.scatter(principal[k, order], places, c="#d1661f", marker="x", zorder=4)
    share = 100 * model.explained_variance_ratio_[k]
    ax.set(title=f"component {k}: {share:.0f} %", xlabel="loading")
    ax.grid(axis="y", color="0.93")
axes[0].set_yticks(places, sectors[order])
axes[2].legend([crosses], ["PCA"], loc="upper right")
plt.show()

# %%
# - **Component 0 is the business cycle.** The private economy rises and falls together. Education
#   and health, government and utilities do not follow it.
# - **Component 1 is those three**, the sectors outside the cycle.
# - **Component 2 is mining**, with a part of durable goods and wholesale trade.
#
# PCA finds nearly the same three directions in these data, but gives every sector a loading in each
# of them. EBCD shows which of them matter (three in the second component and three in the third)
# and drops the rest, such as government in the third.
#
# Scores
# ------

years = [int(date[:4]) + (int(date[5:]) - 1) / 12 for date in jobs.dates[1:]]
names = ("business cycle", "outside the cycle", "mining")
figure, axes = plt.subplots(3, 1, figsize=(9, 5.6), **shared)
for k, ax in enumerate(axes):
    ax.axvspan(2007 + 11 / 12, 2009.5, color="0.9")  # recession (NBER)
    ax.axhline(0, color="0.6", linewidth=0.8)
    ax.plot(years, scores[:, k], color="0.2", linewidth=1.2)
    ax.set(ylabel=names[k], xlim=(2006, 2016))
plt.show()

# %%
# The score of component 0 follows the recession, shaded. In component 1, the jump in May 2010 and
# the falls after it are the government's temporary census staff. Component 2 shows the fall of the
# oil price in 2015, which hit mining harder than the recession did.
#
# Scores of different components are uncorrelated over the months, by construction:

print(np.round(scores.T @ scores / len(scores), 6) + 0.0)

# %%
# Only the covariance
# -------------------
#
# The components depend on the data only through their covariance (here, correlations) and the
# number of months, so they can be analyzed even if only those are published:

correlation = np.corrcoef(X.T)
same = ebcd.EBCD(n_components=3).fit_covariance(correlation, n_samples=len(X))
print(f"largest difference: {np.abs(same.components_ - model.components_).max():.0e}")

# %%
# How many components?
# --------------------
#
# By default, the fit counts the components that stand out from noise:

print(ebcd.EBCD().fit(X).n_components_, "with equal noise")
print(ebcd.EBCD(scale=True).fit(X).n_components_, "with noise that may differ between sectors")

# %%
# The business cycle stands out under either assumption. The group outside the cycle stands out only
# if the noise of each sector is separated from its signal, because the cycle explains nearly all of
# some sectors and next to nothing of others, so the residual variances are very unequal. The third
# component is nearly a single sector, and eigenvalues cannot distinguish a component from a sector
# with more noise than the others. We keep it because it has an explanation. The numbers assume that
# months are independent, which is only approximately true.

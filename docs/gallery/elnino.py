"""
El Nino through the year
========================

A warm year in the Pacific is called El Nino. Is it warm from January to December, or do the seasons
differ? The data are the mean sea surface temperatures off the coast of Peru, a curve of twelve
months for each year from 1950 to 2010 (NOAA, public domain).
"""

import matplotlib.pyplot as plt
import numpy as np

import ebcd

data = ebcd.datasets.load_elnino()
months = [name[:3].capitalize() for name in data.feature_names]
years = np.asarray(data.years)
print(data.data.shape, "years and months")

# %%
# Three seasons
# -------------
#
# The mean curve is subtracted, so components are patterns of warmth and cold around it. PCA returns
# patterns that contrast one half of the year with the other. To find the warm parts of the year, we
# require non-negative loadings: with ``point_exponential``, a loading is either zero or positive.

model = ebcd.EBCD(3, prior="point_exponential")
scores = model.fit_transform(data.data)
centred = data.data - data.data.mean(axis=0)
_, size, principal = np.linalg.svd(centred / np.sqrt(len(years)), full_matrices=False)
principal = size[:3, None] * principal[:3]
principal *= np.sign(principal.sum(axis=1, keepdims=True))

colours = ("#3b6fb6", "#d1661f", "#3f8f5f")
shared = {"sharex": True, "sharey": True, "layout": "constrained"}
figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), **shared)
for k, colour in enumerate(colours):
    axes[0].plot(months, principal[k], "o-", color=colour, label=f"component {k}")
    lower, upper = model.credible_intervals()[:, k]  # of 95%
    axes[1].fill_between(months, lower, upper, color=colour, alpha=0.2)
    axes[1].plot(months, model.components_[k], "o-", color=colour, label=f"component {k}")
for ax, title in zip(axes, ("PCA", "EBCD, non-negative"), strict=True):
    ax.axhline(0, color="0.6", linewidth=0.8)
    ax.set_title(title)
    ax.tick_params(axis="x", rotation=90)
axes[0].set_ylabel("degrees, for a score of one")
axes[1].legend()
plt.show()

# %%
# One component is warm from March to August, one from June to the end of the year, and one from
# January to April. They overlap, as seasons do. The prior has no information about the order of the
# months; the curves are smooth because the temperatures are.
#
# The years
# ---------
#
# Which were the warm years, and in which part of the year?

order = np.argsort([np.argmax(component) for component in model.components_])
seasons = ("early", "middle", "late")
figure, axes = plt.subplots(3, 1, figsize=(9, 5), **shared)
for ax, k, season in zip(axes, order, seasons, strict=True):
    ax.axhline(0, color="0.6", linewidth=0.8)
    ax.bar(years, scores[:, k], color=np.where(scores[:, k] > 0, "#d1661f", "#3b6fb6"))
    ax.set_ylabel(season)
    for i in np.argsort(-scores[:, k])[:3]:
        ax.annotate(years[i], (years[i], scores[i, k]), ha="center", va="bottom", fontsize=8)
axes[0].set_ylim(-3, 5.5)
plt.show()

# %%
# The two great events unfold as they did in reality: that of 1982 and 1983 appears late in the
# first year and in the early and middle parts of the second, and so does that of 1997 and 1998. A
# calendar year cuts through an El Nino, which explains why the seasons need separate components:
# December tells us little about the January eleven months earlier.

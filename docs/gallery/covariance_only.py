"""
Two hospitals, no patient shared
================================

Two hospitals measured the same thirty properties of tumours. They would like to find the components
of all their patients together, but patient data must not leave a hospital. Is the covariance
enough? The data are the 569 tumours of the Wisconsin breast cancer study (from scikit-learn), which
we divide between two hospitals.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

import ebcd

data = load_breast_cancer()
names = np.array([name.replace("mean ", "") for name in data.feature_names])
here = np.random.default_rng(0).random(len(data.data)) < 0.4
hospitals = (data.data[here], data.data[~here])

# %%
# What is shared
# --------------
#
# Each hospital computes its number of patients, their means and their cross-products, and shares
# only those. The two results are then added. EBCD never uses more than that, whatever the input, so
# the fit is the same as if all data were in one place.

grams = [ebcd.Gram().update(patients) for patients in hospitals]
together = grams[0] + grams[1]
print(*grams, "->", together)

model = ebcd.EBCD(5, scale=True).fit(together)
pooled = ebcd.EBCD(5, scale=True).fit(data.data)
difference = (model.components_ - pooled.components_) / pooled.scale_
print(f"largest difference from pooled patients: {np.abs(difference).max():.0e}")

# %%
# The result
# ----------
#
# The properties are in different units, hence ``scale=True``. Dividing loadings by ``scale_`` turns
# them almost into correlations. There are ten properties, each recorded as the mean over the cells
# of a tumour, its standard error and the worst value.

loadings = np.where(model.lfsr_ < 0.05, model.components_ / model.scale_, 0)
loadings = loadings.reshape(5, 3, 10)
colours = plt.get_cmap("RdBu_r").with_extremes(bad="0.88")
shared = {"sharex": True, "sharey": True, "layout": "constrained"}
figure, axes = plt.subplots(1, 5, figsize=(10, 3.6), **shared)
for k, ax in enumerate(axes):
    cells = np.ma.masked_equal(loadings[k].T, 0)
    image = ax.pcolormesh(cells, cmap=colours, vmin=-1, vmax=1, edgecolor="white")
    ax.set_title(f"{k}: {np.mean(loadings[k] ** 2):.0%}")
    ax.set_xticks(np.arange(3) + 0.5, ("mean", "error", "worst"), rotation=90)
axes[0].set_yticks(np.arange(10) + 0.5, names[:10])
axes[0].invert_yaxis()
figure.colorbar(image, ax=axes, label="loading (gray: no clear sign)")
plt.show()

# %%
# The titles show shares of the variance of the scaled data. (``explained_variance_ratio_`` is in
# the units of the data, in which the variance of the area, with values in the thousands, is nearly
# everything.)
#
# Component 0 is the size and irregularity of the cells, 1 is size against roughness of the outline,
# 2 is smoothness and symmetry, 3 is the standard errors (how much the cells of a tumour differ),
# and 4 is texture.
#
# Scores stay at home
# -------------------
#
# Scores require data. Each hospital computes those of its own patients with the shared model:

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
bins = np.linspace(-3, 3, 31)
for label, colour in ((1, "#3b6fb6"), (0, "#d1661f")):
    scores = model.transform(data.data[data.target == label])[:, 0]
    ax.hist(scores, bins, color=colour, alpha=0.6, label=data.target_names[label])
ax.set(xlabel="score of component 0", ylabel="patients")
ax.legend()
plt.show()

# %%
# Size and irregularity separate most of the malignant tumours from the benign ones, although the
# fit did not use these labels.
#
# Sums over patients still carry some information about individuals, especially in a hospital with
# few patients. Privacy rules may require a minimum number of patients for each sum.

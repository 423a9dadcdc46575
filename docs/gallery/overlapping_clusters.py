"""
Single cells with clusters that overlap
=======================================

A cell can be of a certain type, divide, and respond to stress, all at once, so it belongs to
several clusters. Methods that put every cell into one cluster have to invent a cluster for every
combination. In this example the cells are simulated, so that the truth is known. The data are
counts for 300 cells and 800 genes, with three programs that cells switch on or off independently
of each other.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

import ebcd

rng = np.random.default_rng(1)
names = ["cycle", "stress", "interferon"]
active = rng.random((3, 300)) < [[0.3], [0.4], [0.2]]
effects = rng.normal(size=(3, 800)) * (rng.random((3, 800)) < 0.1)
depth = rng.lognormal(sigma=0.3, size=(300, 1))
counts = rng.poisson(depth * np.exp(rng.normal(size=800) - 1 + active.T @ effects))

# %%
# As usual, counts are divided by the size of their cell and log-transformed. They are not centered:
# component 0 is the baseline that all cells share. ``clusters_`` numbers the others.

size = counts.sum(axis=1, keepdims=True)
X = np.log1p(counts / (size / size.mean()))

# %%
# Clusters
# --------
#
# :func:`ebcd.gbcd` is generalized binary covariance decomposition (Liu and others 2023). The number
# you pass is that of the components before they are split by sign. Components that the data do not
# support are left out.

model = ebcd.gbcd(X, 4)
found = ebcd.memberships(model)[model.clusters_]
print(f"{len(found)} clusters of {found.sum(axis=1).round().astype(int)} cells")

figure, axes = plt.subplots(2, 1, figsize=(8, 3.6), layout="constrained")
order = np.lexsort(active[::-1])[::-1]
axes[0].imshow(active[:, order], aspect="auto", cmap="Blues", interpolation="nearest")
axes[0].set_yticks(range(3), names)
axes[0].set_xticks([])
axes[0].set_title("truth, cells sorted by their programs", fontsize="medium")
axes[1].imshow(found[:, order], aspect="auto", cmap="Blues", interpolation="nearest")
axes[1].set_yticks(range(len(found)), [f"component {k}" for k in model.clusters_])
axes[1].set_xticks([])
axes[1].set_title("probability of membership, the same cells", fontsize="medium")
plt.show()

# %%
# How many memberships are right? K-means gives each cell a single cluster. With one cluster for
# every combination it could do better, but what the combinations have in common would be lost.

labels = KMeans(3, n_init=10, random_state=0).fit(X).labels_
for name, rows in (("gbcd", found > 0.5), ("k-means", labels == np.arange(3)[:, None])):
    right = [max((truth == row).mean() for row in rows) for truth in active]
    print(f"{name:8}", ", ".join(f"{n} {r:.1%}" for n, r in zip(names, right, strict=True)))

# %%
# :func:`ebcd.plots.memberships` draws the same picture without the truth, and groups cells that
# belong together. The baseline is in the first row.

ebcd.plots.memberships(model)
plt.show()

# %%
# Genes of a cluster
# ------------------
#
# The scores of the transposed data show how a cluster affects the genes. They resemble those of the
# simulation, apart from noise and the logarithm of the counts:

genes = model.transform(X.T)
for k, row in zip(model.clusters_, found, strict=True):
    which = int(np.argmax([(truth == (row > 0.5)).mean() for truth in active]))
    correlation = np.corrcoef(genes[:, k], effects[which])[0, 1]
    print(f"component {k}: {names[which]}, correlation with its true effects {correlation:.2f}")

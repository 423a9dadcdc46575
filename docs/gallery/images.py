"""
Images and maps: smooth components
==================================

If features are pixels, or stations on a map, neighbors behave alike. A method that ignores this
treats every pixel by itself and returns noisy pictures. In this example the prior takes neighbors
into account. The data are simulated, so that the truth is known: 60 images of 20 x 20 pixels, in
which two sources flicker behind a lot of noise.
"""

# sphinx_gallery_thumbnail_number = 2

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

import ebcd
from ebcd.priors import make_family

side, n = 20, 60
rng = np.random.default_rng(1)
row, column = np.mgrid[:side, :side] / side
hill = np.exp(-((row - 0.35) ** 2 + (column - 0.3) ** 2) / 0.05)
ring = np.exp(-((np.hypot(row - 0.55, column - 0.6) - 0.25) ** 2) / 0.008)
truth = np.array([hill.ravel(), 0.8 * ring.ravel()])
X = rng.normal(size=(n, 2)) @ truth + 1.5 * rng.normal(size=(n, side**2))


def show(ax, image, title="", reach=1.0):
    ax.imshow(image.reshape(side, side), cmap="RdBu_r", vmin=-reach, vmax=reach)
    ax.set_title(title, fontsize=10)
    ax.set_axis_off()


figure, axes = plt.subplots(1, 5, figsize=(9, 2), layout="constrained")
for i, ax in enumerate(axes):
    show(ax, X[i], f"image {i}", reach=4)
plt.show()

# %%
# The prior ``gmrf``
# ------------------
#
# A Gaussian Markov random field assumes that differences between neighbors are small
# (``order=1``), or that differences between a pixel and the mean of its neighbors are
# (``order=2``, smoother), or the differences of those (``order=3``). Its option ``adjacency``
# defines which pixels are neighbors. The order, and how small the differences are, are learned for
# each component. :func:`ebcd.compare_priors` shows which prior describes the data best.

priors = {
    "point_laplace": "point_laplace",
    "spatial": "spatial",
    "gmrf, order 1": make_family("gmrf", adjacency=("grid", side, side), order=1),
    "gmrf": make_family("gmrf", adjacency=("grid", side, side)),
}
found = ebcd.compare_priors(X, priors, n_components=2, tol=0.01)
print(found)

pca = PCA(2).fit(X)
pictures = {"truth": truth, "PCA": pca.components_ * np.sqrt(pca.explained_variance_[:, None])}
pictures |= {name: model.components_ for name, model in found.models.items()}

figure, axes = plt.subplots(2, 6, figsize=(9, 3.3), layout="constrained")
for (name, components), pair in zip(pictures.items(), axes.T, strict=True):
    # in the order of the truth, and with its sign
    products = components @ truth.T
    straight, crossed = (np.abs(np.diag(each)).sum() for each in (products, products[::-1]))
    order = [0, 1] if straight > crossed else [1, 0]
    for k, ax in enumerate(pair):
        show(ax, np.sign(products[order[k], k]) * components[order[k]], name if k == 0 else "")
plt.show()

# %%
# PCA returns speckled pictures, and so does a sparse prior. ``spatial`` takes the pixels row by
# row, so it uses only the neighbors to the left and to the right, and leaves stripes. If those
# above and below are used as well, the hill and the ring stand out. The distance between the true
# and the estimated subspace agrees with the ELBO, which is computed without knowing the truth:

for name, components in pictures.items():
    print(f"{name:14} {ebcd.metrics.subspace_distance(truth.T, components.T):.3f}")

# %%
# Detectors of different quality
# ------------------------------
#
# Suppose that the right half of the detector is twice as noisy. ``noise="per_feature"`` learns
# this, and where the noise is larger the field relies more on the neighbors. The posterior is
# exact, and the standard deviation of a loading shows how well it is known.

noisy = X + 2.6 * rng.normal(size=X.shape) * (column.ravel() >= 0.5)
model = ebcd.EBCD(2, prior=priors[found.best], noise="per_feature", tol=0.01).fit(noisy)

figure, axes = plt.subplots(1, 4, figsize=(9, 2.5), layout="constrained")
k = int(np.argmax(np.abs(model.components_ @ truth[1])))  # the ring
sign = np.sign(model.components_[k] @ truth[1])
show(axes[0], noisy[0], "an image", reach=6)
show(axes[1], sign * model.components_[k], "a component")
show(axes[2], np.where(model.lfsr_[k] < 0.05, sign * model.components_[k], 0), "with a clear sign")
sd = axes[3].imshow(model.components_sd_[k].reshape(side, side), cmap="viridis", vmin=0)
axes[3].set_title("standard deviation", fontsize=10)
axes[3].set_axis_off()
figure.colorbar(sd, ax=axes[3], shrink=0.8)
plt.show()

# %%
# A trace of the hill is left in the ring: if two fields are about equally smooth, the prior hardly
# determines their rotation.
#
# Stations on a map
# -----------------
#
# Any graph will do: a symmetric matrix of weights, sparse or not, defines which features are
# neighbors. In this example there are 300 stations, which are neighbors if they are close to each
# other. One pattern is warm in the south-west and cold in the north-east.

places = rng.random((300, 2))
distance = np.hypot(*(places[:, None] - places).transpose(2, 0, 1))
near = (distance < 0.1).astype(float)
pattern = np.cos(np.pi * places.mean(axis=1))
Y = rng.normal(size=(30, 1)) * pattern + 2 * rng.normal(size=(30, 300))

figure, axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
fits = {"normal": "normal", "gmrf": make_family("gmrf", adjacency=near)}
maps = {name: ebcd.EBCD(1, prior=prior).fit(Y).components_[0] for name, prior in fits.items()}
for ax, (name, values) in zip(axes, {"truth": pattern, **maps}.items(), strict=True):
    colour = np.sign(values @ pattern) * values
    first, second = np.nonzero(np.triu(near, 1))
    ax.plot(*places[[first, second]].transpose(2, 0, 1), color="0.9", linewidth=0.6, zorder=0)
    ax.scatter(*places.T, c=colour, cmap="RdBu_r", vmin=-1, vmax=1, s=18)
    ax.set_title(name, fontsize=10)
    ax.set_axis_off()
plt.show()

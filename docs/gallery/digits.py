"""
What are handwritten digits made of?
====================================

A picture of a digit is a sum of strokes, and ink is never negative. Which strokes are there? The
data are the 1,797 images of 8 x 8 pixels that come with scikit-learn.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import ebcd

digits = load_digits()
X = digits.data
n_parts = 16

# %%
# Parts
# -----
#
# ``point_exponential`` is a prior for parts: a loading is either zero or positive. The number of
# pixels in each part is learned from the data.

model = ebcd.EBCD(n_parts, prior="point_exponential").fit(X)
pca = PCA(n_parts).fit(X)
print(f"{model.n_iter_} iterations, converged: {model.converged_}")
print("pixels with a clear sign in each part:", (model.lfsr_ < 0.05).sum(axis=1))

figure = plt.figure(figsize=(9, 5), layout="constrained")
panels = figure.subfigures(1, 2)
pictures = (("PCA", pca.components_), ("EBCD, non-negative", model.components_))
for panel, (title, components) in zip(panels, pictures, strict=True):
    panel.suptitle(title)
    for ax, component in zip(panel.subplots(4, 4).flat, components, strict=True):
        reach = np.abs(component).max()
        ax.imshow(component.reshape(8, 8), cmap="RdBu_r", vmin=-reach, vmax=reach)
        ax.set_axis_off()
plt.show()

# %%
# The components of PCA are positive in some places and negative in others, all over the image.
# Those of EBCD are strokes: short arcs and bars of about a dozen pixels.
#
# A digit from its parts
# ----------------------
#
# A score measures how much more of a stroke an image has than the mean image. Here are the main
# strokes of a 3 and a 7, and the images reconstructed from all sixteen.

chosen = [int(np.flatnonzero(digits.target == digit)[0]) for digit in (3, 7)]
figure, axes = plt.subplots(2, 6, figsize=(9, 3.2), layout="constrained")
for row, i in zip(axes, chosen, strict=True):
    scores = model.transform(X[i : i + 1])
    most = np.argsort(-scores[0])[:4]
    images = [X[i], model.inverse_transform(scores)[0], *model.components_[most]]
    titles = ["image", "16 parts", *(f"{scores[0, k]:+.1f} x" for k in most)]
    for ax, image, title in zip(row, images, titles, strict=True):
        ax.imshow(image.reshape(8, 8), cmap="Grays", vmin=0)
        ax.set_title(title, fontsize=9)
        ax.set_axis_off()
plt.show()

# %%
# Parts come at a price. By construction, no sixteen components are closer to the images than those
# of PCA. The sixteen strokes explain a tenth less of the variance:

for name, method in (("PCA", pca), ("EBCD", model)):
    rest = X - method.inverse_transform(method.transform(X))
    print(f"{name}: {1 - rest.var(axis=0).sum() / X.var(axis=0).sum():.1%} of the variance")

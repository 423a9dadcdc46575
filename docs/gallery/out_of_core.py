"""
Half a million patches, a few hundred at a time
===============================================

What are photographs made of? We treat the data as if they were too large for memory: they are all
patches of 8 x 8 pixels in two photographs, 33 million numbers, which are cut out of the images when
needed. (Real data of this kind come from files or a database; only the function that yields the
pieces changes.)
"""

import matplotlib.pyplot as plt
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.datasets import load_sample_images

import ebcd

side = 8


def pieces():
    """Yield the patches of one row of pixels after the other, without their mean brightness."""
    for image in load_sample_images().images:
        grey = np.log1p(image.mean(axis=2))
        for top in range(grey.shape[0] - side + 1):
            patches = sliding_window_view(grey[top : top + side], (side, side))
            patches = patches.reshape(-1, side * side)
            yield patches - patches.mean(axis=1, keepdims=True)


# %%
# One pass
# --------
#
# ``Gram`` keeps the number of rows, their mean and the products of the 64 columns. It is updated
# piece by piece, and two of them, computed on two machines, can be added.

gram = ebcd.Gram()
for piece in pieces():
    gram.update(piece)
print(gram, f"in {(gram.scatter.nbytes + gram.mean.nbytes) / 1000:.0f} kB")

# %%
# The fit needs nothing else. With so many rows, the noise of a loading is tiny and the ELBO is
# huge, so a gain of ten nats in an iteration is negligible.

model = ebcd.EBCD(16, tol=10.0).fit(gram)
principal = np.linalg.eigh(gram.scatter)[1][:, ::-1].T[:16]

figure = plt.figure(figsize=(9, 5), layout="constrained")
pictures = (("PCA", principal), ("EBCD", model.components_))
for panel, (title, components) in zip(figure.subfigures(1, 2), pictures, strict=True):
    panel.suptitle(title)
    for ax, component in zip(panel.subplots(4, 4).flat, components, strict=True):
        reach = np.abs(component).max()
        ax.imshow(component.reshape(side, side), cmap="RdBu_r", vmin=-reach, vmax=reach)
        ax.set_axis_off()
plt.show()

# %%
# PCA finds waves, because it treats all places in a patch alike. EBCD finds spots: something light
# or dark in one place, and little elsewhere. Both span nearly the same space. Spots resemble what
# an image coder or a retina uses, and they result from sparsity alone.
#
# Scores, a piece at a time
# -------------------------

squares = np.zeros(model.n_components_)
for piece in pieces():
    squares += np.sum(model.transform(piece) ** 2, axis=0)
squares /= gram.n_samples
print(f"mean squares of the scores: {squares.min():.3f} to {squares.max():.3f}")

# %%
# The same in one line
# --------------------
#
# ``Chunks`` wraps the function and works with ``fit`` and ``transform``. If there are more than
# 5,000 columns, whose cross-products would need too much memory, the function is called again for
# every product with the data.

again = ebcd.EBCD(16, tol=10.0).fit(ebcd.Chunks(pieces))
print(again, bool(np.allclose(again.components_, model.components_, atol=1e-6)))

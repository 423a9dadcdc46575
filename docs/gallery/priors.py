"""
What your prior does
====================

A prior determines what kind of loadings are expected, and how a noisy loading is shrunk. This page
shows every family in the package, fitted to a few hundred noisy values of the kind it is made for.
Three pictures show what each does:

- its **shrinkage**: the posterior mean of an observed value, compared with no shrinkage (gray);
- the **penalty** with the same effect (Proposition 2 of the paper), in nats: where it is steep,
  values are pulled toward zero, and where it is flat, they are left unchanged;
- **draws** from the fitted prior: the kind of loadings it expects.

The noise has standard deviation one throughout. The pictures are drawn whenever this page is built,
with the current version of the package.
"""

import matplotlib.pyplot as plt
import numpy as np

import ebcd
from ebcd.priors import PRIORS, make_family

BLUE, ORANGE, GREY = "#3b6fb6", "#d1661f", "0.75"
rng = np.random.default_rng(3)
n = 400
on = rng.random(n) < 0.25
noise = rng.normal(size=n)
sparse = on * rng.laplace(scale=3.0, size=n) + noise
dense = 2.5 * rng.normal(size=n) + noise
nonnegative = on * rng.exponential(4.0, size=n) + noise
binary = on * rng.normal(5.0, 0.5, size=n) + noise
shown = set()


def rows(families, low=-9, high=9):
    """Draw a row of three panels for each family, given the data that it is fitted to."""
    _, axes = plt.subplots(
        len(families), 3, figsize=(9, 1.75 * len(families)), layout="constrained"
    )
    x = np.linspace(low, high, 601)
    for (name, data), (left, middle, right) in zip(families.items(), axes, strict=True):
        prior = ebcd.ebnm(data, 1.0, name).prior
        shown.add(name)
        left.plot(x, x, color=GREY, linewidth=1)
        left.plot(x, prior.shrink(x, 1.0), color=BLUE)
        left.set(xlim=(low, high), ylim=(low, high))
        left.text(0.02, 0.98, name, transform=left.transAxes, va="top", weight="bold")
        penalty = prior.penalty(x, 1.0)
        finite = np.isfinite(penalty)
        middle.plot(x[finite], penalty[finite] - penalty[finite].min(), color=ORANGE)
        if finite.sum() == 1:
            middle.plot(0, 0, "o", color=ORANGE)
            middle.text(0, 5, "infinite except at one value", ha="center", color="0.4")
        middle.set(xlim=(low, high), ylim=(-0.5, 12))
        if prior.proper:
            values = prior.sample(80, random_state=1)
            right.vlines(range(80), 0, np.clip(values, 1.5 * low, 1.5 * high), color=BLUE)
            right.set(ylim=(1.5 * low, 1.5 * high))
        else:
            right.text(0.5, 0.5, "improper: cannot be drawn from", ha="center", color="0.4")
            right.set_yticks([])
        right.axhline(0, color=GREY, linewidth=1)
        right.set_xticks([])
    for ax, title in zip(axes[0], ("shrinkage", "penalty", "a draw of 80 loadings"), strict=True):
        ax.set_title(title)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    axes[-1, 0].set_xlabel("observed")
    axes[-1, 1].set_xlabel("loading")
    plt.show()


# %%
# Sparse loadings, of both signs
# ------------------------------
#
# Three quarters of the values are zero. Small values are removed nearly entirely and large ones are
# kept, which is the effect of a penalty with a kink at zero and flat sides. The horseshoe has no
# spike: many of its draws are small, none are exactly zero, and a few are huge.

names = ("point_normal", "point_laplace", "normal_scale_mixture", "horseshoe")
rows(dict.fromkeys(names, sparse))

# %%
# Dense loadings
# --------------
#
# No value is zero. A normal prior shrinks all values by the same factor, as ridge regression does.
# The Laplace prior shrinks large values by a constant, as the lasso does, but removes none.
# ``flat`` changes nothing and ``point_mass`` removes everything; both are there for comparison.

rows(dict.fromkeys(("normal", "laplace", "flat", "point_mass"), dense))

# %%
# One sign only, and on or off
# ----------------------------
#
# Negative values become zero or nearly so: the penalty is infinite there. ``generalized_binary``
# pulls values to zero or to another level, which is estimated; its penalty has two valleys.

rows(
    {
        "point_exponential": nonnegative,
        "exponential": np.abs(dense) + noise,
        "unimodal_nonnegative": nonnegative,
        "unimodal_nonpositive": -nonnegative,
        "generalized_binary": binary,
    }
)

# %%
# Flexible families
# -----------------
#
# These families also learn the shape of the prior. Fitted to the values of the
# ``generalized_binary`` example, ``npmle`` and ``deconvolver`` find the two levels without being
# told about them. Unimodal families cannot, since they do not allow a second peak.

names = ("unimodal_symmetric", "unimodal", "npmle", "deconvolver")
rows(dict.fromkeys(names, binary))

# %%
# Smooth loadings
# ---------------
#
# Under ``spatial`` and ``gmrf``, a value is shrunk toward its neighbors, so its estimate is not a
# function of one observation, and there is no penalty for a single loading. Instead, the first
# picture shows the observations (dots) and their estimates. The second shows how a single observed
# value, five times the noise, affects its neighbors. The last shows draws. ``spatial`` (with Haar
# wavelets here) allows jumps, but the Markov random fields do not.

p = 200
t = np.arange(p) / p
curve = 4 * np.sin(2 * np.pi * t) + 3 * (np.abs(t - 0.7) < 0.08)
x = curve + rng.normal(size=p)
smooth = {
    "spatial": make_family("spatial", wavelet="haar"),
    "gmrf, order 1": make_family("gmrf", adjacency="chain", order=1),
    "gmrf, order 2": make_family("gmrf", adjacency="chain", order=2),
}
figure, axes = plt.subplots(3, 3, figsize=(9, 5.4), layout="constrained")
for (name, family), (left, middle, right) in zip(smooth.items(), axes, strict=True):
    result = ebcd.ebnm(x, 1.0, family)
    shown.add(result.prior.family)
    left.plot(x, ".", color=GREY, markersize=3)
    left.plot(result.mean, color=BLUE)
    left.text(0.98, 0.98, name, transform=left.transAxes, va="top", ha="right", weight="bold")
    middle.plot(5.0 * (np.arange(61) == 30), ".", color=GREY, markersize=3)
    middle.plot(result.prior.shrink(5.0 * (np.arange(61) == 30), 1.0), color=ORANGE)
    middle.set(ylim=(-0.3, 1.8))
    for seed in range(2):
        right.plot(result.prior.sample(p, random_state=seed), color=(BLUE, GREY)[seed])
    for ax in (left, middle, right):
        ax.set_xticks([])
        ax.spines[["top", "right"]].set_visible(False)
for ax, title in zip(axes[0], ("shrinkage", "one value among zeros", "two draws"), strict=True):
    ax.set_title(title)
plt.show()

# %%
# On a grid of pixels, a draw is an image. From left to right: ``gmrf`` of order 1 and 2 with a
# short range (large ``kappa``) and with a long range.

figure, axes = plt.subplots(1, 4, figsize=(9, 2.5), layout="constrained")
for ax, (order, kappa) in zip(axes, ((1, 0.3), (1, 0.003), (2, 0.05), (2, 1e-4)), strict=True):
    field = ebcd.priors.make_prior(
        "gmrf", adjacency=("grid", 40, 40), order=order, scale=1.0, kappa=kappa
    )
    ax.imshow(field.sample(1600, random_state=2).reshape(40, 40), cmap="RdBu_r")
    ax.set_title(f"order {order}, kappa {kappa:g}", fontsize=10)
    ax.set_axis_off()
plt.show()

# none of the package is left out
assert shown == {name for name in PRIORS if PRIORS[name].__module__.startswith("ebcd.priors.")}

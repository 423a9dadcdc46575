"""
Baskets of equal weights: a prior of your own
=============================================

An investor wants to trade components: each industry is bought, sold or left alone, all in equal
amounts. No built-in family restricts loadings to ``-a``, ``0`` or ``a``. How much work is it to add
one that does? The data are monthly returns of twelve industries of the United States from 1949 to
2017, from Kenneth French's data library.
"""

from dataclasses import dataclass
from typing import ClassVar

import matplotlib.pyplot as plt
import numpy as np
from linearmodels.datasets import french
from scipy.special import expit

import ebcd
from ebcd.priors import AbstractPriorFamily, MixturePrior, kernels, register

table = french.load()
industries = table.columns[6:18].to_numpy()
excess = 100 * table[industries].sub(table["RF"], axis=0).to_numpy()  # percent a month

# %%
# The family
# ----------
#
# A family defines how a prior is *built* from parameters, as a mixture of kernels, and how it is
# *fitted* to one column of noisy loadings. Posterior means, standard deviations, sign rates,
# samples and penalties follow from the mixture.
#
# With :math:`x_j \sim N(\theta_j, s_j^2)` and :math:`\theta_j` equal to :math:`-a, 0, a` with
# probabilities :math:`w/2, 1 - w, w/2`, the EM algorithm takes two lines. Given the probabilities
# :math:`q_j^\pm` that entry :math:`j` is at :math:`\pm a`,
#
# .. math:: w = \frac1n \sum_j (q_j^+ + q_j^-), \qquad
#           a = \frac{\sum_j (q_j^+ - q_j^-)\, x_j / s_j^2}{\sum_j (q_j^+ + q_j^-) / s_j^2} .


@register
@dataclass(frozen=True)
class EqualSizes(AbstractPriorFamily):
    """``(1 - weight) delta_0 + weight / 2 (delta_-size + delta_size)``."""

    name: ClassVar[str] = "equal_sizes"
    has_mode: ClassVar[bool] = False  # it is centered at zero
    lengths: ClassVar[tuple[str, ...]] = ("size",)  # parameters in the units of the loadings
    positions: ClassVar[tuple[str, ...]] = ()  # none of them moves with the center
    binned: ClassVar[bool] = False  # give `fit_column` the entries themselves

    @classmethod
    def build(cls, **parameters):
        weight, size = parameters["weight"], parameters["size"]
        atoms = kernels.PointMass(np.array([-size, 0.0, size]))
        return MixturePrior(cls, parameters, [weight / 2, 1 - weight, weight / 2], [atoms])

    def fit_column(self, column, start):
        x, s = column.x[0], np.broadcast_to(column.s, column.x.shape)[0]
        if start is None or start.parameters["weight"] < 1e-6:  # look everywhere
            starts = [(0.5, size) for size in np.quantile(np.abs(x), [0.5, 0.8, 0.95, 1.0])]
        else:
            starts = [(start.parameters["weight"], start.parameters["size"])]
        found = [self.build(**em(x, s, *begin)) for begin in starts]
        return max(found, key=lambda prior: prior.log_likelihood(x, s))


def em(x, s, weight, size):
    """Raise the likelihood step by step, from a weight and a size."""
    for _ in range(1000):
        log_odds = np.log(weight / 2) - np.log1p(-weight) - 0.5 * (size / s) ** 2
        up, down = log_odds + size * x / s**2, log_odds - size * x / s**2
        total = np.logaddexp(up, down)
        away = expit(total)  # probability of not being zero
        balance = away * np.tanh(0.5 * (up - down))
        old = weight, size
        weight = np.clip(away.mean(), 1e-12, 1 - 1e-12)
        size = abs(np.sum(balance * x / s**2)) / np.sum(away / s**2)
        if np.allclose(old, (weight, size), rtol=1e-8, atol=0):
            break
    return {"weight": float(weight), "size": float(size)}


# %%
# That is all. The family can now be used in the normal-means solver and in the decomposition:

x = np.array([0.1, -0.4, 2.2, 1.9, -2.1, 0.3, 2.0, -0.2])
fit = ebcd.ebnm(x, s=0.3, prior="equal_sizes")
print(fit.prior)
print(fit.mean.round(2))

# %%
# The baskets
# -----------
#
# The market itself moves every industry, by different amounts, so its component gets a normal
# prior. The three baskets get the new one.

model = ebcd.EBCD(4, prior=["normal"] + 3 * ["equal_sizes"]).fit(excess)
for k in range(1, 4):
    kept = model.sparsify()[k]
    bought, sold = (", ".join(industries[sign * kept > 0]) for sign in (1, -1))
    share = model.explained_variance_ratio_[k]
    print(f"{k}: {share:.0%} of the variance\n   buy {bought}\n   sell {sold}")

figure, axes = plt.subplots(1, 3, figsize=(9, 3.8), sharey=True, layout="constrained")
places = np.arange(industries.size)
for k, ax in enumerate(axes, start=1):
    loadings = model.sparsify()[k]
    ax.axvline(0, color="0.6", linewidth=0.8)
    ax.barh(places, loadings, color=np.where(loadings > 0, "#3b6fb6", "#d1661f"))
    ax.set(title=f"basket {k}", xlabel="loading, % a month")
    ax.grid(axis="y", color="0.93")
    ax.set_axisbelow(True)
axes[0].set_yticks(places, industries)
axes[0].invert_yaxis()
plt.show()

# %%
# The first basket is energy and utilities against business equipment (mostly computers). The second
# sets shops, health and finance against manufacturing, and the third sets cars against three
# others. All loadings of a basket have the same size, because the prior allows nothing else.
#
# What does this restriction cost? Compare the same fit with point-Laplace priors, which leave the
# sizes free:

free = ebcd.EBCD(4, prior=["normal"] + 3 * ["point_laplace"]).fit(excess)
for name, fitted in (("equal sizes", model), ("point-Laplace", free)):
    share = fitted.explained_variance_ratio_.sum()
    print(f"{name:14} {share:.1%} of the variance, ELBO {fitted.elbo_:.0f}")

# %%
# In terms of variance, equal weights describe these returns about as well. In terms of likelihood
# they are much worse, by 300 nats, because the true loadings are not equal in size.
#
# If your family would be useful to others, please contribute it; see ``CONTRIBUTING.md``.

"""
What moves industries besides the market?
=========================================

Stocks rise and fall together. Which industries have something in common beyond that? The data are
monthly returns of twelve US industries from 1949 to 2017, in excess of the risk-free rate (Kenneth
French's data library, from the package linearmodels).
"""

import matplotlib.pyplot as plt
import numpy as np
from linearmodels.datasets import french

import ebcd

table = french.load()
industries = list(table.columns[6:18])
excess = 100 * table[industries].sub(table["RF"], axis=0)  # percent a month
print(f"{len(excess)} months, {len(industries)} industries")

# %%
# A data frame brings its own names, and there is nothing to tune:

model = ebcd.EBCD()
scores = model.fit_transform(excess)
print(model.summary())

# %%
# Loadings are in percent per month, for a score of one. The bars have credible intervals.

ebcd.plots.components(model)
plt.show()

# %%
# - **Component 0 is the market**, with more of it in business equipment than in utilities.
# - **Component 1 is heavy industry**: energy, cars (durables), manufacturing and chemicals, against
#   telecommunications.
# - **Component 2 is technology**, business equipment, against utilities, everyday goods and
#   finance.
# - **Component 3 is energy** with utilities and telecommunications, against cars and shops: the
#   effect of the oil price.
# - **Component 4 is health**, against cars and telecommunications.
#
# PCA finds the market as well, followed by mixtures of all twelve industries. Are these the factors
# that Fama and French constructed from size (SMB) and value (HML), or momentum (Mom)?

factors = table[["MktRF", "SMB", "HML", "Mom"]]
correlation = np.corrcoef(scores.T, factors.T)[: len(scores.T), len(scores.T) :]
print("          " + "".join(f"{name:>8}" for name in factors))
for k, row in enumerate(correlation):
    print(f"component {k}" + "".join(f"{value:8.2f}" for value in row))

# %%
# Component 0 is their market factor. Health and technology were growth stocks, so their components
# are negatively correlated with value. Otherwise these components are different from the factors.
#
# Seventy years are not homogeneous: a component describes the average over time, and the standard
# deviations of 0.055 assume independent months with equal noise.

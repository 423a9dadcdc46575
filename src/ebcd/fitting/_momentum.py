"""Momentum for penalised PCA: when it begins and how it grows.

Large steps early on lead to other optima than the start would, and on average not to better ones;
so there is none until an iteration gains little.
"""

from __future__ import annotations

from typing import Any

import numpy as np

SMALL_GAIN = 1e-5  # as a share of half the sum of squares
_LARGEST = 0.95


def momentum(age: Any) -> Any:
    """Share of the last step that is added, after so many iterations of small gains."""
    return np.minimum(age / (age + 3), _LARGEST)

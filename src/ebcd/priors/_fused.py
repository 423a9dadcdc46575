"""Where compiled loops take over from array operations, if numba is installed.

They are imported when first used. The environment variable ``EBCD_NUMBA=0`` turns them off. Results
are the same up to rounding.
"""

from __future__ import annotations

import functools
import importlib
import os
from importlib.util import find_spec
from types import ModuleType

import numpy as np

ONCE = np.ones((1, 1))  # counts of entries that are not binned


@functools.cache
def fused_kernels(which: str, layer: str = "priors") -> ModuleType | None:
    """Compiled loops for "slabs" or such; None without numba, or if they are turned off."""
    if os.environ.get("EBCD_NUMBA", "1") == "0" or find_spec("numba") is None:
        return None
    try:
        return importlib.import_module(f"ebcd.{layer}._fused_{which}")
    except (ImportError, RuntimeError):  # numba raises this one if it has nowhere to keep its code
        return None

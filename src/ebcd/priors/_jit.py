"""How loops are compiled; imported by modules of compiled loops only, as numba may not be there.

Products and sums may be contracted and, where all that is done is to add up, be put into another
order. What other modules call is kept on disk once compiled, with all that it calls. Operations on
whole arrays take long to compile, so there are none.
"""

from __future__ import annotations

import numba

_FLAGS = {"nogil": True, "error_model": "numpy"}
# What only compiled functions call needs no way in from Python, which takes a fourth of the time.
_INNER = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **_FLAGS}
compiled = numba.njit(fastmath={"contract"}, **_INNER)
summing = numba.njit(fastmath={"contract", "reassoc", "nsz"}, **_INNER)
kept = numba.njit(fastmath={"contract"}, cache=True, no_cfunc_wrapper=True, **_FLAGS)

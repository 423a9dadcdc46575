"""What a fit to data that are spread over cores takes, from rates of one core.

A fit is a first pass, which finds the means, and then one pass for every product ``S V``. With
the number of entries ``E = n p`` spread over ``c`` cores and in ``B`` blocks, a pass with ``w``
columns in ``V`` takes

    E (entry + w column) / c + B (task + w answer / c)

seconds: arithmetic, then what Dask needs for a task and what is done with its answer. ``entry`` and
``column`` are seconds for an entry of the data; if those are not in memory, reading comes on top.
What the fit computes between passes, ``client``, depends on p and k and not on n.
"""

from __future__ import annotations

from collections.abc import Sequence

Rates = dict[str, float]


def pass_seconds(
    rates: Rates, width: int, entries: float, *, cores: int = 1, blocks: int = 0, read: float = 0.0
) -> float:
    """Seconds of a pass; `width` is 0 in the first one, `read` what reading an entry takes."""
    entry = rates["entry"] + width * rates["column"] if width else rates["moments"]
    overhead = rates["task"] + width * rates["answer"] / cores
    return entries * (entry + read) / cores + blocks * overhead


def fit_seconds(
    rates: Rates,
    widths: Sequence[int],
    entries: float,
    *,
    cores: int = 1,
    blocks: int = 0,
    read: float = 0.0,
) -> float:
    """Seconds of a whole fit with these passes."""
    passes = [
        pass_seconds(rates, width, entries, cores=cores, blocks=blocks, read=read)
        for width in widths
    ]
    return rates["client"] + sum(passes)

"""Maps from rows of Dask collections to rows that stay lazy: nothing is computed here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ebcd._numerics import Array
from ebcd.data._dask import is_frame
from ebcd.data._dask_blocks import as_rows


def lazy_linear(x: Any, matrix: Array, shift: Any, dtype: Any) -> Any:
    """Give ``x @ matrix + shift`` as a Dask array with the rows of `x` in the same blocks."""
    return lazy_rows(
        x,
        partial(_times, matrix.astype(dtype, copy=False)),
        partial(_plus, np.asarray(shift, dtype=dtype)),
        (matrix.shape[1],),
        dtype,
    )


def _times(matrix: Array, rows: Any, columns: slice) -> Array:
    return np.asarray(rows @ matrix[columns])


def _plus(shift: Array, total: Array) -> Array:
    return total + shift


def lazy_rows(
    x: Any,
    part: Callable[[Any, slice], Array],
    finish: Callable[[Array], Array],
    shape: tuple[int, ...],
    dtype: Any,
) -> Any:
    """Give a Dask array made of parts that add up over blocks of columns.

    Parameters
    ----------
    x : Dask array or data frame
    part : function
        Takes a block, dense or sparse, and which columns it has; gives as many rows.
    finish : function
        Takes the sum of the parts.
    shape : tuple
        Shape of what `finish` gives for one row.
    dtype : dtype
        Type of the blocks that `part` takes, and of the result.
    """
    array = x.to_dask_array() if is_frame(x) else x
    total, start = None, 0
    for j, width in enumerate(array.chunks[1]):
        columns = slice(start, start + width)
        start = columns.stop
        new = array.blocks[:, j].map_blocks(
            partial(_on_rows, part, columns, dtype),
            dtype=dtype,
            chunks=(array.chunks[0], (part(np.empty((0, width), dtype), columns).shape[1],)),
            meta=np.empty((0, 0), dtype),
        )
        total = new if total is None else total + new
    assert total is not None  # a table has columns, which has been checked
    return total.map_blocks(
        finish,
        dtype=dtype,
        chunks=(array.chunks[0], *((size,) for size in shape)),
        drop_axis=[] if shape else [1],
        meta=np.empty((0,) * (1 + len(shape)), dtype),
    )


def _on_rows(part: Any, columns: slice, dtype: Any, block: Any) -> Array:
    return np.asarray(part(as_rows(block, dtype), columns))

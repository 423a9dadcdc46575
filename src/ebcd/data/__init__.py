"""What a fit can be given: data matrices, covariances and statistics behind one interface."""

from ebcd.data._budget import Budget, check_memory
from ebcd.data._chunks import Chunks, Reader
from ebcd.data._covariance import AbstractCovariance, CovarianceMatrix, LowRank
from ebcd.data._dask import DaskCovariance, from_dask, header, is_dask, working_dtype
from ebcd.data._dask_lazy import lazy_linear, lazy_rows
from ebcd.data._gram import Gram, NotFiniteError
from ebcd.data._inputs import (
    Input,
    as_chunks,
    as_covariance,
    check_covariance,
    comes_in_chunks,
    from_chunks,
    from_covariance,
    from_gram,
    from_matrix,
    refuse_queries,
)
from ebcd.data._matrix import DataMatrix, checked_sparse, column_moments, is_sparse, is_tall
from ebcd.data._progress import Progress
from ebcd.data._slot import AbstractSlot, NoSlot, Slots, no_slots
from ebcd.data._streamed import StreamedCovariance, map_rows

__all__ = [
    "AbstractCovariance",
    "AbstractSlot",
    "Budget",
    "Chunks",
    "CovarianceMatrix",
    "DaskCovariance",
    "DataMatrix",
    "Gram",
    "Input",
    "LowRank",
    "NoSlot",
    "NotFiniteError",
    "Progress",
    "Reader",
    "Slots",
    "StreamedCovariance",
    "as_chunks",
    "as_covariance",
    "check_covariance",
    "check_memory",
    "checked_sparse",
    "column_moments",
    "comes_in_chunks",
    "from_chunks",
    "from_covariance",
    "from_dask",
    "from_gram",
    "from_matrix",
    "header",
    "is_dask",
    "is_sparse",
    "is_tall",
    "lazy_linear",
    "lazy_rows",
    "map_rows",
    "no_slots",
    "refuse_queries",
    "working_dtype",
]

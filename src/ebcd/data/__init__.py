"""What a fit can be given: data matrices, covariances and statistics behind one interface."""

from ebcd.data._chunks import Chunks
from ebcd.data._covariance import (
    AbstractCovariance,
    CovarianceMatrix,
    DataCovariance,
    working_unit,
)
from ebcd.data._gram import Gram
from ebcd.data._inputs import (
    Input,
    as_input,
    as_rows,
    check_covariance,
    column_moments,
    comes_in_chunks,
    from_covariance,
    from_matrix,
    is_dask,
    real_matrix,
    refuse_queries,
)
from ebcd.data._moments import as_dense, check_finite, checked_sparse, has_holes, is_sparse
from ebcd.data._observed import Observed
from ebcd.data._rows import AbstractRows, Memory, Reading, check_memory, times
from ebcd.data._streamed import PassPrinter

__all__ = [
    "AbstractCovariance",
    "AbstractRows",
    "Chunks",
    "CovarianceMatrix",
    "DataCovariance",
    "Gram",
    "Input",
    "Memory",
    "Observed",
    "PassPrinter",
    "Reading",
    "as_dense",
    "as_input",
    "as_rows",
    "check_covariance",
    "check_finite",
    "check_memory",
    "checked_sparse",
    "column_moments",
    "comes_in_chunks",
    "from_covariance",
    "from_matrix",
    "has_holes",
    "is_dask",
    "is_sparse",
    "real_matrix",
    "refuse_queries",
    "times",
    "working_unit",
]

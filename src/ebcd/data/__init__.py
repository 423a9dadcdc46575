"""What a fit can be given: data matrices, covariances and statistics behind one interface."""

from ebcd.data._covariance import AbstractCovariance, CovarianceMatrix, LowRank
from ebcd.data._dask import DaskCovariance, from_dask, header, is_dask, working_dtype
from ebcd.data._dask_lazy import lazy_linear, lazy_rows
from ebcd.data._gram import Gram
from ebcd.data._inputs import Input, check_covariance, from_covariance, from_gram, from_matrix
from ebcd.data._matrix import DataMatrix, column_moments, is_sparse

__all__ = [
    "AbstractCovariance",
    "CovarianceMatrix",
    "DaskCovariance",
    "DataMatrix",
    "Gram",
    "Input",
    "LowRank",
    "check_covariance",
    "column_moments",
    "from_covariance",
    "from_dask",
    "from_gram",
    "from_matrix",
    "header",
    "is_dask",
    "is_sparse",
    "lazy_linear",
    "lazy_rows",
    "working_dtype",
]

"""What a fit can be given: data matrices, covariances and statistics behind one interface."""

from ebcd.data._covariance import AbstractCovariance, CovarianceMatrix, LowRank
from ebcd.data._gram import Gram
from ebcd.data._inputs import Input, check_covariance, from_covariance, from_gram, from_matrix
from ebcd.data._matrix import DataMatrix, column_moments, is_sparse

__all__ = [
    "AbstractCovariance",
    "CovarianceMatrix",
    "DataMatrix",
    "Gram",
    "Input",
    "LowRank",
    "check_covariance",
    "column_moments",
    "from_covariance",
    "from_gram",
    "from_matrix",
    "is_sparse",
]

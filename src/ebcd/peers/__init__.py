"""Sparse PCA and matrix factorization methods of others, with the same conventions as `EBCD`."""

from ebcd.peers._ebmf import EBMF
from ebcd.peers._ebpca import EBPCA
from ebcd.peers._gpower import GPower
from ebcd.peers._itspca import ITSPCA
from ebcd.peers._spc import SPC
from ebcd.peers._uslpca import USLPCA

__all__ = ["EBMF", "EBPCA", "ITSPCA", "SPC", "USLPCA", "GPower"]

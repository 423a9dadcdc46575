"""Sparse PCA and matrix factorisation methods of others, with the same conventions as `EBCD`."""

from ebcd.peers._ebmf import EBMF
from ebcd.peers._ebpca import EBPCA

__all__ = ["EBMF", "EBPCA"]

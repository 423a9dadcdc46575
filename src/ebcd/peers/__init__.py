"""Sparse PCA and matrix factorisation methods of others, with the same conventions as `EBCD`."""

from ebcd.peers._spc import SPC

__all__ = ["SPC"]

"""Sparse PCA and matrix factorisation methods of others, with the same conventions as `EBCD`."""

from ebcd.peers._ebmf import EBMF

__all__ = ["EBMF"]

"""Penalties on loadings: values and proximal maps."""

from ebcd.penalties._concave import L0, MCP, SCAD
from ebcd.penalties._convex import L1, ElasticNet, NonNegative, NoPenalty
from ebcd.penalties._penalty import AbstractPenalty
from ebcd.penalties._registry import PENALTIES, as_penalty, make_penalty

__all__ = [
    "L0",
    "L1",
    "MCP",
    "PENALTIES",
    "SCAD",
    "AbstractPenalty",
    "ElasticNet",
    "NoPenalty",
    "NonNegative",
    "as_penalty",
    "make_penalty",
]

"""Penalties on loadings: values and proximal maps."""

from ebcd.penalties._penalties import (
    L0,
    L1,
    MCP,
    PENALTIES,
    SCAD,
    AbstractPenalty,
    ElasticNet,
    NonNegative,
    NoPenalty,
    as_penalty,
    make_penalty,
)

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

"""Special functions for compiled loops, and the working memory in which these are evaluated.

Loops are simple enough for the compiler to work on four entries at once: functions are polynomials,
and logarithms are taken of products.
"""

from __future__ import annotations

import math

import numpy as np

from ebcd._numerics import Array
from ebcd.priors._jit import compiled, summing

BLOCK = 256  # entries
# Rows of the working memory.
Z, RATE, COUNT, BITS, ODDS, INNER, FIRST, SECOND = range(0, 8 * BLOCK, BLOCK)

# R(t) (t + 4) of the Mills ratio R for t >= 0 is a polynomial of u = (t - 4) / (t + 4), highest
# power first: the Chebyshev series, computed with 50 digits, up to its terms of 1e-16.
_MILLS_CENTRE = 4.0
_MILLS = np.array(
    [
        -3.0073979672229866e-10,
        -4.232837128667457e-09,
        -1.4722998923842006e-09,
        4.0274966446676125e-08,
        4.4730600514526726e-08,
        -1.9748120792726717e-07,
        -4.004939292512038e-07,
        6.635890483495421e-07,
        2.568755311229751e-06,
        -1.5665301434775431e-06,
        -1.484327767908031e-05,
        1.7912419621396896e-06,
        8.809573121072339e-05,
        -4.781834677436327e-06,
        -0.0005792693046478719,
        0.0003342443649391365,
        0.004087855681200072,
        -0.008722295248200037,
        -0.018900450861711257,
        0.1513917623110474,
        -0.4675409629983325,
        0.9704095548676177,
        -1.5237709108199835,
        1.8932190633084853,
    ]
)
_LOG_2 = math.log(2.0)
_LOG_2_HIGH = 0.6931471803691238  # its last bits are zero, so that multiples are exact
_LOG_2_LOW = 1.9082149292705877e-10
_EXP = np.array([1 / math.factorial(power) for power in range(13, -1, -1)])
_EXPONENT_BIAS = 1023
_MANTISSA_BITS = 52
_MANTISSA = (1 << _MANTISSA_BITS) - 1
_ONE = _EXPONENT_BIAS << _MANTISSA_BITS


@compiled
def load(
    z: Array, s: Array, counts: Array, column: int, start: int, rate: float, work: Array
) -> int:
    """Bring a block of a column into the working memory; return its length."""
    n = min(BLOCK, z.shape[1] - start)
    row, count_row = min(column, z.shape[0] - 1), min(column, counts.shape[0] - 1)
    step, count_step = min(1, s.shape[1] - 1), min(1, counts.shape[1] - 1)
    for j in range(n):
        at = start + j
        work[Z + j] = z[row, at]
        work[RATE + j] = rate * s[0, at * step]
        work[COUNT + j] = counts[count_row, at * count_step]
    return n


@compiled
def mills(t: float) -> float:
    """Mills ratio of ``t >= 0``."""
    u = (t - _MILLS_CENTRE) / (t + _MILLS_CENTRE)
    value = 0.0
    for i in range(_MILLS.size):
        value = value * u + _MILLS[i]
    return value / (t + _MILLS_CENTRE)


@compiled
def exponentials(n: int, row: int, work: Array, bits: Array) -> None:
    """Replace what is in the row by its exponential; between -700 and 700."""
    for j in range(n):
        power = np.rint(work[row + j] * (1 / _LOG_2))
        rest = (work[row + j] - power * _LOG_2_HIGH) - power * _LOG_2_LOW
        value = 0.0
        for i in range(_EXP.size):
            value = value * rest + _EXP[i]
        work[row + j] = value
        bits[BITS + j] = (np.int64(np.int32(power)) + _EXPONENT_BIAS) << _MANTISSA_BITS
    for j in range(n):
        work[row + j] *= work[BITS + j]


@summing
def sum_of_logarithms(n: int, row: int, work: Array, bits: Array, counted: bool) -> float:
    """Sum of the logarithms of a row, as that of the product of the mantissas; uses it up."""
    total = 0.0
    if counted:
        for j in range(n):
            total += work[COUNT + j] * math.log(work[row + j])
        return total
    exponent = 0
    for j in range(n):
        exponent += bits[row + j] >> _MANTISSA_BITS
        bits[row + j] = (bits[row + j] & _MANTISSA) | _ONE
    product = 1.0
    for j in range(n):
        product *= work[row + j]
    return (exponent - n * _EXPONENT_BIAS) * _LOG_2 + math.log(product)

"""Numbers that steer how data are read and multiplied. Results do not depend on them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DataSettings:
    """Sizes, each with its reason."""

    # Entries worked on at once: 2 MB stay in the cache from one step to the next.
    piece: int = 250_000
    # Rows worked on at once, at least, so that p x k sums are few beside the data, and rows for
    # each column, so that p x p sums are.
    fewest_rows: int = 64
    rows_per_column: float = 0.25
    # Entries up to which data are copied, centered and scaled: operators would cost more.
    small: int = 1_000_000
    # Entries up to which rows are copied (80 MB) to see whether they have equal variances.
    compared: int = 10_000_000
    # Features up to which one pass for a covariance matrix (200 MB) beats a pass a product.
    moderate: int = 5_000
    # Products a fit needs for each component, roughly; a covariance matrix must be cheaper.
    expected_products: int = 60
    # Operations (0.1 s) up to which eigenvectors are computed exactly.
    exact_operations: int = 200_000_000
    # Bytes read from chunks at once unless memory is short.
    read: int = 16_000_000
    # Density up to which products of sparse matrices beat dense ones.
    mostly_zero: float = 0.05
    # What fits were seen to take: bytes beside arrays, arrays that are p long for each component
    # and what goes with it, and copies of a covariance matrix or a chunk (as it was read, as
    # numbers, and what a product makes of it).
    fixed_bytes: int = 12_000_000
    columns_per_component: int = 36
    copies: int = 3


SETTINGS = DataSettings()

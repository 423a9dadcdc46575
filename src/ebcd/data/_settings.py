"""Numbers that steer how data are read and multiplied. Results do not depend on them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DataSettings:
    """Sizes, each with its reason."""

    # Entries worked on at once: 2 MB stay in the cache from one step to the next.
    piece: int = 250_000
    # Rows worked on at once, at least, so that p x k sums are few beside the data.
    fewest_rows: int = 64
    # Entries up to which data are copied, centred and scaled: operators would cost more.
    small: int = 1_000_000
    # Features up to which one pass for a covariance matrix (200 MB) beats a pass a product.
    moderate: int = 5_000
    # Products a fit needs for each component, roughly; a covariance matrix must be cheaper.
    expected_products: int = 60
    # Operations (0.1 s) up to which eigenvectors are computed exactly, and the size of a matrix in
    # memory for which that is as fast.
    exact_operations: int = 200_000_000
    exact_features: int = 400
    # Features up to which a covariance in memory is factorised.
    factor_features: int = 200
    # Bytes read from chunks at once unless memory is short.
    read: int = 16_000_000
    # Density up to which products of sparse matrices beat dense ones.
    mostly_zero: float = 0.05
    # Dask. Columns up to which cross-products (2 MB a block) are always added up, so that one pass
    # is enough; columns (128 MB) up to which they are unless the blocks are much smaller, that is,
    # have fewer rows than a share of the columns; and entries of blocks side by side that may be
    # put together for that.
    few_columns: int = 512
    many_columns: int = 4_000
    rows_per_column: float = 0.25
    widest_row: int = 2**26
    # Dask. Answers added up by one task, bytes too many to be sent with every task, and how often
    # a product is tried when workers are lost.
    fan_in: int = 8
    broadcast_bytes: int = 4_000_000
    attempts: int = 3


SETTINGS = DataSettings()

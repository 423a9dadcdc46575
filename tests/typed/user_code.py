"""Code of a user, which mypy reads and nobody runs: what would not work is reported."""

from typing import Any, assert_type

import ebcd
from ebcd.peers import EBMF


class Louder(ebcd.EBCD):
    """An estimator of a user, with a parameter of its own."""

    def __init__(self, n_components: int | str = "auto", *, factor: float = 1.0) -> None:
        super().__init__(n_components)
        self.factor = factor


def right(X: Any) -> None:
    """Fit in ways that work."""
    assert_type(ebcd.EBCD(3, prior="point_laplace", tol=1e-3).fit(X), ebcd.EBCD)
    assert_type(EBMF(2).fit(X), EBMF)
    assert_type(Louder(2, factor=3.0).fit(X), Louder)
    ebcd.PenalizedPCA(2, alpha=[1.0, 2.0]).set_output(transform="pandas")


def wrong(X: Any) -> None:
    """Fit in ways that do not."""
    ebcd.EBCD(3, priors="normal")  # type: ignore[call-arg]
    ebcd.EBCD(3, "normal")  # type: ignore[call-arg]
    ebcd.EBCD(3, center="yes")  # type: ignore[arg-type]
    ebcd.PenalizedPCA()  # type: ignore[call-arg]
    ebcd.EBCD().fit(X, samples=3)  # type: ignore[call-arg]

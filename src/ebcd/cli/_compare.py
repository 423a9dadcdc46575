"""Prior families and other methods on the same data."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table as Grid

import ebcd
from ebcd._lookup import unknown_name
from ebcd.cli._progress import Display
from ebcd.data.files._table import Table
from ebcd.peers import EBMF, EBPCA, ITSPCA, SPC, USLPCA, GPower

FAMILIES = ("point_laplace", "point_normal", "laplace", "normal", "horseshoe", "point_exponential")
SLOW_FAMILIES = ("normal_scale_mixture", "unimodal", "npmle")
PEERS: dict[str, Callable[..., Any]] = {
    "PCA": lambda k, **o: ebcd.PenalizedPCA(k, penalty="none", start="svd", max_iter=1, **o),
    "SPC": SPC,
    "GPower": GPower,
    "ITSPCA": ITSPCA,
    "USLPCA": USLPCA,
    "EBMF": EBMF,
    "EBPCA": EBPCA,
}
METHODS = (*FAMILIES, *PEERS)
_LEGEND = """
variance: share of the total variance; features used: loadings of each component that are not
zero, or have a clear sign (lfsr < 0.05); ELBO: bound on the log-likelihood, comparable between
prior families of EBCD only, where more flexible ones reach higher values"""


@dataclass(frozen=True)
class Outcome:
    """What one method found; `trouble` is its error or warning."""

    method: str
    kind: str
    n_components: int | None = None
    explained_variance_ratio: float | None = None
    n_nonzero: list[int] | None = None
    elbo: float | None = None
    seconds: float | None = None
    trouble: str | None = None


def check_methods(methods: list[str], slow: bool) -> list[str]:
    """Check names of methods; without any, return the usual ones, and the slow ones if wanted."""
    known = {name.lower(): name for name in (*METHODS, *ebcd.priors.PRIORS)}
    for method in methods:
        if method.lower() not in known:
            raise unknown_name("method", method, list(known.values()))
    usual = (*FAMILIES, *SLOW_FAMILIES, *PEERS) if slow else METHODS
    return [known[method.lower()] for method in methods] or list(usual)


def compare(
    table: Table,
    n_samples: int | None,
    n_components: int | str,
    center: bool,
    methods: list[str],
    shown: Display,
) -> Iterator[Outcome]:
    """Fit one method after the other, with the same number of components.

    `n_components="auto"` is settled by `EBCD` with its default prior.
    """
    shown.stage("fitting point_laplace")
    began = time.monotonic()
    first = _fitted(ebcd.EBCD(n_components, center=center), table, n_samples)
    if first.n_components_ == 0:
        raise ValueError("no component stands out from noise; give a number of them with -k")
    k = first.n_components_ if isinstance(n_components, str) else n_components
    reference = _outcome("point_laplace", "EBCD", first, time.monotonic() - began)
    for method in methods:
        if method == "point_laplace":
            yield reference
            continue
        shown.stage(f"fitting {method}")
        kind = "other" if method in PEERS else "EBCD"
        make: Callable[..., Any] = PEERS.get(method, partial(ebcd.EBCD, prior=method))
        if method == "USLPCA":  # which needs a number of loadings
            make = partial(make, n_nonzero=max(int((first.lfsr_ < 0.05).sum()), k))
        began = time.monotonic()
        try:
            model = _fitted(make(k, center=center), table, n_samples)
        except (ValueError, TypeError, AttributeError, np.linalg.LinAlgError) as error:
            yield Outcome(method, kind, trouble=" ".join(str(error).split()))
        else:
            yield _outcome(method, kind, model, time.monotonic() - began)


def _fitted(model: Any, table: Table, n_samples: int | None) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the table shows what was found
        if n_samples is None:
            return model.fit(table.values)
        if not hasattr(model, "fit_covariance"):
            raise ValueError("needs data, a covariance is not enough")
        return model.fit_covariance(table.values, n_samples)


def _outcome(method: str, kind: str, model: Any, seconds: float) -> Outcome:
    used = model.lfsr_ < 0.05 if hasattr(model, "lfsr_") else model.components_ != 0
    ratio = getattr(model, "explained_variance_ratio_", None)
    return Outcome(
        method,
        kind,
        n_components=len(model.components_),
        explained_variance_ratio=None if ratio is None else float(np.sum(ratio)),
        n_nonzero=[int(count) for count in used.sum(axis=1)],
        elbo=float(model.elbo_) if kind == "EBCD" else None,  # other bounds are not comparable
        seconds=seconds,
        trouble="did not converge" if getattr(model, "converged_", True) is False else None,
    )


def print_outcomes(outcomes: list[Outcome]) -> None:
    """Print a table."""
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    grid.add_column("method", no_wrap=True)
    for title in ("components", "variance", "features used", "ELBO", "seconds"):
        grid.add_column(title, justify="right")
    for outcome in outcomes:
        name = f"EBCD {outcome.method}" if outcome.kind == "EBCD" else outcome.method
        if outcome.n_components is None:
            grid.add_row(name, f"[dim]{outcome.trouble}[/dim]")
            continue
        share, elbo = outcome.explained_variance_ratio, outcome.elbo
        grid.add_row(
            name,
            str(outcome.n_components),
            "" if share is None else f"{100 * share:.1f} %",
            ", ".join(map(str, outcome.n_nonzero or [])),
            "" if elbo is None else f"{elbo:.2f}",
            f"{outcome.seconds:.2f}",
        )
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    with console.capture() as text:
        console.print(grid)
    typer.echo(text.get() + _LEGEND)

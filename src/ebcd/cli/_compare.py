"""Prior families and other methods fitted to the same data."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid
from typer.core import TyperCommand

import ebcd
from ebcd._parameters import printable, unknown_name
from ebcd._store import replacing
from ebcd.cli._data import Prepared, remarks
from ebcd.cli._progress import Display
from ebcd.data import has_holes
from ebcd.data.files._table import describe_missing
from ebcd.estimators._compare_priors import FAMILIES as USUAL_PRIORS
from ebcd.estimators._compare_priors import WORTHWHILE, best_prior
from ebcd.estimators._readable import CLEAR_SIGN
from ebcd.peers import EBMF, EBPCA, ITSPCA, SPC, USLPCA, GPower
from ebcd.priors._family import PRIORS, as_prior
from ebcd.report._page import table_page

FAMILIES = ("point_laplace", "point_normal", "laplace", "normal", "horseshoe", "point_exponential")
SLOW_FAMILIES = ("normal_scale_mixture", "unimodal", "npmle")
PEERS: dict[str, Callable[..., Any]] = {
    "PCA": lambda k, **o: ebcd.PenalizedPCA(k, penalty="none", start="svd", **o),
    "SPC": SPC,
    "GPower": GPower,
    "ITSPCA": ITSPCA,
    "USLPCA": USLPCA,
    "EBMF": EBMF,
    "EBPCA": EBPCA,
}
METHODS = (*FAMILIES, *PEERS)
_TITLES = ["method", "components", "variance", "features used", "ELBO", "seconds"]
_LEGEND = [
    (
        "variance: squared lengths of the components as a share of the total variance. EBCD (here "
        "with the scores of the paper), PCA and sparse PCA count the noise along their components "
        "as well. EBMF and EBPCA also shrink the scores and count only what they take for signal, "
        "so their shares are lower even if the components are similar"
    ),
    (
        "features used: loadings of each component that are not zero, or have a clear sign "
        f"(lfsr < {CLEAR_SIGN})"
    ),
    (
        "ELBO: bound on the log-likelihood, comparable only between prior families of EBCD; more "
        "flexible families reach higher values"
    ),
]
_BEST = (
    "best: the highest ELBO, or a family with fewer parameters within "
    f"{WORTHWHILE:g} nats of it; differences of a few nats are ties"
)


@dataclass(frozen=True)
class Outcome:
    """What one method found; `trouble` is what went wrong, if anything."""

    method: str
    kind: str
    n_components: int | None = None
    explained_variance_ratio: float | None = None
    n_nonzero: list[int] | None = None
    elbo: float | None = None
    seconds: float | None = None
    trouble: str | None = None
    best: bool | None = None  # of prior families; None if they do not compete


class CompareCommand(TyperCommand):
    """A command with an option ``--priors`` whose value may be left out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the usual families after ``--priors`` unless names of families follow it."""
        if "--priors" in args:
            after = args.index("--priors") + 1
            following = "".join(args[after : after + 1])
            if not re.fullmatch(r"[\w,]+", following) or Path(following).is_file():
                args = [*args[:after], ",".join(USUAL_PRIORS), *args[after:]]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


def check_methods(methods: list[str], slow: bool, priors: str | None) -> list[str]:
    """Check the names of methods, or of prior families only; return the usual ones without any."""
    if priors is not None and (methods or slow):
        raise ValueError("--priors compares prior families only; leave out --method and --all")
    names = methods if priors is None else priors.split(",")
    known = PRIORS if priors is not None else (*METHODS, *PRIORS)
    places = {name.lower(): name for name in known}
    for name in names:
        if name.lower() not in places:
            what = "method" if priors is None else "prior"
            raise unknown_name(what, name, list(places.values()))
    usual = (*FAMILIES, *SLOW_FAMILIES, *PEERS) if slow else METHODS
    return [places[name.lower()] for name in names] or list(usual)


def compare(
    data: Prepared,
    n_components: int | str,
    center: bool,
    methods: list[str],
    shown: Display,
    contest: bool,
) -> list[Outcome]:
    """Fit the methods, all with the number of components that `EBCD` uses.

    If it is a `contest` of prior families, say which is best.
    """
    others = [method for method in methods if method in PEERS and method != "EBMF"]
    if others and has_holes(data.table.values):
        raise ValueError(
            f"{', '.join(others)} need{'s' * (len(others) == 1)} all cells, but "
            f"{describe_missing(data.table)}, or compare prior families, which do not need them, "
            "with --priors"
        )
    shown.stage("fitting point_laplace")
    fits = {"point_laplace": _timed_fit(ebcd.EBCD(n_components, center=center), data)}
    first = fits["point_laplace"][0]
    if first.n_components_ == 0:
        raise ValueError("no component stands out from the noise; set their number with -k")
    k = first.n_components_ if isinstance(n_components, str) else n_components
    outcomes = []
    for method in methods:
        if method != "point_laplace":
            shown.stage(f"fitting {method}")
            make: Callable[..., Any] = PEERS.get(method, partial(ebcd.EBCD, prior=method))
            if method == "USLPCA":  # which needs a number of loadings
                used = sum(int(first._used(i)[0].sum()) for i in range(first.n_components_))
                make = partial(make, n_nonzero=max(used, k))
            try:
                fits[method] = _timed_fit(make(k, center=center), data)
            except (ValueError, TypeError, AttributeError, np.linalg.LinAlgError) as error:
                kind = "other" if method in PEERS else "EBCD"
                outcomes.append(Outcome(method, kind, trouble=" ".join(str(error).split())))
                continue
        outcomes.append(_outcome(method, *fits[method]))
    if not contest:
        return outcomes
    models = {method: fits[method][0] for method in methods if method in fits}
    best = best_prior(models, {method: as_prior(method) for method in models})
    return [replace(one, best=one.method == best) for one in outcomes]


def _timed_fit(model: Any, data: Prepared) -> tuple[Any, float]:
    began = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the table shows what was found
        data.fit(model)
    return model, time.monotonic() - began


def _outcome(method: str, model: Any, seconds: float) -> Outcome:
    ours = isinstance(model, ebcd.EBCD)
    return Outcome(
        method,
        "EBCD" if ours else "other",
        n_components=len(model.components_),
        explained_variance_ratio=float(model.explained_variance_ratio_.sum()),
        n_nonzero=[int(model._used(k)[0].sum()) for k in range(len(model.components_))],
        elbo=float(model.elbo_) if ours else None,  # other bounds are not comparable
        seconds=seconds,
        trouble=None if getattr(model, "converged_", True) else "did not converge",
    )


def _name(outcome: Outcome) -> str:
    return f"EBCD {outcome.method}" if outcome.kind == "EBCD" else outcome.method


def _cells(outcome: Outcome) -> list[str]:
    name = _name(outcome) + (" (best)" if outcome.best else "")
    share, elbo = outcome.explained_variance_ratio, outcome.elbo
    if share is None:
        return [name, *["-"] * (len(_TITLES) - 1)]
    return [
        name,
        str(outcome.n_components),
        f"{100 * share:.1f} %",
        ", ".join(map(str, outcome.n_nonzero or [])),
        "" if elbo is None or np.isnan(elbo) else f"{elbo:.2f}",
        f"{outcome.seconds:.2f}",
    ]


def print_outcomes(outcomes: list[Outcome]) -> None:
    """Print a table."""
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    grid.add_column(_TITLES[0], no_wrap=True)
    for title in _TITLES[1:]:
        grid.add_column(title, justify="right")
    for outcome in outcomes:
        grid.add_row(*map(escape, _cells(outcome)))
    console = Console(width=None if Console().is_terminal else 160)
    with console.capture() as text:
        console.print(grid)
    typer.echo(f"{text.get()}\n" + "\n".join(fill(line, 96) for line in _legend(outcomes)))


def _legend(outcomes: list[Outcome]) -> list[str]:
    troubles = [f"{_name(one)}: {one.trouble}" for one in outcomes if one.trouble]
    words = _LEGEND if outcomes[0].best is None else [*_LEGEND[1:], _BEST]
    return [*troubles, *words]


def write_outcomes(outcomes: list[Outcome], data: Prepared, name: str, path: Path) -> None:
    """Write the table as a page, with what was done to the data and what the columns mean."""
    notes = remarks(data.warnings, data.steps.words(), data.table.notes)
    rows = [_TITLES, *map(_cells, outcomes)]
    legend = [f"{line[:1].upper()}{line[1:]}." for line in _legend(outcomes)]
    path.parent.mkdir(parents=True, exist_ok=True)
    what = "Methods" if outcomes[0].best is None else "Priors"
    title = printable(f"{what} compared on {name}")
    with replacing(path) as file:
        file.write(table_page(title, notes, rows, legend).encode())

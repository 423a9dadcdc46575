"""Write the report of a fitted model: the page, and a short version as Markdown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ebcd._store import replacing
from ebcd.data import Gram
from ebcd.plots._style import check_model
from ebcd.report import _words
from ebcd.report._background import Background, checked_groups
from ebcd.report._facts import LISTED, Facts
from ebcd.report._page import as_page

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&])")  # what Markdown takes for markup


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    *,
    X: Any = None,
    scores: Any = None,
    row_names: Any = None,
    feature_names: Any = None,
    title: str | None = None,
    source: str | None = None,
    bootstrap_intervals: Any = None,
    bootstrap_method: str = "parametric",
    notes: Iterable[str] = (),
    standardized: bool = False,
    color_by: Any = None,
    stability: Any = None,
    stability_method: str = "random",
    background: Background | None = None,
) -> Path:
    """Write the results of a model to a page for any browser, and as Markdown next to it.

    Loadings have the 95% intervals of `credible_intervals`. The page needs neither a network nor
    other files. It stays below 5 MB: beyond 400,000 loadings, it keeps only the features with
    the largest loadings, and says so.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this package. The report says which parts (uncertainties, priors) it
        leaves out because the method does not have them.
    path : path-like
        File to write, for example ``report.html``; the Markdown has the suffix ``.md`` instead.
        Existing files are replaced once both new ones are complete.
    X : array-like, sparse matrix or data frame, optional
        The data, for scores and for the variance explained by principal components; the index of a
        data frame names the rows.
    scores : array-like of shape (n, k), optional
        Scores, if already known.
    row_names : sequence of length n, optional
        Names of the rows of the scores. If they are dates, scores are drawn over time.
    feature_names : sequence of length p, optional
        Names of the features; by default those seen in `fit`, or x0, x1 and so on.
    title, source : str, optional
        Heading of the report, and the source of the data.
    bootstrap_intervals : array-like of shape (2, k, p), optional
        Ends of 95% intervals to show in place of `credible_intervals`, as returned by
        ``model.bootstrap().intervals()``.
    bootstrap_method : {"parametric", "rows"}, default "parametric"
        How the data of these intervals were drawn, which the report says.
    notes : sequence of str, optional
        Sentences for the top of the report: how the data were prepared, and warnings.
    standardized : bool, default False
        Whether the features were divided by their standard deviations before the fit; the report
        then says that loadings are in standard deviations. Not needed with ``scale=True``: loadings
        and shares of the variance in the report are then those of the scaled features.
    color_by : array-like of length n, or mapping of names to such, optional
        A number or a category for each row of the scores, to color and label the points of the
        biplot by; if there are several, the page lets you choose.
    stability : array-like of length k, optional
        The result of ``model.stability(X)``, shown beside each component.
    stability_method : {"random", "blocks"}, default "random"
        Its `method`, which the report says.
    background : Background, optional
        What the report says about the data and about principal components, if already known; by
        default it is computed from `X`.

    Returns
    -------
    pathlib.Path
        The page that was written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from ebcd import EBCD, datasets
    >>> from ebcd.report import write_report
    >>> jobs = datasets.load_us_employment()
    >>> growth = np.diff(np.log(jobs.data), axis=0)
    >>> model = EBCD(3, scale=True).fit(growth)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_report(
    ...         model,
    ...         Path(folder) / "report.html",
    ...         X=growth,
    ...         row_names=jobs.dates[1:],
    ...         feature_names=jobs.feature_names,
    ...     )
    ...     sorted(file.name for file in page.parent.iterdir())
    ['report.html', 'report.md']
    """
    check_model(model)
    target = Path(path)
    if target.suffix == ".md":
        raise ValueError(f"path must name the page, for example report.html, got {target}")
    # the places are checked first, and files appear only when both are complete
    with replacing(target.with_suffix(".md")) as text, replacing(target) as page:
        if X is not None:
            if scores is None and not isinstance(X, Gram):
                scores = model.transform(X)
            if row_names is None:
                row_names = _index_of(X, scores)
            if background is None:
                background = Background.of(model, X)
        rows = None if scores is None else len(scores)
        if color_by is not None:
            background = replace(background or Background(), groups=checked_groups(color_by, rows))
        facts = Facts(
            model,
            scores=scores,
            row_names=row_names,
            feature_names=feature_names,
            title=title,
            source=source,
            intervals=bootstrap_intervals,
            drawn=bootstrap_method,
            notes=notes,
            standardized=standardized,
            background=background,
            stability=stability,
            halves=stability_method,
        )
        text.write(_as_markdown(facts).encode())
        page.write(as_page(facts).encode())
    return target


def _index_of(X: Any, scores: Any) -> list[Any] | None:
    """Return the index of a data frame, unless it only counts the rows."""
    if scores is None or not (hasattr(X, "index") and hasattr(X, "columns")):
        return None
    labels = list(X.index)
    return None if labels == list(range(len(labels))) else labels


def _as_markdown(facts: Facts) -> str:
    """Write the report as Markdown."""
    parts = [f"# {_plain(facts.title)}"]
    if facts.source:
        parts.append(f"Source: {_plain(facts.source)}")
    parts += ["## The data", _list([*facts.notes, *_words.data(facts)])]
    parts += ["## What was fitted", _plain(_words.opening(facts))]
    if facts.n_components:
        parts += ["## What was found", *(_plain(line) for line in _words.reading(facts))]
        for k, (heading, sentences) in enumerate(_words.findings(facts)):
            parts += [f"### {_plain(heading)}", _plain(" ".join(sentences))]
            parts.append(_top_features(facts, k))
        parts += ["## Explained variance", _variance(facts)]
    if facts.curves:
        parts += [
            "## Fitted priors",
            _list(f"component {k + 1}: {curve.words}" for k, curve in enumerate(facts.curves)),
        ]
    rows = [[_plain(key), _plain(value)] for key, value in facts.results.items()]
    parts += ["## The fit", _table(["setting", "value"], rows)]
    if missing := _words.left_out(facts):
        parts += ["## Not in this report", _list(missing)]
    return "\n\n".join(parts) + "\n"


def _plain(text: str) -> str:
    """Escape what Markdown would take for markup."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {_plain(line)}" for line in lines)


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _top_features(facts: Facts, k: int) -> str:
    order = np.argsort(-np.abs(facts.tables["loading"][k]), kind="stable")[:LISTED]
    rows = [
        [_plain(facts.names[j]), *(f"{values[k, j]:.4g}" for values in facts.tables.values())]
        for j in order
    ]
    return _table(["feature", *facts.tables], rows)


def _variance(facts: Facts) -> str:
    shares = {facts.method: facts.ratio}
    if facts.pca_ratio is not None:
        shares["PCA"] = facts.pca_ratio
    if facts.stability is not None:
        shares["found again"] = facts.stability
    rows = [
        [str(k + 1), *map(_words.percent, row)]
        for k, row in enumerate(zip(*shares.values(), strict=False))
    ]
    return _table(["component", *shares], rows)

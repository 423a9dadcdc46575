"""Sections of the page about optima, and about the data sets of the reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from experiments import optima
from experiments.markdown import HEADINGS, Values, number, table
from experiments.records import read_rows
from experiments.reference_results import of_reference
from experiments.simulations import MEASURES
from experiments.tables import LABELS

EXCESS = {"angle": "mean angle", "d_or": HEADINGS["d_or"], "d_cov": HEADINGS["d_cov"]}
SAME_OPTIMUM = 0.05  # nats


def reference(results: Path) -> Values:
    """Tables of the comparison on the data sets of the reference."""
    pairs: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for row in read_rows(results / "reference.csv"):
        key = row["setting"], row["method"], row["measure"]
        pairs.setdefault(key, []).append((float(row["ours"]), float(row["theirs"])))
    count = max(len(values) for values in pairs.values())
    values = {"count": str(count), **_optima(results)}
    values["excess"] = _excess_over_reference(pairs, "ebcd_pl")
    values["excess_greedy"] = _excess_over_reference(pairs, "ebcd_pl_greedy")
    for setting, measures in MEASURES.items():
        lines = []
        for name in LABELS:
            found = [pairs.get((str(setting), name, measure)) for measure in measures]
            if any(found):
                lines.append([LABELS[name], *(_pair(both) for both in found)])
        head = [f"Simulation {setting}", *(HEADINGS[measure] for measure in measures)]
        values[f"reference{setting}"] = table(head, lines)
    return values


def _pair(both: list[tuple[float, float]] | None) -> str:
    if not both:
        return ""
    ours, theirs = np.mean(both, axis=0)
    return f"{number(ours)} / {number(theirs)}"


def _optima(results: Path) -> Values:
    path = results / "reference_elbo.csv"
    rows = [row for row in read_rows(path) if row["theirs"]] if path.exists() else []
    gaps: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        gap = float(row["elbo"]) - float(row["theirs"])
        gaps.setdefault((row["setting"], row["method"]), {})[row["seed"]] = gap
    lines = []
    for (setting, method), found in sorted(gaps.items()):
        values = np.array(list(found.values()))
        counts = [values.size, (values > SAME_OPTIMUM).sum(), (values < -SAME_OPTIMUM).sum()]
        extremes = [f"{values.max():+.2f}", f"{values.min():+.2f}"]
        lines.append([setting, LABELS[method], *map(str, counts), *extremes])
    head = ["simulation", "method", "n", "higher", "lower", "largest", "smallest"]
    return {"optima": table(head, lines), "mirrors": _mirrors(results, gaps)}


def _mirrors(results: Path, gaps: dict[tuple[str, str], dict[str, float]]) -> str:
    pairs = {
        (row["seed"], row["measure"]): (float(row["ours"]), float(row["theirs"]))
        for row in read_rows(results / "reference.csv")
        if (row["setting"], row["method"]) == ("1", "ebcd_pl")
    }
    path = results / "reference_optima.csv"
    noise = {row["seed"]: float(row["noise"]) for row in (read_rows(path) if path.exists() else [])}
    names = [name for name in MEASURES[1] if pairs]
    lines = []
    for seed, gap in gaps.get(("1", "ebcd_pl"), {}).items():
        if abs(gap) > SAME_OPTIMUM:
            cells = [_pair([pairs[seed, name]]) for name in names]
            lines.append([seed, f"{gap:+.2f}", f"{noise.get(seed, np.nan):+.2f}", *cells])
    return table(["seed", "ELBO less R's", "noise", *(HEADINGS[name] for name in names)], lines)


def _excess_over_reference(
    pairs: dict[tuple[str, str, str], list[tuple[float, float]]], method: str
) -> str:
    """Say how much larger means of Simulation 1 are than those of the reference."""
    said = []
    for title, names in (("angles", ("d1", "d2")), ("d_or", ("d_or",)), ("d_cov", ("d_cov",))):
        values = [both for name in names for both in pairs.get(("1", method, name), [])]
        if values:
            ours, theirs = np.mean(values, axis=0)
            change = 100 * (ours / theirs - 1)
            said.append(f"{HEADINGS.get(title, 'mean of the angles')} {change:+.2f}")
    return ", ".join(said)


def mirrored_optima(results: Path) -> Values:
    """Compare the default start with the greedy one on further draws of Simulation 1."""
    further = _numbers(results / "optima.csv")
    apart = [line for line in further if line["gain"] > optima.DIFFERENT]
    swapped = [line for line in apart if line["swapped"]]
    gains = np.array([line["gain"] for line in apart] or [0.0])
    both = np.array([[line["noise"], line["gain"]] for line in swapped]).reshape(-1, 2)
    enough = len(both) > 2
    grows = sum(line["d_or"] > line["d_or_greedy"] for line in apart)
    groups = {"further draws": further}
    if (results / "reference_optima.csv").exists():
        groups["reference"] = _numbers(results / "reference_optima.csv")
    excess = optima.excess(further)
    return {
        "draws": str(len(further)),
        "differ": str(len(apart)),
        "smallest": f"{gains.min():.2f}",
        "median": f"{np.median(gains):.2f}",
        "largest": f"{gains.max():.2f}",
        "grows": str(grows),
        "swapped": str(len(swapped)),
        "correlation": f"{np.corrcoef(both.T)[0, 1]:.2f}" if enough else "not known",
        "noise": f"{both[:, 0].mean():.2f}" if enough else "not known",
        "gain": f"{both[:, 1].mean():.2f}" if enough else "not known",
        "excess": ", ".join(f"{title} {_spread(excess[name])}" for name, title in EXCESS.items()),
        "margins": _margins(groups),
    }


def _numbers(path: Path) -> list[dict[str, float]]:
    return [{key: float(cell) for key, cell in row.items()} for row in read_rows(path)]


def _margins(groups: dict[str, list[dict[str, float]]]) -> str:
    lines = []
    for name, pairs in groups.items():
        for margin in (0.0, *optima.MARGINS):
            found = optima.excess(pairs, margin)
            cells = [_spread(found[key]) for key in EXCESS]
            lines.append([name, f"{margin:g}", f"{found['moved']} of {len(pairs)}", *cells])
    return table(["data", "margin, nats", "higher by more", *EXCESS.values()], lines)


def _spread(found: tuple[float, float]) -> str:
    return f"{found[0]:+.2f} ± {found[1]:.2f}"


def times(results: Path) -> Values:
    """Put times beside those of PCA in the same run and of the reference."""
    seconds: dict[tuple[str, str], list[float]] = {}
    for row in read_rows(results / "reference_seconds.csv"):
        seconds.setdefault((row["setting"], row["method"]), []).append(float(row["seconds"]))
    lines, fast = [], []
    for (setting, name), values in sorted(seconds.items(), key=lambda item: item[0][0]):
        theirs = of_reference(int(setting), name.removesuffix("_greedy"), "mean")
        if theirs is not None:
            mean, pca = np.mean(values), np.mean(seconds.get((setting, "pca"), [np.nan]))
            ratio = float(theirs["seconds"]) / mean
            cells = [f"{mean:.4f}", f"{mean / pca:.1f}", theirs["seconds"], f"{ratio:.0f}"]
            lines.append([setting, LABELS[name], *cells])
            if name == "ebcd_pl":
                fast.append(
                    f"In Simulation {setting}, EBCD-pl takes {1e3 * mean:.0f} ms, PCA "
                    f"{1e3 * pca:.1f} ms and R {theirs['seconds']} s: 1/{ratio:.0f} of R's time."
                )
    head = ["simulation", "method", "seconds", "relative to PCA", "reference", "times faster"]
    return {"times": table(head, lines), "fast": " ".join(fast)}

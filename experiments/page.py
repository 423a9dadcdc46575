"""The page of the documentation, from the files of results and nothing else.

The words are in ``page_template.md``; this module fills in tables and numbers.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from experiments.records import read_json, read_rows
from experiments.simulations import MEASURES
from experiments.tables import LABELS, parse, summary

HERE = Path(__file__).parent
PAPER_PVE = {"PCA": (72.49, 11.91, 6.14), "EBCD-pl": (66.99, 16.35, 7.13)}
HEADINGS = {
    "d1": "$d_1$",
    "d2": "$d_2$",
    "d3": "$d_3$",
    "d_or": r"$d_{\mathrm{or}}$",
    "d_cov": r"$d_{\mathrm{cov}}$",
}
BESIDE_SPARSE_PCA = ("ebcd_pl", "ebmf_pl", "l1ppca", "sparse_pca_default", "sparse_pca_oracle")
SAME_OPTIMUM = 0.05  # nats
Values = dict[str, str]


def make_page(results: Path) -> str:
    """Give the sections for which there are results."""
    template = (HERE / "page_template.md").read_text(encoding="utf-8")
    sections = re.findall(r"^%% (\w+)\n(.*?)(?=^%% |\Z)", template, flags=re.DOTALL | re.MULTILINE)
    parts = []
    for name, text in sections:
        file, values_of = SECTIONS[name]
        if (results / file).exists():
            parts.append(filled(text, values_of(results)))
    return "\n".join(parts)


def filled(text: str, values: Values) -> str:
    """Put values in the places of their names."""
    text = re.sub(r"\[\[(\w+)\]\]", lambda found: values[found[1]], text)
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)


def table(head: list[str], lines: list[list[str]]) -> str:
    """Give a Markdown table."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def number(value: float) -> str:
    """Four digits after the point for angles, two for larger numbers."""
    if not np.isfinite(value):
        return ""
    return f"{value:.4f}" if abs(value) < 10 else f"{value:.2f}"


def percents(values: list[float]) -> str:
    """Give percentages as a list in words."""
    return ", ".join(f"{value:.2f}" for value in values)


def opening(results: Path) -> Values:
    """Where the results come from."""
    path = results / "machine.json"
    if not path.exists():
        return {"where": ""}
    m = read_json(path)
    versions = ", ".join(f"{name} {m[name]}" for name in ("ebcd", "numpy", "scipy", "scikit-learn"))
    return {
        "where": f"The results are of {m['date']}, on {m['cpu']} ({m['system']}), Python "
        f"{m['python']}, {versions}."
    }


def simulations(results: Path) -> Values:
    """Tables of means and medians, oracles and ranking."""
    rows = parse(read_rows(results / "simulations.csv"))
    lines = summary(rows)
    values = {"ranking": _ranking(rows), "same": _same_data_sets(rows), **_oracles(results)}
    for setting in MEASURES:
        here = [line for line in lines if line["setting"] == setting]
        for statistic in ("mean", "median"):
            values[f"{statistic}s{setting}"] = _errors(setting, here, statistic)
    return values


def _errors(setting: int, lines: list[dict[str, Any]], statistic: str) -> str:
    measures = MEASURES[setting]
    shown = []
    for line in lines:
        name = line["method"]
        cells = [number(line[measure][statistic]) for measure in measures]
        if statistic == "mean":
            errors = [number(line[measure]["se"]) for measure in measures]
            cells = [f"{a} ({b})" if b else a for a, b in zip(cells, errors, strict=True)]
        seconds = f"{line['seconds'][statistic]:.4f}"
        shown.append([LABELS[name], str(line["n"]), *cells, seconds])
        theirs = _theirs(setting, name, statistic)
        if theirs is not None:
            known = [number(float(theirs[measure])) for measure in measures]
            shown.append(["*reference*", "50", *known, theirs["seconds"]])
    return table(["method", "n", *(HEADINGS[name] for name in measures), "seconds"], shown)


def _same_data_sets(rows: list[dict[str, Any]]) -> str:
    """Put SparsePCA beside others on the data sets to which it was fitted."""
    measures = MEASURES[2]
    lines = []
    for setting in MEASURES:
        here = [row for row in rows if row["setting"] == setting]
        seeds = {row["seed"] for row in here if row["method"] == "sparse_pca_oracle"}
        for line in summary([row for row in here if row["seed"] in seeds]):
            if line["method"] in BESIDE_SPARSE_PCA:
                cells = [number(line[m]["mean"]) if m in line else "" for m in measures]
                lines.append([str(setting), LABELS[line["method"]], str(line["n"]), *cells])
    return table(["simulation", "method", "n", *(HEADINGS[m] for m in measures)], lines)


def _theirs(setting: int, name: str, statistic: str) -> dict[str, str] | None:
    for row in read_rows(HERE / "reference" / "r_simulations.csv"):
        if (row["setting"], row["method"], row["statistic"]) == (str(setting), name, statistic):
            return row
    return None


def _oracles(results: Path) -> Values:
    path = results / "grids.csv"
    grids = read_rows(path) if path.exists() else []
    said: Values = {}
    for key, method, measure in (("gpower", "gpower", "d_cov"), ("sparse", "sparse_pca", "angle")):
        chosen = []
        for setting in MEASURES:
            here = [r for r in grids if (r["method"], r["setting"]) == (method, str(setting))]
            if here:
                best = min(here, key=lambda row: float(row[measure]))
                chosen.append(f"{best['parameter']} in Simulation {setting}")
        said[key] = f"It is {' and '.join(chosen)}." if chosen else ""
    return said


def _ranking(rows: list[dict[str, Any]]) -> str:
    lines = []
    for setting, measures in MEASURES.items():
        for measure in measures:
            errors: dict[str, dict[int, float]] = {}
            for row in rows:
                if row["setting"] == setting and row["method"] != "ebcd_pl_greedy":
                    errors.setdefault(row["method"], {})[row["seed"]] = row[measure]
            if errors:
                lines.append([str(setting), HEADINGS[measure], *_ranked(errors)])
    ranks = ["first", "second", "third", "fourth", "fifth"]
    return table(["simulation", "measure", *ranks], lines)


def _ranked(errors: dict[str, dict[int, float]]) -> list[str]:
    most = max(len(values) for values in errors.values())
    whole = {
        name: np.array([values[seed] for seed in sorted(values)])
        for name, values in errors.items()
        if len(values) == most
    }
    order = sorted(whole, key=lambda name: float(whole[name].mean()))
    said = [LABELS[order[0]]]
    for name in order[1:5]:
        gap = whole[name] - whole[order[0]]
        error = gap.std(ddof=1) / np.sqrt(gap.size) if gap.size > 1 else np.nan
        said.append(f"{LABELS[name]} (+{number(gap.mean())} ± {number(error)})")
    return said + [""] * (5 - len(said))


def reference(results: Path) -> Values:
    """Tables of the comparison on the data sets of the reference."""
    pairs: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for row in read_rows(results / "reference.csv"):
        key = row["setting"], row["method"], row["measure"]
        pairs.setdefault(key, []).append((float(row["ours"]), float(row["theirs"])))
    count = max(len(values) for values in pairs.values())
    values = {"count": str(count), "times": _times(results), **_optima(results)}
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
    names = [name for name in MEASURES[1] if pairs]
    lines = []
    for seed, gap in gaps.get(("1", "ebcd_pl"), {}).items():
        if abs(gap) > SAME_OPTIMUM:
            lines.append([seed, f"{gap:+.2f}", *(_pair([pairs[seed, name]]) for name in names)])
    return table(["seed", "ELBO less R's", *(HEADINGS[name] for name in names)], lines)


def _times(results: Path) -> str:
    seconds: dict[tuple[str, str], list[float]] = {}
    for row in read_rows(results / "reference_seconds.csv"):
        seconds.setdefault((row["setting"], row["method"]), []).append(float(row["seconds"]))
    lines = []
    for (setting, name), values in sorted(seconds.items(), key=lambda item: item[0][0]):
        theirs = _theirs(int(setting), name.removesuffix("_greedy"), "mean")
        if theirs is not None:
            mean, pca = np.mean(values), np.mean(seconds.get((setting, "pca"), [np.nan]))
            ratio = float(theirs["seconds"]) / mean
            cells = [f"{mean:.4f}", f"{mean / pca:.1f}", theirs["seconds"], f"{ratio:.0f}"]
            lines.append([setting, LABELS[name], *cells])
    head = ["simulation", "method", "seconds", "in units of PCA", "reference", "times faster"]
    return table(head, lines)


def shrinkage(results: Path) -> Values:
    """How well operators and penalties belong together."""
    rows = read_rows(results / "shrinkage.csv")
    return {"gap": f"{max(float(row['largest_difference']) for row in rows):.0e}"}


def sectors(results: Path) -> Values:
    """Variance explained, and what the L1 penalty does."""
    found = read_json(results / "sectors.json")
    own = found["methods"]["L1, data-driven grid"]
    return {
        "source": found["source"],
        "rows": str(found["n_samples"]),
        "pve": _pve(found["methods"]),
        "grid": _grid(results, found["methods"]),
        "own_alpha": f"{own['alpha']:g}",
        "error_0": f"{own['cv_errors'][0]:.4e}",
        "error_1": f"{own['cv_errors'][4]:.4e}",
        "alpha_1": f"{own['alphas'][4]:.2g}",
    }


def _pve(methods: dict[str, Any]) -> str:
    lines = []
    for name, method in methods.items():
        cells = [f"{value:.2f}" for value in (*method["pve"], sum(method["pve"]))]
        strength = f"{method['alpha']:g}" if "alpha" in method else ""
        lines.append([name, *cells, str(method["zeros"]), strength])
    for name, pve in PAPER_PVE.items():
        cells = [f"{value:.2f}" for value in (*pve, sum(pve))]
        lines.append([f"*{name}, the paper's data*", *cells, "", ""])
    head = ["method", "PC 1", "PC 2", "PC 3", "together", "zero loadings", "strength chosen"]
    return table(head, lines)


def _grid(results: Path, methods: dict[str, Any]) -> str:
    groups = {
        "these returns, the paper's grid": methods["L1, the paper's grid"]["kept"],
        "these returns, data-driven grid": methods["L1, data-driven grid"]["kept"],
    }
    path = results / "covariance.json"
    if path.exists():
        groups["covariance of 11 sectors, the paper's grid"] = read_json(path)["kept"]
    lines = [
        [name, f"{r['alpha']:.3g}", str(r["n"]), f"{r['pve']:.1f}", str(r["zeros"])]
        for name, rows in groups.items()
        for r in rows
    ]
    return table(["data and grid", "strength", "components", "variance, %", "zero loadings"], lines)


def covariance(results: Path) -> Values:
    """Give what comes from a covariance alone."""
    found = read_json(results / "covariance.json")
    return {
        "days": str(found["n_samples"]),
        "pca": percents(found["pca_pve"]),
        "ebcd": percents(found["pve"]),
        "elbo": f"{found['elbo']:.2f}",
    }


# A section is on the page if its file of results is there; "." always is.
SECTIONS: dict[str, tuple[str, Any]] = {
    "opening": (".", opening),
    "simulations": ("simulations.csv", simulations),
    "reference": ("reference.csv", reference),
    "shrinkage": ("shrinkage.csv", shrinkage),
    "sectors": ("sectors.json", sectors),
    "covariance": ("covariance.json", covariance),
    "again": (".", lambda results: {}),
}

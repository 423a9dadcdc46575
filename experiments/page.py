"""The page of the documentation, from the files of results and nothing else.

The words are in ``page_template.md``; this module fills in tables and numbers.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from experiments.markdown import HEADINGS, Values, number, percents, table
from experiments.methods import METHODS
from experiments.page_reference import mirrored_optima, reference, times
from experiments.records import read_json, read_rows
from experiments.reference_results import of_reference
from experiments.simulations import MEASURES
from experiments.tables import LABELS, parse, summary

HERE = Path(__file__).parent
PAPER_PVE = {"PCA": (72.49, 11.91, 6.14), "EBCD-pl": (66.99, 16.35, 7.13)}
BESIDE_SPARSE_PCA = ("ebcd_pl", "ebmf_pl", "l1ppca", "sparse_pca_default", "sparse_pca_oracle")

OTHER_SCORES = {"ebcd_pl_relaxed": "relaxed", "ebcd_pl_integrated": "integrated"}


def make_page(results: Path) -> str:
    """Return the sections for which there are results."""
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


def opening(results: Path) -> Values:
    """Where the results come from."""
    path = results / "machine.json"
    if not path.exists():
        return {"where": ""}
    m = read_json(path)
    versions = ", ".join(f"{name} {m[name]}" for name in ("ebcd", "numpy", "scipy", "scikit-learn"))
    kept = "".join(
        f" Those of {METHODS[name].label} are from {date}."
        for name, date in m.get("kept", {}).items()
    )
    return {
        "where": f"The results are from {m['date']}, on {m['cpu']} ({m['system']}), Python "
        f"{m['python']}, {versions}.{kept}"
    }


def simulations(results: Path) -> Values:
    """Tables of means and medians, oracles and ranking."""
    rows = parse(read_rows(results / "simulations.csv"))
    lines = summary(rows)
    values = {"ranking": _ranking(rows), "same": _same_data_sets(rows), **_oracles(results)}
    values |= {"scores": _score_models(rows), "kept": _components_kept(rows)}
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
        theirs = of_reference(setting, name, statistic)
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


def _score_models(rows: list[dict[str, Any]]) -> str:
    """Compare other scores with the paper's and with EBMF, on the same data sets."""
    pairs = [(name, other) for name in OTHER_SCORES for other in ("ebcd_pl", "ebmf_pl")]
    lines = []
    for setting, measures in MEASURES.items():
        for measure in measures:
            values = {
                name: _by_seed(rows, setting, name, measure)
                for name in (*OTHER_SCORES, "ebcd_pl", "ebmf_pl")
            }
            cells = [_difference(values[name], values[other]) for name, other in pairs]
            lines.append([str(setting), HEADINGS[measure], *cells])
    heads = [f"{OTHER_SCORES[name]} - {LABELS[other]}" for name, other in pairs]
    return table(["simulation", "measure", *heads], lines)


def _by_seed(rows: list[dict[str, Any]], setting: int, name: str, measure: str) -> dict[int, float]:
    here = [row for row in rows if (row["setting"], row["method"]) == (setting, name)]
    return {row["seed"]: row[measure] for row in here}


def _difference(ours: dict[int, float], theirs: dict[int, float]) -> str:
    gaps = np.array([ours[seed] - theirs[seed] for seed in ours if seed in theirs])
    if gaps.size < 2:
        return ""
    return f"{gaps.mean():+.4f} ± {gaps.std(ddof=1) / np.sqrt(gaps.size):.4f}"


def _components_kept(rows: list[dict[str, Any]]) -> str:
    """Say how many of the three components of Simulation 2 each method keeps."""
    kept = {}
    for name in ("ebcd_pl", *OTHER_SCORES, "ebmf_pl"):
        numbers = _by_seed(rows, 2, name, "n_components")
        if numbers:
            kept[LABELS[name]] = float(np.mean(list(numbers.values())))
    return "; ".join(f"{name} {mean:.2f}" for name, mean in kept.items())


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


def shrinkage(results: Path) -> Values:
    """How well operators and penalties belong together."""
    rows = read_rows(results / "shrinkage.csv")
    return {"gap": f"{max(float(row['largest_difference']) for row in rows):.0e}"}


def sectors(results: Path) -> Values:
    """Variance explained, and what the L1 penalty does."""
    found = read_json(results / "sectors.json")
    own, paper = (found["methods"][f"L1, {grid} grid"] for grid in ("data-driven", "the paper's"))
    groups = {
        "these returns, the paper's grid": paper["kept"][:4],
        "these returns, data-driven grid": own["kept"][3::4],
    }
    emptied = f"{_emptied(paper['kept'])} on these returns"
    path = results / "covariance.json"
    if path.exists():
        kept = read_json(path)["kept"]
        groups["covariance of 11 sectors, the paper's grid"] = kept[:2]
        emptied += f", at {_emptied(kept)} on those of the next section"
    return {
        "source": found["source"],
        "rows": str(found["n_samples"]),
        "pve": _pve(found["methods"]),
        "grid": _grid(groups),
        "emptied": emptied,
        "own_alpha": f"{own['alpha']:g}",
        "error_0": f"{own['cv_errors'][0]:.4e}",
        "error_1": f"{own['cv_errors'][4]:.4e}",
        "alpha_1": f"{own['alphas'][4]:.2g}",
        "paper_alpha_1": f"{paper['alphas'][1]:.2g}",
        "paper_error_1": f"{paper['cv_errors'][1]:.4e}",
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


def _grid(groups: dict[str, list[dict[str, Any]]]) -> str:
    lines = [
        [
            name,
            f"{line['alpha']:.3g}",
            percents(line["pve"]),
            percents(line["pve_from_covariance"]),
            str(line["zeros"]),
        ]
        for name, rows in groups.items()
        for line in rows
    ]
    head = ["data and grid", "strength", "from rows, %", "from the covariance, %", "zero loadings"]
    return table(head, lines)


def _emptied(kept: list[dict[str, Any]]) -> str:
    """Count strengths that leave components without variance, fitted in either way."""
    shares = np.array([[line["pve"], line["pve_from_covariance"]] for line in kept])
    last = int((shares[:, :, -1] == 0).all(axis=1).sum())
    everything = int((shares == 0).all(axis=(1, 2)).sum())
    return f"{last} of its {len(kept)} positive values (all three at {everything})"


def covariance(results: Path) -> Values:
    """Return what comes from a covariance alone."""
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
    "optima": ("optima.csv", mirrored_optima),
    "reference": ("reference.csv", reference),
    "time": ("reference_seconds.csv", times),
    "shrinkage": ("shrinkage.csv", shrinkage),
    "sectors": ("sectors.json", sectors),
    "covariance": ("covariance.json", covariance),
    "again": (".", lambda results: {}),
}

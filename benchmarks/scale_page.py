"""The page on scale of the documentation, from the files of results and nothing else.

Run from the root of the project with ``python -m benchmarks.scale_page``. The words are in
``scale_page.md``; this module fills in tables and numbers, and draws the figure.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arithmetic import fit_seconds, pass_seconds
from benchmarks.bench_curves import CURVES, RESULTS, ROOT, Point
from experiments.page import Values, filled, table
from experiments.records import read_json, write

TEMPLATE = Path(__file__).with_name("scale_page.md")
NAMES = {
    "ebcd": "EBCD",
    "randomized": "PCA, randomized",
    "default": "PCA, its default",
    "arpack": "PCA, ARPACK",
}
LABELS = {"rows": "rows", "columns": "columns", "components": "components", "density": "density"}
LAST = 3  # points at the large end
LEAST_MB = 1.0  # less cannot be told from what the allocator keeps
ROWS = {  # of bench_scale.py
    "simulation1": ("50 x 500, simulation 1", "`numpy.linalg.svd`"),
    "simulation2": ("50 x 500, simulation 2", "`numpy.linalg.svd`"),
    "medium": ("500 x 10,000", "randomized `PCA`"),
    "large": ("2,000 x 20,000", "randomized `PCA`"),
    "wide": ("100 x 1,000,000", "randomized `PCA`"),
    "tall": ("1,000,000 x 100", "`X.T @ X`"),
    "sparse": ("20,000 x 5,000, sparse", "`PCA`, ARPACK"),
}
# The billion rows, and machines of which nothing was measured here.
BILLION, MACHINES, CORES, MEMORY, DISK, NETWORK = 10**9, (10, 100, 1_000), 16, 512e9, 1e9, 1.25e9
BLOCK = 1e9  # bytes
QUIET = 1.5  # load up to which a machine counts as idle: the run before has one of its own
ITEM = 4  # bytes of a number in single precision

Results = dict[str, Any]


def load(folder: Path) -> Results:
    """Read all files of results."""
    names = ("curves", "threads_1", "threads_2", "billion")
    return {name: read_json(folder / f"{name}.json") for name in names}


def make_page(results: Results) -> str:
    """Fill in the words."""
    values = {
        **opening(results["curves"]["machine"]),
        **curves(results["curves"]["points"]),
        **threads(results["threads_1"], results["threads_2"]),
        **billion(results["billion"]),
    }
    return filled(TEMPLATE.read_text(encoding="utf-8"), values)


def opening(machine: dict[str, Any]) -> Values:
    """Say where the results come from."""
    versions = ", ".join(
        f"{name} {machine[name]}" for name in ("ebcd", "numpy", "scipy", "scikit-learn")
    )
    return {
        "where": f"Measured on {machine['date']} on {machine['cpu']} with {machine['cores']} "
        f"cores, Python {machine['python']}, {versions}.{busy(machine['load'])}"
    }


def busy(load: float | None) -> str:
    """Say so if a machine had something else to do."""
    if load is None or load < QUIET:
        return ""
    return f" The machine was busy with other work (load {load:.1f}), so times are approximate."


def short(value: float | None) -> str:
    """Three digits, without an exponent; nothing for what is not known."""
    if value is None or not np.isfinite(value):
        return ""
    digits = 2 - int(np.floor(np.log10(abs(value)))) if value else 0
    return f"{value:,.{max(digits, 0)}f}" if digits > -1 else f"{round(value, digits):,.0f}"


def duration(value: float) -> str:
    """Give seconds in the unit in which people would say them."""
    for size, unit in ((86_400.0, "days"), (3_600.0, "h"), (60.0, "min")):
        if value >= 2 * size:
            return (
                f"{value / size:.1f} {unit}" if value < 10 * size else f"{value / size:.0f} {unit}"
            )
    return f"{short(value)} s"


def series(points: list[Point], curve: str, method: str, what: str) -> tuple[Any, Any]:
    """Give the variable of a curve and what was measured, where that was possible."""
    variable = CURVES[curve].variable
    pairs = [
        (point[variable], point[what])
        for point in points
        if (point["curve"], point["method"]) == (curve, method) and point[what] is not None
    ]
    return tuple(np.array(pairs, dtype=float).reshape(-1, 2).T)


def slope(x: Any, y: Any, last: int | None = None, least: float = 0.0) -> float | None:
    """Power of `x` with which `y` grows, by least squares of logarithms; of the last points only.

    Values up to `least` are left out; None if then there are fewer than two.
    """
    kept = y > least
    x, y = x[kept], y[kept]
    if last is not None:
        x, y = x[-last:], y[-last:]
    if x.size < 2:
        return None
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def slopes(points: list[Point], curve: str, method: str) -> dict[str, float | None]:
    """Powers of time and memory, over the curve and at its large end."""
    found: dict[str, float | None] = {}
    for what, least in (("processor", 0.0), ("extra_mb", LEAST_MB)):
        x, y = series(points, curve, method, what)
        found[what] = slope(x, y, least=least)
        found[f"{what}_end"] = slope(x, y, LAST, least)
    return found


def power(value: float | None) -> str:
    """Give a power with two digits; a dash for what cannot be told."""
    return "–" if value is None else f"{round(value, 2) + 0.0:.2f}"


def curves(points: list[Point]) -> Values:
    """Tables of the curves, and their slopes."""
    values: Values = {"slopes": _slopes(points)}
    for curve, what in CURVES.items():
        values[f"table_{curve}"] = _curve_table(points, curve)
        for method in what.methods:
            x, seconds = series(points, curve, method, "processor")
            _, memory = series(points, curve, method, "extra_mb")
            first, last = f"{method}_{curve}_first", f"{method}_{curve}_last"
            values |= {first: short(seconds[0]), last: short(seconds[-1])}
            values[f"{method}_{curve}_mb"] = short(memory[-1] if memory.size else None)
            found = slopes(points, curve, method)
            values |= {f"{method}_{curve}_{name}": power(each) for name, each in found.items()}
            values[f"{curve}_smallest"], values[f"{curve}_largest"] = (
                _value(curve, x[0]),
                _value(curve, x[-1]),
            )
    return values


def _value(curve: str, x: float) -> str:
    return f"{x:.1%}" if curve == "density" else f"{x:,.0f}"


def _slopes(points: list[Point]) -> str:
    lines = []
    for curve, what in CURVES.items():
        for method in what.methods:
            found = slopes(points, curve, method)
            cells = [power(found[name]) for name in ("processor", "processor_end")]
            cells += [power(found[name]) for name in ("extra_mb", "extra_mb_end")]
            lines.append([f"{LABELS[curve]}, ${_symbol(curve)}$", NAMES[method], *cells])
    head = ["grows", "method", "time, all points", f"time, last {LAST}"]
    return table([*head, "memory, all points", f"memory, last {LAST}"], lines)


def _symbol(curve: str) -> str:
    return {"density": r"d"}.get(curve, CURVES[curve].variable)


def _curve_table(points: list[Point], curve: str) -> str:
    what = CURVES[curve]
    measured = {
        (method, name): series(points, curve, method, name)[1]
        for method in what.methods
        for name in ("processor", "extra_mb")
    }
    x, steps = series(points, curve, "ebcd", "iterations")
    beside = what.methods[1]
    lines = []
    for i, value in enumerate(x):
        cells = [short(measured[method, "processor"][i]) for method in what.methods]
        ratio = measured["ebcd", "processor"][i] / measured[beside, "processor"][i]
        memory = [_item(measured[method, "extra_mb"], i) for method in what.methods]
        shown = f"{ratio:.1f}" if ratio >= 1 else f"{ratio:.2f}"
        lines.append([_value(curve, value), *cells, shown, f"{steps[i]:.0f}", *memory])
    names = [NAMES[method] for method in what.methods]
    head = [LABELS[curve], *(f"{name}, s" for name in names), f"EBCD / {NAMES[beside]}"]
    return table([*head, "iterations", *(f"{name}, MB" for name in names)], lines)


def _item(values: Any, i: int) -> str:
    if i >= len(values):
        return ""
    return "< 1" if values[i] < LEAST_MB else f"{values[i]:,.0f}"


def threads(one: Results, two: Results) -> Values:
    """Put fits with one and two threads side by side."""
    by_name = [{row["row"]: row for row in each["rows"]} for each in (one, two)]
    lines = []
    for name, (data, beside) in ROWS.items():
        a, b = by_name[0].get(name), by_name[1].get(name)
        if a is None or b is None:
            continue
        times = [short(row[key]) for row in (a, b) for key in ("reference", "seconds")]
        ratios = [f"{row['ratio']:.1f}" for row in (a, b)]
        cells = [times[0], times[1], ratios[0], times[2], times[3], ratios[1]]
        lines.append([data, str(a["k"]), beside, *cells, short(a["extra_mb"])])
    head = ["data", "k", "baseline", "its s, 1 thread", "EBCD", "ratio", "its s, 2 threads", "EBCD"]
    values = {"threads": table([*head, "ratio", "extra MB"], lines), "threads_date": two["date"]}
    values["threads_busy"] = busy(max(each["load"] or 0.0 for each in (one, two)))
    sparse = by_name[0].get("sparse")
    if sparse is not None and sparse["extra_mb"] is not None:
        dense = 8e-6 * sparse["n"] * sparse["p"]
        values |= {
            "sparse_mb": short(sparse["extra_mb"]),
            "sparse_dense_mb": f"{dense:,.0f}",
            "sparse_share": f"{sparse['extra_mb'] / dense:.0%}",
        }
    return values


def billion(found: Results) -> Values:
    """Rates, predictions beside measurements, and what follows for a billion rows."""
    rates, widths, design = found["rates"], found["widths"], found["design"]
    p, k = design["p"], design["k"]
    ratios = [line["measured"] / line["predicted"] for line in found["checks"]]
    rows_of_block = int(BLOCK / (ITEM * p))
    blocks = BILLION // rows_of_block
    answer = 8.0 * p * k
    return {
        "few": f"{design['few']:,}",
        "p": f"{p:,}",
        "k": str(k),
        "billion_busy": busy(found["machine"]["load"]),
        "rates": _rates(rates, widths, k),
        "checks": _checks(found, len(widths)),
        "ratio_low": f"{min(ratios):.2f}",
        "ratio_high": f"{max(ratios):.2f}",
        "worker_mb": short(found["worker_mb"]),
        "client_mb": short(found["client_mb"]),
        "widths": _widths(widths),
        "machines": _machines(rates, widths, p, k, blocks),
        **_in_machines(rates, widths, p, blocks),
        "rows_of_block": f"{rows_of_block:,}",
        "blocks": f"{blocks:,}",
        "answer_mb": short(answer / 1e6),
        "answers_gb": short(blocks * answer / 1e9),
        "network_s": short(blocks * answer / MACHINES[1] / NETWORK),
    }


def _widths(widths: list[int]) -> str:
    """Say how many passes there are with how many columns."""
    counts = {width: widths.count(width) for width in dict.fromkeys(widths) if width}
    return ", ".join(f"{count} with {width} columns" for width, count in counts.items())


def _rates(rates: Results, widths: list[int], k: int) -> str:
    return table(
        ["what", "measured"],
        [
            [f"product with {k} columns, one core", f"{rates['gflops']:.1f} GFLOP/s"],
            ["one entry of it", f"{1e9 * (rates['entry'] + k * rates['column']):.2f} ns"],
            ["one entry of the first pass", f"{1e9 * rates['moments']:.2f} ns"],
            ["reading a cached file and centering", f"{rates['read_gb']:.1f} GB/s"],
            ["scheduling of a task", f"{1e3 * rates['task']:.2f} ms"],
            [f"answer of a block, {k} columns", f"{1e3 * k * rates['answer']:.2f} ms"],
            ["passes", str(len(widths))],
            ["time between passes, whole fit", f"{rates['client']:.2f} s"],
        ],
    )


def _checks(found: Results, expected: int) -> str:
    lines = [
        [
            f"{line['n']:,}",
            {"file": "read from a file"}.get(line["where"], f"Dask, {line['where']}"),
            f"{expected} / {line['passes']}",
            short(line["predicted"]),
            short(line["measured"]),
            f"{line['measured'] / line['predicted']:.2f}",
        ]
        for line in found["checks"]
    ]
    head = ["rows", "where", "passes expected / counted", "predicted, s", "measured, s"]
    return table([*head, "measured / predicted"], lines)


def _machines(rates: Results, widths: list[int], p: int, k: int, blocks: int) -> str:
    entries = float(BILLION) * p
    lines = []
    for m in MACHINES:
        share = ITEM * entries / m
        product = pass_seconds(rates, k, entries, cores=CORES * m)
        settings = {"cores": CORES * m, "blocks": blocks}
        memory = fit_seconds(rates, widths, entries, **settings)
        disk = fit_seconds(rates, widths, entries, **settings, read=ITEM / DISK * CORES)
        lines.append(
            [
                f"{m:,}",
                f"{share / 1e12:,.1f} TB" if share >= 1e12 else f"{share / 1e9:,.0f} GB",
                duration(product),
                duration(blocks * rates["task"]),
                duration(memory) if share < MEMORY else f"({duration(memory)}) does not fit",
                duration(disk),
            ]
        )
    head = ["machines", "data on each", "product, arithmetic", "product, scheduler"]
    return table([*head, "fit, data in memory", "fit, data on disk"], lines)


def _in_machines(rates: Results, widths: list[int], p: int, blocks: int) -> Values:
    """Give the two numbers of ``T(m) = fixed + shared / m``."""
    entries = float(BILLION) * p
    fixed = rates["client"] + len(widths) * blocks * rates["task"]
    shared = fit_seconds(rates, widths, entries, cores=CORES, blocks=blocks) - fixed
    return {"fixed": duration(fixed), "shared": f"{shared / 3_600:,.0f}", "cores": str(CORES)}


def digest(points: list[Point]) -> str:
    """Fingerprint of what a figure was drawn from."""
    return hashlib.sha256(json.dumps(points, sort_keys=True).encode()).hexdigest()


def draw(points: list[Point], path: Path) -> None:
    """Draw time above and memory below, both axes logarithmic; the picture keeps its `digest`."""
    from experiments.figures import BLUE, ORANGE, plt

    colours = {"ebcd": ORANGE, "randomized": BLUE, "arpack": BLUE, "default": "0.5"}
    figure, axes = plt.subplots(
        2, len(CURVES), figsize=(13.0, 6.8), sharey="row", layout="constrained"
    )
    for column, (curve, what) in zip(axes.T, CURVES.items(), strict=True):
        for panel, name in zip(column, ("processor", "extra_mb"), strict=True):
            for method in what.methods:
                x, y = series(points, curve, method, name)
                end = power(slopes(points, curve, method)[f"{name}_end"])
                y = np.maximum(y, LEAST_MB) if name == "extra_mb" else y
                label = f"{NAMES[method]}, slope {end}"
                panel.loglog(x, y, "o-", color=colours[method], markersize=4, label=label)
            panel.legend(fontsize=8, frameon=False, loc="upper left")
            panel.grid(color="0.92")
            panel.spines[["top", "right"]].set_visible(False)
        fixed = ", ".join(f"{n} = {v:,}" for n, v in what.fixed.items() if n != "density")
        column[0].set_title(f"{LABELS[curve]}\n({fixed})", fontsize=10)
        column[1].set_xlabel({"density": "share of entries not zero"}.get(curve, what.variable))
    for panel in axes[:, 0]:
        panel.set_ylim(top=20 * panel.get_ylim()[1])  # room for the legends
    axes[0, 0].set_ylabel("processor seconds")
    axes[1, 0].set_ylabel("extra memory, MB")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part.png")
    figure.savefig(part, dpi=80, metadata={"Comment": digest(points)})
    plt.close(figure)
    part.replace(path)


def main(arguments: list[str] | None = None) -> None:
    """Write the page and its figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder with results")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "scale.md")
    options = parser.parse_args(arguments)
    results = load(options.results)
    draw(results["curves"]["points"], options.page.parent / "_static" / "scale" / "curves.png")
    write(options.page, make_page(results))
    print(f"page: {options.page}")


if __name__ == "__main__":
    main()

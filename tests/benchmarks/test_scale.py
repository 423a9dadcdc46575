"""The benchmarks behind the page on scale: small runs, the arithmetic, and the page itself."""

import json
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from benchmarks import bench_curves, bench_scale, scale_page
from benchmarks.arithmetic import fit_seconds, pass_seconds

ROOT = Path(__file__).resolve().parents[2]
RATES = {
    "entry": 1e-9,
    "column": 2e-10,
    "moments": 5e-9,
    "read": 4e-9,
    "gflops": 13.3,
    "read_gb": 1.0,
    "task": 1e-3,
    "answer": 2e-4,
    "client": 7.0,
}


def fake_results():
    """Return results that follow laws: time as n p / 1e6 seconds, memory as the square root."""
    points = []
    for curve in bench_curves.CURVES:
        for point in bench_curves.points(curve):
            size = point["n"] * point["p"] * point["k"] * point["density"] / 1e6
            factor = 2.0 if point["method"] == "ebcd" else 0.5
            measured = {"processor": factor * size, "extra_mb": 3.0 * factor * size**0.5}
            points.append({**point, "seconds": 1.0, "iterations": 17, **measured})
    machine = {"date": "2030-01-02", "cpu": "a chip", "cores": 2, "load": 0.25, "python": "3.14"}
    machine |= dict.fromkeys(("ebcd", "numpy", "scipy", "scikit-learn"), "9.9")
    row = {"row": "sparse", "n": 20_000, "p": 5_000, "k": 10, "reference": 1.5, "seconds": 4.5}
    row |= {"ratio": 3.0, "bar": 3, "extra_mb": 120.0, "memory_bar": 0.25}
    twice = {**row, "seconds": 3.0}
    checks = [{"where": "file", "n": 4_000, "passes": 3, "predicted": 2.0, "measured": 2.5}]
    checks += [{"where": "2 workers", "n": 4_000, "passes": 4, "predicted": 4.0, "measured": 3.0}]
    return {
        "curves": {"machine": machine, "points": points},
        "threads_1": {"date": "2030-01-02", "load": 0.1, "threads": 1, "rows": [row]},
        "threads_2": {"date": "2030-01-03", "load": 5.0, "threads": 2, "rows": [twice]},
        "billion": {
            "machine": machine,
            "rates": RATES,
            "widths": [0, 20, 10, 10],
            "design": {"p": 10_000, "k": 10, "few": 1_000},
            "checks": checks,
            "worker_mb": 55.0,
            "client_mb": 66.0,
        },
    }


class TestMeasuring:
    @pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the peak of a call")
    def test_extra_memory_is_the_peak_of_a_call(self):
        assert bench_scale.extra_memory(lambda: np.ones(10_000_000).sum()) == pytest.approx(80, 0.1)
        held = np.ones(10_000_000)
        assert bench_scale.extra_memory(lambda: held.sum()) < 8

    @pytest.mark.parametrize("curve", ["rows", "components"])
    def test_a_point(self, curve):
        point = bench_curves.points(curve, quick=True)[0]
        found = bench_curves.measured(point)
        assert found["converged"]
        assert found["seconds"] > 0
        assert found["processor"] > 0
        assert found | point == found

    def test_every_curve_varies_one_thing(self):
        for curve, what in bench_curves.CURVES.items():
            for quick in (True, False):
                listed = bench_curves.points(curve, quick)
                values = what.quick if quick else what.values
                assert len(listed) == len(values) * len(what.methods)
                for name in ("n", "p", "k", "density"):
                    seen = {point[name] for point in listed}
                    assert seen == set(values) if name == what.variable else len(seen) == 1

    @pytest.mark.slow
    def test_small_run(self, tmp_path, monkeypatch, capsys):
        monkeypatch.setattr(bench_curves, "in_own_process", bench_curves.measured)
        file = tmp_path / "curves.json"
        kept = {"curve": "rows", "method": "ebcd"}
        file.write_text(json.dumps({"points": [kept, {"curve": "density"}]}))
        bench_curves.main(["density", "--quick", "--results", str(file)])
        found = json.loads(file.read_text())
        assert found["points"].pop(0) == kept
        assert {"date", "cpu", "cores", "load", "ebcd", "numpy"} <= set(found["machine"])
        assert [point["method"] for point in found["points"]] == ["ebcd", "arpack"] * 2
        for method in ("ebcd", "arpack"):
            slopes = scale_page.slopes(found["points"], "density", method)
            assert np.isfinite(slopes["processor"])
            assert np.isfinite(slopes["processor_end"])
        wanted = np.repeat(bench_curves.CURVES["density"].quick, 2)
        np.testing.assert_allclose([p["density"] for p in found["points"]], wanted, rtol=0.2)
        assert capsys.readouterr().out.count(" MB") == (4 if sys.platform == "linux" else 0)

    def test_against_one_pca(self, tmp_path, monkeypatch, capsys):
        file, seen = tmp_path / "rows.json", set()

        def reference(x):
            seen.update(library["num_threads"] for library in threadpool_info())

        case = bench_scale.Case([bench_scale.planted(60, 40, 2, 0.2)], 2, reference, 1.5)
        monkeypatch.setattr(bench_scale, "cases", lambda: {"small": lambda: case})
        command = ["small", "--repeats", "1", "--threads", "2", "--results", str(file)]
        monkeypatch.setattr(sys, "argv", ["bench_scale.py", *command])
        bench_scale.main()
        found = json.loads(file.read_text())
        assert found["threads"] == 2
        assert found["load"] >= 0
        assert seen == {2}
        (row,) = found["rows"]
        assert (row["n"], row["p"], row["k"]) == (60, 40, 2)
        assert row["ratio"] > 0
        assert row["converged"]
        assert "2 thread(s)" in capsys.readouterr().out
        assert not list(tmp_path.glob("*.part"))

    def test_memory_beside_its_bar(self, capsys):
        data = bench_scale.counts(300, 200, 2, 0.1)
        case = bench_scale.Case([data], 2, bench_scale.PCA(2, svd_solver="arpack").fit, 3, 0.25)
        bench_scale.measure("sparse", case, Namespace(repeats=1, strict=False))
        assert ("(bar 25%)" in capsys.readouterr().out) == (sys.platform == "linux")

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [(["nothing"], "no curve 'nothing'"), (["--quick"], "--quick needs --results FILE")],
    )
    def test_bad_arguments(self, arguments, words, capsys):
        with pytest.raises(SystemExit):
            bench_curves.main(arguments)
        assert words in capsys.readouterr().err


@pytest.mark.slow
def test_predictions_are_checked_by_fits(tmp_path, capsys):
    pytest.importorskip("distributed")
    from benchmarks import bench_billion

    file = tmp_path / "billion.json"
    bench_billion.main(["--quick", "--results", str(file)])
    found = json.loads(file.read_text())
    places = ["2 workers", "1 worker", "file"]
    assert [line["where"] for line in found["checks"]] == places
    assert found["widths"][0] == 0
    assert min(found["widths"][1:]) >= bench_billion.QUICK.k
    for line in found["checks"]:
        assert line["passes"] > 2
        assert line["predicted"] > 0
        assert line["measured"] > 0
    assert min(found["rates"].values()) >= 0
    assert capsys.readouterr().out.count("predicted") == 3


class TestArithmetic:
    def test_a_pass(self):
        # 1e9 entries on 4 cores: 1 ns and 10 times 0.2 ns each; 100 blocks: 1 ms, and 2 ms over 4
        expected = 1e9 * 3e-9 / 4 + 100 * (1e-3 + 10 * 2e-4 / 4)
        found = pass_seconds(RATES, 10, 1e9, cores=4, blocks=100)
        assert found == pytest.approx(expected)
        assert pass_seconds(RATES, 10, 1e9, cores=4, blocks=100, read=4e-9) == pytest.approx(
            expected + 1.0
        )
        assert pass_seconds(RATES, 0, 1e9) == pytest.approx(5.0)  # the first finds moments

    def test_a_fit(self):
        assert fit_seconds(RATES, [0, 20, 10], 1e9) == pytest.approx(7.0 + 5.0 + 5.0 + 3.0)


class TestPage:
    def test_slope_is_a_power(self):
        x = np.array([1.0, 10.0, 100.0, 1000.0])
        assert scale_page.slope(x, 3 * x**1.7) == pytest.approx(1.7)
        bent = np.array([2.0, 2.0, 2.0, 20.0])
        assert scale_page.slope(x, bent, last=2) == pytest.approx(1.0)
        assert scale_page.slope(x, bent, least=2.0) is None

    @pytest.mark.parametrize(
        ("value", "said"),
        [
            (None, ""),
            (0.0, "0"),
            (0.012345, "0.0123"),
            (1.2345, "1.23"),
            (123.45, "123"),
            (12_345.0, "12,300"),
        ],
    )
    def test_numbers(self, value, said):
        assert scale_page.short(value) == said

    @pytest.mark.parametrize(
        ("value", "said"),
        [(7.0, "7.00 s"), (150.0, "2.5 min"), (40 * 60.0, "40 min"), (3e5, "3.5 days")],
    )
    def test_durations(self, value, said):
        assert scale_page.duration(value) == said

    def test_all_is_filled_in(self):
        page = scale_page.make_page(fake_results())
        assert "[[" not in page
        assert "2030-01-02 on a chip with 2 cores, Python 3.14, ebcd 9.9" in page
        assert page.count("busy with other work (load 5.0)") == 1  # only with two threads
        # the laws that the results follow
        for line in page.splitlines():
            if line.startswith(("| rows, $n$", "| columns, $p$", "| density, $d$")):
                assert line.endswith("| 1.00 | 1.00 | 0.50 | 0.50 |")
        assert "| 1,000,000 | 1,000 | 250 | 250 | 4.0 | 17 |" in page  # rows: EBCD, PCA, PCA, ratio
        assert "| 1.50 | 4.50 | 3.0 | 1.50 | 3.00 | 3.0 | 120 |" in page  # threads
        assert "15% of the 800 MB" in " ".join(page.split())
        assert "| 4,000 | read from a file | 4 / 3 | 2.00 | 2.50 | 1.25 |" in page
        assert "Measured times were 0.75 to 1.25 times those predicted." in page

    def test_a_billion_rows_by_hand(self):
        page = scale_page.make_page(fake_results())
        # 1e13 entries, 16 cores a machine; 40,000 blocks of 25,000 rows; four passes
        entry = 5e-9 + (1e-9 + 20 * 2e-10) + 2 * (1e-9 + 10 * 2e-10)
        shared = (1e13 * entry + 40_000 * (20 + 10 + 10) * 2e-4) / 16
        fixed = 7.0 + 4 * 40_000 * 1e-3
        assert f"\\text{{{fixed / 60:.1f} min}}" in page
        assert f"\\text{{{shared / 3600:,.0f} h}}" in page
        line = next(line for line in page.splitlines() if line.startswith("| 100 | 400 GB |"))
        product = 1e13 * 3e-9 / 1600
        disk = fixed + shared / 100 + 4 * 4e13 / 1e9 / 100
        expected = [product, 40.0, fixed + shared / 100, disk]
        assert line.split(" | ")[2:] == [
            *(scale_page.duration(each) for each in expected[:-1]),
            scale_page.duration(expected[-1]) + " |",
        ]
        assert "does not fit" in next(x for x in page.splitlines() if x.startswith("| 10 | 4.0 TB"))

    @pytest.mark.slow
    def test_figure_is_drawn(self, tmp_path):
        pytest.importorskip("matplotlib")
        points = fake_results()["curves"]["points"]
        scale_page.draw(points, tmp_path / "curves.png")
        picture = (tmp_path / "curves.png").read_bytes()
        assert picture.startswith(b"\x89PNG")
        assert scale_page.digest(points).encode() in picture
        assert [path.name for path in tmp_path.iterdir()] == ["curves.png"]

    def test_without_measured_memory(self):
        results = fake_results()
        for point in results["curves"]["points"]:
            point["extra_mb"] = None
        assert "| 1.00 | 1.00 | – | – |" in scale_page.make_page(results)

    def test_the_page_of_the_docs_is_made_from_the_results(self):
        results = scale_page.load(ROOT / "benchmarks" / "results")
        page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
        assert page == scale_page.make_page(results)
        picture = (ROOT / "docs" / "_static" / "scale" / "curves.png").read_bytes()
        assert scale_page.digest(results["curves"]["points"]).encode() in picture

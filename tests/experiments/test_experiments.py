"""The experiments of the paper: a whole small run, resumption, tables, and the page of the docs."""

import ast
import os
import re
from pathlib import Path

import numpy as np
import pytest

from ebcd.datasets import make_simulation
from ebcd.metrics import component_angles
from experiments import optima
from experiments.methods import METHODS, pca, rescaled
from experiments.page import make_page
from experiments.records import read_json, read_rows, run_all, write_json, write_rows
from experiments.tables import reduce_grids, summary

ROOT = Path(__file__).resolve().parents[2]
STORED = ROOT / "tests" / "reference"
FEW = ["ebcd_pl", "ebcd_pl_greedy", "ebcd_pl_relaxed", "l1ppca", "gpower", "pca"]


def small_main(arguments):
    from experiments.__main__ import main

    main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def reference_folder(tmp_path_factory):
    """Write two data sets of each simulation in the layout of the reference."""
    folder = tmp_path_factory.mktemp("reference")
    measures = read_rows(STORED / "sim_measures" / "measures.csv")
    for setting in (1, 2):
        with np.load(STORED / "sim" / f"sim{setting}.npz") as stored:
            seeds = sorted(int(name[2:]) for name in stored.files)[:2]
            X = np.array([stored[f"X_{seed}"] for seed in seeds], dtype=float)
        # seeds of both simulations must agree; only names matter here
        np.savez(folder / f"sim{setting}.npz", seeds=[1, 2], X=X)
        lines = ["method,seed,measure,value"] + [
            f"{r['method']},{seeds.index(int(r['seed'])) + 1},{r['measure']},{r['value']}"
            for r in measures
            if r["setting"] == str(setting) and int(r["seed"]) in seeds
        ]
        (folder / f"measures_sim{setting}.csv").write_text("\n".join(lines) + "\n")
        elbo = ["method,seed,elbo"] + [
            f"ebcd_pl,{seeds.index(int(r['seed'])) + 1},{r['elbo']}"
            for r in read_rows(STORED / "sim" / "elbo.csv")
            if r["setting"] == str(setting) and int(r["seed"]) in seeds
        ]
        (folder / f"ebcd_sim{setting}.csv").write_text("\n".join(elbo) + "\n")
    return folder


@pytest.fixture(scope="module")
def user_files(tmp_path_factory):
    """Write returns of five sectors and of three factors, with two formats of dates."""
    folder = tmp_path_factory.mktemp("returns")
    rng = np.random.default_rng(0)
    factors = 0.01 * rng.normal(size=(300, 3))
    coefficients = np.array(
        [[1.0, 0.5, 0.0], [1.0, -0.5, 0.0], [1.0, 0.0, 0.8], [1.0, 0.0, -0.8], [1.0, 0.1, 0.1]]
    )
    X = factors @ coefficients.T + 0.001 * rng.normal(size=(300, 5))
    days = [(2020 + i // 336, 1 + i // 28 % 12, 1 + i % 28) for i in range(300)]
    returns = ["date,a,b,c,d,e"] + [
        "{}-{:02d}-{:02d},".format(*day) + ",".join(map(repr, row.tolist()))
        for day, row in zip(days, X, strict=True)
    ]
    known = ["date,Mkt-RF,SMB,HML,RF"] + [
        "{}{:02d}{:02d},".format(*day) + ",".join(map(repr, row.tolist())) + ",0"
        for day, row in zip(days, factors, strict=True)
    ]
    (folder / "returns.csv").write_text("\n".join(returns) + "\n")
    (folder / "factors.csv").write_text("\n".join(known[:1] + known[11:]) + "\n")
    return folder, X[10:], coefficients


@pytest.fixture(scope="module")
def small_run(tmp_path_factory, reference_folder, user_files):
    pytest.importorskip("matplotlib")
    output = tmp_path_factory.mktemp("output")
    folder, X, _ = user_files
    covariance = folder / "S.csv"
    S = X.T @ X / len(X)
    rows = [f"{n}," + ",".join(map(repr, r.tolist())) for n, r in zip("abcde", S, strict=True)]
    covariance.write_text("\n".join([",a,b,c,d,e", *rows]) + "\n")
    arguments = ["--quick", "--seeds", 1, "--jobs", 1, "--output", output, "--methods", *FEW]
    arguments += ["--data", reference_folder, "--covariance", covariance, "--rows", len(X)]
    arguments += ["--returns", folder / "returns.csv", "--factors", folder / "factors.csv"]
    small_main(arguments)
    return output, arguments


class TestRun:
    @pytest.mark.slow
    def test_everything_is_written(self, small_run):
        output, _ = small_run
        figures = sorted(path.name for path in (output / "figures").iterdir())
        assert figures == [
            "sectors_loadings.png",
            "sectors_plane.png",
            "shrinkage.png",
            "simulations.png",
        ]
        page = (output / "paper.md").read_text()
        for name in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page):
            assert (output / name).read_bytes().startswith(b"\x89PNG")
        for part in ("Simulation 1: means", "Mirrored", "Which optimum", "From a covariance"):
            assert part in page
        assert "[[" not in page
        assert not list(output.rglob("*.part*"))

    def test_pca_equals_the_reference(self, small_run):
        output, _ = small_run
        rows = [r for r in read_rows(output / "reference.csv") if r["method"] == "pca"]
        assert {row["setting"] for row in rows} == {"1", "2"}
        ours, theirs = (np.array([float(r[key]) for r in rows]) for key in ("ours", "theirs"))
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)

    def test_elbo_is_not_below_the_reference(self, small_run):
        output, _ = small_run
        rows = [r for r in read_rows(output / "reference_elbo.csv") if r["method"] == "ebcd_pl"]
        assert len(rows) == 4
        for row in rows:
            assert float(row["elbo"]) > float(row["theirs"]) - 0.01

    def test_default_start_is_not_below_the_greedy_one(self, small_run):
        output, _ = small_run
        lines = read_rows(output / "optima.csv")
        assert [line["seed"] for line in lines] == ["1001", "1002", "1003", "1004"]
        assert len(read_rows(output / "reference_optima.csv")) == 2
        assert min(float(line["gain"]) for line in lines) > -1e-3

    def test_the_grid_of_the_paper_is_too_coarse_for_returns(self, small_run):
        output, _ = small_run
        methods = read_json(output / "sectors.json")["methods"]
        paper, own = (methods[f"L1, {name} grid"] for name in ("the paper's", "data-driven"))
        third = {}
        for name, method in (("paper", paper), ("own", own)):
            rows, covariance = (
                np.array([line[key] for line in method["kept"]])
                for key in ("pve", "pve_from_covariance")
            )
            np.testing.assert_allclose(rows, covariance, atol=1e-4)
            third[name] = rows[:, 2]
        assert len(third["paper"]) == 24
        assert not third["paper"].any()
        assert third["own"][0] > 1
        again = read_json(output / "covariance.json")["kept"]
        np.testing.assert_allclose(
            [line["pve"] for line in again], [line["pve"] for line in paper["kept"]], atol=1e-4
        )

    def test_covariance_gives_the_same_as_data(self, small_run):
        output, _ = small_run
        found = read_json(output / "sectors.json")
        from_data = found["methods"]["EBCD-pl"]["pve"]
        np.testing.assert_allclose(found["from_covariance"]["pve"], from_data, rtol=1e-4)
        again = read_json(output / "covariance.json")
        np.testing.assert_allclose(again["pve"], from_data, rtol=1e-4)

    def test_resumes(self, small_run, capsys):
        output, arguments = small_run
        records = sorted((output / "records").rglob("*.json"))
        before = {path: path.stat().st_mtime_ns for path in records}
        missing, broken, stale = records[0], records[-1], records[-2]
        missing.unlink()
        broken.write_text('{"task": ')
        old = read_json(stale)
        write_json(stale, {**old, "task": {**old["task"], "ebcd": "0.0"}})
        write_json(output / "machine.json", {})
        small_main(["simulations", "optima", "reference", *arguments])
        redone = {path for path in records if path.stat().st_mtime_ns != before[path]}
        assert redone == {missing, broken, stale}
        assert read_json(stale)["task"] == old["task"]
        counts = re.findall(r": (\d+) tasks, (\d+) done before", capsys.readouterr().out)
        assert sum(int(a) - int(b) for a, b in counts) == 3
        # the machine and date are those of the last new fit
        assert read_json(output / "machine.json")
        write_json(output / "machine.json", {})
        small_main(["simulations", *arguments])
        assert read_json(output / "machine.json") == {}


def test_methods_that_are_not_run_keep_their_lines(tmp_path):
    pytest.importorskip("matplotlib")
    write_json(tmp_path / "machine.json", {"date": "2020-01-01"})
    first = {
        "setting": "1",
        "seed": "1",
        "parameter": "",
        "d3": "",
        "elbo": "",
        "n_components": "2",
    }
    errors = dict.fromkeys(("d1", "d2", "d_or", "d_cov", "seconds"), "0.5")
    old = [{**first, **errors, "method": name} for name in ("pca", "sparse_pca_oracle")]
    write_rows(tmp_path / "simulations.csv", old)
    few = ["--seeds", 1, "--jobs", 1, "--output", tmp_path, "--methods", "pca", "ebcd_pl_relaxed"]
    small_main(["simulations", "tables", *few])
    rows = read_rows(tmp_path / "simulations.csv")
    found = {(r["setting"], r["method"]): r["d1"] for r in rows}
    assert {name for _, name in found} == {"pca", "ebcd_pl_relaxed", "sparse_pca_oracle"}
    assert float(found["1", "sparse_pca_oracle"]) == 0.5
    assert float(found["1", "pca"]) != 0.5
    kept = read_json(tmp_path / "machine.json")["kept"]
    assert kept["sparse_pca"] == "2020-01-01"
    assert "pca" not in kept


def test_an_interrupted_run_keeps_what_was_done(tmp_path):
    def work(task):
        if task["number"] == 2:
            raise KeyboardInterrupt
        return task["number"] ** 2

    tasks = [(tmp_path / f"{number}.json", {"number": number}) for number in range(4)]
    with pytest.raises(KeyboardInterrupt):
        run_all(tasks, work, jobs=1, name="test")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.json", "1.json"]
    run_all(tasks, lambda task: -task["number"], jobs=1, name="test")
    assert [read_json(path)["result"] for path, _ in tasks] == [0, 1, -2, -3]


class TestTables:
    @staticmethod
    def row(method, parameter, seed, d1, d_cov, seconds=1.0):
        errors = {"d1": d1, "d2": d1, "d3": None, "d_or": d1, "d_cov": d_cov}
        first = {"setting": 1, "seed": seed, "method": method, "parameter": parameter}
        return {**first, **errors, "elbo": None, "n_components": 2, "seconds": seconds}

    def test_oracles(self):
        rows = [
            # one value for all data sets: 0.2 is best on average, though not on each
            *[self.row("gpower", 0.1, seed, 0.0, d) for seed, d in ((1, 1.0), (2, 9.0))],
            *[self.row("gpower", 0.2, seed, 0.5, d) for seed, d in ((1, 4.0), (2, 4.0))],
            self.row("sparse_pca", 1.0, 1, 0.3, 1.0, seconds=2.0),
            self.row("sparse_pca", 3.0, 1, 0.1, 5.0, seconds=3.0),
            self.row("sparse_pca", 1.0, 2, 0.9, 1.0),  # the grid is not complete here
        ]
        reduced, grids = reduce_grids(rows)
        by_name = {
            name: [r for r in reduced if r["method"] == name]
            for name in ("gpower", "sparse_pca_default", "sparse_pca_oracle")
        }
        assert [r["parameter"] for r in by_name["gpower"]] == [0.2, 0.2]
        assert [r["seconds"] for r in by_name["gpower"]] == [2.0, 2.0]
        assert [(r["seed"], r["d1"]) for r in by_name["sparse_pca_default"]] == [(1, 0.3)]
        assert [(r["d1"], r["seconds"]) for r in by_name["sparse_pca_oracle"]] == [(0.1, 5.0)]
        assert [(g["method"], g["parameter"], g["n"]) for g in grids] == [
            ("gpower", 0.1, 2),
            ("gpower", 0.2, 2),
            ("sparse_pca", 1.0, 1),
            ("sparse_pca", 3.0, 1),
        ]

    def test_statistics(self):
        rows = [self.row("pca", None, seed, d, 1.0) for seed, d in enumerate((1.0, 2.0, 6.0))]
        (line,) = summary(rows)
        assert line["d1"]["mean"] == pytest.approx(3.0)
        assert line["d1"]["median"] == pytest.approx(2.0)
        assert line["d1"]["se"] == pytest.approx(np.sqrt(7.0 / 3.0))


class TestOptima:
    @pytest.mark.parametrize("bearer", [0, 1])
    def test_rejected_noise_is_a_loss_of_likelihood(self, bearer):
        # two regressions of the bearer's features: on its scores alone, and on both scores
        X, V, _ = make_simulation(1, random_state=3)
        features = X[:, V[:, bearer] != 0]
        losses = [
            np.linalg.lstsq(scores, features, rcond=None)[1].sum() / 2
            for scores in (X @ V[:, [bearer]], X @ V)
        ]
        assert optima.rejected_noise(X, V, bearer) == pytest.approx(losses[0] - losses[1])

    def test_the_noise_is_that_of_the_other_optimum_less_that_of_ours(self):
        X, V, _ = make_simulation(1, random_state=7)
        errors = {"d_or": 1.0, "d_cov": 1.0, "setting": 1, "seed": 7}
        rows = [
            {**errors, "method": "ebcd_pl", "elbo": 5.0, "d1": 0.1, "d2": 0.2},
            {**errors, "method": "ebcd_pl_greedy", "elbo": 3.0, "d1": 0.2, "d2": 0.1},
            {**errors, "method": "ebcd_pl", "seed": 8, "elbo": 3.0, "d1": 0.2, "d2": 0.1},
        ]
        (line,) = optima.paired(rows, None)
        assert (line["seed"], line["gain"], line["swapped"]) == (7, 2.0, 1)
        expected = optima.rejected_noise(X, V, 0) - optima.rejected_noise(X, V, 1)
        assert line["noise"] == pytest.approx(expected)

    def test_excess(self):
        def line(gain, ours):
            both = dict.fromkeys(("d1", "d2", "d_or", "d_cov"), ours)
            return {"gain": gain, **both, **{f"{name}_greedy": 1.0 for name in both}}

        lines = [line(0.0, 1.0), line(2.0, 1.4), line(5.0, 0.8), line(0.0, 1.0)]
        everything = optima.excess(lines)
        assert everything["moved"] == 2
        assert everything["angle"] == pytest.approx((5.0, np.std([0, 40, -20, 0], ddof=1) / 2))
        assert optima.excess(lines, 3.0)["d_or"][0] == pytest.approx(-5.0)
        assert optima.excess(lines, 9.0)["moved"] == 0


class TestMethods:
    def test_pca_is_not_centred_and_has_scores_of_mean_square_one(self):
        X = np.random.default_rng(0).normal(loc=3.0, size=(20, 6))
        loadings = pca(X, 6).loadings
        np.testing.assert_allclose(loadings @ loadings.T, X.T @ X / 20, atol=1e-12)

    def test_directions_are_rescaled_by_least_squares(self):
        rng = np.random.default_rng(0)
        directions = np.linalg.qr(rng.normal(size=(8, 2)))[0] + 0.1
        directions /= np.linalg.norm(directions, axis=0)
        scores = rng.normal(size=(30, 2)) * [5.0, 2.0]
        found = rescaled(scores @ directions.T, np.column_stack([directions, np.zeros(8)]))
        lengths = [*np.sqrt((scores**2).mean(axis=0)), 0.0]
        np.testing.assert_allclose(np.linalg.norm(found, axis=0), lengths, atol=1e-12)

    def test_gpower_is_for_the_first_simulation_only(self):
        assert [name for name, m in METHODS.items() if m.settings != (1, 2)] == ["gpower"]


class TestSectors:
    def test_positions_are_the_coefficients(self, user_files):
        from experiments.sectors import load_csv, positions

        folder, X, coefficients = user_files
        data = load_csv(folder / "returns.csv", folder / "factors.csv")
        assert data.names == list("abcde")
        np.testing.assert_array_equal(data.X, X)
        np.testing.assert_allclose(positions(data), coefficients[:, 1:], atol=0.05)

    def test_french(self):
        pytest.importorskip("linearmodels")
        from experiments.sectors import load_french

        data = load_french()
        assert data.X.shape == (819, 12)
        assert data.factors.shape == (819, 3)
        assert np.isfinite(data.X).all()
        # a market factor: every industry moves with it
        assert (np.corrcoef(data.X.T, data.factors[:, 0])[-1] > 0.5).all()

    def test_covariance_of_the_paper(self):
        # The matrix may not be redistributed: it is read where it is kept beside the project.
        kept = Path(os.environ.get("EBCD_REFERENCE", ROOT.parent / "shared" / "reference"))
        if not (kept / "sectors" / "S.csv").exists():
            pytest.skip("the covariance of the sectors is not here")
        from experiments.sectors import fit_covariance, load_covariance

        S, names = load_covariance(kept / "sectors" / "S.csv")
        found = fit_covariance(S, 734)
        assert found["elbo"] > 29965.58 - 0.01
        np.testing.assert_allclose(found["pve"], [66.98, 16.34, 7.14], atol=0.01)
        np.testing.assert_allclose(found["pca_pve"], [72.48, 11.92, 6.14], atol=0.01)
        theirs = read_rows(kept / "sectors" / "EL_k3.csv")
        assert [row[""] for row in theirs] == names
        L = np.array([[float(row[f"PC{k}"]) for k in (1, 2, 3)] for row in theirs])
        assert component_angles(L, np.array(found["loadings"]).T).max() < 0.01

    def test_bad_files(self, user_files, tmp_path):
        from experiments.sectors import load_csv

        folder, _, _ = user_files
        returns, bad = folder / "returns.csv", tmp_path / "bad.csv"
        bad.write_text("date,Mkt-RF,SMB\n20200101,0,0\n")
        with pytest.raises(ValueError, match=r"--factors: .* has no column 'HML'"):
            load_csv(returns, bad)
        bad.write_text("date,Mkt-RF,SMB,HML\n19000101,0,0,0\n")
        with pytest.raises(ValueError, match="only 0 dates"):
            load_csv(returns, bad)
        bad.write_text("date,Mkt-RF,SMB,HML\n20200101,0,x,0\n")
        with pytest.raises(ValueError, match=r"line 2 of .* no number"):
            load_csv(returns, bad)
        bad.write_text("date\n")
        with pytest.raises(ValueError, match=r"--returns: .* needs a line of names"):
            load_csv(bad, returns)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], "there is no step 'nothing'"),
        (["--returns", "a.csv"], "--returns and --factors go together"),
        (["--covariance", "a.csv"], "--covariance and --rows go together"),
        (["--seeds", "0"], "--seeds must be at least 1"),
    ],
)
def test_bad_arguments(arguments, words, capsys):
    with pytest.raises(SystemExit):
        small_main(arguments)
    assert words in capsys.readouterr().err


def test_a_folder_without_data(tmp_path):
    with pytest.raises(ValueError, match=r"--data: .* has no sim1\.npz"):
        small_main(["reference", "--data", tmp_path, "--output", tmp_path])


def test_the_page_of_the_docs_is_made_from_the_results():
    page = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    assert page == make_page(ROOT / "experiments" / "results")
    for figure in (ROOT / "experiments" / "results" / "figures").glob("*.png"):
        shown = ROOT / "docs" / "_static" / "paper" / figure.name
        assert shown.read_bytes() == figure.read_bytes()


def test_only_public_names_are_used():
    for path in (ROOT / "experiments").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ebcd"):
                names = [*node.module.split("."), *(alias.name for alias in node.names)]
                assert not any(name.startswith("_") for name in names), path.name

"""Every command and option, as a person or a script would use them."""

import csv
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scipy import io as scipy_io
from scipy import sparse

pytest.importorskip("typer")
import typer
from typer.testing import CliRunner

import ebcd
import ebcd.cli
from ebcd.cli import _data, _results
from ebcd.cli._app import app
from ebcd.cli._errors import one_line_errors
from ebcd.data._settings import DataSettings

PACKAGE = Path(ebcd.__file__).resolve().parents[1]
FILES = [
    *("components.csv", "model.npz", "report.html", "report.md", "report.npz"),
    *("scores.csv", "summary.json"),
]
RNG = np.random.default_rng(1)
NAMES = [f"gene {j}" for j in range(8)]
SAMPLES = [f"s{i}" for i in range(50)]
COUNTS = RNG.poisson(np.exp(RNG.normal(size=(50, 1)) * np.repeat([1.0, 0.0], 4)), size=(50, 8))
QUICK = ("--start", "svd")
PAPER = ("--start", "svd", "--scores", "orthogonal")  # which keep a component of noise


def run(*arguments, **options):
    return CliRunner().invoke(
        app, prog_name="ebcd", args=[str(argument) for argument in arguments], **options
    )


def ok(*arguments, **options):
    result = run(*arguments, **options)
    assert result.exit_code == 0, result.output
    return result


def error(*arguments):
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    line = result.stderr.rstrip().splitlines()[-1]
    assert line.startswith("error: ")
    return line


def read(path):
    """Header, first column and numbers of a CSV file."""
    return read_printed(path.read_text(encoding="utf-8"))


def read_printed(text):
    header, *rows = csv.reader(text.splitlines())
    return header, [row[0] for row in rows], np.array([[float(c) for c in r[1:]] for r in rows])


@pytest.fixture
def table(tmp_path):
    """The counts as CSV, with a name for every row."""
    path = tmp_path / "counts.csv"
    lines = [",".join(["sample", *NAMES])]
    lines += [",".join([name, *map(str, row)]) for name, row in zip(SAMPLES, COUNTS, strict=True)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Results of one fit, for the commands that start from them."""
    folder = tmp_path_factory.mktemp("fitted")
    path = folder / "counts.csv"
    lines = [",".join(["sample", *NAMES])]
    lines += [",".join([name, *map(str, row)]) for name, row in zip(SAMPLES, COUNTS, strict=True)]
    path.write_text("\n".join(lines), encoding="utf-8")
    ok("fit", path, "-o", folder / "out", "-k", 2, "--standardize", *QUICK)
    return folder / "out", path


def test_results(table, tmp_path):
    out = tmp_path / "deep" / "out"
    result = ok("fit", table, "-o", out, "-k", 2)
    assert sorted(file.name for file in out.iterdir()) == FILES
    model = ebcd.EBCD(2, scores="integrated", random_state=0).fit(COUNTS)
    header, features, numbers = read(out / "components.csv")
    assert header[:4] == ["feature", "component_0", "component_0_sd", "component_0_lfsr"]
    assert header[4:7] == ["component_0_lower", "component_0_upper", "component_1"]
    assert features == NAMES
    np.testing.assert_array_equal(numbers[:, ::5], model.components_.T)
    np.testing.assert_array_equal(numbers[:, 1::5], model.components_sd_.T)
    np.testing.assert_array_equal(numbers[:, 2::5], model.lfsr_.T)
    for place, ends in zip((3, 4), model.credible_intervals(), strict=True):
        np.testing.assert_array_equal(numbers[:, place::5], ends.T)
    header, rows, scores = read(out / "scores.csv")
    assert header == ["sample", "component_0", "component_1"]
    assert rows == SAMPLES
    np.testing.assert_array_equal(scores, model.transform(COUNTS))
    loaded = ebcd.load(out / "model.npz")
    np.testing.assert_array_equal(loaded.components_, model.components_)
    assert loaded.feature_names_in_.tolist() == NAMES
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert summary["elbo"] == model.elbo_
    assert (
        summary["components"][0]["top_features"][0]["name"]
        == model.top_features(0, 1, feature_names=NAMES)[0].name
    )
    assert model.summary(feature_names=NAMES) in result.stdout
    assert result.stdout.rstrip().endswith(str(out / "report.html"))
    assert "gene 3" in (out / "report.html").read_text(encoding="utf-8")


def write_formats(folder):
    """The same matrix in every format; yields paths and options."""
    np.save(folder / "a.npy", COUNTS)
    yield folder / "a.npy", ()
    np.savez_compressed(folder / "b.npz", X=COUNTS, other=COUNTS[:3])
    yield folder / "b.npz", ()
    np.savez(folder / "c.npz", one=COUNTS, other=COUNTS[:3])
    yield folder / "c.npz", ("--key", "one")
    sparse.save_npz(folder / "d.npz", sparse.csr_array(COUNTS))
    yield folder / "d.npz", ()
    scipy_io.mmwrite(folder / "e.mtx", sparse.coo_array(COUNTS))
    yield folder / "e.mtx", ()


def test_formats_of_the_core(tmp_path):
    expected = ebcd.EBCD(1, start="svd", scores="integrated").fit(COUNTS.astype(float)).components_
    for path, options in write_formats(tmp_path):
        out = tmp_path / f"out-{path.stem}"
        ok("fit", path, "-o", out, "-k", 1, *QUICK, *options)
        model = ebcd.load(out / "model.npz")
        np.testing.assert_allclose(model.components_, expected, rtol=1e-8, atol=1e-10)
        assert model.feature_names_in_[3] == "x3"


def test_json_alone_is_on_standard_output(table, tmp_path):
    result = ok("fit", table, "-o", tmp_path / "out", "-k", 1, *QUICK, "--json")
    summary = json.loads(result.stdout)
    assert summary["n_components"] == 1
    assert summary["parameters"]["start"] == "svd"
    assert "samples" in result.stderr


def test_quiet(table, tmp_path):
    result = ok("fit", table, "-o", tmp_path / "out", "-k", 1, *QUICK, "--quiet")
    assert result.output == ""
    assert (tmp_path / "out" / "report.html").exists()


def test_options_reach_the_model(table, tmp_path):
    options = ["--prior", "normal,point_normal", "--noise", "per_feature"]
    options += ["--no-center", "--start", "varimax", "--tol", "0.01", "--max-iter", "50"]
    options += ["--scores", "relaxed"]
    result = ok("fit", table, "-o", tmp_path / "out", "-k", 2, "--seed", 3, "--json", *options)
    given = json.loads(result.stdout)["parameters"]
    assert given == {
        "n_components": 2,
        "prior": ["normal", "point_normal"],
        "noise": "per_feature",
        "scores": "relaxed",
        "center": False,
        "scale": False,
        "start": "varimax",
        "tol": 0.01,
        "max_iter": 50,
        "random_state": 3,
    } | {name: given[name] for name in ("max_time", "max_memory", "checkpoint") if name in given}


def test_checkpoints_and_limits_of_time(table, tmp_path):
    kept = tmp_path / "kept.npz"
    kept.write_bytes(b"something else")
    command = ("fit", table, "-o", tmp_path / "out", "-k", 2)
    assert "not a checkpoint" in error(*command, "--checkpoint", kept)
    kept.unlink()
    ok(*command, "--checkpoint", kept, "--max-time", 100)
    model = ebcd.load(tmp_path / "out" / "model.npz")
    assert (model.checkpoint, model.max_time) == (str(kept), 100)
    assert not kept.exists()
    assert "max_time" in error(*command, "--force", "--max-time", -1)


def test_transpose(tmp_path):
    np.save(tmp_path / "x.npy", COUNTS.T)
    ok("fit", tmp_path / "x.npy", "-o", tmp_path / "out", "-k", 1, "--transpose", *QUICK)
    assert ebcd.load(tmp_path / "out" / "model.npz").n_samples_ == 50


@pytest.mark.parametrize("option", ["--log-returns", "--difference"])
def test_changes(option, tmp_path):
    prices = np.exp(RNG.normal(size=(30, 4)).cumsum(axis=0))
    lines = ["date,a,b,c,d"]
    lines += [
        f"2020-01-{i + 1:02d}," + ",".join(map(repr, row.tolist())) for i, row in enumerate(prices)
    ]
    (tmp_path / "prices.csv").write_text("\n".join(lines))
    out = tmp_path / "out"
    ok("fit", tmp_path / "prices.csv", "-o", out, "-k", 1, *PAPER, option)
    changes = np.diff(np.log(prices) if option == "--log-returns" else prices, axis=0)
    expected = ebcd.EBCD(1, start="svd").fit_transform(changes)
    header, rows, scores = read(out / "scores.csv")
    assert (header[0], rows[0], len(rows)) == ("date", "2020-01-02", 29)
    np.testing.assert_allclose(scores, expected, rtol=1e-9)


@pytest.mark.parametrize("date", ["2020-01-{:02d}", "1/{}/2020", "{:02d}.01.2020"])
@pytest.mark.parametrize("order", [slice(None, None, -1), np.random.default_rng(0).permutation(30)])
def test_changes_are_from_the_earlier_to_the_later_row(date, order, tmp_path):
    prices = np.exp(RNG.normal(size=(30, 4)).cumsum(axis=0))
    lines = np.array(
        [f"{date.format(i + 1)},{','.join(map(repr, p.tolist()))}" for i, p in enumerate(prices)]
    )
    (tmp_path / "prices.csv").write_text("\n".join(["date,a,b,c,d", *lines[order]]))
    out = tmp_path / "out"
    result = ok("fit", tmp_path / "prices.csv", "-o", out, "-k", 1, *PAPER, "--log-returns")
    span = f"{date.format(1)} to {date.format(30)}"
    assert f"note: rows were sorted by date for --log-returns: {span}" in (result.stderr)
    expected = ebcd.EBCD(1, start="svd").fit_transform(np.diff(np.log(prices), axis=0))
    _, rows, scores = read(out / "scores.csv")
    assert rows == [date.format(i) for i in range(2, 31)]
    np.testing.assert_allclose(scores, expected, rtol=1e-9)
    _, again, later = read_printed(ok("transform", out, tmp_path / "prices.csv", "-q").stdout)
    assert again == rows
    np.testing.assert_allclose(later, expected, rtol=1e-9)


def test_hints_on_covariances(tmp_path):
    X = RNG.normal(size=(50, 4)) @ RNG.normal(size=(4, 4))
    np.save(tmp_path / "s.npy", np.cov(X.T, bias=True))
    options = ("-k", 1, *QUICK)
    result = ok("fit", tmp_path / "s.npy", "-o", tmp_path / "data", *options)
    assert "if it is a covariance matrix, add --covariance --n-samples N" in result.stderr
    options += ("--covariance", "--n-samples", 50)
    result = ok("fit", tmp_path / "s.npy", "-o", tmp_path / "out", *options)
    assert "add --covariance" not in result.stderr
    np.save(tmp_path / "x.npy", X)
    result = ok("transform", tmp_path / "out", tmp_path / "x.npy")
    assert "has no means; center the data" in result.stderr
    assert "warning" not in result.stderr
    np.savetxt(tmp_path / "x.txt", X + 100)
    result = ok("transform", tmp_path / "out", tmp_path / "x.txt")
    assert "warning: the model was fitted to a covariance" in result.stderr


def test_changes_that_cannot_be(table, tmp_path):
    out = ("-o", tmp_path / "out")
    assert "--log-returns needs positive numbers" in error("fit", table, *out, "--log-returns")
    (tmp_path / "x.csv").write_text("a,infl,real\n1,2,-1\n2,0,3\n3,4,1\n", encoding="utf-8")
    message = error("fit", tmp_path / "x.csv", *out, "--log-returns")
    assert "2 cells of infl, real are not, the first in row 1; use --difference, or" in message
    assert message.endswith('or leave them out with --drop "infl,real"')
    both = error("fit", table, *out, "--log-returns", "--difference")
    assert "leave out --difference" in both
    sparse.save_npz(tmp_path / "x.npz", sparse.csr_array(COUNTS))
    assert "sparse" in error("fit", tmp_path / "x.npz", *out, "--difference")
    np.save(tmp_path / "row.npy", COUNTS[:1])
    assert "at least two rows" in error("fit", tmp_path / "row.npy", *out, "--difference")


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_standardize(kind, tmp_path):
    values = COUNTS * np.array([1.0, 10, 100, 1, 1, 1, 1e-3, 0])
    path = tmp_path / "x.npz"
    if kind == "dense":
        np.savez(path, X=values)
    else:
        sparse.save_npz(path, sparse.csr_array(values))
    ok("fit", path, "-o", tmp_path / "out", "-k", 1, *QUICK, "--standardize")
    sd = np.append(values.std(axis=0)[:7], 1.0)
    expected = ebcd.EBCD(1, start="svd", scores="integrated").fit(values / sd).components_
    found = ebcd.load(tmp_path / "out" / "model.npz").components_
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-10)


def covariance_file(folder):
    props = ebcd.datasets.load_pitprops()
    path = folder / "pitprops.csv"
    lines = [",".join(["", *props.feature_names])]
    for name, row in zip(props.feature_names, props.correlation, strict=True):
        lines.append(",".join([name, *map(repr, row.tolist())]))
    path.write_text("\n".join(lines))
    return path, props


def test_covariance(tmp_path):
    path, props = covariance_file(tmp_path)
    out = tmp_path / "out"
    options = ("--covariance", "--n-samples", 180, "-k", 2)
    ok("fit", path, "-o", out, *options, *QUICK)
    assert sorted(file.name for file in out.iterdir()) == [f for f in FILES if f != "scores.csv"]
    expected = ebcd.EBCD(2, start="svd", scores="integrated").fit_covariance(props.correlation, 180)
    np.testing.assert_array_equal(ebcd.load(out / "model.npz").components_, expected.components_)
    assert read(out / "components.csv")[1] == props.feature_names
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    ratio = np.linalg.eigvalsh(props.correlation)[::-1][:2] / 13
    np.testing.assert_allclose(summary["pca_explained_variance_ratio"], ratio)
    ok("report", out)
    ok("fit", path, "-o", out, *options, *QUICK, "--standardize", "--force")


def test_covariance_mistakes(table, tmp_path):
    path, _ = covariance_file(tmp_path)
    out = ("-o", tmp_path / "out")
    assert "--n-samples N" in error("fit", path, *out, "--covariance")
    assert "only for --covariance" in error("fit", path, *out, "--n-samples", 9)
    options = (*out, "--covariance", "--n-samples", 9)
    assert "square" in error("fit", table, *options)
    assert "transposed" in error("fit", path, *options, "--difference")
    np.save(tmp_path / "zero.npy", np.zeros((3, 3)))
    assert "zero" in error("fit", tmp_path / "zero.npy", *options)
    np.save(tmp_path / "one.npy", np.ones((1, 1)))
    assert "at least two" in error("fit", tmp_path / "one.npy", *options)
    sparse.save_npz(tmp_path / "s.npz", sparse.eye_array(3, format="csr"))
    ok("fit", tmp_path / "s.npz", *options, "-k", 1, *QUICK)


def test_no_components(tmp_path):
    np.save(tmp_path / "noise.npy", np.random.default_rng(0).normal(size=(60, 5)))
    result = ok("fit", tmp_path / "noise.npy", "-o", tmp_path / "out")
    assert "noise. Pass -k as a number to look at the strongest" in result.stderr
    assert read(tmp_path / "out" / "components.csv")[0] == ["feature"]
    assert len(read(tmp_path / "out" / "scores.csv")[1]) == 60
    ok("report", tmp_path / "out")


def test_constant_sparse_data(tmp_path):
    sparse.save_npz(tmp_path / "x.npz", sparse.csr_array(np.outer(np.ones(4), [1.0, 0.0, 2.0])))
    assert "every column is constant" in error("fit", tmp_path / "x.npz", "-o", tmp_path / "out")


def test_usage_errors(table, tmp_path):
    out = ("-o", tmp_path / "out")
    assert "did you mean 'point_laplace'" in error("fit", table, *out, "--prior", "point_laplas")
    assert "did you mean 'gene 3'" in error("fit", table, *out, "--drop", "gen 3")
    assert "no columns are left" in error("fit", table, *out, "--drop", "*")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fit", "x.csv", "-o", "out", "-k", "0"), "'0' is neither a positive integer"),
        (("fit", "x.csv", "-o", "out", "-k", "many"), "'many' is neither a positive integer"),
        (("fit", "x.csv", "-o", "out", "--noise", "loud"), "--noise"),
        (("fit", "x.csv", "-o", "out", "--separator", "xy"), "'xy' is neither a single character"),
        (("fit", "x.csv", "-o", "out", "--max-time", "soon"), "--max-time"),
        (("fit", "x.csv", "-o", "out", "--no-such-option"), "--no-such-option"),
        (("fit", "x.csv"), "--output"),
        (("fit",), "INPUT"),
        (("transform", "model", "x.csv", "more"), "more"),
        (("fiit",), "fiit"),
    ],
)
def test_wrong_use_is_one_line(arguments, words):
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert words in line
    command = f"ebcd {arguments[0]}" if arguments[0] != "fiit" else "ebcd"
    assert line.endswith(f". Try '{command} --help'.")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--prior", "point_laplas"), "did you mean 'point_laplace'"),
        (("--prior", "normal,laplace", "-k", "1"), "prior has 2 entries"),
        (("--max-time", "-1"), "max_time must be a number of seconds above 0"),
        (("--checkpoint", "no/such/folder/file"), "does not exist; create it first"),
        (("--log-returns", "--difference"), "leave out --difference"),
        (("--n-samples", "9"), "--n-samples is only for --covariance"),
    ],
)
def test_mistakes_are_found_before_a_file_is_read(options, words, tmp_path):
    line = error("fit", tmp_path / "would take an hour.csv", "-o", tmp_path / "out", *options)
    assert words in line


def test_without_a_command_there_is_help():
    result = run()
    assert result.exit_code == 2
    assert "Usage: ebcd" in result.stdout
    assert "transform" in result.stdout


PIPE_THAT_NOBODY_READS = """
import os
from ebcd.cli import main
ours, theirs = os.pipe()
os.dup2(theirs, 1)
os.close(ours)
main()
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no broken pipes")
@pytest.mark.slow
def test_a_reader_that_has_seen_enough_is_no_error(fitted, tmp_path, run_process):
    out, table = fitted
    command = ("transform", out, table, "-q")
    process = run_process(PIPE_THAT_NOBODY_READS, *command, folder=tmp_path)
    assert process.stderr == ""
    assert process.returncode == 141  # as a shell says it of a program that SIGPIPE ended


def test_what_nobody_reads_is_forgotten(tmp_path, monkeypatch):
    with (tmp_path / "out.txt").open("w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        file.write("what is still in the buffer")
        with pytest.raises(typer.Exit) as end, one_line_errors():
            raise BrokenPipeError
        assert end.value.exit_code == 141
    assert (tmp_path / "out.txt").read_text() == ""


def test_separator_by_name(tmp_path):
    (tmp_path / "x.txt").write_text("a|b\n1|2\n3|5\n4|4\n")
    ok("fit", tmp_path / "x.txt", "-o", tmp_path / "out", "-k", 1, "--separator", "pipe")


def test_standard_input(table, tmp_path):
    result = ok("fit", "-", "-o", tmp_path / "out", "-k", 1, "--json", input=table.read_bytes())
    assert json.loads(result.stdout)["title"] == "Components of standard input"


def test_existing_results_are_kept_without_force(table, tmp_path):
    out = tmp_path / "out"
    ok("fit", table, "-o", out, "-k", 1, *QUICK)
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    assert "--force" in error("fit", table, "-o", out, "-k", 2)
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before
    ok("fit", table, "-o", out, "-k", 2, *PAPER, "--force")
    assert ebcd.load(out / "model.npz").n_components_ == 2
    assert sorted(file.name for file in tmp_path.iterdir()) == ["counts.csv", "out"]


def test_force_never_destroys_other_files(table, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    assert "thesis.tex" in error("fit", table, "-o", tmp_path, "--force")
    assert "is a file" in error("fit", table, "-o", table, "--force")
    assert "cannot be created: Not a directory" in error("fit", table, "-o", table / "out")
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_no_permission_to_write_is_said_before_the_fit(table, tmp_path, monkeypatch):
    def denied(self, *arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", denied)
    message = error("fit", tmp_path / "would take an hour.csv", "-o", tmp_path / "out")
    assert "out cannot be created: Permission denied" in message


@pytest.mark.parametrize("existing", [False, True])
def test_failure_while_writing_leaves_everything_as_it_was(table, tmp_path, monkeypatch, existing):
    out = tmp_path / "out"
    if existing:
        ok("fit", table, "-o", out, "-k", 1, *QUICK)

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_results, "write_report", full)
    message = error("fit", table, "-o", out, "-k", 2, *QUICK, "--force")
    assert "No space left on device" in message
    assert out.exists() == existing
    if existing:
        assert ebcd.load(out / "model.npz").n_components_ == 1
    assert sorted(file.name for file in tmp_path.iterdir()) == ["counts.csv"] + ["out"] * existing


def test_interrupted(table, tmp_path, monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(_results, "write_report", interrupt)
    result = run("fit", table, "-o", tmp_path / "out", "-k", 1, *QUICK)
    assert result.exit_code == 130
    assert "interrupted" in result.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["counts.csv"]


def _heeds_control_c():
    """As in a terminal, also if the tests run in the background of a shell, which ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
@pytest.mark.slow
def test_control_c_leaves_nothing_behind(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(300, 300)).cumsum(axis=0))
    command = [sys.executable, "-m", "ebcd", "fit", tmp_path / "x.npy", "-o", tmp_path / "out"]
    command += ["-k", "40", "--prior", "npmle", "--tol", "0"]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=environment, preexec_fn=_heeds_control_c
    ) as running:
        while "start" not in running.stderr.readline():
            assert running.poll() is None
        time.sleep(0.3)
        running.send_signal(signal.SIGINT)
        rest = running.stderr.read()
        assert running.wait() == 130
    assert "interrupted; nothing was written" in rest
    assert "Traceback" not in rest
    assert [file.name for file in tmp_path.iterdir()] == ["x.npy"]


def test_demo(tmp_path):
    result = ok("demo", "-o", tmp_path / "out")
    assert result.stdout.rstrip().endswith(str(tmp_path / "out" / "report.html"))
    header, months, scores = read(tmp_path / "out" / "scores.csv")
    assert (header[0], months[0], months[-1]) == ("month", "2006-02", "2015-12")
    assert months[int(np.argmin(scores[:, 0]))] == "2009-04"  # the depth of the recession
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert [round(100 * c["explained_variance_ratio"]) for c in summary["components"]] == [45, 6, 3]
    assert [c["n_sure"] for c in summary["components"]] == [12, 3, 1]
    assert summary["components"][1]["top_features"][1]["name"] == "government"


def test_demo_with_the_scores_of_the_paper(tmp_path):
    ok("demo", "-o", tmp_path / "out", "--scores", "orthogonal")
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert [round(100 * c["explained_variance_ratio"]) for c in summary["components"]] == [48, 9, 7]


@pytest.fixture(scope="module")
def bootstrapped(tmp_path_factory):
    """Results with the intervals of a few bootstrap fits, and what was printed."""
    folder = tmp_path_factory.mktemp("bootstrapped")
    np.save(folder / "x.npy", COUNTS)
    result = ok("fit", folder / "x.npy", "-o", folder / "out", "-k", 2, *PAPER, "--bootstrap", 5)
    return folder / "out", result


def test_bootstrap_intervals(bootstrapped):
    """The intervals of Bootstrap, written out for five draws, in all files."""
    out, result = bootstrapped
    model, rng = ebcd.load(out / "model.npz"), np.random.default_rng(0)
    draws = [model.bootstrap(n_boot=n, random_state=rng) for n in (3, 2)]
    components = np.concatenate([part.components for part in draws])
    error = np.sqrt(np.mean((components - draws[0].estimate) ** 2, axis=0))
    reach = 2.570581835636314 * error  # quantile of Student's t with 5 degrees of freedom
    _, _, numbers = read(out / "components.csv")
    for place, side in ((3, -1), (4, 1)):
        expected = (draws[0].estimate + side * reach).T
        np.testing.assert_allclose(numbers[:, place::5], expected, rtol=1e-10, atol=1e-12)
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert summary["intervals"]["kind"] == "bootstrap"
    assert summary["intervals"]["n_boot"] == 5
    first = summary["components"][0]["top_features"][0]
    row = np.argmax(np.abs(numbers[:, 0]))
    assert [first["lower"], first["upper"]] == numbers[row, 3:5].tolist()
    assert summary["intervals"]["method"] == "parametric"
    words = (
        "intervals in the files are those of 5 bootstrap fits to data drawn from the fitted model"
    )
    assert words in result.stdout
    assert "bootstrap fits" in result.stderr


def test_report_says_that_intervals_are_from_a_bootstrap(bootstrapped):
    out, _ = bootstrapped
    text = (out / "report.md").read_text(encoding="utf-8")
    assert "are 95% bootstrap intervals for the population" in text
    assert "shorter than these" in text  # with the scores of the paper
    page = (out / "report.html").read_text(encoding="utf-8")
    assert '"interval": "95% bootstrap interval"' in page
    ok("report", out)
    assert (out / "report.html").read_text(encoding="utf-8") == page


@pytest.mark.parametrize("holes", [False, True])
def test_bootstrap_of_rows(tmp_path, holes):
    """The intervals of `EBCD.bootstrap` with rows, and sentences that say so."""
    values = COUNTS.astype(float)
    values[:: 7 if holes else 99, 1] = np.nan
    np.save(tmp_path / "x.npy", values[0 if holes else 1 :])
    out = tmp_path / "out"
    rows = ("--bootstrap", 2, "--bootstrap-method", "rows")
    result = ok("fit", tmp_path / "x.npy", "-o", out, "-k", 1, *QUICK, *rows)
    assert (
        "those of 2 bootstrap fits to rows of the data, drawn with replacement\n" in result.stdout
    )
    model, X = ebcd.load(out / "model.npz"), np.load(tmp_path / "x.npy")
    del model.feature_names_in_  # of the file, but X is an array
    draws = model.bootstrap(X, n_boot=2, method="rows", random_state=np.random.default_rng(0))
    _, _, numbers = read(out / "components.csv")
    np.testing.assert_allclose(numbers[:, 3:].T, draws.intervals()[:, 0], rtol=1e-10)
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert summary["intervals"]["method"] == "rows"
    text = (out / "report.md").read_text(encoding="utf-8")
    assert "fits to rows of the data, drawn with replacement, differ from this one" in text
    assert "90% intervals covered" not in text  # which was measured for parametric draws only
    page = (out / "report.html").read_bytes()
    ok("report", out)
    assert (out / "report.html").read_bytes() == page


def test_bootstrap_of_rows_needs_rows_and_a_number_of_fits(table, tmp_path):
    rows = ("-o", tmp_path / "out", "--bootstrap-method", "rows")
    assert "--bootstrap-method needs the number of fits: --bootstrap 50" in error(
        "fit", table, *rows
    )
    np.savetxt(tmp_path / "S.csv", np.eye(4), delimiter=",", header="a,b,c,d", comments="")
    covariance = ("--covariance", "--n-samples", 9, "--bootstrap", 9)
    message = error("fit", tmp_path / "S.csv", *rows, *covariance)
    assert "a covariance matrix has no rows" in message


def test_interrupted_bootstrap_leaves_nothing_behind(table, tmp_path, monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(ebcd.EBCD, "bootstrap", interrupt)
    result = run("fit", table, "-o", tmp_path / "out", "-k", 1, *QUICK, "--bootstrap", 9)
    assert result.exit_code == 130
    assert [file.name for file in tmp_path.iterdir()] == ["counts.csv"]


def test_credible_intervals_say_what_they_are_about(fitted):
    summary = json.loads((fitted[0] / "summary.json").read_text(encoding="utf-8"))
    assert summary["intervals"] == {"kind": "credible", "level": 0.95, "about": "population"}


def test_weak_components_that_are_dropped_are_reported(tmp_path):
    np.save(tmp_path / "noise.npy", np.random.default_rng(1).normal(size=(50, 20)))
    result = ok("fit", tmp_path / "noise.npy", "-o", tmp_path / "out", "-k", 2)
    dropped = "1 of 2 components was dropped: all its loadings are zero"
    assert dropped in result.stdout
    assert 'scores="orthogonal" keeps weak ones' in result.stdout
    page = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "one such group, called a component (1 of the 2 requested was too weak)" in page


def test_report_again(fitted):
    out, _ = fitted
    before = (out / "report.html").read_text(encoding="utf-8")
    (out / "report.html").unlink()
    result = ok("report", out)
    assert result.stdout.strip() == str(out / "report.html")
    assert (out / "report.html").read_text(encoding="utf-8") == before


@pytest.fixture
def flowers(tmp_path):
    """A table with a column of kinds, one of ages, and a hole."""
    rng = np.random.default_rng(0)
    kinds = np.array(["oak", "elm", "ash"])[np.arange(60) % 3]
    sizes = rng.normal(size=(60, 4)) + (kinds == "oak")[:, None] * [4, 4, 0, 0]
    lines = ["kind,a,b,age,c,d"]
    for i, (kind, row) in enumerate(zip(kinds, sizes, strict=True)):
        cells = [f"{value:.6f}" for value in row]
        cells[0] = "" if i == 4 else cells[0]
        lines.append(",".join([kind, *cells[:2], str(i), *cells[2:]]))
    path = tmp_path / "flowers.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path, kinds, sizes


def page_header(folder):
    text = (folder / "report.html").read_text(encoding="utf-8")
    return json.loads(re.search(r'id="header">(.*?)</script>', text, re.DOTALL)[1])


def test_columns_to_colour_by_are_not_fitted(flowers, tmp_path):
    path, kinds, _ = flowers
    out = tmp_path / "out"
    options = ["-k", 2, "--drop-missing", "rows", "--color-by", "kind", "--color-by", "age"]
    ok("fit", path, "-o", out, *options, *QUICK)
    _, features, _ = read(out / "components.csv")
    assert features == ["a", "b", "c", "d"]
    assert [group["name"] for group in page_header(out)["groups"]] == ["kind", "age"]
    assert page_header(out)["groups"][0]["categories"] == ["ash", "elm", "oak"]
    assert page_header(out)["groups"][1]["categories"] is None
    kept = np.delete(np.arange(60), 4)
    known = ebcd._store.read(out / "report.npz")["background"]
    assert known["groups"] == {"kind": kinds[kept].tolist(), "age": kept.astype(float).tolist()}
    np.testing.assert_allclose(known["missing"], 0)
    before = (out / "report.html").read_bytes()
    ok("report", out)
    assert (out / "report.html").read_bytes() == before


def test_rows_without_any_cells_keep_their_colours(flowers, tmp_path):
    path, kinds, _ = flowers
    lines = path.read_text(encoding="utf-8").splitlines()
    cells = [line.split(",") for line in lines]
    for j, name in enumerate(cells[0]):
        cells[8][j] = "" if name in "abcd" else cells[8][j]
    path.write_text("\n".join(map(",".join, cells)), encoding="utf-8")
    out = tmp_path / "out"
    options = ["-k", 1, "--color-by", "kind", "--drop", "age", "--bootstrap", 2]
    ok("fit", path, "-o", out, *options, "--bootstrap-method", "rows", "--stability", 1, *QUICK)
    known = ebcd._store.read(out / "report.npz")["background"]
    assert known["groups"] == {"kind": kinds.tolist()}
    words = (out / "report.md").read_text(encoding="utf-8")
    assert "59 rows of 4 features; 1 cell (0.4%) is missing: a (1)." in words
    assert len(read(out / "scores.csv")[2]) == len(kinds)


def test_differences_belong_to_the_later_row_and_its_group(flowers, tmp_path):
    path, kinds, _ = flowers
    out = tmp_path / "out"
    ok("fit", path, "-o", out, "-k", 1, "--drop", "a", "--difference", "--color-by", "kind", *QUICK)
    known = ebcd._store.read(out / "report.npz")["background"]
    assert known["groups"]["kind"] == kinds[1:].tolist()


def test_bad_columns_to_colour_by(flowers, tmp_path):
    path, out = flowers[0], ("-o", tmp_path / "out")
    assert "--color-by: " in error("fit", path, *out, "--color-by", "kinds")
    message = error("fit", path, *out, "--drop", "a", "--color-by", "kind", "--transpose")
    assert "--color-by needs a column" in message
    np.savetxt(tmp_path / "S.csv", np.eye(4), delimiter=",", header="a,b,c,d", comments="")
    covariance = ("--covariance", "--n-samples", 9)
    message = error("fit", tmp_path / "S.csv", *out, *covariance, "--color-by", "a")
    assert "needs data with a row for each sample" in message
    message = error("fit", tmp_path / "S.csv", *out, *covariance, "--stability", 3)
    assert "--stability fits halves of the rows" in message


def test_colour_by_a_column_of_a_matrix(tmp_path):
    np.save(tmp_path / "a.npy", COUNTS)
    ok("fit", tmp_path / "a.npy", "-o", tmp_path / "out", "-k", 1, "--color-by", "x2", *QUICK)
    known = ebcd._store.read(tmp_path / "out" / "report.npz")["background"]
    assert known["groups"] == {"x2": COUNTS[:, 2].tolist()}
    assert "x2" not in read(tmp_path / "out" / "components.csv")[1]


def test_stability(table, tmp_path):
    out = tmp_path / "out"
    result = ok("fit", table, "-o", out, "-k", 2, "--stability", 3)
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    model = ebcd.EBCD(2, scores="integrated", random_state=0).fit(COUNTS)
    rng = np.random.default_rng(0)
    expected = sum(model.stability(COUNTS, 1, random_state=rng) for _ in range(3)) / 3
    shares = [component["found_again"] for component in summary["components"]]
    np.testing.assert_allclose(shares, expected)
    assert f"found again in random halves of the rows: component 0 in {shares[0]:.0%}, " in (
        result.stdout
    )
    assert "fits to halves of the rows" in result.stderr
    np.testing.assert_allclose(page_header(out)["stability"], shares)
    before = (out / "report.html").read_bytes()
    ok("report", out)
    assert (out / "report.html").read_bytes() == before


def test_dates_that_repeat_are_noted_where_changes_are_taken(tmp_path):
    days = ["2020-01-01", "2020-01-02", "2020-01-02", "2020-01-03", "2020-01-04"]
    lines = [f"{day},{i * i},{i % 3}" for i, day in enumerate(days)]
    (tmp_path / "x.csv").write_text("\n".join(["date,a,b", *lines]), encoding="utf-8")
    result = ok("fit", tmp_path / "x.csv", "-o", tmp_path / "o", "-k", 1, "--difference", *QUICK)
    assert "note: 1 row has the date of the row before, so not all changes" in result.stderr


def test_table_with_a_value_in_each_row_is_to_be_reshaped(tmp_path):
    lines = [f"{day},{name},{day + len(name)}" for day in range(5) for name in ("oil", "corn")]
    (tmp_path / "x.csv").write_text("\n".join(["day,name,price", *lines]), encoding="utf-8")
    message = error("fit", tmp_path / "x.csv", "-o", tmp_path / "o", "--index", "day")
    assert message.endswith("or reshape a table with one value in each row to a column per feature")


def test_stability_of_dated_rows_is_that_of_blocks(tmp_path):
    """Random halves of independent random walks confirm each other; blocks in time do not."""
    walks = np.random.default_rng(0).normal(size=(90, 6)).cumsum(axis=0)
    days = np.arange("2020-01-01", "2020-03-31", dtype="datetime64[D]")
    lines = [f"{day},{','.join(map(str, row))}" for day, row in zip(days, walks, strict=True)]
    (tmp_path / "x.csv").write_text("\n".join(["date,a,b,c,d,e,f", *lines[::-1]]))  # backwards
    out = tmp_path / "out"
    result = ok("fit", tmp_path / "x.csv", "-o", out, "-k", 2, "--stability", 2, *QUICK)
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert summary["halves"] == "blocks"
    model = ebcd.EBCD(2, scores="integrated", start="svd", random_state=0).fit(walks)
    rng = np.random.default_rng(0)
    alone = [model.stability(walks, 1, method="blocks", random_state=rng) for _ in range(2)]
    shares = [component["found_again"] for component in summary["components"]]
    np.testing.assert_allclose(shares, sum(alone) / 2)
    blocks = "blocks of consecutive rows, half as long as the data"
    assert f"  found again in {blocks}: component 0 in" in result.stdout
    text = (out / "report.md").read_text(encoding="utf-8")
    assert f"The model was fitted again to {blocks}, each time from scratch." in text
    assert f"of {blocks}." in text
    assert "random halves" not in text
    before = (out / "report.html").read_bytes()
    ok("report", out)
    assert (out / "report.html").read_bytes() == before


def test_report_again_keeps_names_that_look_like_numbers(tmp_path):
    lines = [f"{i:03d},{','.join(map(str, row))}" for i, row in enumerate(COUNTS)]
    (tmp_path / "x.csv").write_text("\n".join(["id,a,b,c,d,e,f,g,h", *lines]))
    ok("fit", tmp_path / "x.csv", "-o", tmp_path / "out", "-k", 1, *QUICK)
    before = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    ok("report", tmp_path / "out")
    assert (tmp_path / "out" / "report.html").read_text(encoding="utf-8") == before


def test_report_of_something_else(fitted, tmp_path):
    out, _ = fitted
    assert "does not exist" in error("report", tmp_path / "nothing")
    assert "no model.npz" in error("report", tmp_path)
    assert "is a file" in error("report", out / "model.npz")
    (tmp_path / "model.npz").write_bytes((out / "model.npz").read_bytes())
    assert "no report.npz" in error("report", tmp_path)


def test_transform(fitted, tmp_path):
    out, path = fitted
    scores = tmp_path / "scores.csv"
    ok("transform", out, path, "-o", scores)
    assert read(scores)[:2] == read(out / "scores.csv")[:2]
    np.testing.assert_allclose(read(scores)[2], read(out / "scores.csv")[2], rtol=1e-12)
    assert "--force" in error("transform", out, path, "-o", scores)
    ok("transform", out / "model.npz", path, "-o", scores, "--force", "--quiet")
    assert "is a folder" in error("transform", out, path, "-o", tmp_path)
    printed = ok("transform", out, path, "--quiet").stdout
    assert printed == scores.read_text(encoding="utf-8")


def test_transform_matches_columns_by_name(fitted, tmp_path):
    out, path = fitted
    lines = [line.split(",") for line in path.read_text(encoding="utf-8").splitlines()]
    shuffled = [[line[0], "text", *reversed(line[1:])] for line in lines]
    other = tmp_path / "other.csv"
    other.write_text("\n".join(",".join(line) for line in shuffled), encoding="utf-8")
    ok("transform", out, other, "-o", tmp_path / "scores.csv")
    expected = read(out / "scores.csv")[2]
    np.testing.assert_allclose(read(tmp_path / "scores.csv")[2], expected, rtol=1e-12)
    other.write_text("\n".join(",".join(line[:-2]) for line in lines), encoding="utf-8")
    message = error("transform", out, other)
    assert "2 of the 8 features of the model are missing: gene 6, gene 7" in message


def test_transform_of_a_matrix_without_names(fitted, tmp_path):
    out, _ = fitted
    np.save(tmp_path / "x.npy", COUNTS)
    result = ok("transform", out, tmp_path / "x.npy", "-o", tmp_path / "scores.csv")
    assert "no names" in result.stderr
    np.testing.assert_allclose(
        read(tmp_path / "scores.csv")[2], read(out / "scores.csv")[2], rtol=1e-12
    )
    np.save(tmp_path / "x.npy", COUNTS[:, 1:])
    assert "missing" in error("transform", out, tmp_path / "x.npy")


def test_transform_of_a_transposed_file(tmp_path):
    np.save(tmp_path / "x.npy", COUNTS.T)
    ok("fit", tmp_path / "x.npy", "-o", tmp_path / "out", "-k", 1, "--transpose", *QUICK)
    ok("transform", tmp_path / "out", tmp_path / "x.npy", "-o", tmp_path / "scores.csv")
    np.testing.assert_allclose(
        read(tmp_path / "scores.csv")[2], read(tmp_path / "out" / "scores.csv")[2], rtol=1e-12
    )


def test_compare(table):
    result = ok("compare", table, "-k", 2, "--json")
    outcomes = {outcome["method"]: outcome for outcome in json.loads(result.stdout)}
    assert set(outcomes) > {"point_laplace", "horseshoe", "PCA", "SPC", "EBMF", "EBPCA"}
    model = ebcd.EBCD(2).fit(COUNTS)
    assert outcomes["point_laplace"]["elbo"] == model.elbo_
    sure = (model.lfsr_ < 0.05).sum(axis=1).tolist()
    assert outcomes["point_laplace"]["n_nonzero"] == sure
    centred = COUNTS - COUNTS.mean(axis=0)
    values = np.linalg.svd(centred, compute_uv=False) ** 2
    share = values[:2].sum() / values.sum()
    assert outcomes["PCA"]["explained_variance_ratio"] == pytest.approx(share)
    assert outcomes["PCA"]["n_nonzero"] == [8, 8]
    assert outcomes["PCA"]["elbo"] is None
    assert outcomes["PCA"]["trouble"] is None  # it is exact


def test_compare_table(table):
    methods = ("--method", "point_laplace", "--method", "PCA")
    result = ok("compare", table, *methods, "--standardize", "--quiet")
    lines = result.stdout.splitlines()
    assert lines[0].split() == [
        "method",
        "components",
        "variance",
        "features",
        "used",
        "ELBO",
        "seconds",
    ]
    assert lines[1].startswith("EBCD point_laplace")
    assert lines[2].startswith("PCA")
    assert result.stderr == ""


def test_compare_of_a_covariance(tmp_path):
    path, _ = covariance_file(tmp_path)
    options = ("--covariance", "--n-samples", 180, "-k", 2, "--json")
    methods = ("--method", "normal", "--method", "GPower", "--method", "EBPCA")
    result = ok("compare", path, *options, *methods)
    normal, gpower, ebpca = json.loads(result.stdout)
    assert (normal["kind"], normal["n_components"]) == ("EBCD", 2)
    assert gpower["n_components"] == 2
    assert ebpca["n_components"] is None
    assert ebpca["trouble"]
    printed = ok("compare", path, *options[:-1], *methods).stdout
    grid, legend = printed.split("\n\n")
    assert grid.splitlines()[-1].split() == ["EBPCA", *"-----"]
    assert f"EBPCA: {ebpca['trouble'][:20]}" in legend


@pytest.mark.parametrize("names", [(), ("normal,point_laplace",)])
def test_compare_priors(names, table, tmp_path):
    result = ok("compare", table, "-k", 2, "--priors", *names, "--json")
    outcomes = json.loads(result.stdout)
    wanted = names[0].split(",") if names else None
    expected = ebcd.compare_priors(COUNTS, wanted, n_components=2)
    assert [outcome["method"] for outcome in outcomes] == list(expected.models)
    for outcome, model in zip(outcomes, expected.models.values(), strict=True):
        assert outcome["elbo"] == model.elbo_
        assert outcome["best"] == (outcome["method"] == expected.best)
    page = tmp_path / "page.html"
    printed = ok("compare", "--priors", *names, table, "-k", 2, "-o", page).stdout
    assert f"EBCD {expected.best} (best)" in printed
    assert "differences of a few nats are ties" in " ".join(printed.split())
    assert f"<th scope=row>EBCD {expected.best} (best)</th>" in page.read_text(encoding="utf-8")


def test_compare_with_missing_cells(tmp_path):
    values = COUNTS.astype(float)
    values[3, 1] = np.nan
    path = tmp_path / "holes.npy"
    np.save(path, values)
    expected = ebcd.compare_priors(values, ["normal", "point_laplace"], n_components=2)
    priors = ok("compare", path, "-k", 2, "--priors", "normal,point_laplace", "--json")
    families = ("--method", "normal", "--method", "point_laplace", "--method", "EBMF")
    for result in (priors, ok("compare", path, "-k", 2, *families, "--json")):
        elbos = [outcome["elbo"] for outcome in json.loads(result.stdout)][:2]
        np.testing.assert_allclose(elbos, [model.elbo_ for model in expected.models.values()])
    message = error("compare", path, "-k", 2, "--method", "PCA", "--method", "normal")
    assert "PCA needs all cells, but 1 cell is missing, the first in row 4" in message
    assert "--drop-missing rows" in message
    assert "--priors" in message


def test_compare_priors_of_a_file_without_a_suffix(table, tmp_path, monkeypatch):
    (tmp_path / "counts").write_bytes(table.read_bytes())
    monkeypatch.chdir(tmp_path)
    assert "(best)" in ok("compare", "--priors", "counts", "-k", 2).stdout


def test_compare_priors_mistakes(table, tmp_path):
    assert "did you mean 'normal'" in error("compare", table, "--priors", "normla")
    assert "leave out --method" in error("compare", table, "--priors", "--method", "PCA")
    assert "unknown prior 'PCA'" in error("compare", table, "--priors", "PCA")


def test_compare_priors_on_a_covariance(tmp_path):
    path, props = covariance_file(tmp_path)
    options = ("--covariance", "--n-samples", 180, "-k", 2)
    printed = ok("compare", path, "--priors", "normal,point_laplace", *options, "--json").stdout
    elbos = {one["method"]: one["elbo"] for one in json.loads(printed)}
    for name, elbo in elbos.items():
        model = ebcd.EBCD(2, prior=name).fit_covariance(props.correlation, 180)
        assert elbo == pytest.approx(model.elbo_)
    (best,) = (one["method"] for one in json.loads(printed) if one["best"])
    assert elbos[best] >= max(elbos.values()) - 3


def test_compare_mistakes(table, tmp_path):
    assert "did you mean 'EBMF'" in error("compare", table, "--method", "EBMV")
    np.save(tmp_path / "noise.npy", np.random.default_rng(0).normal(size=(60, 5)))
    assert "set their number with -k" in error("compare", tmp_path / "noise.npy")


def test_damaged_model(fitted, tmp_path):
    (tmp_path / "model.npz").write_bytes(b"PK\x03\x04 no model")
    assert "model.npz" in error("transform", tmp_path, fitted[1])


def test_version(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["ebcd", "--version"])
    with pytest.raises(SystemExit):
        runpy.run_module("ebcd", run_name="__main__")
    assert capsys.readouterr().out == ok("--version").stdout == f"ebcd {ebcd.__version__}\n"


def test_module_runs_the_command_line(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["ebcd", "report", "no-such-folder"])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_module("ebcd", run_name="__main__")
    assert stopped.value.code == 2
    assert capsys.readouterr().err.startswith("error: no-such-folder does not exist")


@pytest.mark.slow
def test_piped_output_has_no_escape_codes(table, tmp_path, run_process):
    main = "from ebcd.cli import main; main()"
    process = run_process(main, "fit", table, "-o", "out", "-k", 1, *QUICK, folder=tmp_path)
    assert process.returncode == 0, process.stderr
    printed = (tmp_path / "stdout").read_text(encoding="utf-8")
    assert "report.html" in printed
    assert "\x1b" not in printed + process.stderr
    assert "fitting: iteration " in process.stderr


def test_version_without_the_extra(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["ebcd", "--version"])
    monkeypatch.setitem(sys.modules, "typer", None)
    ebcd.cli.main()
    assert capsys.readouterr().out == f"ebcd {ebcd.__version__}\n"


def test_interrupted_while_libraries_are_loaded(capsys, monkeypatch):
    class Interrupted:
        def __getattr__(self, name):
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "ebcd.cli._app", Interrupted())
    with pytest.raises(SystemExit) as stopped:
        ebcd.cli.main()
    assert stopped.value.code == 130
    assert capsys.readouterr().err == ""


def test_without_the_extra(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["ebcd", "demo"])
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as stopped:
        ebcd.cli.main()
    assert stopped.value.code == 2
    message = 'the command line needs Typer and Rich: pip install "ebcd[cli]"\n'
    assert capsys.readouterr().err == message


def completed(words):
    environment = {"_EBCD_COMPLETE": "complete_bash", "COMP_WORDS": words}
    environment["COMP_CWORD"] = str(len(words.split(" ")) - 1)
    return run(env=environment).stdout.split()


def test_completion():
    script = run(env={"_EBCD_COMPLETE": "source_bash"}).stdout
    assert "complete -o default -F _ebcd_completion ebcd" in script
    assert completed("ebcd re") == ["report"]
    assert completed("ebcd fit --prior point_e") == ["point_exponential"]
    assert completed("ebcd compare --method EBP") == ["EBPCA"]


@pytest.mark.parametrize("command", ["fit", "demo", "report", "compare", "transform"])
def test_help(command):
    assert "Usage: " in ok(command, "--help").stdout


def page_and_text(folder):
    return [(folder / name).read_text(encoding="utf-8") for name in ("report.html", "report.md")]


def test_preparation_and_notes_are_at_the_top(tmp_path):
    values = np.column_stack([COUNTS, np.full(50, 7)]).astype(str)
    values[3, 1] = "NA"
    path, out = tmp_path / "x.csv", tmp_path / "out"
    path.write_text("\n".join(map(",".join, [[*NAMES, "unit"], *values.tolist()])))
    options = ("-k", 1, "--drop-missing", "rows", *QUICK)
    ok("fit", path, "-o", out, *options, "--standardize")
    said = [
        "divided by their standard deviations",
        "not in any component",
        "1 row with missing cells",
    ]
    summary = (out / "summary.json").read_text(encoding="utf-8")
    ends = ["looked for", "looked for", '"explained_variance_ratio"']
    for text, end in zip([*page_and_text(out), summary], ends, strict=True):
        assert all(text.index(words) < text.index(end) for words in said)
    for text in page_and_text(out):
        assert "in standard deviations of that feature" in text
        assert "in its own units" not in text
        assert "True, before the fit" in text
    before = (out / "report.html").read_bytes()
    ok("report", out)
    assert (out / "report.html").read_bytes() == before
    ok("fit", path, "-o", out, *options, "--no-center", "--force")
    for text in page_and_text(out):
        assert "in its own units" in text
        assert "--no-center" in text


@pytest.mark.parametrize("kind", ["data", "covariance"])
def test_columns_of_unequal_variances_are_warned_about_first(kind, tmp_path):
    values = COUNTS * np.array([1.0, 1, 1, 1, 1, 1, 1, 1000])
    options = () if kind == "data" else ("--covariance", "--n-samples", 50)
    values = values if kind == "data" else np.cov(values.T)
    path, out = tmp_path / "x.csv", tmp_path / "out"
    np.savetxt(path, values, delimiter=",", header=",".join(NAMES), comments="")
    options = (path, "-k", 1, *options)
    result = ok("fit", *options, "-o", out, *QUICK)
    assert "warning: the variances of the columns differ more than a hundredfold" in result.stderr
    assert "add --standardize" in result.stderr
    assert "scale=True" not in result.output
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert "--standardize" in summary["warnings"][0]
    for text in page_and_text(out):
        assert text.index("Warning: the variances") < text.index("looked for")
    result = ok("fit", *options, "-o", out, *QUICK, "--standardize", "--force")
    assert "hundredfold" not in result.output
    assert "add --standardize" in ok("compare", *options, "--method", "PCA").stderr


def test_dated_rows_that_resemble_their_neighbours_are_warned_about(tmp_path):
    """Independent random walks have eight components; their changes have none."""
    walks = np.cumsum(np.random.default_rng(0).normal(size=(200, 10)), axis=0)
    dates = np.datetime64("2020-01-01") + np.arange(200)
    order = np.random.default_rng(1).permutation(200)  # rows need not be in order
    path = tmp_path / "walks.csv"
    lines = [f"{dates[i]},{','.join(map(str, walks[i]))}" for i in order]
    path.write_text("\n".join([f"date,{','.join('abcdefghij')}", *lines]), encoding="utf-8")
    result = ok("fit", path, "-o", tmp_path / "out", "-k", 1, *QUICK)
    assert "warning: successive dates are similar (mean correlation 0.9" in result.stderr
    assert "add --difference, or --log-returns for prices" in result.stderr
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert any("successive dates" in warning for warning in summary["warnings"])
    changes = ok("fit", path, "-o", tmp_path / "changes", "-k", 1, "--difference", *QUICK)
    assert "successive dates" not in changes.stderr


@pytest.mark.parametrize("command", ["fit", "compare"])
def test_too_many_components_are_refused_before_any_work(command, table, tmp_path, monkeypatch):
    monkeypatch.setattr(ebcd.EBCD, "fit", lambda *arguments: pytest.fail("work was done"))
    options = ("-o", tmp_path / "out") if command == "fit" else ()
    message = error(command, table, *options, "-k", 9)
    assert "-k 9 is too many; 50 samples of 8 features have at most 8 components" in message


@pytest.mark.parametrize(
    ("raised", "words"),
    [
        (OSError(28, "No space left on device", "out/x"), "out/x: No space left on device"),
        (OSError("the disk is gone"), "the disk is gone"),
        (KeyError("x"), "KeyError: 'x'; this should not happen"),
        (RuntimeError("cannot be"), "RuntimeError: cannot be; this should not happen"),
    ],
)
def test_no_traceback(raised, words, table, tmp_path, monkeypatch):
    def fail(*arguments, **options):
        raise raised

    monkeypatch.setattr(_results, "fit_model", fail)
    assert error("fit", table, "-o", tmp_path / "out", "-k", 1).startswith(f"error: {words}")


@pytest.mark.parametrize("name", ["page.html", "folder"])
def test_compare_writes_a_page(name, table, tmp_path):
    options = ("compare", table, "-k", 2, "--standardize", "--method", "normal", "--method", "PCA")
    result = ok(*options, "-o", tmp_path / name)
    place = tmp_path / name if name == "page.html" else tmp_path / name / "compare.html"
    assert result.stdout.rstrip().endswith(f"page: {place}")
    page = place.read_text(encoding="utf-8")
    assert "<h1>Methods compared on counts.csv</h1>" in page
    assert "<th scope=row>EBCD normal</th><td>2</td>" in page
    assert "standard deviations (<span class=unbroken>--standardize</span>)" in page
    for words in ("EBMF and EBPCA also shrink the scores", "only between prior families"):
        assert words in page
        assert words in " ".join(result.stdout.split())
    assert "{{" not in page
    assert "--force" in error(*options, "-o", tmp_path / name)
    ok(*options, "-o", tmp_path / name, "--force")


@pytest.mark.parametrize("large", [False, True])
def test_arrays_on_disk_are_like_other_files(table, tmp_path, monkeypatch, large):
    """Rows are drawn, and the report describes the columns unless the array is too large."""
    if large:
        monkeypatch.setattr(_data, "SETTINGS", DataSettings(compared=10))
    np.save(tmp_path / "x.npy", COUNTS.astype(float))
    options = ("-k", 1, *QUICK, "--stability", 2, "--bootstrap", 2, "--bootstrap-method", "rows")
    ok("fit", tmp_path / "x.npy", "-o", tmp_path / "npy", *options)
    ok("fit", table, "-o", tmp_path / "csv", *options)
    known = ebcd._store.read(tmp_path / "npy" / "report.npz")["background"]
    assert known["skewness"].size == (0 if large else 8)
    numbers = [read(tmp_path / name / "components.csv")[2] for name in ("npy", "csv")]
    np.testing.assert_allclose(*numbers, rtol=1e-6, atol=1e-9)

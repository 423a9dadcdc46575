"""Files as people have them: the right result, or one line that says what to do, and no traces."""

import gzip
import io
import json
import os
import re
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer")
from typer.testing import CliRunner

from ebcd.cli._app import app
from ebcd.data.files._table import read_table

ROWS, SPIKES = 40, 3


def make_data(n_features=6, seed=0):
    """Two groups of features that move together, and noise."""
    rng = np.random.default_rng(seed)
    loadings = np.zeros((2, n_features))
    loadings[0, :SPIKES], loadings[1, SPIKES:] = 3.0, 2.0
    return rng.normal(size=(ROWS, 2)) @ loadings + 0.5 * rng.normal(size=(ROWS, n_features))


X = make_data().round(3)
NAMES = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]
DATES = [f"{2000 + i // 12}-{i % 12 + 1:02d}" for i in range(ROWS)]


def as_text(values=X, names=NAMES, labels=None, label="date", mark=",", decimal="."):
    """Write a table as text."""
    rows = [[f"{value:.3f}".replace(".", decimal) for value in row] for row in values]
    if labels is not None:
        rows = [[name, *row] for name, row in zip(labels, rows, strict=True)]
        names = names and [label, *names]
    lines = ([names] if names else []) + rows
    return "".join(mark.join(line) + "\n" for line in lines)


def quoted(text):
    """Replace semicolons by commas, with quotation marks around all cells."""
    return text.replace(";", '","').replace("\n", '"\n"').join(['"', ""])[:-1]


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def fit(path, tmp_path, *options):
    """Fit two components; return the summary and the parsed components."""
    out = tmp_path / "out"
    result = run("fit", path, "-o", out, "-k", 2, "--start", "svd", "--json", *options)
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    lines = (out / "components.csv").read_text(encoding="utf-8").splitlines()
    names = [line.split(",")[0] for line in lines[1:]]
    loadings = np.array([[float(cell) for cell in line.split(",")[1::5]] for line in lines[1:]])
    return summary, names, loadings


def refused(path, tmp_path, *options):
    """Check that nothing is written, and return the error, which is one line."""
    out = tmp_path / "out"
    result = run("fit", path, "-o", out, *options)
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert result.stderr.rstrip().splitlines()[-1:] == errors
    assert result.stdout == ""
    assert not any("out" in file.name for file in tmp_path.iterdir())
    return errors[0]


@pytest.fixture(scope="module")
def expected():
    from ebcd import EBCD

    return EBCD(2, start="svd", scores="integrated").fit(X).components_.T


def written(tmp_path, content, name="table.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return path


READABLE = {
    "byte order mark": ("table.csv", as_text().encode("utf-8-sig")),
    "semicolons": ("table.csv", as_text(mark=";").encode()),
    "decimal commas": ("table.csv", as_text(mark=";", decimal=",").encode()),
    "decimal commas and tabs": ("table.tsv", as_text(mark="\t", decimal=",").encode()),
    "quoted decimal commas": ("table.csv", quoted(as_text(mark=";", decimal=","))),
    "dates": ("table.csv", as_text(labels=DATES).encode()),
    "spaces": ("table.txt", as_text(mark="  ").encode()),
    "spaces at the end": ("table.txt", as_text(mark=" ").replace("\n", "  \n").encode()),
    "quoted cells of R": (
        "table.txt",
        quoted(as_text(labels=DATES, label="", mark=";").lstrip(";")).replace('","', '" "'),
    ),
    "Windows lines": ("table.csv", as_text().replace("\n", "\r\n").encode()),
    "old Macintosh lines": ("table.csv", as_text().replace("\n", "\r").encode()),
    "UTF-16": ("table.csv", as_text(mark="\t").encode("utf-16")),
    "wrong extension": ("table.parquet", as_text().encode()),
    "quoted cells": ("table.csv", quoted(as_text(mark=";"))),
    "separators at the end": ("table.csv", as_text().replace("\n", ",\n").encode()),
    "comments": ("table.csv", "# made by a machine\n# twice\n" + as_text()),
    "blank lines": ("table.csv", as_text().replace("\n", "\n\n") + ",,,,,\n"),
    "names of R": ("table.csv", as_text(labels=DATES, label="").lstrip(",")),
    "numbers of pandas": (
        "table.csv",
        as_text(labels=[str(i) for i in range(ROWS)], label=""),
    ),
}


@pytest.mark.parametrize("case", READABLE)
def test_readable(case, tmp_path, expected):
    name, content = READABLE[case]
    path = written(tmp_path, content, name)
    summary, names, loadings = fit(path, tmp_path)
    assert names == NAMES
    assert (summary["n_samples"], summary["n_features"]) == X.shape
    np.testing.assert_allclose(loadings, expected, rtol=1e-10, atol=1e-12)


SHEET = {  # the parts of a workbook of one sheet that a reader needs
    "[Content_Types].xml": """<Types
        xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
        <Default Extension="rels"
         ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
        <Default Extension="xml" ContentType="application/xml"/></Types>""",
    "_rels/.rels": """<Relationships
        xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
        <Relationship Id="r1" Target="xl/workbook.xml"
         Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
        /></Relationships>""",
    "xl/workbook.xml": """<workbook
        xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"
        xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships">
        <sheets><sheet name="data" sheetId="1" r:id="r1"/></sheets></workbook>""",
    "xl/_rels/workbook.xml.rels": """<Relationships
        xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
        <Relationship Id="r1" Target="worksheets/sheet1.xml"
         Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet"
        /></Relationships>""",
}


def as_workbook(text):
    """Write a table of text with commas as an Excel file, numbers as numbers."""

    def cell(row, column, words):
        place = f"{chr(ord('A') + column)}{row + 1}"
        try:
            return f'<c r="{place}"><v>{float(words)!r}</v></c>'
        except ValueError:
            return f'<c r="{place}" t="inlineStr"><is><t>{words}</t></is></c>'

    rows = [
        f'<row r="{i + 1}">{"".join(cell(i, j, words) for j, words in enumerate(row.split(",")))}'
        "</row>"
        for i, row in enumerate(text.splitlines())
    ]
    sheet = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    data = f'<worksheet xmlns="{sheet}"><sheetData>{"".join(rows)}</sheetData></worksheet>'
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as book:
        for name, part in {**SHEET, "xl/worksheets/sheet1.xml": data}.items():
            book.writestr(name, part)
    return file.getvalue()


@pytest.mark.parametrize("options", [(), ("--standardize", "--drop", "beta")])
def test_excel_gives_what_csv_gives(tmp_path, options):
    pytest.importorskip("python_calamine")
    text = as_text(labels=[f"month {i}" for i in range(ROWS)])
    results = []
    for name, content in (("table.csv", text), ("table.xlsx", as_workbook(text))):
        folder = tmp_path / name.replace(".", "_")
        folder.mkdir()
        summary, _, _ = fit(written(folder, content, name), folder, *options)
        for other in ("title", "source", "output", "seconds"):
            del summary[other]
        files = [(folder / "out" / file).read_bytes() for file in ("components.csv", "scores.csv")]
        results.append((summary, *files))
    assert results[0] == results[1]
    assert results[0][0]["n_samples"] == ROWS


def test_dates_name_the_scores(tmp_path):
    path = written(tmp_path, as_text(labels=DATES, label="month of the year"))
    fit(path, tmp_path)
    lines = (tmp_path / "out" / "scores.csv").read_text(encoding="utf-8").splitlines()
    assert [line.split(",")[0] for line in lines] == ["month of the year", *DATES]


def test_latin_1(tmp_path):
    names = ["größe", "länge", "fläche", "änderung", "übrig", "é"]
    path = written(tmp_path, as_text(names=names), encoding="latin-1")
    summary, found, _ = fit(path, tmp_path)
    assert found == names
    assert any("Latin-1" in note for note in summary["notes"])


def test_no_header(tmp_path, expected):
    path = written(tmp_path, as_text(names=None))
    summary, names, loadings = fit(path, tmp_path)
    assert names == [f"x{j}" for j in range(6)]
    assert any("no header" in note for note in summary["notes"])
    np.testing.assert_allclose(loadings, expected, rtol=1e-10, atol=1e-12)


def test_no_header_but_dates(tmp_path, expected):
    _, names, loadings = fit(written(tmp_path, as_text(names=None, labels=DATES)), tmp_path)
    assert names == [f"x{j}" for j in range(1, 7)]
    np.testing.assert_allclose(loadings, expected, rtol=1e-10, atol=1e-12)


def test_years_as_header(tmp_path):
    path = written(tmp_path, as_text(names=[str(1990 + j) for j in range(6)]))
    summary, names, _ = fit(path, tmp_path)
    assert names == ["1990", "1991", "1992", "1993", "1994", "1995"]
    assert any("--no-header" in note for note in summary["notes"])


def test_duplicate_columns(tmp_path):
    names = ["a", "b", "a", "a", "a.1", "c"]
    summary, found, _ = fit(written(tmp_path, as_text(names=names)), tmp_path)
    assert found == ["a", "b", "a.2", "a.3", "a.1", "c"]
    assert any("same name" in note for note in summary["notes"])


def test_missing_cells(tmp_path):
    lines = as_text(labels=DATES).splitlines()
    for row, column, mark in ((6, 3, "NA"), (9, 3, ""), (9, 5, "#N/A")):
        cells = lines[row].split(",")
        cells[column] = mark
        lines[row] = ",".join(cells)
    path = written(tmp_path, "\n".join(lines))
    summary, names, _ = fit(path, tmp_path)
    assert (summary["n_samples"], len(names), summary["n_missing"]) == (ROWS, 6, 3)
    report = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert report.count(" missing") == 1
    assert "3 cells (1.2%) are missing: gamma (2), epsilon (1)." in report
    again = run("fit", path, "-o", tmp_path / "again", "-k", 2, "--start", "svd")
    assert "note: 3 cells are missing (1.2% of all); the others are used" in again.stderr
    scores = run("transform", tmp_path / "out", path)
    assert len(scores.stdout.splitlines()) == ROWS + 1
    assert "nan" not in scores.stdout
    message = run("compare", path, "-k", 1).stderr
    for part in ("3 cells are missing", "row 6 ('2000-06')", "column 'gamma'"):
        assert part in message
    assert "2 of 40 rows with --drop-missing rows" in message
    assert "2 of 6 columns with --drop-missing columns" in message
    summary, _, _ = fit(path, tmp_path, "--drop-missing", "rows", "--force")
    assert (summary["n_samples"], summary["n_missing"]) == (ROWS - 2, 0)
    summary, names, _ = fit(path, tmp_path, "--drop-missing", "columns", "--force")
    assert names == ["alpha", "beta", "delta", "zeta"]
    assert summary["n_samples"] == ROWS


@pytest.mark.parametrize("option", ["--standardize", "--difference", "--log-returns"])
def test_missing_cells_can_be_prepared(tmp_path, option):
    lines = as_text(values=np.exp(X / 10) if option == "--log-returns" else X)
    cells = [line.split(",") for line in lines.splitlines()]
    cells[6][3] = cells[9][0] = "NA"
    path = written(tmp_path, "\n".join(",".join(row) for row in cells))
    summary, _, _ = fit(path, tmp_path, option)
    assert summary["n_missing"] == (4 if option in ("--difference", "--log-returns") else 2)


def test_infinite_cells_and_columns_without_cells_are_refused(tmp_path):
    cells = [line.split(",") for line in as_text().splitlines()]
    cells[6][3] = "inf"
    path = written(tmp_path, "\n".join(",".join(row) for row in cells))
    assert "1 infinite" in refused(path, tmp_path)
    for row in cells[1:]:
        row[3] = "NA"
    path = written(tmp_path, "\n".join(",".join(row) for row in cells))
    assert "columns without any values cannot be used" in refused(path, tmp_path)


def with_text(column, values, name="sector"):
    lines = [line.split(",") for line in as_text().splitlines()]
    for line, cell in zip(lines, [name, *values], strict=True):
        line.insert(column, cell)
    return "\n".join(",".join(line) for line in lines)


def test_text_column(tmp_path, expected):
    path = written(tmp_path, with_text(2, ["mining", "trade"] * (ROWS // 2)))
    message = refused(path, tmp_path)
    assert "1 column holds text: 'sector' ('mining')" in message
    assert "--drop sector" in message
    assert "or color the biplot by it with --color-by sector" in message
    assert "--color-by" not in run("compare", path, "-k", 1).stderr  # which draws none
    _, names, loadings = fit(path, tmp_path, "--drop", "sector")
    assert names == NAMES
    np.testing.assert_allclose(loadings, expected, rtol=1e-10, atol=1e-12)
    _, names, _ = fit(path, tmp_path, "--features", "alpha,beta", "--columns", "*ta", "--force")
    assert names == ["alpha", "beta", "delta", "zeta"]


def test_text_groups_in_front_are_not_names(tmp_path):
    path = written(tmp_path, with_text(0, ["mining", "trade"] * (ROWS // 2)))
    message = refused(path, tmp_path)
    assert "--drop sector" in message
    assert "--index sector" in message
    fit(path, tmp_path, "--index", "sector")


def test_advice_colours_by_what_has_few_kinds(tmp_path):
    path = written(
        tmp_path, with_text(2, [f"2020-01-{1 + i % 20:02d}" for i in range(ROWS)], "day")
    )
    lines = path.read_text(encoding="utf-8").splitlines()
    teams = ["team", *["red", "blue"] * (ROWS // 2)]
    both = [f"{line},{team}" for line, team in zip(lines, teams, strict=True)]
    message = refused(written(tmp_path, "\n".join(both)), tmp_path)
    assert "or color the biplot by one with --color-by team" in message
    assert message.endswith("or use one as row names with --index day")


def test_advice_names_rows_by_dates_rather_than_their_numbers(tmp_path):
    days = np.datetime_as_string(np.datetime64("2020-01-01") + np.arange(ROWS)).tolist()
    lines = with_text(0, days, "day").splitlines()
    numbered = [f"{number or ''},{line}" for number, line in enumerate(lines)]
    message = refused(written(tmp_path, "\n".join(numbered)), tmp_path)
    assert "or use it as row names with --index day" in message


@pytest.mark.parametrize("labelled", [False, True])
def test_a_last_row_with_totals_is_left_out(tmp_path, expected, labelled):
    labels = [*DATES, "Total"] if labelled else None
    path = written(tmp_path, as_text(np.vstack([X, X.sum(axis=0)]), labels=labels))
    summary, names, loadings = fit(path, tmp_path)
    assert (summary["n_samples"], names) == (ROWS, NAMES)
    np.testing.assert_allclose(loadings, expected, rtol=1e-10, atol=1e-12)
    note = "the last row is the sum of the others and was left out"
    assert sum(note in one for one in summary["notes"]) == 1


def test_few_rows_may_add_up_by_chance(tmp_path):
    counts = np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 3.0]])
    summary, _, _ = fit(written(tmp_path, as_text(counts, NAMES[:2])), tmp_path, "-k", "1")
    assert summary["n_samples"] == 3


@pytest.mark.parametrize("mark", ["'", "\N{RIGHT SINGLE QUOTATION MARK}", "\xa0", "\u202f"])
@pytest.mark.parametrize("decimal", [".", ","])
def test_thousands_with_apostrophes_or_spaces_between(tmp_path, mark, decimal):
    values = 1234.5 * X + 20_000
    path = written(tmp_path, as_text(values, labels=DATES, mark=";", decimal=decimal))
    plain = read_table(path).values
    grouped = [
        [f"{value:_.3f}".replace(".", decimal).replace("_", mark) for value in row]
        for row in values
    ]
    lines = [";".join([date, *row]) for date, row in zip(DATES, grouped, strict=True)]
    path = written(tmp_path, "\n".join([";".join(["date", *NAMES]), *lines]))
    np.testing.assert_array_equal(read_table(path).values, plain)


def test_advice_on_cells_that_are_written_in_an_unusual_way(tmp_path):
    path = written(tmp_path, as_text(labels=DATES).replace(",-", ",~"))
    assert "write cells as plain numbers" in refused(path, tmp_path)


def test_mixed_types(tmp_path):
    content = as_text().replace(f"{X[7, 3]:.3f}", "about 3", 1)
    message = refused(written(tmp_path, content), tmp_path)
    assert "'delta' ('about 3' in 1 of 40 rows)" in message


def test_numbers_with_underscores_are_text(tmp_path):
    path = written(tmp_path, with_text(1, [f"1_{i}" for i in range(ROWS)], "variant"))
    assert "'variant' ('1_0')" in refused(path, tmp_path)


def test_one_row(tmp_path):
    assert "at least two rows of data are needed, got 1" in refused(
        written(tmp_path, as_text(X[:1])), tmp_path
    )


def test_one_column(tmp_path):
    message = refused(written(tmp_path, as_text(X[:, :1], NAMES[:1])), tmp_path)
    assert "at least two columns of numbers are needed, got 1 (alpha)" in message
    assert "--separator" in message


def test_one_column_of_decimal_commas_is_not_two(tmp_path):
    content = as_text(X[:, :1], NAMES[:1], decimal=",")
    assert "at least two columns of numbers are needed, got 1 (alpha)" in refused(
        written(tmp_path, content), tmp_path
    )


@pytest.mark.slow
def test_many_columns(tmp_path):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(30, 20_000))
    values[:, :2000] += 2 * rng.normal(size=(30, 1))
    names = [f"gene_{j}" for j in range(20_000)]
    path = written(tmp_path, as_text(values, names))
    out = tmp_path / "out"
    result = run("fit", path, "-o", out, "-k", 1, "--start", "svd", "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["n_features"] == 20_000
    assert 1800 < summary["components"][0]["n_sure"] < 2200


def test_empty(tmp_path):
    assert "is empty" in refused(written(tmp_path, b""), tmp_path)
    assert "no rows" in refused(written(tmp_path, b"\n\n"), tmp_path)
    assert "no rows" in refused(written(tmp_path, as_text(X[:0])), tmp_path)


def test_truncated_gzip(tmp_path):
    path = written(tmp_path, gzip.compress(as_text().encode())[:-300], "table.csv.gz")
    assert "is not a complete compressed file" in refused(path, tmp_path)


def test_truncated_text(tmp_path):
    path = written(tmp_path, as_text()[:-20])
    assert "line 41: 3 cells where 6 were expected" in refused(path, tmp_path)


def test_huge_numbers(tmp_path):
    values = np.array([["1e300", "2e305", "-1e307"], ["-1e300", "4", "1e307"], ["3", "1", "2"]])
    content = "a,b,c\n" + "\n".join(",".join(row) for row in values)
    assert "too large to square; change its units" in refused(written(tmp_path, content), tmp_path)
    content = content.replace("2e305", "1e400")
    assert "1 infinite" in refused(written(tmp_path, content), tmp_path)


def test_large_numbers(tmp_path):
    from ebcd import EBCD

    content = as_text().replace(",", "e150,").replace("\n", "e150\n")
    content = ",".join(NAMES) + "\n" + content.split("\n", 1)[1]
    # 1e-6 nats before the optimum, where fits stop otherwise, rounding moves loadings by 1e-4
    _, _, loadings = fit(written(tmp_path, content), tmp_path, "--tol", 1e-12)
    model = EBCD(2, start="svd", scores="integrated", tol=1e-12).fit(X)
    np.testing.assert_allclose(loadings / 1e150, model.components_.T, rtol=0, atol=1e-6)


def test_all_constant(tmp_path):
    message = refused(written(tmp_path, as_text(np.ones((5, 6)))), tmp_path)
    assert "every column is constant" in message


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="this user may read every file")
def test_unreadable(tmp_path):
    path = written(tmp_path, as_text())
    path.chmod(0)
    assert "permission denied" in refused(path, tmp_path)


def test_unreadable_by_a_denied_open(tmp_path, monkeypatch):
    path, opened = written(tmp_path, as_text()), Path.open

    def denied(self, *arguments, **options):
        if self == path:
            raise PermissionError(13, "Permission denied")
        return opened(self, *arguments, **options)

    monkeypatch.setattr(Path, "open", denied)
    assert f"{path} cannot be read: permission denied" in refused(path, tmp_path)


def test_directory(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    assert "is a directory; give a file" in refused(folder, tmp_path)


def test_no_such_file(tmp_path):
    written(tmp_path, as_text(), "prices.csv")
    message = refused(tmp_path / "price.csv", tmp_path)
    assert f"did you mean {tmp_path / 'prices.csv'}?" in message
    assert "check the path" in refused(tmp_path / "no" / "such.csv", tmp_path)


FOREIGN = {
    "Excel": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "is not a complete Excel file"),
    "pickle": (b"\x80\x04\x95abc", "could run any code"),
    "web page": (b"<!DOCTYPE html><html>", "web page"),
    "JSON": (b'{"a": [1, 2]}', "JSON"),
    "program": (b"\x7fELF\x02\x01\x00\x00", "not a table"),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_other_things(case, tmp_path):
    content, words = FOREIGN[case]
    assert words in refused(written(tmp_path, content), tmp_path)


def test_open_quotation_mark(tmp_path):
    content = as_text().replace("\n", '\n"', 1) + "1,2,3\n" * 60_000
    assert "quotation mark" in refused(written(tmp_path, content), tmp_path)


def test_lines_above_the_table(tmp_path, expected):
    path = written(tmp_path, "Exported from somewhere;2020\n\n" + as_text())
    assert "--skip-lines" in refused(path, tmp_path)
    _, names, loadings = fit(path, tmp_path, "--skip-lines", "1")
    assert names == NAMES
    np.testing.assert_allclose(loadings, expected, rtol=1e-10, atol=1e-12)


def row_numbers(text):
    return [line.split(",")[0] for line in text.splitlines()[1:]]


def test_scores_keep_the_row_numbers_of_the_file(tmp_path):
    lines = as_text().splitlines()
    for row in (2, 5):  # after the header
        lines[row + 1] = "NA" + lines[row + 1][lines[row + 1].index(",") :]
    path, out = written(tmp_path, "\n".join(lines)), tmp_path / "out"
    fit(path, tmp_path, "--drop-missing", "rows")
    expected = [str(i) for i in range(ROWS) if i not in (2, 5)]
    assert row_numbers((out / "scores.csv").read_text(encoding="utf-8")) == expected
    assert "39 (" in (out / "report.md").read_text(encoding="utf-8")  # the row of a large score
    before = (out / "report.html").read_bytes()
    assert run("report", out).exit_code == 0
    assert (out / "report.html").read_bytes() == before
    new = run("transform", out, path, "--drop-missing", "rows")
    assert row_numbers(new.stdout) == expected
    fit(path, tmp_path, "--drop-missing", "rows", "--difference", "--force")
    assert row_numbers((out / "scores.csv").read_text(encoding="utf-8")) == expected[1:]
    flipped = read_table(path, drop_missing="rows").transposed()
    assert flipped.column_names == [f"x{i}" for i in expected]


def test_second_row_of_names_is_told_from_columns_of_text(tmp_path):
    """Two rows of names, or names below a title with cells of its own."""
    path = tmp_path / "units.csv"
    rows = ["S1,12.5,3", "S2,11.5,2.5", "S3,13,2", "S4,12,1"]
    path.write_text("\n".join(["sample,alcohol,ash", ",% vol,g/L", *rows]), encoding="utf-8")
    message = refused(path, tmp_path)
    assert "'ash' ('g/L' in 1 of 5 rows); all other cells are numbers; " in message
    assert "--skip-lines" in message
    command = re.search(
        r"of names or units \(of a text file: (.*) \| ebcd fit - -o OUT\)", message
    )[1]
    rest = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, check=True)
    summary, names, _ = fit(written(tmp_path, rest.stdout), tmp_path, "-k", 1)
    assert (summary["n_samples"], names) == (4, ["alcohol", "ash"])


def test_words_for_missing_cells_of_spreadsheets(tmp_path):
    path = tmp_path / "desk.csv"
    lines = ["day,a,b", "d1,1,2", "d2,n.a.,#N/A N/A", "d3,#DIV/0!,5", "d4,2,3", "d5,4,1", "d6,3,3"]
    path.write_text("\n".join(lines), encoding="utf-8")
    _, names, _ = fit(path, tmp_path, "-k", "1")
    assert names == ["a", "b"]

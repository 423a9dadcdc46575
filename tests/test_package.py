"""The package as installed: version, typing marker, public names, weight of the import."""

import subprocess
import sys
from importlib import metadata, resources

import pytest

import ebcd

OPTIONAL = (
    "anndata",
    "dask",
    "distributed",
    "h5py",
    "matplotlib",
    "mpmath",
    "pandas",
    "polars",
    "pyarrow",
    "python_calamine",
    "rich",
    "typer",
)


def test_version_is_that_of_the_installed_distribution():
    assert ebcd.__version__ == metadata.version("ebcd")


def test_type_annotations_are_shipped():
    assert resources.files("ebcd").joinpath("py.typed").is_file()


def test_public_names_exist():
    missing = [name for name in ebcd.__all__ if not hasattr(ebcd, name)]
    assert not missing


def test_core_requirements_are_numpy_scipy_and_scikit_learn():
    core = [r for r in metadata.requires("ebcd") or [] if "extra ==" not in r]
    assert sorted(r.split(">")[0] for r in core) == ["numpy", "scikit-learn", "scipy"]


@pytest.mark.slow
def test_what_a_fit_does_not_import():
    """Beyond what scikit-learn imports by itself."""
    code = (
        "import sys, numpy, sklearn.decomposition; old = set(sys.modules)\n"
        "import ebcd; X = numpy.eye(9, 5); model = ebcd.EBCD(1).fit(X)\n"
        "model.transform(X); model.score(X); print(*(set(sys.modules) - old))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    parts = {f"ebcd.{name}" for name in ("plots", "peers", "report", "io")}
    assert "ebcd.estimators" in run.stdout
    assert not {*OPTIONAL, *parts} & set(run.stdout.split())


def test_only_public_names_are_listed():
    assert set(dir(ebcd)) == {*ebcd.__all__, "anndata"}
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ebcd.nothing

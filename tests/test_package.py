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
def test_import_leaves_optional_packages_alone():
    """Beyond those that scikit-learn imports by itself."""
    code = "import sys, sklearn.decomposition; old = set(sys.modules)\n"
    code += "import ebcd; print(*(set(sys.modules) - old))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(OPTIONAL) & set(run.stdout.split())


@pytest.mark.slow
def test_a_fit_imports_neither_plots_nor_peers_nor_reports():
    code = (
        "import sys, numpy, ebcd; ebcd.EBCD(1).fit(numpy.eye(9, 5));"
        "print([m for m in ('plots', 'peers', 'report', 'io') if f'ebcd.{m}' in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_only_public_names_are_listed():
    assert set(dir(ebcd)) == {*ebcd.__all__, "anndata"}
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ebcd.nothing

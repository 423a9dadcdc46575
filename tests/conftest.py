"""Settings shared by all tests, and the choice of tests for `make quick`."""

from collections import defaultdict
from importlib.util import find_spec

import pytest
from hypothesis import settings

# The same examples on every run and machine; no deadline, since a slow machine is not a failure.
settings.register_profile("ebcd", deadline=None, derandomize=True)
settings.load_profile("ebcd")


@pytest.fixture(scope="session")
def run_process(tmp_path_factory):
    """Run code in a process of its own, with the command line loaded."""
    from processes import loaded_python

    with loaded_python(tmp_path_factory.mktemp("processes")) as run:
        yield run


COMPARED = ("tests/benchmarks", "tests/experiments", "tests/oracle", "tests/reference")


def pytest_addoption(parser):
    parser.addoption(
        "--one-case",
        action="store_true",
        help="run only the first case of each parametrised test",
    )


def pytest_collection_modifyitems(config, items):
    if find_spec("matplotlib") is None:  # with the core only, some doctests cannot run
        for item in items:
            draws = "plots" in item.path.parts or item.name.endswith((".plot", "_frame"))
            if draws and isinstance(item, pytest.DoctestItem):
                item.add_marker(pytest.mark.skip("needs matplotlib or pandas"))
    cases = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    if config.getoption("--one-case"):
        config.hook.pytest_deselected(items=[item for c in cases.values() for item in c[1:]])
        items[:] = [c[0] for c in cases.values()]
    elif config.pluginmanager.hasplugin("_cov"):
        # Tracing takes 60 % longer, with mpmath twice as long. After the first case of a test, and
        # where results are only compared with the truth, there are hardly any new lines.
        for name, c in cases.items():
            for item in c if name.startswith(COMPARED) else c[1:]:
                item.add_marker("no_cover")

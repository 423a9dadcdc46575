"""Settings shared by all tests, and the choice of tests for `make quick`."""

import gc
import os
import signal
from collections import defaultdict
from importlib.util import find_spec

import pytest
from hypothesis import settings

# The same examples on every run and machine; no deadline, since a slow machine is not a failure.
settings.register_profile("ebcd", deadline=None, derandomize=True)
settings.load_profile("ebcd")

# Workers of Dask are forks of a process that has loaded it, which saves seconds for each.
os.environ.setdefault("DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD", "forkserver")

gc.disable()  # until all is collected, which stays to the end: to look through it takes seconds


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def run_process(tmp_path_factory):
    """Run code in a process of its own, with the command line loaded."""
    from processes import loaded_python

    with loaded_python(tmp_path_factory.mktemp("processes")) as run:
        yield run


COMPARED = ("tests/benchmarks", "tests/experiments", "tests/oracle", "tests/reference")


class Tracing:
    """Trace the beginning of the first case of each test that runs code in new ways.

    Tracing takes 60 % longer, with mpmath twice as long, and slows pytest itself. After a few
    hundredths of a second of processor time, after the first case of a test, in slow tests, and
    where results are only compared with the truth, hardly any line is new.
    """

    SECONDS = 0.05

    def __init__(self, traced):
        self.traced, self.runs, self.coverage = traced, False, stop_tracing()
        if timer := hasattr(signal, "setitimer"):  # not on Windows, where all of the case is traced
            signal.signal(signal.SIGVTALRM, lambda *_: self.run(False))
        self.timer = timer

    def run(self, wanted):
        if self.timer:
            signal.setitimer(signal.ITIMER_VIRTUAL, self.SECONDS if wanted else 0)
        if wanted != self.runs:
            (self.coverage.start if wanted else self.coverage.stop)()
            self.runs = wanted

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self.run(item.nodeid in self.traced)
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item):
        self.run(item.nodeid in self.traced)  # fixtures have had their own time

    def pytest_sessionfinish(self):
        self.run(False)


def stop_tracing():
    """Stop whatever measures coverage, and return what was started last.

    In a process of xdist, pytest-cov has started two; when one stops, the other goes on.
    """
    from coverage import Coverage

    last = Coverage.current()
    while running := Coverage.current():
        running.stop()
    return last


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    plugins = session.config.pluginmanager
    if plugins.hasplugin("_cov") and plugins.hasplugin("dsession"):
        stop_tracing()  # this process only hands out tests


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
    if config.pluginmanager.hasplugin("_cov"):
        traced = {
            first.nodeid
            for name, (first, *_) in cases.items()
            if not name.startswith(COMPARED) and not first.get_closest_marker("slow")
        }
        config.pluginmanager.register(Tracing(traced))

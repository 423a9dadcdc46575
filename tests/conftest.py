"""Settings shared by all tests, and the choice of tests for `make quick`."""

from hypothesis import settings

# The same examples on every run and machine; no deadline, since a slow machine is not a failure.
settings.register_profile("ebcd", deadline=None, derandomize=True)
settings.load_profile("ebcd")


def pytest_addoption(parser):
    parser.addoption(
        "--one-case",
        action="store_true",
        help="run only the first case of each parametrised test",
    )


def pytest_collection_modifyitems(config, items):
    first = {item.nodeid.partition("[")[0]: item for item in reversed(items)}
    kept = set(first.values())
    others = [item for item in items if item not in kept]
    if config.getoption("--one-case"):
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item in kept]
    elif config.pluginmanager.hasplugin("_cov"):
        # Further cases run the same lines, and tracing takes 60 % longer.
        for item in others:
            item.add_marker("no_cover")

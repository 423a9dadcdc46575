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
    if not config.getoption("--one-case"):
        return
    first = {item.nodeid.partition("[")[0]: item for item in reversed(items)}
    kept = set(first.values())
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]

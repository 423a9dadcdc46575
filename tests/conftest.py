"""Settings shared by all tests."""

from hypothesis import settings

# The same examples on every run and machine; no deadline, since a slow machine is not a failure.
settings.register_profile("ebcd", deadline=None, derandomize=True)
settings.load_profile("ebcd")

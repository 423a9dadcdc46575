"""Files: fitted estimators in an open format that never executes code."""

from ebcd.io._model import load, save

__all__ = ["load", "save"]

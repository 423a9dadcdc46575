"""Pictures of fitted estimators (needs matplotlib: ``pip install "ebcd[plots]"``).

Every function takes a fitted estimator of this package, draws on the axes that are given as ``ax``
or on a new figure, and returns the axes.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ebcd.plots._compare import compare
    from ebcd.plots._components import components
    from ebcd.plots._heatmap import heatmap
    from ebcd.plots._progress import elbo
    from ebcd.plots._scores import scores
    from ebcd.plots._shrinkage import shrinkage
    from ebcd.plots._variance import explained_variance

__all__ = [
    "compare",
    "components",
    "elbo",
    "explained_variance",
    "heatmap",
    "scores",
    "shrinkage",
]

_MODULES = {"elbo": "_progress", "explained_variance": "_variance"}


def __getattr__(name: str) -> Any:
    """Import a plot, and with it matplotlib, when it is asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f"{__name__}.{_MODULES.get(name, f'_{name}')}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "matplotlib":
            raise
        raise ImportError('plots need matplotlib: pip install "ebcd[plots]"') from None
    return getattr(module, name)


def __dir__() -> list[str]:
    return __all__

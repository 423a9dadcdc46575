"""Command line: `ebcd fit`, `demo`, `report`, `compare` and `transform`."""

from __future__ import annotations

import sys

import ebcd


def main() -> None:
    """Run the command line; it needs the extra ``cli``."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401

        from ebcd.cli._app import app
    except KeyboardInterrupt:  # while the libraries are loaded
        sys.exit(130)
    except ImportError:
        if sys.argv[1:] == ["--version"]:  # works without the extra
            print(f"ebcd {ebcd.__version__}")  # noqa: T201 - the output that was asked for
            return
        print(  # noqa: T201 - neither Typer nor Rich can print it
            'the command line needs Typer and Rich: pip install "ebcd[cli]"', file=sys.stderr
        )
        sys.exit(2)
    app(prog_name="ebcd")

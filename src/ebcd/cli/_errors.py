"""How commands end that cannot do what was asked: with one line and an exit code."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
import typer
from typer.core import TyperGroup

_UsageError: Any = typer.BadParameter.__mro__[1]  # of Click, or of the copy in newer Typers
_MISTAKE, _INTERRUPTED, _NOBODY_READS = 2, 130, 141  # the last two as a shell has them


class Commands(TyperGroup):
    """Commands whose usage errors are one line as well, not a box."""

    def main(self, *args: Any, **options: Any) -> NoReturn:
        """Run a command and end the process."""
        try:
            code = super().main(*args, **{**options, "standalone_mode": False})
        except _UsageError as error:
            command = error.ctx.command_path if error.ctx else "ebcd"
            # some releases begin with what kind of error it is in their code
            words = " ".join(error.format_message().removesuffix(".").split())
            words = words.replace(": Value error, ", ": ", 1)
            _print(f"{words}. Try '{command} --help'.")
            code = _MISTAKE
        sys.exit(code)


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn mistakes into one line and exit code 2, and Ctrl-C into exit code 130."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output, such as head, has seen enough
        _discard_output()
        raise typer.Exit(_NOBODY_READS) from None
    except (ValueError, TypeError, ImportError, OSError, np.linalg.LinAlgError) as error:
        _print(" ".join(str(error).split()))
        raise typer.Exit(_MISTAKE) from None
    except MemoryError:
        _print("the data do not fit into memory; use fewer columns (--columns), or ebcd.Gram")
        raise typer.Exit(_MISTAKE) from None
    except KeyboardInterrupt:
        typer.echo("interrupted; nothing was written", err=True)
        raise typer.Exit(_INTERRUPTED) from None


def _discard_output() -> None:
    """Send what is still to be printed nowhere, or Python complains when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _print(message: str) -> None:
    typer.secho("error: ", fg=typer.colors.RED, bold=True, err=True, nl=False)
    typer.echo(message, err=True)

"""How commands end that cannot do what was asked: one line, and an exit code."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
import typer
from typer.core import TyperGroup

_UsageError: Any = typer.BadParameter.__mro__[1]  # whichever Click there is, or a copy of it
_MISTAKE, _INTERRUPTED, _NOBODY_READS = 2, 130, 141  # the last two as a shell has them


class Commands(TyperGroup):
    """Commands whose options may be mistyped: that is one line as well, not a box."""

    def main(self, *args: Any, **options: Any) -> NoReturn:
        """Run a command and end the process."""
        try:
            code = super().main(*args, **{**options, "standalone_mode": False})
        except _UsageError as error:
            _say_usage(error)
        sys.exit(code)


def _say_usage(error: Any) -> NoReturn:
    command = error.ctx.command_path if error.ctx else "ebcd"
    # some releases begin with what kind of error it is in their code
    words = " ".join(error.format_message().removesuffix(".").split())
    words = words.replace(": Value error, ", ": ", 1)
    _print(f"{words}. Try '{command} --help'.")
    sys.exit(_MISTAKE)


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn mistakes into one line and exit code 2, and Ctrl-C into exit code 130."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output, such as head, has seen enough
        _forget_output()
        raise typer.Exit(_NOBODY_READS) from None
    except (ValueError, TypeError, ImportError, OSError, np.linalg.LinAlgError) as error:
        _fail(" ".join(str(error).split()))
    except MemoryError:
        _fail("the data do not fit into memory; use fewer columns (--columns), or ebcd.Gram")
    except KeyboardInterrupt:
        typer.echo("interrupted; nothing was written", err=True)
        raise typer.Exit(_INTERRUPTED) from None


def _forget_output() -> None:
    """Let what is still to be printed go nowhere, or Python complains when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _fail(message: str) -> NoReturn:
    _print(message)
    raise typer.Exit(_MISTAKE)


def _print(message: str) -> None:
    typer.secho("error: ", fg=typer.colors.RED, bold=True, err=True, nl=False)
    typer.echo(message, err=True)

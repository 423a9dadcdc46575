"""Errors on a single line, and exit codes for scripts."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import typer
from typer.core import TyperGroup

from ebcd._parameters import printable

_UsageError: Any = typer.BadParameter.__mro__[1]  # of Click, or of the copy in newer Typers


class Commands(TyperGroup):
    """A group of commands whose usage errors are a single line rather than a box."""

    def main(self, *args: Any, **options: Any) -> NoReturn:
        """Run a command and end the process."""
        code: Any
        try:
            with one_line_errors():
                code = super().main(*args, **{**options, "standalone_mode": False})
        except typer.Exit as end:
            code = end.exit_code
        except _UsageError as error:
            command = error.ctx.command_path if error.ctx else "ebcd"
            # some releases of Typer put the kind of error first
            words = error.format_message().removesuffix(".").replace(": Value error, ", ": ", 1)
            code = _report(f"{words}. Try '{command} --help'.")
        sys.exit(code)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; what Click would do about a closed pipe or an interruption differs."""
        with one_line_errors():
            return super().invoke(ctx)


@contextlib.contextmanager
def one_line_errors(checkpoint: str | None = None) -> Iterator[None]:
    """Turn errors into one line and an exit code; after a signal, the one that shells use."""
    try:
        yield
        if sys.stdout is not None:  # as it is when standard output is closed from the start
            sys.stdout.flush()
    except (typer.Exit, _UsageError):
        raise
    except BrokenPipeError:  # the reader of our output, such as head, has seen enough
        with Path(os.devnull).open("w") as nowhere:  # or Python complains about the rest at exit
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        raise typer.Exit(141) from None
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        raise typer.Exit(_report(f"{where}{error.strerror or error}")) from None
    except (ValueError, TypeError, ImportError, np.linalg.LinAlgError) as error:
        raise typer.Exit(_report(str(error))) from None
    except MemoryError:
        advice = "use fewer columns (--columns), or ebcd.Gram in Python"
        raise typer.Exit(_report(f"the data do not fit into memory; {advice}")) from None
    except (KeyboardInterrupt, typer.Abort):
        kept = checkpoint is not None and Path(checkpoint).exists()
        told = f"the same command resumes from the checkpoint {checkpoint}"
        echo(f"interrupted; {told if kept else 'nothing was written'}", err=True)
        raise typer.Exit(130) from None
    except Exception as error:  # noqa: BLE001 - people should not see a traceback
        words = f"{type(error).__name__}: {error}; this should not happen, please report it"
        raise typer.Exit(_report(words)) from None


def _report(message: str) -> int:
    """Print an error on one line and return its exit code."""
    typer.secho("error: ", fg=typer.colors.RED, bold=True, err=True, nl=False)
    echo(" ".join(message.split()), err=True)
    return 2


def echo(words: Any, err: bool = False) -> None:
    """Print text that may hold names from files, so that no terminal takes them for commands."""
    typer.echo(printable(str(words)), err=err)

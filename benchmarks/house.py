"""Measure the size of the package: lines, tuning numbers, files and frames that a fit goes through.

Run with ``python -m benchmarks.house``; `tests/test_house.py` holds the figures to their limits.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

import ebcd

SOURCE = Path(ebcd.__file__).parent
CORE = ("priors", "penalties.py", "data", "fitting", "estimators")
# Where the normal-means problems of a fit are solved: one by one, or those of a stack of starts.
NORMAL_MEANS = ("solve_columns", "evaluate_two_groups")
# Comprehensions are frames in Python 3.11 and no longer in 3.12.
COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


class Fit(NamedTuple):
    """Files of the package that ran in a fit, and its frames at the first normal-means call."""

    files: list[str]
    frames: list[str]


def sources(*packages: str) -> list[Path]:
    """Return the Python files of the package, or of some of its packages and modules."""
    roots = [SOURCE / package for package in packages] or [SOURCE]
    found = [[root] if root.is_file() else root.rglob("*.py") for root in roots]
    return sorted(path for paths in found for path in paths)


def count_lines(*packages: str) -> int:
    """Return the number of lines of the package, or of some of its packages."""
    texts = (path.read_text(encoding="utf-8") for path in sources(*packages))
    return sum(text.count("\n") for text in texts)


def trace_fit() -> Fit:
    """Record what ``EBCD(3).fit(X)`` runs on a dense array."""
    rng = np.random.default_rng(0)
    X = 2 * rng.normal(size=(60, 3)) @ rng.normal(size=(3, 40)) + rng.normal(size=(60, 40))
    files: set[str] = set()
    frames: list[str] = []

    def record(frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or not _is_our_function(frame.f_code):
            return
        files.add(_place(frame.f_code))
        if not frames and frame.f_code.co_name in NORMAL_MEANS:
            frames.extend(_our_frames(frame))

    sys.setprofile(record)
    try:
        ebcd.EBCD(3).fit(X)
    finally:
        sys.setprofile(None)
    return Fit(sorted(files), frames)


def _is_our_function(code: CodeType) -> bool:
    # modules that are imported meanwhile, and the bodies of their classes, are not optimized
    optimized = bool(code.co_flags & inspect.CO_OPTIMIZED)
    return optimized and Path(code.co_filename).is_relative_to(SOURCE)


def _place(code: CodeType) -> str:
    return Path(code.co_filename).relative_to(SOURCE).as_posix()


def _our_frames(frame: FrameType | None) -> list[str]:
    """Return file and function of our frames, the outermost first."""
    found = []
    while frame is not None:
        code = frame.f_code
        if _is_our_function(code) and code.co_name not in COMPREHENSIONS:
            found.append(f"{_place(code)}:{code.co_name}")
        frame = frame.f_back
    return found[::-1]


def tuning_numbers() -> list[str]:
    """Return every numeric constant of a module and every numeric field of a settings class.

    Tuples and arrays of numbers count as one; mathematical constants, such as ``math.sqrt(0.5)``,
    and what is computed from other constants do not count.
    """
    return [f"{_name(path)}: {number}" for path in sources() for number in _numbers(_parsed(path))]


def _numbers(module: ast.Module) -> Iterator[str]:
    for name, value in _assignments(module.body):
        if _is_number(value):
            yield name
    for node in module.body:
        if isinstance(node, ast.ClassDef) and node.name.endswith("Settings"):
            for name, value in _assignments(node.body):
                if _is_number(value):
                    yield f"{node.name}.{name}"


def _assignments(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for node in body:
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            yield ast.unparse(node.target), node.value
        elif isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                yield from zip(map(ast.unparse, target.elts), value.elts, strict=True)
            else:
                yield ast.unparse(target), value


def _is_number(value: ast.expr) -> bool:
    """Whether an expression is made of numbers that someone wrote down."""
    match value:
        case ast.Constant(value=constant):
            return isinstance(constant, int | float) and not isinstance(constant, bool)
        case ast.UnaryOp(operand=operand):
            return _is_number(operand)
        case ast.BinOp(left=left, right=right):
            return _is_number(left) and _is_number(right)
        case ast.Tuple(elts=entries) | ast.List(elts=entries) | ast.Dict(values=entries):
            return bool(entries) and all(map(_is_number, entries))
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np")), args=arguments):
            return bool(arguments) and all(map(_is_number, arguments))
    return False


def shortcuts() -> list[str]:
    """Return what hides from a reader which code runs.

    That is: modules imported by a string (but for the lazy names of ``ebcd/__init__.py``), uses of
    ``sys.modules`` and of ``__new__``, and methods that are overwritten on an instance.
    """
    return [
        f"{_name(path)}:{line}: {what}"
        for path in sources()
        for line, what in _shortcuts(_parsed(path))
        if not (what == "import by string" and path == SOURCE / "__init__.py")
    ]


def _shortcuts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="import_module" | "__import__")):
                yield node.lineno, "import by string"
            case ast.Call(func=ast.Attribute(attr="import_module")):
                yield node.lineno, "import by string"
            case ast.Attribute(value=ast.Name(id="sys"), attr="modules"):
                yield node.lineno, "sys.modules"
            case ast.Attribute(attr="__new__") | ast.FunctionDef(name="__new__"):
                yield node.lineno, "__new__"
            case ast.Subscript(value=ast.Call(func=ast.Name(id="vars")), ctx=ast.Store()):
                yield node.lineno, "attribute set by name, maybe a method"
            case ast.ClassDef():
                yield from _overwritten_methods(node)


def _overwritten_methods(cls: ast.ClassDef) -> Iterator[tuple[int, str]]:
    methods = {node.name for node in cls.body if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(cls):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            owner = ast.unparse(node.value)
            if owner == "self" and node.attr in methods:
                yield node.lineno, f"method {node.attr} overwritten"


def weak_docstrings(verbs: tuple[str, ...] = ("Give", "Gives", "Tell", "Tells")) -> list[str]:
    """Return the definitions whose docstrings begin with a verb that says little."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef
    return [
        f"{_name(path)}: {getattr(node, 'name', 'module')}"
        for path in sources()
        for node in ast.walk(_parsed(path))
        if isinstance(node, kinds) and (ast.get_docstring(node) or "").split(" ")[0] in verbs
    ]


def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _name(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def main() -> None:
    """Print all figures, and what they count."""
    fit = trace_fit()
    numbers = tuning_numbers()
    print(f"{count_lines():7,} lines in {len(sources())} files of src")
    print(f"{count_lines(*CORE):7,} lines in the core ({', '.join(CORE)})")
    for package in sorted({path.relative_to(SOURCE).parts[0] for path in sources()}):
        if (SOURCE / package).is_dir():
            print(f"{count_lines(package):15,} {package}")
    print(f"{len(fit.files):7} files run in EBCD(3).fit(X): {', '.join(fit.files)}")
    print(f"{len(fit.frames):7} frames at the first normal-means call:")
    for frame in fit.frames:
        print(f"{'':15} {frame}")
    print(f"{len(numbers):7} tuning numbers")
    for number in numbers:
        print(f"{'':15} {number}")
    hidden = shortcuts()
    print(f"{len(hidden):7} imports by string, sys.modules, __new__ and overwritten methods")
    for shortcut in hidden:
        print(f"{'':15} {shortcut}")
    print(f"{len(weak_docstrings()):7} docstrings that begin with Give or Tell")


if __name__ == "__main__":
    main()

"""Mutated files for every reader, `load` and checkpoints: a clear error or a finite table.

``python -m benchmarks.fuzz --count 2000`` mutates small files with a seed, in child processes with
limits of memory and time, so that crashes and hangs are seen; what goes wrong is kept in
``tests/corpus``, which the tests read with every run. ``make fuzz`` runs it for long.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.io import mmwrite

import ebcd
from ebcd.data.files._table import read_table
from ebcd.fitting._checkpoint import Checkpoint

CORPUS = Path(__file__).parents[1] / "tests" / "corpus"
SECONDS = 60  # for one file
MEMORY = 6_000_000_000  # address space of a child, most of which libraries reserve
RNG = np.random.default_rng(0)
X = RNG.standard_normal((8, 3)).round(3)
SPECIAL = [b"\x00", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"nan", b"-1", b"1e999", b'"', b"\n"]


def _npy(values: Any) -> bytes:
    content = io.BytesIO()
    np.save(content, values)
    return content.getvalue()


def _written(write: Callable[[Path], Any]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        write(path)
        return next(Path(folder).iterdir()).read_bytes()


def _h5ad(path: Path, as_sparse: bool) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        for axis, n in (("obs", 8), ("var", 3)):
            group = file.create_group(axis)
            group.attrs["_index"] = "_index"
            group["_index"] = [f"{axis}{i}".encode() for i in range(n)]
        if not as_sparse:
            file["X"] = X
            return
        matrix, group = sparse.csr_array(X), file.create_group("X")
        group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", matrix.shape
        for part in ("data", "indices", "indptr"):
            group[part] = getattr(matrix, part)


def _parquet(path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table(dict(zip("abc", X.T, strict=True))), path)


def _npz_sparse() -> bytes:
    content = io.BytesIO()
    sparse.save_npz(content, sparse.csr_array(X))
    return content.getvalue()


def _checkpoint(path: Path) -> None:
    checkpoint = Checkpoint(path, {"a": "b"}, 10)
    checkpoint.note("state", lambda: {"mean": X, "path": [1.0, 2.0]})
    checkpoint.write()


def _matrix_market(path: Path) -> None:
    mmwrite(str(path), sparse.coo_array(X))


TEXT = b"name,a,b,c\n" + b"\n".join(f"r{i},{a},{b},{c}".encode() for i, (a, b, c) in enumerate(X))
Reader = Callable[[Path], Any]


def _table(path: Path) -> Any:
    return read_table(path).values


def _model(path: Path) -> Any:
    model = ebcd.load(path)
    return getattr(model, "components_", np.zeros(0))


def _resumed(path: Path) -> Any:
    return np.zeros(len(Checkpoint(path, {"a": "b"}, 10).found))


def _fitted(make: Callable[[Path], Any]) -> Reader:
    return lambda path: ebcd.EBCD(1).fit(make(path)).components_


# Each with a small file that is right. Matrix Market and Excel files are read in child processes,
# a third of a second each, so that they get fewer mutations.
READERS: dict[str, tuple[Callable[[], bytes], Reader]] = {
    "text": (lambda: TEXT, _table),
    "gzip": (lambda: gzip.compress(TEXT, mtime=0), _table),
    "npy": (lambda: _npy(X), _table),
    "npz": (lambda: _written(lambda p: np.savez(p, X=X)), _table),
    "sparse npz": (_npz_sparse, _table),
    "parquet": (lambda: _written(_parquet), _table),
    "h5ad": (lambda: _written(lambda p: _h5ad(p, False)), _table),
    "sparse h5ad": (lambda: _written(lambda p: _h5ad(p, True)), _table),
    "matrix market": (lambda: _written(_matrix_market), _table),
    "model": (lambda: _written(lambda p: ebcd.save(ebcd.EBCD(1).fit(X), p)), _model),
    "checkpoint": (lambda: _written(_checkpoint), _resumed),
    "chunks csv": (
        lambda: TEXT.replace(b"name,", b"n,"),
        _fitted(lambda p: ebcd.Chunks.from_csv(p, drop=["n"])),
    ),
    "chunks npy": (lambda: _npy(X), _fitted(ebcd.Chunks.from_npy)),
    "chunks parquet": (lambda: _written(_parquet), _fitted(ebcd.Chunks.from_parquet)),
    "chunks h5ad": (lambda: _written(lambda p: _h5ad(p, True)), _fitted(ebcd.Chunks.from_h5ad)),
}
SLOW = ("matrix market",)


def mutated(content: bytes, rng: random.Random) -> bytes:
    """Change a file in one to four places: flip, set, insert, remove, repeat or cut off."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at, length = rng.randrange(len(data) + 1), rng.choice((1, 2, 4, 8, 64))
        match rng.randrange(7):
            case 0 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at : at + length] = rng.randbytes(length)
            case 2:
                data[at:at] = rng.choice(SPECIAL)
            case 3:
                del data[at : at + length]
            case 4:
                data[at:at] = data[at : at + length] * rng.choice((1, 2, 100))
            case 5 if rng.random() < 0.3:
                del data[at:]
            case _:
                special = rng.choice(SPECIAL)
                data[at : at + len(special)] = special
    if rng.random() < 0.3 and content.startswith(b"PK"):
        return _with_members_changed(content, rng)
    return bytes(data)


def _with_members_changed(content: bytes, rng: random.Random) -> bytes:
    """Change what is in an archive, whose checksums are then right."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(packed, "w") as new:
        chosen = rng.choice(old.namelist())
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, mutated(data, rng) if name == chosen and data else data)
    return packed.getvalue()


class Hung(BaseException):
    """A file that takes too long."""


def _alarm(number: int, frame: Any) -> None:
    raise Hung


def attempt(reader: str, path: Path) -> str:
    """Read a file; return what is wrong, nothing if it ends in a clear error or a finite table."""
    before = path.read_bytes()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            values = READERS[reader][1](path)
            numbers = values.data if sparse.issparse(values) else np.asarray(values)
            wrong = "" if np.isfinite(numbers).all() else "result is not finite"
        except (ValueError, ImportError) as error:
            wrong = "" if str(error).strip() else "an error without a message"
        except TypeError as error:
            wrong = "" if "must hold real numbers" in str(error) else f"TypeError: {error}"
        except Hung:
            wrong = f"takes more than {SECONDS} s"
        except BaseException as error:  # noqa: BLE001 - whatever it is, it should not be
            wrong = f"{type(error).__name__}: {str(error)[:100]}"
    odd = [w for w in caught if w.category.__name__ not in ("UserWarning", "ConvergenceWarning")]
    odd = [w for w in odd if "invalid escape" not in str(w.message)]  # Python's, on a NPY header
    if odd and not wrong:
        wrong = f"warns {odd[0].category.__name__}: {str(odd[0].message)[:80]}"
    return wrong if path.read_bytes() == before else "changes the file"


def content_of(reader: str, seed: int) -> bytes:
    """Return the mutated file with a number."""
    return mutated(READERS[reader][0](), random.Random(f"{reader} {seed}"))


def run_here(reader: str, seeds: range, note: Callable[[int], Any] = lambda seed: None) -> Any:
    """Read mutated files in this process; yield seeds and what is wrong with them."""
    right = READERS[reader][0]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        for seed in seeds:
            note(seed)
            path.write_bytes(mutated(right, random.Random(f"{reader} {seed}")))
            wrong = attempt(reader, path)
            if wrong:
                yield seed, wrong


def _child(reader: str, seeds: range) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, _alarm)

    def note(seed: int) -> None:
        signal.alarm(SECONDS)
        os.write(1, f"{seed}\n".encode())

    for seed, wrong in run_here(reader, seeds, note):
        os.write(1, json.dumps([seed, wrong]).encode() + b"\n")
    os.write(1, b"done\n")


def run(reader: str, count: int, first: int) -> Iterator[tuple[int, str]]:
    """Read mutated files in children; go on after the one that ended a child."""
    end, at = first + count, first
    while at < end:
        command = [sys.executable, "-m", "benchmarks.fuzz", "--child", reader, str(at), str(end)]
        child = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = child.stdout.splitlines()
        yield from (tuple(json.loads(line)) for line in lines if line.startswith("["))
        if lines[-1:] == ["done"]:
            return
        last = max((int(line) for line in lines if line.isdigit()), default=at)
        yield last, f"ends the process with code {child.returncode}: {child.stderr[-100:]}"
        at = last + 1


def main() -> None:
    """Fuzz every reader, and keep what went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", nargs=3)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reader", action="append", choices=list(READERS))
    options = parser.parse_args()
    if options.child:
        reader, first, end = options.child
        _child(reader, range(int(first), int(end)))
        return
    total = failed = 0
    for reader in options.reader or READERS:
        count = max(options.count // 20, 1) if reader in SLOW else options.count
        began, kinds = time.monotonic(), set()
        for seed, wrong in run(reader, count, options.seed):
            failed += 1
            if wrong not in kinds:  # one of each kind is kept
                kinds.add(wrong)
                CORPUS.mkdir(exist_ok=True)
                name = f"{reader.replace(' ', '_')}-{seed}"
                (CORPUS / name).write_bytes(content_of(reader, seed))
                print(f"{reader} {seed}: {wrong}", flush=True)
        total += count
        print(f"{reader}: {count:,} files, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{total:,} mutated files for {len(READERS)} readers: {failed} wrong")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()

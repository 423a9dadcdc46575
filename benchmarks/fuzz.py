"""Mutated files for every reader, `load` and checkpoints: a clear error or a finite table.

``python -m benchmarks.fuzz --seconds 600`` changes small files for ten minutes for each reader, in
a child process with limits of memory and time, so that crashes and hangs are seen. If atheris is
installed, it keeps changing those files that reach new lines of the package (guided by coverage);
otherwise changes are random. What goes wrong is kept in ``tests/corpus``, which the tests read with
every run. ``make fuzz`` runs it.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import importlib.util
import io
import multiprocessing
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
from typing import IO, Any

import numpy as np
from scipy import sparse
from scipy.io import mmwrite

import ebcd
from ebcd.data.files._table import read_table
from ebcd.fitting._checkpoint import Checkpoint

CORPUS = Path(__file__).parents[1] / "tests" / "corpus"
WORKBOOKS = CORPUS.parent / "data" / "files" / "workbooks"
PATIENCE = 60  # seconds for one file, on a core of its own
MEMORY = 6_000_000_000  # address space of a child, most of which libraries reserve
EXTRA = 200_000_000  # bytes that a file may take beyond four times its table
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


# Each with a small file that is right.
READERS: dict[str, tuple[Callable[[], bytes], Reader]] = {
    "text": (lambda: TEXT, _table),
    "gzip": (lambda: gzip.compress(TEXT, mtime=0), _table),
    "npy": (lambda: _npy(X), _table),
    "npz": (lambda: _written(lambda p: np.savez(p, X=X)), _table),
    "sparse npz": (_npz_sparse, _table),
    "parquet": (lambda: _written(_parquet), _table),
    "h5ad": (lambda: _written(lambda p: _h5ad(p, False)), _table),
    "sparse h5ad": (lambda: _written(lambda p: _h5ad(p, True)), _table),
    **{
        kind: (lambda kind=kind: (WORKBOOKS / f"table.{kind}").read_bytes(), _table)
        for kind in ("xlsx", "xls", "ods")
    },
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
    return bytes(data)


def mutated_inside(content: bytes, rng: random.Random) -> bytes:
    """Change a file, or what is packed in it, whose checksums are then right."""
    if rng.random() < 0.5:
        with contextlib.suppress(Exception):  # it is damaged already
            if content.startswith(b"PK"):
                return _with_members_changed(content, rng)
            if content.startswith(b"\x1f\x8b"):
                return gzip.compress(mutated(gzip.decompress(content), rng), mtime=0)
    return mutated(content, rng)


def _with_members_changed(content: bytes, rng: random.Random) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(packed, "w") as new:
        names = old.namelist()
        chosen = rng.choice(names)
        for name in names:
            data = old.read(name)
            new.writestr(name, mutated(data, rng) if name == chosen else data)
    return packed.getvalue()


def attempt(reader: str, path: Path) -> str:
    """Read a file; return what is wrong, nothing if it ends in a clear error or a finite table."""
    before, peak, taken = path.read_bytes(), _peak(), 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            values = READERS[reader][1](path)
            numbers = values.data if sparse.issparse(values) else np.asarray(values)
            taken = 4 * numbers.nbytes
            wrong = "" if np.isfinite(numbers).all() else "result is not finite"
        except (ValueError, ImportError) as error:
            wrong = "" if str(error).strip() else "an error without a message"
            if READERS[reader][1] is _table and str(path) not in str(error):
                wrong = f"does not name the file: {str(error)[:100]}"
        except TypeError as error:
            wrong = "" if "must hold real numbers" in str(error) else f"TypeError: {error}"
        except BaseException as error:  # noqa: BLE001 - whatever it is, it should not be
            wrong = f"{type(error).__name__}: {str(error)[:100]}"
    odd = [w for w in caught if w.category.__name__ not in ("UserWarning", "ConvergenceWarning")]
    odd = [w for w in odd if "invalid escape" not in str(w.message)]  # Python's, on a NPY header
    if odd and not wrong:
        wrong = f"warns {odd[0].category.__name__}: {str(odd[0].message)[:80]}"
    if _peak() - peak > taken + EXTRA and not wrong:
        wrong = "takes too much memory"
    return wrong if path.read_bytes() == before else "changes the file"


def _peak() -> int:
    """Return the most memory that this process, and the largest of its children, have taken."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return 1024 * sum(resource.getrusage(kind).ru_maxrss for kind in kinds)


def run_here(reader: str, seeds: range) -> Iterator[tuple[int, str]]:
    """Read mutated files in this process; yield seeds and what is wrong with them."""
    right = READERS[reader][0]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        for seed in seeds:
            path.write_bytes(mutated_inside(right, random.Random(f"{reader} {seed}")))
            wrong = attempt(reader, path)
            if wrong:
                yield seed, wrong


def keep(reader: str, path: Path) -> str:
    """Keep a file that went wrong; return its name."""
    CORPUS.mkdir(exist_ok=True)
    content = path.read_bytes()
    kept = CORPUS / f"{reader.replace(' ', '_')}-{hashlib.sha256(content).hexdigest()[:8]}"
    kept.write_bytes(content)
    return kept.name


def child(reader: str, folder: str, seconds: int) -> None:
    """Read files until the time is over; write a line for each, empty if nothing is wrong."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    subprocess.run = _forked
    path, right, kinds = Path(folder) / "file", READERS[reader][0](), set()
    lines = os.dup(1)
    os.dup2(2, 1)  # where atheris may say what it likes

    def one(content: bytes) -> None:
        crowd = os.getloadavg()[0] / (os.cpu_count() or 1)  # processes that share a core
        signal.alarm(round(PATIENCE * max(crowd, 1.0)))  # which ends the process
        path.write_bytes(content)
        wrong = attempt(reader, path).replace("\n", " ")
        if wrong and wrong not in kinds:  # one of each kind is enough
            kinds.add(wrong)
            wrong += f", kept as {keep(reader, path)}"
        os.write(lines, f"{wrong}\n".encode())
        path.unlink()

    for module in ("h5py", "scipy.io", "python_calamine"):  # what scripts import, before forks
        importlib.import_module(module)
    one(right)
    if "atheris" in sys.modules:
        _guided(one, right, Path(folder) / "seen", seconds)
    rng, end = random.Random(), time.monotonic() + seconds
    while time.monotonic() < end:
        one(mutated_inside(right, rng))


def _guided(one: Callable[[bytes], None], right: bytes, seen: Path, seconds: int) -> None:
    """Let atheris choose what to change: files that reached lines that none had reached before."""
    import atheris

    def mutate(data: bytes, longest: int, seed: int) -> bytes:
        rng = random.Random(seed)
        changed = mutated_inside(data, rng) if rng.random() < 0.7 else atheris.Mutate(data, longest)
        return changed[:longest]

    seen.mkdir(exist_ok=True)
    (seen / "right").write_bytes(right)
    options = {
        "max_total_time": seconds,
        "max_len": 4 * len(right),
        "artifact_prefix": f"{seen.parent}/",  # copies of files that end the process
        **dict.fromkeys(("timeout", "verbosity", "rss_limit_mb", "detect_leaks"), 0),
        **{f"handle_{s}": 0 for s in ("segv", "bus", "abrt", "ill", "fpe", "int", "term", "xfsz")},
    }
    words = [sys.argv[0], *(f"-{name}={value}" for name, value in options.items()), str(seen)]
    atheris.Setup(words, one, custom_mutator=mutate)
    atheris.Fuzz()  # which does not return


def _forked(command: list[str], *, input: bytes = b"", timeout: Any = None, **options: Any) -> Any:
    """Run a script as `subprocess.run` does, in a fork, which starts a hundred times as fast."""
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        files[0].write(input)
        process = multiprocessing.get_context("fork").Process
        fork = process(target=_run_script, args=(command[2:], files))
        for file in files:
            file.seek(0)
        fork.start()
        fork.join(timeout)
        if fork.is_alive():
            fork.kill()
            fork.join()
            raise subprocess.TimeoutExpired(command, timeout)
        for file in files:
            file.seek(0)
        made, said = (file.read() for file in files[1:])
        return subprocess.CompletedProcess(command, fork.exitcode or 0, made, said)


def _run_script(words: list[str], files: list[IO[bytes]]) -> None:
    sys.argv = ["-c", *words[1:]]
    sys.stdin, sys.stdout, sys.stderr = (io.TextIOWrapper(file) for file in files)
    exec(words[0], {"__name__": "__main__"})


START = """
import contextlib, importlib.util, sys
with contextlib.ExitStack() as stack:
    if importlib.util.find_spec("atheris"):
        import atheris
        stack.enter_context(atheris.instrument_imports(include=["ebcd"]))
    from benchmarks import fuzz
fuzz.child(sys.argv[1], sys.argv[2], int(sys.argv[3]))
"""


def run(reader: str, seconds: int) -> tuple[int, int]:
    """Read files in children until the time is over; return how many, and how many went wrong."""
    end, count, wrong = time.monotonic() + seconds, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        while (left := round(end - time.monotonic())) > 0:
            command = [sys.executable, "-c", START, reader, folder, str(left)]
            ended = subprocess.run(command, capture_output=True, text=True, check=False)
            lines = ended.stdout.splitlines()
            if ended.returncode and (file := Path(folder) / "file").exists():  # which ended it
                kept = keep(reader, file)
                lines.append(f"ends the process with {ended.returncode}, kept as {kept}")
            count, wrong = count + len(lines), wrong + sum(map(bool, lines))
            for line in filter(None, lines):
                print(f"{reader}: {line}", flush=True)
    return count, wrong


def main() -> None:
    """Fuzz every reader, and keep what went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=600, help="for each reader")
    parser.add_argument("--reader", action="append", choices=list(READERS))
    options = parser.parse_args()
    guided = importlib.util.find_spec("atheris") is not None
    print("guided by coverage" if guided else "random changes, for atheris is not installed")
    total = np.zeros(2, dtype=int)
    readers = options.reader or list(READERS)
    for reader in readers:
        found = run(reader, options.seconds)
        total += found
        print(f"{reader}: {found[0]:,} files, {found[1]} wrong", flush=True)
    print(f"{total[0]:,} mutated files for {len(readers)} readers: {total[1]} wrong")
    sys.exit(bool(total[1]))


if __name__ == "__main__":
    main()

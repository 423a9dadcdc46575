"""Data of every kind for every way in: the same components as from a plain array, or a clear error.

``python -m benchmarks.kinds`` tries all; `tests/test_kinds.py` some of them.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

import ebcd
from benchmarks.hostile import _picture
from ebcd.peers import EBPCA, SPC

RNG = np.random.default_rng(0)
SIGNAL = 8 * RNG.standard_normal((30, 1)) * (np.arange(6) < 3)
PLAIN = np.round(4 * RNG.standard_normal((30, 6)) + SIGNAL)  # whole numbers, that any type can hold
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "strided": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "reversed": lambda x: x[::-1].copy()[::-1],
    "transposed": lambda x: x.T.copy().T,
    "wide gaps": lambda x: np.repeat(np.repeat(x, 3, axis=0), 2, axis=1)[::3, ::2],
}
TYPES = ("f8", "f4", "i1", "i2", "i4", "i8", ">f8", ">i4", ">f4", "O")
SPARSE = ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")
BAD: dict[str, Callable[[Any], Any]] = {
    "nan": lambda x: np.where(np.arange(6) == 2, np.nan, x),
    "inf": lambda x: np.where(np.arange(6) == 2, np.inf, x),
    "zero": np.zeros_like,
    "constant": np.ones_like,
    "huge": lambda x: x * 1e200,
    "tiny": lambda x: x * 1e-200,
    "one row": lambda x: x[:1],
    "one column": lambda x: x[:, :1],
    "no row": lambda x: x[:0],
    "no column": lambda x: x[:, :0],
    "vector": lambda x: x[0],
    "cube": lambda x: x[None],
    "complex": lambda x: x + 1j,
    "text": lambda x: x.astype(str),
    "records": lambda x: x.view([(f"a{j}", float) for j in range(6)]),
    "dates": lambda x: x.astype("M8[D]"),
}


def kinds() -> dict[str, tuple[bool, Callable[[], Any]]]:
    """Return kinds of data by name: whether they are the plain data, and what makes them."""
    found: dict[str, tuple[bool, Callable[[], Any]]] = {}
    for (layout, lay), kind in itertools.product(LAYOUTS.items(), TYPES):
        found[f"{kind} {layout}"] = True, lambda lay=lay, kind=kind: lay(PLAIN.astype(kind))
    for form, kind in itertools.product(SPARSE, ("f8", "f4", "i4")):
        for make in (sparse.coo_array, sparse.coo_matrix):
            name = f"{kind} {form} {make.__name__}"
            found[name] = True, lambda f=form, k=kind, m=make: m(PLAIN.astype(k)).asformat(f)
    found["lists"] = True, PLAIN.tolist
    found["tuples"] = True, lambda: tuple(map(tuple, PLAIN))
    found["read-only"] = True, lambda: np.frombuffer(PLAIN.tobytes()).reshape(PLAIN.shape)
    found["chunks"] = True, lambda: [PLAIN[:7], PLAIN[7:8], PLAIN[8:]]
    found["sparse chunks"] = True, lambda: [sparse.csr_array(PLAIN[:7]), PLAIN[7:]]
    found["masked"] = False, lambda: np.ma.masked_less(PLAIN, 0)
    for (name, spoil), kind in itertools.product(BAD.items(), ("dense", "csr", "list")):
        found[f"{name} {kind}"] = False, lambda s=spoil, k=kind: _as(k, s(PLAIN.copy()))
    return found


def _as(kind: str, values: Any) -> Any:
    if kind == "list":
        return values.tolist()
    if kind == "csr" and values.ndim == 2 and values.dtype.kind in "fc":
        return sparse.csr_array(values)
    return values


WAYS: dict[str, Callable[[Any], Any]] = {
    "EBCD": lambda x: ebcd.EBCD(1).fit(x).components_,
    "scaled": lambda x: ebcd.EBCD(1, scale=True).fit(x).components_,
    "not centered": lambda x: ebcd.EBCD(1, center=False).fit(x).components_,
    "integrated": lambda x: ebcd.EBCD(1, scores="integrated").fit(x).components_,
    "PenalizedPCA": lambda x: ebcd.PenalizedPCA(1).fit(x).components_,
    "SPC": lambda x: SPC(1, sumabs=2.0).fit(x).components_,
    "EBPCA": lambda x: EBPCA(1).fit(x).components_,
    "transform": lambda x: _MODEL.transform(x),
    "score_samples": lambda x: _MODEL.score_samples(x),
    "Gram": lambda x: ebcd.EBCD(1).fit(ebcd.Gram().update(x)).components_,
    "Chunks": lambda x: ebcd.EBCD(1).fit(ebcd.Chunks(x)).components_,
}
_MODEL = ebcd.EBCD(1).fit(PLAIN)


def attempt(way: str, kind: str, right: Any) -> str:
    """Try one kind of data; return what is wrong, if anything."""
    plain, make = kinds()[kind]
    data = make()
    before = _picture(data)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = np.asarray(WAYS[way](data))
            wrong = "" if np.isfinite(found).all() else "result is not finite"
            if plain and not np.allclose(found, right, rtol=1e-3, atol=1e-3):
                wrong = "result is another one"
        except (ValueError, TypeError) as error:
            refused = way in ("Gram", "Chunks", "SPC", "EBPCA")  # which take fewer kinds
            wrong = f"refused: {str(error)[:80]}" if plain and not refused else ""
        except Exception as error:  # noqa: BLE001 - whatever it is, it should not be
            wrong = f"{type(error).__name__}: {str(error)[:80]}"
    known = ("UserWarning", "ConvergenceWarning")
    odd = [w for w in caught if w.category.__name__ not in known]
    if odd and not wrong:
        wrong = f"warns {odd[0].category.__name__}: {str(odd[0].message)[:60]}"
    return "changes its input" if _picture(data) != before else wrong


def run(step: int = 1) -> tuple[int, list[str]]:
    """Try every kind with every way, or one of `step`; return how many, and what is wrong."""
    pairs = list(itertools.product(WAYS, kinds()))[::step]
    right = {way: WAYS[way](PLAIN) for way in WAYS}
    wrong = [(way, kind, attempt(way, kind, right[way])) for way, kind in pairs]
    return len(pairs), [f"{way}, {kind}: {what}" for way, kind, what in wrong if what]


def main() -> None:
    """Try all, and print what is wrong."""
    count, wrong = run()
    print("\n".join(wrong))
    print(f"{count:,} ways of {len(kinds())} kinds of data: {len(wrong)} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

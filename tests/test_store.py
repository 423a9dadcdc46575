"""The store: trees come back bit by bit, and damaged or hostile files are refused in one line."""

import contextlib
import json
import zipfile

import numpy as np
import pytest

from ebcd import _store

TREES = {
    "plain": {"a": [1, 2.5, None, True, "text \ud800"], "b": (1, [(2,)]), "": {}},
    "not finite": [float("nan"), float("inf"), -float("inf"), -0.0],
    "arrays": {"x": np.arange(6.0).reshape(2, 3), "y": [np.array(["u", "vv"]), np.zeros((0, 3))]},
    "scalars": [np.float32(0.1), np.bool_(True), np.str_("s"), np.int64(7)],
    "layout": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "objects": np.array([1, "a", None, [1, 2]], dtype=object).reshape(2, 2),
    "like a reference": {"kind": "array", "name": "x", "x": np.ones(2)},
    "names that clash": {"a/b": np.ones(1), "a": {"b": np.zeros(2)}, "a b": np.ones(3)},
    "names that no zip file holds": {"../up\x00": np.ones(1), "\ud800": np.zeros(2)},
}


def assert_same(a, b):
    assert type(a) is type(b)
    if isinstance(a, np.ndarray | np.generic):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
        assert np.asarray(a).flags["F_CONTIGUOUS"] == np.asarray(b).flags["F_CONTIGUOUS"]
    elif isinstance(a, dict):
        assert list(a) == list(b)
        assert_same(list(a.values()), list(b.values()))
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    else:
        assert repr(a) == repr(b)


@pytest.mark.parametrize("case", TREES)
def test_round_trip(case, tmp_path):
    _store.write(tmp_path / "a", TREES[case])
    assert_same(_store.read(tmp_path / "a"), TREES[case])
    _store.write(tmp_path / "b", _store.read(tmp_path / "a"))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_other_objects_pass_through_the_hooks(tmp_path):
    tree = {"z": [1 + 2j], "mine": {"kind": "complex", "parts": 0}}

    def default(value):
        return {"kind": "complex", "parts": np.array([value.real, value.imag])}

    def hook(fields):
        return complex(*fields["parts"])

    _store.write(tmp_path / "a", tree, default=default)
    assert _store.read(tmp_path / "a", object_hook=hook) == tree


def test_what_cannot_be_stored_is_named(tmp_path):
    for value, path in (({"a": [0, object()]}, "a/1"), ({"a": {1: 2}}, "a"), ({"a": 1j}, "a")):
        with pytest.raises(TypeError, match=f"{path} holds a ") as caught:
            _store.write(tmp_path / "a", value)
        assert "/".join(caught.value.path) == path
    assert list(tmp_path.iterdir()) == []


def test_arrays_of_the_root_are_named_without_it(tmp_path):
    _store.write(tmp_path / "a", {"fitted": {"x": np.ones(2)}, "y": np.ones(3)}, root="fitted")
    with np.load(tmp_path / "a") as stored:
        assert {name: len(stored[name]) for name in ("x", "y")} == {"x": 2, "y": 3}
    assert _store.read_header(tmp_path / "a")["fitted"] == {"x": {"kind": "array", "name": "x"}}


def test_a_file_is_replaced_only_by_a_whole_one(tmp_path, monkeypatch):
    path = tmp_path / "a"
    _store.write(path, {"x": np.ones(2)})

    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(np.lib.format, "write_array", fail)
    with pytest.raises(OSError, match="disk full"):
        _store.write(path, {"x": np.zeros(2)})
    assert list(tmp_path.iterdir()) == [path]
    np.testing.assert_array_equal(_store.read(path)["x"], 1)


def refused(path, message):
    with pytest.raises(ValueError, match=message) as caught:
        _store.read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_truncation_is_refused(tmp_path):
    _store.write(tmp_path / "a", {"x": np.arange(3.0), "y": "text"})
    whole = (tmp_path / "a").read_bytes()
    for size in range(len(whole)):
        (tmp_path / "a").write_bytes(whole[:size])
        refused(tmp_path / "a", "damaged or incomplete")


def test_changed_bytes_are_refused_or_harmless(tmp_path):
    tree = {"x": np.arange(3.0), "y": "text"}
    _store.write(tmp_path / "a", tree)
    whole = (tmp_path / "a").read_bytes()
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 0x55
        (tmp_path / "a").write_bytes(changed)
        with contextlib.suppress(ValueError):
            # a byte without meaning, such as one of a date
            assert_same(_store.read(tmp_path / "a"), tree)


def write_members(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def npy(header):
    text = str(header).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


HOSTILE = {
    "no header": {"x.npy": b""},
    "no JSON": {"header.json": b"\xff{"},
    "deep": {"header.json": b"[" * 100_000},
    "an array that is not there": {"header.json": b'{"kind": "array", "name": "x"}'},
    "a strange kind": {"header.json": b'{"kind": []}'},
    "a dictionary without keys": {"header.json": b'{"kind": "dict", "items": []}'},
    "huge": {
        "header.json": b"1",
        "x.npy": npy({"descr": "<f8", "fortran_order": False, "shape": (10**12,)}),
    },
    "negative": {
        "header.json": b"1",
        "x.npy": npy({"descr": "<f8", "fortran_order": False, "shape": (-1, -1)}) + b"8 bytes!",
    },
    "pickle": {
        "header.json": b"1",
        "x.npy": npy({"descr": "|O", "fortran_order": False, "shape": (1,)}) + b"8 bytes!",
    },
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files(case, tmp_path):
    write_members(tmp_path / "a", HOSTILE[case])
    refused(tmp_path / "a", "damaged or incomplete")


def test_a_small_file_claims_no_large_memory(tmp_path):
    members = {"header.json": json.dumps({}), "x.npy": bytes(10_000_000)}
    write_members(tmp_path / "a", members, zipfile.ZIP_DEFLATED)
    refused(tmp_path / "a", "larger than the file")

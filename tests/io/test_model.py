"""Estimators in files: everything comes back as it was, and bad files are refused in one line."""

import contextlib
import json
import os
import pickle
import stat
import zipfile
from pathlib import Path

import numpy as np
import pytest
from families import make_family
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit
from sklearn.pipeline import make_pipeline

import ebcd
from ebcd import EBCD, PenalizedPCA, PenalizedPCACV, _store
from ebcd.io import _model
from ebcd.peers import EBMF, EBPCA, ITSPCA, SPC, USLPCA, GPower
from ebcd.penalties import L1, SCAD, NonNegative
from ebcd.priors import PRIORS, MixturePrior, PointNormal, make_prior


def draw(n=40, p=12, seed=0):
    rng = np.random.default_rng(seed)
    L = np.zeros((2, p))
    L[0, :4], L[1, 6:] = 3.0, 1.5
    return rng.normal(size=(n, 2)) @ L + rng.normal(size=(n, p)) + 1.0


X = draw()

MODELS = {
    "ebcd": EBCD(2),
    "ebcd, auto": EBCD(),
    "ebcd, per feature": EBCD(2, noise="per_feature", scale=True, center=False, tol=1e-3),
    "ebcd, one-sided": EBCD(2, prior=["point_exponential", "generalized_binary"]),
    "ebcd, objects": EBCD(2, prior=[make_family("npmle"), make_prior("normal", scale=2.0)]),
    "ebcd, grid": EBCD(2, prior=make_family("normal_scale_mixture", grid=[0.1, 1.0, 10.0])),
    "ebcd, deconvolver": EBCD(1, prior=make_family("deconvolver", degrees_of_freedom=4, c0=2.0)),
    "ebcd, class": EBCD(1, prior=PointNormal),
    "ebcd, given start": EBCD(n_components=np.int64(2), start=np.eye(12)[:, :2], max_iter=50),
    "penalized": PenalizedPCA(2, alpha=[1.0, np.float32(2.0)], penalty=SCAD(gamma=4.0)),
    "penalized, one-sided": PenalizedPCA(2, penalty=NonNegative(L1()), alpha=np.array([1.0, 2.0])),
    "penalized, cv": PenalizedPCACV(2, alphas=np.linspace(0, 30, 5), cv=KFold(3, shuffle=True)),
    "penalized, split": PenalizedPCACV(1, alphas=range(0, 40, 8), cv=ShuffleSplit(2, test_size=20)),
    "spc": SPC(2),
    "gpower": GPower(2, gamma=(0.1, 0.2)),
    "itspca": ITSPCA(1),
    "uslpca": USLPCA(2, n_nonzero=10),
    "ebmf": EBMF(2, scores_prior=make_prior("normal", scale=1.0)),
    "ebmf, point normal": EBMF(2, scores_prior="point_normal", noise="per_feature"),
    "ebmf, per sample": EBMF(1, loadings_prior="point_exponential", noise="per_sample"),
    "ebpca": EBPCA(2),
}


def assert_same(a, b, where=""):
    """Equal in type, value and bits."""
    assert type(a) is type(b), where
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype, where
        np.testing.assert_array_equal(a, b, err_msg=where)
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same(x, y, f"{where}[{i}]")
    elif isinstance(a, dict):
        assert list(a) == list(b), where
        for key in a:
            assert_same(a[key], b[key], f"{where}[{key}]")
    elif isinstance(a, MixturePrior):  # whose kernels may not have been made yet
        for part in ("family", "parameters", "weights", "kernels", "_words", "_prior_sd"):
            assert_same(getattr(a, part), getattr(b, part), f"{where}.{part}")
    elif hasattr(a, "__dict__") and not isinstance(a, type):
        assert_same(vars(a), vars(b), where)
    else:
        assert a == b or a != a, where


@pytest.fixture(scope="module", params=MODELS)
def pair(request, tmp_path_factory):
    model = MODELS[request.param]
    data = np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X)
    model.fit(data if request.param == "ebmf, per sample" else X)
    path = tmp_path_factory.mktemp("models") / "model.npz"
    ebcd.save(model, path)
    return model, ebcd.load(path)


class TestRoundTrip:
    def test_parameters_and_attributes(self, pair):
        model, again = pair
        assert type(again) is type(model)
        before, after = vars(model).copy(), vars(again).copy()
        for name in ("_fitted", "_score_prior"):  # compared below, through what they do
            assert type(before.pop(name, None)) is type(after.pop(name, None))
        assert_same(before, after)

    def test_methods(self, pair):
        model, again = pair
        new = draw(seed=5)
        assert_same(model.transform(new), again.transform(new))
        assert_same(model.transform(new.astype("f4")), again.transform(new.astype("f4")))
        assert_same(model.score_samples(new), again.score_samples(new))
        assert_same(model.get_precision(), again.get_precision())
        assert model.summary() == again.summary()
        if hasattr(model, "lfsr_"):
            assert_same(model.sparsify(), again.sparsify())
        if hasattr(model, "sample_components"):
            assert_same(model.sample_components(3, 0), again.sample_components(3, 0))

    def test_priors_do_the_same(self, pair):
        model, again = pair
        grid, rng = np.linspace(-4, 4, 9), np.random.default_rng
        for a, b in zip(getattr(model, "priors_", []), getattr(again, "priors_", []), strict=True):
            assert_same(a.shrink(grid, 0.5), b.shrink(grid, 0.5))
            assert_same(a.sample(5, rng(0)), b.sample(5, rng(0)))

    def test_twice_gives_the_same_file(self, pair, tmp_path):
        ebcd.save(pair[0], tmp_path / "a")
        ebcd.save(pair[1], tmp_path / "b")
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("family", [name for name in PRIORS if name != "point_mass"])
def test_every_family(tmp_path, family):
    model = EBCD(2, prior=make_family(family), start="svd").fit(X)
    ebcd.save(model, tmp_path / "m")
    again = ebcd.load(tmp_path / "m")
    assert_same(vars(again)["_working_priors"], vars(model)["_working_priors"])
    assert_same(again.sample_components(4, 1), model.sample_components(4, 1))
    assert again.summary() == model.summary()


def test_feature_names_and_output_format(tmp_path):
    pandas = pytest.importorskip("pandas")
    names = ["plain", "ümläut", 'quote " and \\', "line\nbreak", "\ud800", "", *"abcdef"]
    # as objects: the text type of pandas 3 refuses half a surrogate pair
    frame = pandas.DataFrame(X, columns=pandas.Index(names, dtype=object))
    model = EBCD(2).set_output(transform="pandas").fit(frame)
    ebcd.save(model, tmp_path / "m")
    again = ebcd.load(tmp_path / "m")
    assert_same(again.feature_names_in_, model.feature_names_in_)
    pandas.testing.assert_frame_equal(again.transform(frame), model.transform(frame))


def test_covariance_without_mean(tmp_path):
    model = EBCD(2).fit_covariance(np.cov(X.T), n_samples=40)
    ebcd.save(model, tmp_path / "m")
    again = ebcd.load(tmp_path / "m")
    assert not hasattr(again, "mean_")
    centred = X - X.mean(axis=0)
    assert_same(again.transform(centred), model.transform(centred))


def test_no_component(tmp_path):
    noise = np.random.default_rng(0).normal(size=(40, 8))
    with pytest.warns(UserWarning, match="no component"):
        model = EBCD().fit(noise)
    ebcd.save(model, tmp_path / "m")
    assert ebcd.load(tmp_path / "m").transform(noise).shape == (40, 0)


def test_path_with_nan(tmp_path):
    with pytest.warns(UserWarning, match="dropped 1 of 2"):
        model = ITSPCA(2, gamma=2.0).fit(X)
    assert np.isnan(model.change_path_).any()
    ebcd.save(model, tmp_path / "m")
    assert_same(ebcd.load(tmp_path / "m").change_path_, model.change_path_)


def test_not_fitted(tmp_path):
    ebcd.save(EBCD(3, tol=float("inf")), tmp_path / "m")
    again = ebcd.load(tmp_path / "m")
    assert again.get_params() == EBCD(3, tol=float("inf")).get_params()
    assert not hasattr(again, "components_")


class TestParameters:
    @pytest.mark.parametrize(
        "value",
        [
            Path("a") / "b",
            {"a": (1, [2.5, None])},
            np.array(["x", "yy"]),
            np.array([1, "a", None, [1, 2]], dtype=object).reshape(2, 2),
            np.float32(0.1),
            np.bool_(True),
            np.str_("auto"),
            np.asfortranarray(np.arange(6.0).reshape(2, 3)),
            np.arange(10)[::-3],
            [(np.arange(3), np.arange(2))],
            float("nan"),
            -0.0,
            10**30,
        ],
        ids=repr,
    )
    def test_any_plain_value(self, tmp_path, value):
        ebcd.save(EBCD(2, start=value), tmp_path / "m")
        assert_same(ebcd.load(tmp_path / "m").start, value)

    def test_memory_map_becomes_an_array(self, tmp_path):
        np.save(tmp_path / "start.npy", np.ones((12, 2)))
        ebcd.save(EBCD(2, start=np.load(tmp_path / "start.npy", mmap_mode="r")), tmp_path / "m")
        assert_same(ebcd.load(tmp_path / "m").start, np.ones((12, 2)))

    class Own:
        def value(self, v):
            return np.abs(v)

        def prox(self, v, step):
            return np.sign(v) * np.maximum(np.abs(v) - step, 0)

    class OwnFamily(PointNormal):
        pass

    @pytest.mark.parametrize(
        ("model", "message"),
        [
            (EBCD(2, random_state=np.random.default_rng(0)), "parameter random_state .* Generator"),
            (EBCD(2, random_state=np.random.RandomState(0)), "an integer or None"),
            (PenalizedPCA(2, penalty=Own()), "parameter penalty .* Own .*ebcd.penalties"),
            (EBCD(2, prior=["normal", OwnFamily()]), "parameter prior .* OwnFamily"),
            (EBCD(2, prior=OwnFamily), "parameter prior"),
            (PenalizedPCACV(2, cv=iter([])), "parameter cv .* list_iterator"),
            (PenalizedPCACV(2, cv=RepeatedKFold()), "parameter cv .* RepeatedKFold"),
            (
                PenalizedPCACV(2, cv=KFold(3, shuffle=True, random_state=np.random.RandomState(0))),
                "cv",
            ),
            (EBCD(2, start=np.ma.zeros((3, 2))), "parameter start .* MaskedArray"),
        ],
    )
    def test_what_cannot_be_saved_is_named(self, tmp_path, model, message):
        with pytest.raises(TypeError, match=message) as caught:
            ebcd.save(model, tmp_path / "m")
        assert "\n" not in str(caught.value)
        assert list(tmp_path.iterdir()) == []

    def test_advice_works(self, tmp_path):
        model = PenalizedPCA(2, penalty=self.Own(), alpha=2.0).fit(X)
        scores = model.transform(X)
        ebcd.save(model.set_params(penalty="l1"), tmp_path / "m")
        assert_same(ebcd.load(tmp_path / "m").transform(X), scores)

    def test_foreign_attribute(self, tmp_path):
        model = EBCD(2)
        model.note = object()
        with pytest.raises(TypeError, match=r"del model\.note"):
            ebcd.save(model, tmp_path / "m")

    @pytest.mark.parametrize(
        "thing", [make_pipeline(EBCD(2)), EBCD, None, type("Mine", (EBCD,), {})()]
    )
    def test_other_estimators(self, tmp_path, thing):
        with pytest.raises(TypeError, match=r"save takes one of EBCD, .*joblib"):
            ebcd.save(thing, tmp_path / "m")


class TestFile:
    def test_path_is_used_as_it_is(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        ebcd.save(EBCD(2), "model")
        ebcd.save(EBCD(3), "model.npz")
        ebcd.save(EBCD(4), Path("model.tar.gz"))
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "model",
            "model.npz",
            "model.tar.gz",
        ]
        assert [ebcd.load(name).n_components for name in ("model", Path("model.npz"))] == [2, 3]

    def test_numpy_reads_the_arrays(self, tmp_path):
        model = EBCD(2).fit(X)
        ebcd.save(model, tmp_path / "m")
        with np.load(tmp_path / "m", allow_pickle=False) as file:
            assert_same(file["components_"], model.components_)
            header = json.loads(file["header.json"])
        assert header["class"] == "EBCD"
        assert header["ebcd_version"] == ebcd.__version__
        assert header["fitted"]["n_components_"] == 2

    def test_replaces_only_when_complete(self, tmp_path, monkeypatch):
        ebcd.save(EBCD(2), tmp_path / "m")

        def fail(*args, **kwargs):
            raise OSError("disk full")

        monkeypatch.setattr(np.lib.format, "write_array", fail)
        with pytest.raises(OSError, match="disk full"):
            ebcd.save(EBCD(3, start=np.eye(3)), tmp_path / "m")
        assert list(tmp_path.iterdir()) == [tmp_path / "m"]
        assert ebcd.load(tmp_path / "m").n_components == 2

    @pytest.mark.skipif(os.name == "nt", reason="no such modes")
    def test_mode_and_links(self, tmp_path):
        (tmp_path / "plain").touch()
        (tmp_path / "link").symlink_to(tmp_path / "m")
        ebcd.save(EBCD(2), tmp_path / "link")
        assert (tmp_path / "link").is_symlink()
        modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "m")}
        assert len(modes) == 1

    def test_no_such_folder(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"folder .* does not exist"):
            ebcd.save(EBCD(2), tmp_path / "nowhere" / "m")
        with pytest.raises(IsADirectoryError, match="is a folder"):
            ebcd.save(EBCD(2), tmp_path)

    def test_size(self, tmp_path):
        wide = np.random.default_rng(0).normal(size=(30, 5000))
        model = PenalizedPCA(2, alpha=0.0).fit(wide)
        ebcd.save(model, tmp_path / "m")
        arrays = sum(v.nbytes for v in vars(model).values() if isinstance(v, np.ndarray))
        assert (tmp_path / "m").stat().st_size < arrays + 10_000


def rewrite(path, change):
    """Change the header of a model file."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["header.json"])
    change(header)
    members["header.json"] = json.dumps(header).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


FORMAT_1 = {
    # scores of the first rows, as the version that wrote the file computed them
    "ebcd": [[0.18375626770046832, -0.5247394112802503], [1.0017600848195647, -0.9988249869400119]],
    "penalized": [
        [0.1897384889360602, -0.5217967296396273],
        [1.0246186235316106, -0.9745373518678558],
    ],
    "ebmf": [[0.23290355875148033], [1.1016349955971185]],
    "ebpca": [[0.2708546464812566, -0.5804063022040545], [1.011059780864485, -1.0224271919088066]],
}


@pytest.mark.parametrize("version", range(1, _model._FORMAT["format_version"] + 1))
@pytest.mark.parametrize("name", FORMAT_1)
def test_files_of_every_format(name, version):
    """The first format was written by version 0.1.0 before the store was shared."""
    model = ebcd.load(Path(__file__).parent / "files" / f"{name}_format_{version}.npz")
    rng = np.random.default_rng(0)
    L = np.zeros((2, 6))
    L[0, :3], L[1, 3:] = 3, 1.5
    rows = (rng.normal(size=(30, 2)) @ L + rng.normal(size=(30, 6)) + 1)[:2]
    if name == "ebcd":  # fitted to a data frame, with pandas as output
        pandas = pytest.importorskip("pandas")
        rows = pandas.DataFrame(rows, columns=list("abcdef"))
    np.testing.assert_allclose(model.transform(rows), FORMAT_1[name], rtol=1e-10)
    assert model.summary()


class TestBadFiles:
    @pytest.fixture
    def path(self, tmp_path):
        ebcd.save(EBCD(2).fit(X), tmp_path / "m.npz")
        return tmp_path / "m.npz"

    def refused(self, path, message, error=ValueError):
        with pytest.raises(error, match=message) as caught:
            ebcd.load(path)
        assert "\n" not in str(caught.value)
        assert path.name in str(caught.value) or path.stem in str(caught.value)

    def test_missing(self, tmp_path):
        self.refused(tmp_path / "none.npz", "No such file", FileNotFoundError)

    def test_folder(self, tmp_path):
        self.refused(tmp_path, "directory|denied", OSError)

    def test_newer(self, path):
        rewrite(path, lambda header: header.update(format_version=3, ebcd_version="9.9"))
        self.refused(path, r"ebcd 9\.9 in format 3.* up to 2.*--upgrade")

    def test_foreign(self, tmp_path):
        np.savez(tmp_path / "other.npz", a=np.ones(3))
        self.refused(tmp_path / "other.npz", "not a model")
        np.save(tmp_path / "other.npy", np.ones(3))
        self.refused(tmp_path / "other.npy", "not a model")
        (tmp_path / "empty").touch()
        self.refused(tmp_path / "empty", "not a model")
        (tmp_path / "text").write_text("components\n1\n")
        self.refused(tmp_path / "text", "not a model")

    def test_foreign_header(self, path):
        rewrite(path, lambda header: header.update(format="another"))
        self.refused(path, "not a model")

    def test_pickle_is_not_opened(self, tmp_path):
        (tmp_path / "p").write_bytes(pickle.dumps(EBCD(2)))
        self.refused(tmp_path / "p", "not a model")

    @pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
    def test_truncated(self, path, share):
        whole = path.read_bytes()
        path.write_bytes(whole[: int(share * len(whole))])
        self.refused(path, "damaged or incomplete")

    def test_flipped_bit(self, path):
        model = ebcd.load(path)
        whole = bytearray(path.read_bytes())
        place = whole.find(model.components_.tobytes())
        assert place > 0
        whole[place] ^= 1
        path.write_bytes(whole)
        self.refused(path, "damaged")

    def test_array_of_objects(self, path):
        with zipfile.ZipFile(path, "a") as archive, archive.open("x.npy", "w") as member:
            np.lib.format.write_array(member, np.array([object()]), allow_pickle=True)
        self.refused(path, "damaged")

    def test_header_is_not_json(self, tmp_path):
        for content in (b"{", b"\xff", b"[" * 100_000, b"[]"):
            with zipfile.ZipFile(tmp_path / "m", "w") as archive:
                archive.writestr("header.json", content)
            self.refused(tmp_path / "m", "not a model|damaged")

    @pytest.mark.parametrize("odd", [None, [], -1.5, {"make": 1, "name": 2}])
    def test_anything_in_the_header(self, path, odd):
        """Each part of it replaced: the file is refused in one line, or that part may be so."""
        whole = path.read_bytes()

        def parts(node, found):
            for key in list(node) if isinstance(node, dict) else range(len(node)):
                found.append((node, key))
                if isinstance(node[key], dict | list):
                    parts(node[key], found)
            return found

        with zipfile.ZipFile(path) as archive:
            count = len(parts(json.loads(archive.read("header.json")), []))
        for number in range(count):

            def change(header, number=number):
                node, key = parts(header, [])[number]
                node[key] = odd

            rewrite(path, change)
            with contextlib.suppress(ValueError):
                ebcd.load(path)
            path.write_bytes(whole)

    @pytest.mark.parametrize(
        ("where", "name"),
        [
            (_store, "_read_array"),
            (_store, "_decode"),
            (_model, "_check_header"),
            (_model, "_estimator"),
            (_model, "_restore"),
        ],
    )
    def test_a_bug_of_ours_is_no_damage(self, path, where, name, monkeypatch):
        def bug(*given):
            raise TypeError("a bug")

        monkeypatch.setattr(where, name, bug)
        with pytest.raises(TypeError, match="a bug"):
            ebcd.load(path)

    @pytest.mark.parametrize("name", ["os.system", "Pipeline", "Decomposition", ""])
    def test_only_classes_of_ours(self, path, name):
        rewrite(path, lambda header: header.update({"class": name}))
        self.refused(path, "not one of EBCD")

    @pytest.mark.parametrize(
        ("part", "name", "value"),
        [
            ("parameters", "colour", "red"),
            ("parameters", "prior", {"kind": "family", "type": "os", "fields": {}}),
            ("parameters", "prior", {"kind": "prior", "type": "normal", "fields": {"scale": -1.0}}),
            ("parameters", "prior", {"kind": "call", "type": "os.system"}),
            ("parameters", "prior", {"kind": "splitter", "type": "GridSearchCV", "fields": {}}),
            ("parameters", "prior", {"kind": "record", "type": "Path", "fields": {}}),
            ("fitted", "mean_", {"kind": "array", "name": "gone"}),
            ("fitted", "transform", 1),
            ("fitted", "__class__", 1),
            ("fitted", "not a name", 1),
        ],
    )
    def test_strange_content(self, path, part, name, value):
        rewrite(path, lambda header: header[part].update({name: value}))
        self.refused(path, "cannot be read by ebcd")

    def test_parameters_that_came_later_have_their_defaults(self, path):
        rewrite(path, lambda header: header["parameters"].pop("tol"))
        assert ebcd.load(path).tol is None

"""The other pictures: what they show is what the model says."""

import sys

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError

pytest.importorskip("matplotlib")

import matplotlib as mpl
from matplotlib import pyplot as plt
from pictures import assert_readable, drawn, labels

import ebcd
from ebcd import EBCD, PenalizedPCA, plots
from ebcd.peers import EBPCA, ITSPCA, SPC, USLPCA, GPower
from ebcd.penalties import as_penalty

FUNCTIONS = sorted(plots.__all__)
TURN, CHANGE = "turn of the subspace (squared sine)", "relative change of the loadings"


class TestBiplot:
    def test_points_are_scores_and_arrows_loadings(self, ebcd_model, data):
        ax = plots.biplot(ebcd_model, data, (1, 0), n=4)
        points = ax.collections[0].get_offsets()
        np.testing.assert_array_equal(points, ebcd_model.transform(data)[:, [1, 0]])
        arrows = [text for text in ax.texts if hasattr(text, "arrow_patch")]
        names = [text.get_text() for text in ax.texts if not hasattr(text, "arrow_patch")]
        loadings = ebcd_model.components_[[1, 0]].T
        longest = np.argsort(-np.linalg.norm(loadings, axis=1))[:4]
        assert {f"x{j}" for j in longest} == set(names)
        ends = np.array([arrow.xy for arrow in arrows])
        expected = loadings[longest]
        np.testing.assert_allclose(ends / np.linalg.norm(ends), expected / np.linalg.norm(expected))
        (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
        assert ((ends > [left, low]) & (ends < [right, high])).all()
        assert_readable(ax.figure)

    def test_arrows_of_scaled_data_do_not_depend_on_units(self, data):
        def ends(X):
            ax = plots.biplot(EBCD(2, scale=True).fit(X), X, n=15)
            found = [text.xy for text in ax.texts if hasattr(text, "arrow_patch")]
            return np.array(sorted(map(tuple, np.abs(found).round(6))))

        np.testing.assert_allclose(ends(data), ends(data * np.geomspace(1, 1.2, 15)), atol=1e-4)

    def test_colours_and_labels(self, ebcd_model, data):
        kinds = np.array(["a", None, float("nan"), "b"], dtype=object)[np.arange(80) % 4]
        labels = [f"row {i}" for i in range(80)]
        ax = plots.biplot(ebcd_model, data, color_by=kinds, labels=labels, n=1)
        shown = [text.get_text() for text in ax.get_legend().get_texts()]
        assert shown == ["a", "b", "missing"]
        written = {text.get_text() for text in ax.texts} & set(labels)
        far = np.argsort(-(ebcd_model.transform(data) ** 2).sum(axis=1))[:60]
        assert {labels[i] for i in far[:5]} <= written <= {labels[i] for i in far}
        assert len(written) > 25
        assert_readable(ax.figure)

    @pytest.mark.slow
    def test_names_do_not_cover_each_other(self):
        # all arrows point to nearly the same place, as loadings of one component do
        rng = np.random.default_rng(0)
        X = rng.normal(size=(100, 1)) + rng.normal(size=(100, 20))
        model, names = EBCD(2).fit(X), [f"a long name of $feature_{j}" for j in range(20)]
        _, (left, _) = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
        for ax in (None, left):
            ax = plots.biplot(model, X, labels=range(100), n=20, feature_names=names, ax=ax)
            assert_readable(ax.figure)
            assert set(names) <= {text.get_text() for text in ax.texts}
            inside = ax.get_window_extent()
            assert all(inside.y0 <= text.get_window_extent().y0 for text in ax.texts)

    def test_bad_input(self, ebcd_model, data):
        for arguments, message in (
            ({"components": [0]}, "components must be two"),
            ({"components": (0, 2)}, "component 2 does not exist"),
            ({"color_by": ["a"]}, "color_by must have 80 entries"),
            ({"labels": ["a"]}, "labels must have 80 entries"),
        ):
            with pytest.raises(ValueError, match=message):
                plots.biplot(ebcd_model, data, **arguments)


class TestStability:
    def test_bars_are_the_shares(self, ebcd_model, empty_model):
        ax = plots.stability(ebcd_model, [1.0, 0.5])
        assert [bar.get_height() for bar in ax.patches] == [100, 50]
        assert ax.patches[0].get_facecolor() != ax.patches[1].get_facecolor()
        assert ax.get_title() == "1 of 2 found again in 80% or more"
        assert "no component" in plots.stability(empty_model, []).texts[0].get_text()

    @pytest.mark.parametrize("count", [1, 16, 30])
    def test_components_are_numbered(self, count):
        X = np.random.default_rng(0).normal(size=(60, 40))
        ax = plots.stability(PenalizedPCA(count, alpha=0.0).fit(X), np.full(count, 0.5))
        assert_readable(ax.figure)
        assert all(float(tick).is_integer() for tick in ax.get_xticks())

    @pytest.mark.parametrize("shares", [[1.0], [1.0, 2.0], 0.5])
    def test_bad_shares(self, ebcd_model, shares):
        with pytest.raises(ValueError, match="share between 0 and 1 for each of the 2 components"):
            plots.stability(ebcd_model, shares)


class TestAll:
    @pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "compare"])
    def test_take_fitted_estimators_of_ours(self, name, data):
        arguments = {"scores": [data], "biplot": [data], "stability": [[1.0, 0.5]]}.get(name, [])
        with pytest.raises(TypeError, match=r"must be a fitted estimator of ebcd.* got PCA"):
            getattr(plots, name)(PCA(2).fit(data), *arguments)
        with pytest.raises(NotFittedError):
            getattr(plots, name)(EBCD(2), *arguments)

    @pytest.mark.parametrize(
        "name", ["heatmap", "explained_variance", "elbo", "shrinkage", "memberships"]
    )
    def test_draw_where_they_are_told(self, name, ebcd_model):
        _, ax = plt.subplots()
        assert getattr(plots, name)(ebcd_model, ax=ax) is ax
        with pytest.raises(TypeError, match="single matplotlib Axes"):
            getattr(plots, name)(ebcd_model, ax=[ax])

    def test_without_matplotlib(self, ebcd_model, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(ImportError, match=r'need matplotlib: pip install "ebcd\[plots\]"'):
            plots.components(ebcd_model)

    def test_defaults_of_the_user_are_left_alone(self, ebcd_model):
        before = dict(mpl.rcParams)
        plots.heatmap(ebcd_model)
        assert dict(mpl.rcParams) == before


@pytest.fixture(scope="module")
def wide():
    rng = np.random.default_rng(0)
    L = np.zeros((2, 20_000))
    L[0, ::17], L[1, 5::13] = 3.0, -2.0
    X = rng.normal(size=(50, 2)) @ L + rng.normal(size=(50, 20_000))
    return EBCD(2, start="svd").fit(X)


class TestHeatmap:
    def image(self, ax):
        return np.asarray(ax.images[0].get_array())

    def test_small(self, model):
        ax = plots.heatmap(model, sort=False)
        np.testing.assert_array_equal(self.image(ax), drawn(model).T)
        assert labels(ax) == [f"x{j}" for j in range(15)]
        low, high = ax.images[0].get_clim()
        assert high == -low == np.abs(drawn(model)).max()

    def test_sorted(self, ebcd_model):
        model, ax = ebcd_model, plots.heatmap(ebcd_model)
        assert_readable(ax.figure)
        order = [int(label[1:]) for label in labels(ax)]
        assert sorted(order) == list(range(15))
        np.testing.assert_array_equal(self.image(ax), drawn(model).T[order])
        home = np.abs(drawn(model)).argmax(axis=0)[order]
        assert (np.diff(home) >= 0).all()
        values = drawn(model)[home, order]
        assert (np.diff(values)[np.diff(home) == 0] <= 0).all()

    def test_no_used_loading_is_lost(self, wide):
        ax = plots.heatmap(wide)
        image = self.image(ax)
        assert 200 < len(image) <= ax.get_window_extent().height
        used = (wide.lfsr_ <= 0.05).any(axis=0)
        assert f"{used.sum():,} of 20,000 features" in ax.get_ylabel()
        shown = wide.components_[:, used]
        np.testing.assert_allclose(np.abs(image).max(axis=0), np.abs(shown).max(axis=1))
        assert np.isin(image, np.append(shown, 0)).all()
        assert_readable(ax.figure)

    def test_order_of_the_data(self, wide):
        image = self.image(plots.heatmap(wide, sort=False, level=1e-3))
        used = (wide.lfsr_ <= 1e-3).any(axis=0)
        together = -(-used.sum() // len(image))
        block = wide.components_[0, used][:together]
        assert image[0, 0] == block[np.abs(block).argmax()]

    def test_few_used_of_many(self, wide):
        ax = plots.heatmap(wide, level=0.0)
        assert "no loading" in ax.texts[0].get_text() or self.image(ax).size > 0

    def test_many_components(self):
        X = np.random.default_rng(0).normal(size=(60, 30))
        ax = plots.heatmap(PenalizedPCA(20, alpha=0.0).fit(X))
        assert_readable(ax.figure)
        tiny = X * np.geomspace(1, 1e-6, 30)  # and shares of the variance with many digits
        assert_readable(plots.heatmap(PenalizedPCA(16, alpha=0.0).fit(tiny)).figure)

    def test_no_component(self, empty_model):
        assert "no component" in plots.heatmap(empty_model).texts[0].get_text()


class TestExplainedVariance:
    def test_bars(self, model, data):
        ax = plots.explained_variance(model)
        heights = [bar.get_height() for bar in ax.patches]
        np.testing.assert_allclose(heights, 100 * model.explained_variance_ratio_)

    def test_beside_pca(self, ebcd_model, data):
        ax = plots.explained_variance(ebcd_model, data)
        heights = [bar.get_height() for bar in ax.patches]
        expected = PCA(2).fit(data).explained_variance_ratio_
        np.testing.assert_allclose(heights[2:], 100 * expected, rtol=1e-6)
        said = [text.get_text() for text in ax.get_legend().get_texts()]
        assert said[1] == f"PCA: {100 * expected.sum():.1f}% in total"
        places = [bar.get_x() + bar.get_width() for bar in ax.patches[:2]]
        np.testing.assert_allclose(places, [bar.get_x() for bar in ax.patches[2:]], atol=1e-12)
        assert_readable(ax.figure)

    def test_beside_pca_of_scaled_and_uncentred_data(self, data):
        X = data * np.arange(1, 16) + 5
        scaled = EBCD(2, scale=True).fit(X)
        heights = [bar.get_height() for bar in plots.explained_variance(scaled, X).patches[2:]]
        Z = (X - X.mean(axis=0)) / X.std(axis=0)
        values, vectors = np.linalg.eigh(Z.T @ Z / len(Z))
        back = (np.sqrt(values[::-1][:2]) * vectors[:, ::-1][:, :2]) * X.std(axis=0)[:, None]
        expected = (back**2).sum(axis=0) / X.var(axis=0).sum()
        np.testing.assert_allclose(heights, 100 * np.sort(expected)[::-1], rtol=1e-6)
        raw = EBCD(2, center=False).fit(X)
        heights = [bar.get_height() for bar in plots.explained_variance(raw, X).patches[2:]]
        values = np.linalg.eigvalsh(X.T @ X)
        np.testing.assert_allclose(heights, 100 * values[::-1][:2] / values.sum(), rtol=1e-6)

    def test_all_estimators_beside_pca(self, model, data):
        assert len(plots.explained_variance(model, data).patches) == 4

    def test_many_or_none(self, empty_model):
        X = np.random.default_rng(0).normal(size=(60, 40))
        assert_readable(plots.explained_variance(PenalizedPCA(30, alpha=0.0).fit(X)).figure)
        assert "no component" in plots.explained_variance(empty_model).texts[0].get_text()


class TestScores:
    def test_scatter(self, model, data):
        ax = plots.scores(model, data)
        points = ax.collections[0].get_offsets()
        np.testing.assert_array_equal(points, model.transform(data))
        assert "component 0" in ax.get_xlabel()
        assert "component 1" in ax.get_ylabel()

    def test_other_components(self, ebcd_model, data):
        points = plots.scores(ebcd_model, data, (1, 0)).collections[0].get_offsets()
        np.testing.assert_array_equal(points, ebcd_model.transform(data)[:, ::-1])
        assert_readable(plt.gcf())

    @pytest.mark.parametrize("index", ["numbers", "months", "datetimes"])
    def test_lines(self, ebcd_model, data, index):
        months = np.datetime64("2001-01") + np.arange(80)
        values = {
            "numbers": np.arange(80)[::-1],
            "months": months.astype(str).tolist(),
            "datetimes": months.astype("datetime64[s]").tolist(),
        }[index]
        axes = plots.scores(ebcd_model, data, index=values)
        assert len(axes) == 2
        scores = ebcd_model.transform(data)
        for k, ax in enumerate(axes):
            x, y = ax.lines[1].get_data()
            assert (np.diff(x) > type(x[1] - x[0])(0)).all()
            np.testing.assert_array_equal(
                y, scores[::-1, k] if index == "numbers" else scores[:, k]
            )
        assert_readable(axes[0].figure)

    def test_dates_of_frames(self, data):
        pandas = pytest.importorskip("pandas")
        for index in (
            pandas.date_range("2001-01-31", periods=80, freq="W"),
            pandas.period_range("2001-01", periods=80, freq="M"),
        ):
            frame = pandas.DataFrame(data, index=index, columns=[f"c{j}" for j in range(15)])
            model = EBCD(2, start="svd").set_output(transform="pandas").fit(frame)
            axes = plots.scores(model, frame)
            assert len(axes) == 2
            assert axes[0].lines[1].get_xdata().dtype.kind == "M"
            plain = plots.scores(model, frame.reset_index(drop=True))
            assert isinstance(plain, plt.Axes)
            given = plots.scores(model, frame.reset_index(drop=True), index=index)
            assert len(given) == 2

    def test_one_and_three_components(self, data):
        model = PenalizedPCA(3, alpha=0.5).fit(data)
        ax = plots.scores(model, data, 2)
        assert ax.get_xlabel() == "sample"
        np.testing.assert_array_equal(ax.lines[1].get_ydata(), model.transform(data)[:, 2])
        assert len(plots.scores(model, data, [0, 1, 2])) == 3
        single = PenalizedPCA(1, alpha=0.5).fit(data)
        assert len(plots.scores(single, data)) == 1

    def test_kinds(self, ebcd_model, data):
        kinds = np.array(["a $b", "c", "d", "e"])[np.arange(80) % 4]
        ax = plots.scores(ebcd_model, data, color=kinds)
        scores = ebcd_model.transform(data)
        assert len(ax.collections) == 4
        for kind, points in zip(np.unique(kinds), ax.collections, strict=True):
            np.testing.assert_array_equal(points.get_offsets(), scores[kinds == kind])
        colours = {tuple(points.get_facecolor()[0]) for points in ax.collections}
        assert len(colours) == 4
        assert_readable(ax.figure)
        many = plots.scores(ebcd_model, data, color=(np.arange(80) % 20).astype(object))
        looks = {
            (*p.get_facecolor()[0], p.get_paths()[0].vertices.tobytes()) for p in many.collections
        }
        assert len(looks) == 20
        assert_readable(many.figure)

    def test_numbers(self, ebcd_model, data):
        ax = plots.scores(ebcd_model, data, color=np.arange(80.0))
        np.testing.assert_array_equal(ax.collections[0].get_array(), np.arange(80))
        assert len(ax.figure.axes) == 2

    def test_no_component(self, empty_model):
        X = np.zeros((3, 8))
        (ax,) = plots.scores(empty_model, X)
        assert "no component" in ax.texts[0].get_text()

    def test_bad_input(self, ebcd_model, data):
        for arguments, error, message in (
            ({"components": (0, 2)}, ValueError, "component 2 does not exist"),
            ({"index": np.arange(3)}, ValueError, "index must have 80 entries"),
            ({"index": ["soon"] * 80}, ValueError, "dates, such as 2006-01, or numbers"),
            ({"index": np.zeros(80, bool)}, TypeError, "dates or numbers, got bool"),
            ({"color": ["a"]}, ValueError, "color must have 80 entries"),
            ({"color": np.arange(80).astype(str)}, ValueError, "80 categories; at most 27"),
            ({"color": ["a"] * 80, "index": range(80)}, ValueError, "without an index"),
        ):
            with pytest.raises(error, match=message):
                plots.scores(ebcd_model, data, **arguments)


class TestShrinkage:
    @pytest.mark.parametrize(
        "model",
        [EBCD(2), EBCD(2, scale=True), EBCD(2, noise="per_feature"), ebcd.peers.EBMF(2)],
        ids=repr,
    )
    def test_curves_are_posterior_means(self, model, data):
        model.fit(data * 7)
        ax = plots.shrinkage(model)
        # of the data as the prior sees them: its noise is that of the mean over samples
        unit = model.scale_ if getattr(model, "scale", False) else 1.0
        noise = np.sqrt(model.noise_variance_ / 80) / unit
        for k, line in enumerate(ax.lines[1:]):
            x, y = line.get_data()
            if isinstance(model, EBCD):
                expected = model.priors_[k].shrink(x, np.median(noise))
                # the last step updates the noise after the shrinkage
                np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-6 * x.max())
            assert (np.diff(y) >= -1e-12).all()
            assert (np.abs(y) <= np.abs(x) * (1 + 1e-9)).all()
        assert [t.get_text() for t in ax.get_legend().get_texts()][1:] == [
            "component 0",
            "component 1",
        ]

    def test_chosen(self, ebcd_model):
        ax = plots.shrinkage(ebcd_model, components=[1])
        assert len(ax.lines) == 2
        assert_readable(ax.figure)

    def test_many(self):
        X = np.random.default_rng(0).normal(size=(60, 40))
        assert_readable(plots.shrinkage(PenalizedPCA(36, alpha=0.5).fit(X)).figure)

    def test_no_component(self, empty_model):
        assert "no component" in plots.shrinkage(empty_model).texts[0].get_text()

    def test_is_what_the_last_iteration_did(self, model, data):
        scale = getattr(model, "scale_", 1.0)
        for k in range(model.n_components_):
            one = model._shrinkage(k)
            result = one.shrink(one.observed)
            loadings = model.components_[k] / scale
            if type(model).__name__ == "EBPCA":  # all components at once, in truth
                assert np.corrcoef(result, loadings)[0, 1] > 0.99
            elif type(model).__name__ == "ITSPCA":
                if k == 0:  # what the QR step leaves as it is, but for the length
                    loadings = loadings * (result @ loadings) / (loadings @ loadings)
                    np.testing.assert_allclose(result, loadings, atol=1e-12)
            elif getattr(model, "noise", "") != "per_feature":
                np.testing.assert_allclose(result, loadings, atol=1e-12)

    def test_is_drawn(self, model):
        ax = plots.shrinkage(model)
        for k, line in enumerate(ax.lines[1:]):
            x, y = line.get_data()
            one = model._shrinkage(k)
            np.testing.assert_array_equal(y, one.shrink(x))
            assert ax.get_ylabel() == one.result
            assert (np.diff(y) >= -1e-12).all()
        assert len(ax.lines) == 1 + model.n_components_
        assert ("posterior" in ax.get_ylabel()) is hasattr(model, "priors_")

    @pytest.mark.parametrize(
        "model",
        [PenalizedPCA(2, alpha=8.0), PenalizedPCA(2, alpha=8.0, scale=True), GPower(2), USLPCA(2)],
        ids=repr,
    )
    def test_observed_loadings_are_products_with_the_scores(self, model, data):
        Z = model.set_params(tol=1e-12).fit_transform(data)
        expected = ((data - data.mean(axis=0)) / model.scale_).T @ Z / len(Z)
        observed = [model._shrinkage(k).observed for k in range(2)]
        np.testing.assert_allclose(observed, expected.T, atol=1e-4)

    @pytest.mark.parametrize("alpha", [8.0, [8.0, 3.0]])
    @pytest.mark.parametrize("penalty", ["l1", "scad", "mcp", "l0", "nonnegative_l1"])
    def test_curves_of_penalties_minimise_the_criterion(self, penalty, alpha, data):
        model = PenalizedPCA(2, penalty=penalty, alpha=alpha).fit(data * 3)
        value = as_penalty(penalty).value

        def cost(loadings, x, strength):
            """Criterion of loadings for scores with Z'Z = I."""
            u, x = np.sqrt(80) * np.asarray(loadings), np.sqrt(80) * x
            if penalty in ("scad", "mcp"):  # alpha is the threshold of these
                return (u - x) ** 2 / 2 + strength**2 * value(u / strength)
            return (u - x) ** 2 / 2 + strength * value(u)

        for strength, line in zip(
            np.broadcast_to(alpha, 2), plots.shrinkage(model).lines[1:], strict=True
        ):
            grid = np.linspace(*line.get_xdata()[[0, -1]], 3001)
            for x, y in zip(*(values[::50] for values in line.get_data()), strict=True):
                assert cost([y], x, strength)[0] <= cost(grid, x, strength).min() + 1e-9

    @pytest.mark.parametrize("penalty", ["l1", "l0"])
    @pytest.mark.parametrize("block", [True, False])
    def test_thresholds_of_gpower(self, penalty, block, data):
        model = GPower(2, penalty=penalty, gamma=0.2, block=block).fit(data * 5)
        largest = np.sqrt((data * 5).var(axis=0).max())
        level = largest * (0.2 if penalty == "l1" else np.sqrt(0.2))
        x, y = plots.shrinkage(model).lines[1].get_data()
        if block:  # those of further components are of what the first left
            np.testing.assert_array_equal(y != 0, np.abs(x) > level)
        factor = y[-1] / (x[-1] - (level if penalty == "l1" else 0.0))
        assert factor == pytest.approx(1.0, abs=0.5)


class TestElbo:
    def test_path(self, model):
        names = ("elbo_path_", "objective_path_", "change_path_")
        (path,) = (getattr(model, name) for name in names if hasattr(model, name))
        ax = plots.elbo(model)
        np.testing.assert_array_equal(ax.lines[0].get_ydata(), path)
        assert (ax.get_yscale() == "log") is hasattr(model, "change_path_")
        if hasattr(model, "change_path_"):
            return
        assert ("ELBO" in ax.get_ylabel()) is hasattr(model, "elbo_path_")
        assert "converged" in ax.get_title()
        falls = "small" in ax.get_ylabel()
        assert (np.diff(path) * (-1 if falls else 1) >= -1e-9 * np.abs(path[-1])).all()
        assert path[-1] == getattr(model, "elbo_", getattr(model, "objective_", None))

    @pytest.mark.parametrize(
        ("model", "title", "xlabel", "ylabel"),
        [
            (ITSPCA(2, gamma=0.1), "ITSPCA converged", "iteration", TURN),
            (EBPCA(2), "EBPCA: 5 rounds", "round", CHANGE),
            (EBPCA(2, max_iter=1), "EBPCA: 1 round", "round", CHANGE),
        ],
        ids=repr,
    )
    def test_changes(self, model, title, xlabel, ylabel, data):
        ax = plots.elbo(model.fit(data))
        (line,) = ax.lines
        np.testing.assert_array_equal(line.get_xdata(), np.arange(1, model.n_iter_ + 1))
        np.testing.assert_array_equal(line.get_ydata(), model.change_path_)
        assert (ax.get_title(), ax.get_xlabel(), ax.get_ylabel()) == (title, xlabel, ylabel)
        assert ax.get_legend() is None
        assert_readable(ax.figure)

    def test_changes_that_a_logarithm_does_not_have(self, data):
        model = ITSPCA(2, gamma=0.1).fit(data)
        model.change_path_ = np.array([0.1, np.nan, 1e-3, 1e-9, 0.0])
        ax = plots.elbo(model)
        expected = [0.1, np.nan, 1e-3, 1e-9, np.nan]
        np.testing.assert_array_equal(ax.lines[0].get_ydata(), expected)
        assert_readable(ax.figure)

    @pytest.mark.parametrize("kind", [ITSPCA, EBPCA])
    def test_nothing_was_iterated(self, kind):
        with pytest.warns(UserWarning, match="vary|0 of 2"):
            model = kind(2).fit(np.ones((10, 5)))
        ax = plots.elbo(model)
        assert ax.texts[0].get_text() in (
            "no iteration changed anything",
            "no round changed anything",
        )
        ax.figure.canvas.draw()

    @pytest.mark.parametrize("scale", [False, True])
    def test_criteria_of_peers_against_the_data(self, scale, data):
        X = data - data.mean(axis=0)
        X = X / X.std(axis=0) if scale else X
        options = {"scale": scale, "tol": 1e-13}
        spc = SPC(2, sumabs=2.0, **options).fit(data)
        sizes = [np.linalg.norm(v / spc.scale_) for v in spc.components_]
        assert spc.objective_ == pytest.approx(sum(sizes), rel=1e-6)
        joint = USLPCA(2, n_nonzero=12, **options).fit(data)
        explained = ((joint.components_ / joint.scale_) ** 2).sum()
        assert joint.objective_ == pytest.approx(explained, rel=1e-6)
        for block in (True, False):
            first = GPower(1, gamma=0.2, block=block, **options).fit(data)
            b = X.T @ first.fit_transform(data)[:, 0] / len(X)
            soft = np.maximum(np.abs(b) - 0.2 * np.sqrt((X**2).mean(axis=0).max()), 0.0)
            assert first.objective_path_[-1] == pytest.approx(np.linalg.norm(soft), rel=1e-6)

    def test_nothing_found(self):
        with pytest.warns(UserWarning, match="do not vary"):
            model = SPC(1, sumabs=1.0).fit(np.ones((5, 3)))
        assert plots.elbo(model).lines[0].get_ydata() == [0.0]

    def test_short_path(self, empty_model):
        ax = plots.elbo(empty_model)
        assert all(float(tick).is_integer() for tick in ax.get_xticks())
        assert_readable(ax.figure)

    def test_trouble_is_told(self, data):
        with pytest.warns(UserWarning, match="max_iter"):
            model = EBCD(2, max_iter=1).fit(data)
        assert "NOT converge" in plots.elbo(model).get_title()

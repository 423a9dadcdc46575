"""Decompositions of AnnData objects: the same numbers as EBCD, stored where scanpy users look."""

import json
import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import sparse

import ebcd

anndata = pytest.importorskip("anndata")
import pandas as pd  # noqa: E402 - comes with anndata

from ebcd.anndata import ebcd as decompose  # noqa: E402
from ebcd.anndata import plot_loadings, top_genes  # noqa: E402
from ebcd.data._settings import SETTINGS  # noqa: E402

integrated = partial(ebcd.EBCD, scores="integrated")


def make_data(kind=np.asarray, dtype=np.float64):
    """Counts of 80 cells and 30 genes, most of them zero; a mask leaves 24 of the genes."""
    rng = np.random.default_rng(0)
    loadings = np.zeros((2, 30))
    loadings[0, :6], loadings[1, 15:] = 1.5, 0.8
    rates = np.exp(rng.normal(size=(80, 2)) @ loadings - 0.5)
    x = np.log1p(rng.poisson(rates)).astype(dtype)
    mask = np.ones(30, dtype=bool)
    mask[[2, 3, 10, 11, 28, 29]] = False
    return anndata.AnnData(
        kind(x),
        obs=pd.DataFrame(index=[f"cell{i}" for i in range(80)]),
        var=pd.DataFrame({"chosen": mask}, index=[f"gene{j}" for j in range(30)]),
    )


def dense(x):
    return x.toarray() if sparse.issparse(x) else np.asarray(x)


def assert_stored(adata, model, x, key="ebcd", rows=slice(None), atol=1e-6):
    """Everything stored is that of a model fitted to the plain matrix."""
    k = model.n_components_
    assert adata.obsm[f"X_{key}"].shape == (adata.n_obs, k)
    np.testing.assert_allclose(adata.obsm[f"X_{key}"], model.transform(x), atol=10 * atol)
    np.testing.assert_allclose(adata.varm[key][rows], model.components_.T, atol=atol)
    np.testing.assert_allclose(adata.varm[f"{key}_sd"][rows], model.components_sd_.T, atol=atol)
    np.testing.assert_allclose(adata.varm[f"{key}_lfsr"][rows], model.lfsr_.T, atol=10 * atol)
    stored = adata.uns[key]
    np.testing.assert_allclose(stored["variance"], model.explained_variance_, rtol=1e-4)
    np.testing.assert_allclose(stored["variance_ratio"], model.explained_variance_ratio_, rtol=1e-4)
    assert stored["elbo"] == pytest.approx(model.elbo_, rel=1e-8)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csc_matrix])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_results_are_those_of_the_estimator(kind, dtype):
    adata = make_data(kind, dtype)
    assert decompose(adata, 2) is None
    x = dense(adata.X)
    assert_stored(adata, integrated(2).fit(x), x)
    assert adata.obsm["X_ebcd"].dtype == dtype


def test_number_of_components_is_found():
    adata = make_data()
    decompose(adata)
    model = integrated().fit(adata.X)
    assert adata.obsm["X_ebcd"].shape[1] == model.n_components_ == 2


def test_scores_of_the_paper():
    adata = make_data()
    decompose(adata, 2, scores="orthogonal")
    assert_stored(adata, ebcd.EBCD(2).fit(adata.X), adata.X)
    assert adata.uns["ebcd"]["params"]["scores"] == "orthogonal"


def test_highly_variable_genes_are_used_if_marked():
    adata = make_data()
    adata.var["highly_variable"] = mask = adata.var["chosen"].to_numpy()
    decompose(adata, 2)
    assert_stored(adata, integrated(2).fit(adata.X[:, mask]), adata.X[:, mask], rows=mask)
    assert not adata.varm["ebcd"][~mask].any()
    assert np.isnan(adata.varm["ebcd_sd"][~mask]).all()
    assert np.isnan(adata.varm["ebcd_lfsr"][~mask]).all()
    assert adata.uns["ebcd"]["params"]["mask_var"] == "highly_variable"

    decompose(adata, 2, mask_var=None)
    assert_stored(adata, integrated(2).fit(adata.X), adata.X)
    assert "mask_var" not in adata.uns["ebcd"]["params"]


@pytest.mark.parametrize("as_array", [False, True])
def test_mask_by_name_or_array(as_array):
    adata = make_data(sparse.csr_matrix)
    mask = adata.var["chosen"].to_numpy()
    decompose(adata, 2, mask_var=mask if as_array else "chosen")
    x = dense(adata.X)[:, mask]
    assert_stored(adata, integrated(2).fit(x), x, rows=mask)


def test_layer_key_and_options():
    adata = make_data()
    adata.layers["doubled"] = 2 * adata.X
    decompose(
        adata, 2, layer="doubled", key_added="parts", prior="point_normal", scale=True, max_iter=500
    )
    model = integrated(2, prior="point_normal", scale=True, max_iter=500).fit(2 * adata.X)
    assert_stored(adata, model, 2 * adata.X, key="parts")
    params = adata.uns["parts"]["params"]
    assert params["layer"] == "doubled"
    assert params["prior"] == "point_normal"
    assert params["max_iter"] == 500
    assert "ebcd" not in adata.uns


def test_copy_leaves_the_data_alone():
    adata = make_data()
    result = decompose(adata, 2, copy=True)
    assert "X_ebcd" in result.obsm
    assert not adata.obsm
    assert not adata.uns


def test_view_becomes_data_of_its_own():
    adata = make_data()
    view = adata[:60]
    with pytest.warns(anndata.ImplicitModificationWarning):
        decompose(view, 2)
    assert_stored(view, integrated(2).fit(adata.X[:60]), adata.X[:60])
    assert not adata.obsm


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csc_matrix])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_backed(tmp_path, monkeypatch, kind, dtype):
    rows = []
    blocks = ebcd.Chunks.__iter__

    def noted(chunks):
        for block in blocks(chunks):
            rows.append(block.shape[0])
            yield block

    monkeypatch.setattr("ebcd.Chunks.__iter__", noted)
    monkeypatch.setattr("ebcd.data._settings.SETTINGS", replace(SETTINGS, read=8 * 30 * 17))
    make_data(kind, dtype).write_h5ad(tmp_path / "cells.h5ad")
    adata = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    decompose(adata, 2, mask_var="chosen")
    assert adata.isbacked
    assert set(rows) == {17, 12}  # never all rows at once
    mask = adata.var["chosen"].to_numpy()
    x = dense(adata.to_memory().X)[:, mask]
    assert_stored(adata, integrated(2).fit(x), x, rows=mask, atol=1e-4)
    adata.file.close()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mask_var": np.arange(30) > 3},
        {"prior": ebcd.priors.make_family("npmle")},
        {"prior": ["point_normal", ebcd.priors.make_family("point_exponential")]},
        {"noise": "per_feature", "random_state": np.random.default_rng(0)},
        {"start": np.ones((30, 2)) + np.eye(30, 2), "tol": 1e-3, "verbose": False},
    ],
    ids=["plain", "mask", "family", "families", "generator", "start"],
)
def test_results_survive_a_file(tmp_path, options):
    adata = make_data()
    decompose(adata, 2, **options)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    again = anndata.read_h5ad(tmp_path / "cells.h5ad")
    for name in ("ebcd", "ebcd_sd", "ebcd_lfsr"):
        np.testing.assert_array_equal(again.varm[name], adata.varm[name])
    np.testing.assert_array_equal(again.obsm["X_ebcd"], adata.obsm["X_ebcd"])
    assert again.uns["ebcd"].keys() == adata.uns["ebcd"].keys()
    assert again.uns["ebcd"]["params"].keys() == adata.uns["ebcd"]["params"].keys()
    np.testing.assert_array_equal(again.uns["ebcd"]["elbo_path"], adata.uns["ebcd"]["elbo_path"])
    assert bool(again.uns["ebcd"]["converged"])


def test_priors_can_be_made_again():
    adata = make_data()
    decompose(adata, 2)
    stored = [json.loads(text) for text in adata.uns["ebcd"]["priors"]]
    made = [ebcd.priors.FittedPrior.from_dict(prior) for prior in stored]
    assert made == integrated(2).fit(adata.X).priors_


def test_nothing_found(tmp_path):
    adata = anndata.AnnData(np.random.default_rng(0).normal(size=(40, 20)))
    with pytest.warns(UserWarning, match="no component was found"):
        decompose(adata)
    assert adata.obsm["X_ebcd"].shape == (40, 0)
    assert adata.varm["ebcd"].shape == (20, 0)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    assert anndata.read_h5ad(tmp_path / "cells.h5ad").obsm["X_ebcd"].shape == (40, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layer": "counts"}, "layer 'counts' is not in adata.layers; available layers: none"),
        ({"mask_var": "hvg"}, "'hvg' is not a column of adata.var"),
        ({"mask_var": np.ones(29, dtype=bool)}, r"each of the 30 genes, got .* shape \(29,\)"),
        ({"mask_var": np.ones(30)}, "each of the 30 genes, got dtype float64"),
        ({"mask_var": np.zeros(30, dtype=bool)}, "mask_var selects no gene"),
        ({"prior": "point_laplac"}, "point_laplace"),
        ({"key_added": ""}, "key_added must not be empty"),
    ],
)
def test_bad_arguments(arguments, message):
    adata = make_data()
    with pytest.raises(ValueError, match=message):
        decompose(adata, 2, **arguments)
    assert not adata.obsm
    assert not adata.uns


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_components": 3}, "n_components"),
        ({"n_comps": 2.5}, "n_comps must be an integer"),
    ],
)
def test_bad_types(arguments, message):
    with pytest.raises(TypeError, match=message):
        decompose(make_data(), **arguments)


def test_too_many_components():
    with pytest.raises(ValueError, match=r"^n_comps must be at most 30"):
        decompose(make_data(), n_comps=5000)


def test_array_is_refused():
    with pytest.raises(TypeError, match=r"must be an AnnData object, got ndarray; use ebcd\.EBCD"):
        decompose(np.ones((3, 3)))


def test_data_without_matrix_are_refused():
    with pytest.raises(ValueError, match=r"adata\.X is None"):
        decompose(anndata.AnnData(obs=pd.DataFrame(index=["a", "b"])))


def test_results_need_a_place(tmp_path):
    make_data().write_h5ad(tmp_path / "cells.h5ad")
    adata = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    with pytest.raises(ValueError, match="a copy of data backed by a file"):
        decompose(adata, 2, copy=True)
    with pytest.raises(ValueError, match="a subset of data backed by a file"):
        decompose(adata[:50], 2)
    adata.file.close()


@pytest.mark.slow
def test_a_missing_package_is_named():
    code = "import sys; sys.modules['anndata'] = None\nimport ebcd\nebcd.anndata"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert 'pip install "ebcd[anndata]"' in run.stderr.splitlines()[-1]


def test_weighted_scores():
    """Distances weigh components by their variance, as those of scanpy's PCA."""
    plain, weighted = make_data(), make_data()
    decompose(plain, 2)
    decompose(weighted, 2, weighted=True)
    expected = plain.obsm["X_ebcd"] * np.sqrt(plain.uns["ebcd"]["variance"])
    np.testing.assert_allclose(weighted.obsm["X_ebcd"], expected)
    assert weighted.obsm["X_ebcd"].dtype == plain.obsm["X_ebcd"].dtype
    assert weighted.uns["ebcd"]["params"]["weighted"]


def test_top_genes():
    adata = make_data()
    decompose(adata, 2, mask_var="chosen", key_added="mine")
    table = top_genes(adata, 3, key="mine")
    assert table.columns.tolist() == ["component", "gene", "loading", "sd", "lfsr"]
    assert table["component"].tolist() == [0, 0, 0, 1, 1, 1]
    for k in range(2):
        loadings = adata.varm["mine"][:, k]
        order = np.argsort(-np.abs(loadings))[:3]
        part = table[table["component"] == k]
        assert part["gene"].tolist() == adata.var_names[order].tolist()
        np.testing.assert_array_equal(part["loading"], loadings[order])
        np.testing.assert_array_equal(part["lfsr"], adata.varm["mine_lfsr"][order, k])
    assert len(top_genes(adata, 100, key="mine")) <= 2 * 24  # genes that were used
    with pytest.raises(ValueError, match=r"'ebcd' is not in adata\.varm and adata\.uns"):
        top_genes(adata)


def test_plot_loadings():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    adata = make_data()
    decompose(adata, 2)
    ax = plot_loadings(adata, 0, n=5)
    assert [bar.get_width() for bar in ax.patches] == sorted(
        adata.varm["ebcd"][np.argsort(-np.abs(adata.varm["ebcd"][:, 0]))[:5], 0], reverse=True
    )
    shown = [label.get_text() for label in ax.get_yticklabels()]
    assert set(shown) <= set(adata.var_names)
    assert len(plot_loadings(adata)) == 2
    pyplot.close("all")

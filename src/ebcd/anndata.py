"""Single-cell data: a decomposition that is stored in an AnnData object, as scanpy's PCA is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from ebcd._numerics import Array
from ebcd.data import Chunks
from ebcd.estimators import EBCD

try:
    from anndata import AnnData
except ImportError:
    raise ImportError('ebcd.anndata needs anndata: pip install "ebcd[anndata]"') from None

_CHUNK = 4_000_000  # entries of a file that are read at once


def ebcd(
    adata: AnnData,
    n_comps: int | str = "auto",
    *,
    layer: str | None = None,
    mask_var: Any = "auto",
    key_added: str = "ebcd",
    prior: Any = "point_laplace",
    noise: str = "constant",
    center: bool = True,
    scale: bool = False,
    copy: bool = False,
    **options: Any,
) -> AnnData | None:
    """Decompose annotated data into sparse components, as `scanpy.pp.pca` does into dense ones.

    Parameters
    ----------
    adata : AnnData
        Annotated data, cells by genes; usually normalised and with logarithms taken. Dense or
        sparse, in memory or backed by a file, of which only some rows are in memory at a time.
    n_comps : int, "auto" or "paper", default "auto"
        Number of components, as `n_components` of `ebcd.EBCD`.
    layer : str, optional
        Layer to use in place of ``adata.X``.
    mask_var : str, boolean array, "auto" or None, default "auto"
        Genes to use: a column of ``adata.var``, or one truth value per gene. "auto" takes the
        column ``highly_variable`` if there is one, as scanpy does; None takes all genes.
    key_added : str, default "ebcd"
        Name under which results are stored.
    prior, noise, center, scale
        As in `ebcd.EBCD`.
    copy : bool, default False
        Whether to leave `adata` alone and return a copy with the results.
    **options
        Further parameters of `ebcd.EBCD`.

    Returns
    -------
    AnnData or None
        The copy, if one was asked for.

    Notes
    -----
    Results are, for ``key_added="ebcd"``:

    - ``obsm["X_ebcd"]``, cells x components: scores. Their mean square is one, unlike that of
      scanpy's ``X_pca``: multiply by ``sqrt(uns["ebcd"]["variance"])`` where distances should
      weigh components by their size.
    - ``varm["ebcd"]``, genes x components: loadings; zero for genes that were not used.
    - ``varm["ebcd_sd"]``, ``varm["ebcd_lfsr"]``: their standard deviations and local false sign
      rates; NaN for genes that were not used.
    - ``uns["ebcd"]``: ``variance``, ``variance_ratio``, ``noise_variance``, ``elbo``,
      ``elbo_path``, ``n_iter``, ``converged``, ``priors`` (JSON, for `FittedPrior.from_dict`) and
      ``params``.

    Data backed by a file are read in chunks: once for the fit if up to 5,000 genes are used, and
    once for every product with the data if more are (see `ebcd.Chunks`).

    Examples
    --------
    >>> import anndata, numpy as np
    >>> import ebcd.anndata
    >>> rng = np.random.default_rng(0)
    >>> loadings = np.zeros((2, 30))
    >>> loadings[0, :5], loadings[1, 20:] = 2.0, 1.0
    >>> X = rng.normal(size=(100, 2)) @ loadings + rng.normal(size=(100, 30))
    >>> adata = anndata.AnnData(X)
    >>> ebcd.anndata.ebcd(adata)
    >>> adata.obsm["X_ebcd"].shape
    (100, 2)
    >>> (adata.varm["ebcd_lfsr"][:, 0] < 0.05).nonzero()[0]
    array([0, 1, 2, 3, 4])
    """
    if not isinstance(adata, AnnData):
        raise TypeError(
            f"adata must be an AnnData object, got {type(adata).__name__}; use ebcd.EBCD for arrays"
        )
    _check_place(adata, layer, key_added, copy)
    mask_name, mask = _genes(adata, mask_var)
    settings = {"prior": prior, "noise": noise, "center": center, "scale": scale, **options}
    model = EBCD(n_comps, **settings)
    scores = _fit(model, adata, layer, mask)
    params = {"n_comps": n_comps, "layer": layer, "mask_var": mask_name, **settings}
    target = adata.copy() if copy else adata
    _store(target, model, scores, mask, params, key_added)
    return target if copy else None


def _check_place(adata: AnnData, layer: str | None, key_added: str, copy: bool) -> None:
    if not key_added:
        raise ValueError("key_added must be a name, got an empty one")
    if adata.isbacked and (copy or adata.is_view):
        what = "a copy of" if copy else "a subset of"
        raise ValueError(
            f"results cannot be stored in {what} data backed by a file; "
            "use adata.to_memory(), or mask_var to choose genes"
        )
    if layer is not None and layer not in adata.layers:
        known = ", ".join(adata.layers) or "none"
        raise ValueError(f"layer {layer!r} does not exist in adata.layers; there are: {known}")
    if layer is None and adata.X is None:
        raise ValueError("adata.X is empty; name a layer with layer=...")


def _genes(adata: AnnData, mask_var: Any) -> tuple[Any, Array | None]:
    """Genes to use, by the name that is written down and as truth values; None for all."""
    if isinstance(mask_var, str) and mask_var == "auto" and "auto" not in adata.var:
        mask_var = "highly_variable" if "highly_variable" in adata.var else None
    if mask_var is None:
        return None, None
    if isinstance(mask_var, str):
        if mask_var not in adata.var:
            raise ValueError(f"mask_var={mask_var!r} is not a column of adata.var")
        mask = np.asarray(adata.var[mask_var])
    else:
        mask = mask_var = np.asarray(mask_var)
    if mask.dtype != np.bool_ or mask.shape != (adata.n_vars,):
        raise ValueError(
            f"mask_var must have a truth value for each of the {adata.n_vars} genes, got dtype "
            f"{mask.dtype} and shape {mask.shape}"
        )
    if not mask.any():
        raise ValueError("mask_var leaves no gene")
    return mask_var, mask


def _fit(model: EBCD, adata: AnnData, layer: str | None, mask: Array | None) -> Array:
    """Fit the model and give the scores of all cells."""
    if layer is not None or not adata.isbacked:
        data = adata.X if layer is None else adata.layers[layer]
        return np.asarray(model.fit_transform(_selected(data, mask)))
    chunks = Chunks(lambda: _chunks(adata, mask))
    return np.asarray(model.fit(chunks).transform(chunks))


def _chunks(adata: AnnData, mask: Array | None) -> Iterator[Any]:
    """Rows of the file behind `adata`, some at a time."""
    size = max(1, _CHUNK // adata.n_vars)
    for i in range(0, adata.n_obs, size):
        yield _selected(adata.X[i : i + size], mask)


def _selected(data: Any, mask: Array | None) -> Any:
    return data if mask is None else data[:, mask]


def _store(
    adata: AnnData,
    model: EBCD,
    scores: Array,
    mask: Array | None,
    params: dict[str, Any],
    key: str,
) -> None:
    adata.obsm[f"X_{key}"] = scores
    adata.varm[key] = _all_genes(model.components_, mask, 0.0)
    adata.varm[f"{key}_sd"] = _all_genes(model.components_sd_, mask, np.nan)
    adata.varm[f"{key}_lfsr"] = _all_genes(model.lfsr_, mask, np.nan)
    adata.uns[key] = {
        "params": {name: _writable(value) for name, value in params.items() if value is not None},
        "variance": model.explained_variance_,
        "variance_ratio": model.explained_variance_ratio_,
        "noise_variance": model.noise_variance_,
        "elbo": model.elbo_,
        "elbo_path": model.elbo_path_,
        "n_iter": model.n_iter_,
        "converged": model.converged_,
        "priors": np.array([json.dumps(prior.to_dict()) for prior in model.priors_], dtype=object),
    }


def _all_genes(components: Array, mask: Array | None, outside: float) -> Array:
    """Give one row for each gene, one column for each component."""
    if mask is None:
        return components.T.copy()
    full = np.full((mask.size, components.shape[0]), outside)
    full[mask] = components.T
    return full


def _writable(value: Any) -> Any:
    """Give a value that h5ad files can hold: objects are described in words."""
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return np.array([str(_writable(item)) for item in value], dtype=object)
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
        return value
    return repr(value)

"""
Genes that distinguish blood cells
==================================

Which genes distinguish kinds of blood cells, and which cells express them? The data, 700 cells and
765 genes, come with scanpy. They are part of the 68,000 mononuclear cells of Zheng and others
(2017), log-transformed, with scaled genes.
"""

import matplotlib.pyplot as plt
import numpy as np
import scanpy as sc

import ebcd

adata = sc.datasets.pbmc68k_reduced()
print(f"{adata.n_obs} cells, {adata.n_vars} genes")

# %%
# The call is like that of scanpy's PCA, and results are where scanpy users expect them: scores in
# ``obsm``, loadings in ``varm``. Genes marked as highly variable are used; here, all are.

ebcd.anndata.ebcd(adata, n_comps=6)
print(adata.obsm["X_ebcd"].shape, adata.varm["ebcd"].shape)

# %%
# Top genes
# ---------
#
# If the loading of a gene has a clear sign, its local false sign rate is small. PCA has a loading
# for each of the 765 genes in every component.

genes = adata.var_names.to_numpy()
top = ebcd.anndata.top_genes(adata, 8)
for k, share in enumerate(adata.uns["ebcd"]["variance_ratio"]):
    clear = (adata.varm["ebcd_lfsr"][:, k] < 0.05).sum()
    names = ", ".join(top.loc[top["component"] == k, "gene"])
    print(f"{k}: {share:.1%} of the variance, {clear} genes: {names}")

# %%
# Immunologists will recognize most of them. Which cells use them? The labels come from a comparison
# with purified cells, and were not used in the fit.

labels = adata.obs["bulk_labels"]
means = np.array(
    [adata.obsm["X_ebcd"][labels == label].mean(axis=0) for label in labels.cat.categories]
)
figure, ax = plt.subplots(figsize=(8, 4.4), layout="constrained")
colours = {"cmap": "RdBu_r", "vmin": -2.5, "vmax": 2.5}
image = ax.pcolormesh(means, edgecolor="white", **colours)
names = [
    f"{k}: {', '.join(genes[np.argsort(-adata.varm['ebcd'][:, k])[:2]])}"
    for k in range(means.shape[1])
]
ax.set_xticks(np.arange(len(names)) + 0.5, names, rotation=20, ha="right")
ax.set_yticks(np.arange(len(means)) + 0.5, labels.cat.categories)
ax.invert_yaxis()
figure.colorbar(image, label="mean score")
plt.show()

# %%
# Component 0 is active in monocytes. Component 1 sets cells that present antigens (HLA class II;
# dendritic and B cells) against T cells (CD3) and natural killer cells. Component 2 is active in
# natural killer cells and, less so, in cytotoxic T cells, 4 in B cells, 5 in stem cells (CD34+).
# The genes of component 3 are those of plasma cells, which make antibodies, and it divides the B
# cells:

score = adata.obsm["X_ebcd"][:, 3]
high, is_b = score > 3, labels == "CD19+ B"
print(f"{high.sum()} cells have scores above 3, {(high & is_b).sum()} of them B cells;")
print(f"the other {(is_b & ~high).sum()} B cells have a mean of {score[is_b & ~high].mean():.1f}")

# %%
# Scanpy's plots work with these scores as with those of PCA. The scores of each component have mean
# square one, so all components have the same weight in ``sc.pp.neighbors(adata,
# use_rep="X_ebcd")``. With ``ebcd.anndata.ebcd(adata, weighted=True)``, each is weighted by the
# variance it explains.

figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
shared = {"basis": "X_ebcd", "color": "bulk_labels", "title": "", "show": False}
sc.pl.embedding(adata, components="1,2", ax=axes[0], legend_loc="none", **shared)
sc.pl.embedding(adata, components="3,4", ax=axes[1], **shared)
for ax, (i, j) in zip(axes, ((0, 1), (2, 3)), strict=True):
    ax.set(xlabel=f"component {i}", ylabel=f"component {j}")
plt.show()

"""Small copies of pictures against stored ones: a change of looks should be meant.

`EBCD_KEEP_PICTURES=1 pytest tests/plots/test_pictures.py` stores those of today.
"""

import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib import pyplot as plt
from pictures import small_copy

from ebcd import PenalizedPCA, plots
from ebcd.peers import SPC, GPower

STORED = Path(__file__).parent / "pictures"
TOLERANCE = 4.0  # grey levels of 255, on average; fonts differ a little between releases
THIN = 2.0  # the same for lines, which have less ink


@pytest.fixture(scope="module")
def models():
    # nearly no noise, so that a better solver cannot change the picture
    rng = np.random.default_rng(0)
    scores = np.linalg.qr(rng.normal(size=(100, 2)))[0] * 10
    L = np.zeros((2, 12))
    L[0, :5], L[0, 5:7], L[1, 7:] = [3.0, 2.5, 2.0, 1.5, 1.0], [-1.0, -2.0], 1.2
    X = scores @ L + 1e-6 * rng.normal(size=(100, 12))
    return [
        PenalizedPCA(2, alpha=2.0, center=False).fit(X),
        SPC(2, sumabs=1.8, center=False).fit(X),
        GPower(2, penalty="l0", gamma=0.1, center=False).fit(X),
    ]


DRAWN = {
    "components": lambda models: plots.components(models[0])[0],
    "heatmap": lambda models: plots.heatmap(models[0]),
    "compare": lambda models: plots.compare(models[:2])[0, 0],
    "shrinkage": lambda models: plots.shrinkage(models[0]),
    "shrinkage_threshold": lambda models: plots.shrinkage(models[2]),
    "elbo": lambda models: plots.elbo(models[1]),
}


@pytest.mark.parametrize("name", DRAWN)
def test_looks_as_stored(models, name):
    copy = small_copy(DRAWN[name](models).figure)
    path = STORED / f"{name}.png"
    if os.environ.get("EBCD_KEEP_PICTURES"):
        plt.imsave(path, copy, cmap="gray", vmin=0, vmax=255)
    assert path.stat().st_size < 30_000
    stored = 255 * plt.imread(path)[..., 0]
    assert copy.shape == stored.shape
    tolerance = THIN if name.startswith(("shrinkage", "elbo")) else TOLERANCE
    assert np.abs(copy - stored).mean() < tolerance
    # the test would notice: the same picture upside down is another one
    assert np.abs(copy[::-1] - stored).mean() > 2 * tolerance

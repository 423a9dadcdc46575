"""Families that users write themselves, against brute force."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from scipy import optimize

import ebcd
from ebcd.priors import (
    PRIORS,
    AbstractPriorFamily,
    FittedPrior,
    MixturePrior,
    _family,
    kernels,
    make_prior,
    register,
)


@dataclass(frozen=True)
class TwoLevels(AbstractPriorFamily):
    """Zero or one positive size, with probability `share`, an option."""

    name: ClassVar[str] = "two_levels"
    has_mode: ClassVar[bool] = False
    binned: ClassVar[bool] = False
    side: ClassVar[int] = 1

    share: float = 0.5

    @classmethod
    def build(cls, **parameters):
        atoms = kernels.PointMass(np.array([0.0, parameters["size"]]))
        share = parameters["share"]
        return MixturePrior(cls, parameters, [1 - share, share], [atoms])

    @classmethod
    def rescale(cls, parameters, factor):
        return {**parameters, "size": factor * parameters["size"]}

    def fit_column(self, column, start):
        x, s = column.x[0], np.broadcast_to(column.s, column.x.shape)[0]

        def loss(size):
            return -self.build(size=size, share=self.share).log_likelihood(x, s)

        found = optimize.minimize_scalar(loss, bounds=(0, np.abs(x).max()), method="bounded")
        return self.build(size=float(found.x), share=self.share)


@pytest.fixture
def registered():
    register(TwoLevels)
    yield
    del _family._REGISTRY["two_levels"]


def two_level_data():
    rng = np.random.default_rng(0)
    loadings = np.zeros((2, 40))
    loadings[0, :20], loadings[1, 10:30] = 1.5, 1.0
    scores = np.linalg.qr(rng.normal(size=(100, 2))).Q * 10
    return loadings, scores @ loadings + 0.5 * rng.normal(size=(100, 40))


@pytest.mark.usefixtures("registered")
def test_normal_means():
    x = np.array([0.1, 2.2, 1.8, -0.3, 2.1, 0.4])
    fit = ebcd.ebnm(x, 0.5, prior="two_levels")
    sizes = np.linspace(0, 3, 30001)[:, None]

    def density(z):
        return np.exp(-0.5 * (z / 0.5) ** 2) / (0.5 * np.sqrt(2 * np.pi))

    values = np.log(0.5 * density(x) + 0.5 * density(x - sizes)).sum(axis=1)
    assert fit.prior.parameters["size"] == pytest.approx(sizes[values.argmax(), 0], abs=1e-3)
    assert fit.log_likelihood == pytest.approx(values.max(), abs=1e-6)
    assert FittedPrior.from_dict(fit.prior.to_dict()) == fit.prior
    assert make_prior("two_levels", size=1.0, share=0.5).family == "two_levels"


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("prior", ["two_levels", TwoLevels, TwoLevels(0.4)])
def test_decomposition(prior):
    loadings, X = two_level_data()
    model = ebcd.EBCD(2, prior=prior).fit(X)
    np.testing.assert_allclose(model.components_, loadings, atol=0.2)
    np.testing.assert_array_equal(model.sparsify() > 0, loadings > 0)
    assert (np.diff(model.elbo_path_) >= -1e-4).all()


@pytest.mark.usefixtures("registered")
def test_a_cell_can_be_run_again():
    again = type("TwoLevels", (TwoLevels,), {"__module__": TwoLevels.__module__})
    assert register(again) is again
    assert PRIORS["two_levels"] is again


def test_names_are_taken_once():
    other = type("Other", (TwoLevels,), {"name": "normal"})
    with pytest.raises(ValueError, match="a prior 'normal' already exists"):
        register(other)
    assert PRIORS["normal"] is ebcd.priors.Normal


@pytest.mark.parametrize("wrong", [int, TwoLevels(), "two_levels"])
def test_only_classes_of_families(wrong):
    with pytest.raises(TypeError, match="must be a subclass of AbstractPriorFamily"):
        register(wrong)

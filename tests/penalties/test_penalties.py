"""The contract of a penalty, for every one in the registry, against brute force."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from ebcd import PenalizedPCA
from ebcd.penalties import (
    L1,
    MCP,
    PENALTIES,
    SCAD,
    AbstractPenalty,
    ElasticNet,
    NonNegative,
    as_penalty,
    make_penalty,
)

OPTIONS = {
    "elastic_net": [{"l1_ratio": 0.0}, {"l1_ratio": 0.3}, {"l1_ratio": 1.0}],
    "scad": [{"gamma": 1.2}, {"gamma": 2.5}, {"gamma": 10.0}],
    "mcp": [{"gamma": 0.5}, {"gamma": 1.0}, {"gamma": 8.0}],
}
ALL = [(name, {}) for name in PENALTIES] + [
    (prefix + name, options)
    for name, several in OPTIONS.items()
    for options in several
    for prefix in ("", "nonnegative_")
]
every_penalty = pytest.mark.parametrize(
    "penalty",
    [make_penalty(name, **options) for name, options in ALL],
    ids=[f"{name}-{options}" if options else name for name, options in ALL],
)


@every_penalty
class TestContract:
    def test_step_of_zero_changes_nothing_that_is_allowed(self, penalty):
        v = np.array([-2.0, 0.0, 1e-300, 3.5])
        expected = np.maximum(v, 0.0) if penalty.one_sided else v
        np.testing.assert_array_equal(penalty.prox(v, 0.0), expected)

    def test_extreme_arguments(self, penalty):
        v = np.array([-1e100, -1e-300, 0.0, 1e-300, 1e100])
        found = penalty.prox(v, 1.0)
        assert np.isfinite(found).all()
        assert not np.signbit(found[found == 0]).any()
        # an entry of 1e-300 costs less to set to zero than to keep, or nothing either way
        assert np.abs(found[1:4]).max() <= 1e-300
        divisor = 1 + (1 - getattr(inner(penalty), "l1_ratio", 1.0))
        assert found[4] == pytest.approx(1e100 / divisor, rel=1e-12)
        assert found[0] == (0.0 if penalty.one_sided else -found[4])

    def test_tiny_and_huge_steps(self, penalty):
        v = np.array([0.3, 2.0, 7.0])
        np.testing.assert_allclose(penalty.prox(v, 1e-300), v, rtol=1e-12)
        huge = penalty.prox(v, 1e100)
        assert np.isfinite(huge).all()
        if inner(penalty).name not in ("none", "nonnegative"):
            assert np.abs(huge).max() < 1e-90

    def test_squares_of_arguments_may_overflow(self, penalty):
        found = penalty.prox(np.array([1e200]), 1.0)
        assert found[0] > 1e199

    def test_value_is_least_at_zero(self, penalty):
        v = np.concatenate([[0.0], np.geomspace(1e-300, 1e100, 50)])
        values = penalty.value(v)
        assert values[0] == 0
        assert (np.diff(values) >= -1e-12).all()
        mirrored = penalty.value(-v[1:])
        if penalty.one_sided:
            assert np.isinf(mirrored).all()
        else:
            np.testing.assert_array_equal(mirrored, values[1:])

    def test_steps_broadcast(self, penalty):
        v = np.random.default_rng(0).normal(size=(3, 40)) * 4
        steps = np.array([0.1, 1.0, 5.0])[:, None]
        together = penalty.prox(v, steps)
        assert together.shape == v.shape
        for row, step, one in zip(v, steps[:, 0], together, strict=True):
            np.testing.assert_array_equal(penalty.prox(row, step), one)

    def test_thresholds_of_strengths(self, penalty):
        """Written out, a penalty of strength alpha is alpha t P(v / t)."""
        thresholds = penalty.threshold(np.array([0.0, 0.5, 3.0]))
        grow = inner(penalty).name in ("scad", "mcp")
        np.testing.assert_array_equal(thresholds, [1.0, 0.5, 3.0] if grow else np.ones(3))


def inner(penalty):
    return getattr(penalty, "penalty", penalty)


class Ridge:
    """A custom penalty: value and prox, nothing else."""

    def value(self, v):
        return 0.5 * v**2

    def prox(self, v, step):
        return v / (1 + float(step))


class TestCustom:
    def test_steps_of_each_row(self):
        penalty = as_penalty(Ridge())
        v = np.arange(6.0).reshape(2, 3)
        np.testing.assert_allclose(
            penalty.prox(v, np.array([[1.0], [3.0]])), [[0, 0.5, 1.0], [0.75, 1.0, 1.25]]
        )
        np.testing.assert_allclose(penalty.value(v), ElasticNet(0.0).value(v))

    def test_wrong_shapes(self):
        class Summed(Ridge):
            def value(self, v):
                return (v**2).sum()

        with pytest.raises(ValueError, match=r"value of the penalty .* one number for each of 4"):
            as_penalty(Summed()).value(np.ones(4))

    def test_nan(self):
        class Broken(Ridge):
            def prox(self, v, step):
                return v * np.nan

        with pytest.raises(ValueError, match=r"prox of the penalty .* returned NaN"):
            as_penalty(Broken()).prox(np.ones(4), 1.0)


def test_a_new_penalty_is_one_class_and_one_line(monkeypatch):
    @dataclass(frozen=True)
    class SquaredNorm(AbstractPenalty):
        weight: float = 1.0
        name: ClassVar[str] = "squared"

        def value(self, v):
            return 0.5 * self.weight * np.asarray(v) ** 2

        def prox(self, v, step):
            return np.asarray(v) / (1 + self.weight * np.asarray(step))

    monkeypatch.setitem(PENALTIES, SquaredNorm.name, SquaredNorm)
    X = np.random.default_rng(0).normal(size=(30, 8))
    ours = PenalizedPCA(2, penalty="squared", alpha=3.0).fit(X)
    same = PenalizedPCA(2, penalty=ElasticNet(0.0), alpha=3.0).fit(X)
    np.testing.assert_allclose(ours.components_, same.components_, atol=1e-10)
    assert make_penalty("squared", weight=2.0).weight == 2
    with pytest.raises(ValueError, match="'squared' has no option 'size'; its options are weight"):
        make_penalty("squared", size=2.0)


class TestLookup:
    def test_names(self):
        assert as_penalty("l1") == L1()
        assert as_penalty("nonnegative_scad") == NonNegative(SCAD())
        assert as_penalty(MCP(2.0)) == MCP(2.0)

    @pytest.mark.parametrize(
        ("given", "near"), [("L1", "l1"), ("elasticnet", "elastic_net"), ("SCADD", "scad")]
    )
    def test_nearest_name(self, given, near):
        with pytest.raises(ValueError, match=f"unknown penalty '{given}'; did you mean '{near}'"):
            make_penalty(given)

    def test_nothing_near(self):
        with pytest.raises(ValueError, match="Available: none, l1") as caught:
            make_penalty("xyzzy")
        assert "did you mean" not in str(caught.value)

    def test_options(self):
        assert make_penalty("nonnegative_mcp", gamma=2.0) == NonNegative(MCP(2.0))
        with pytest.raises(ValueError, match="'scad' has no option 'gama'; its options are gamma"):
            make_penalty("scad", gama=3)
        with pytest.raises(ValueError, match="'l1' has no option 'gamma'; it has no options"):
            make_penalty("l1", gamma=3)

    def test_neither_name_nor_penalty(self):
        with pytest.raises(TypeError, match=r"methods value\(v\) and prox\(v, step\), got 3"):
            as_penalty(3)
        with pytest.raises(TypeError, match=r"use L1\(\)"):
            as_penalty(L1)

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: ElasticNet(1.5), "l1_ratio must be a number from 0 to 1, got 1.5"),
            (lambda: SCAD(1.0), "gamma must be a number above 1"),
            (lambda: MCP(0.0), "gamma must be a number from 1e-6"),
            (lambda: MCP(np.nan), "gamma must be a number from 1e-6"),
        ],
    )
    def test_bad_options(self, make, message):
        with pytest.raises(ValueError, match=message):
            make()

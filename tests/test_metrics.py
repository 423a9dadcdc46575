"""Metrics against brute force, against independent formulas and against the R reference."""

import csv
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from ebcd.metrics import (
    bures_wasserstein,
    component_angles,
    covariance_distance,
    subspace_distance,
)

REFERENCE = Path(__file__).parent / "reference" / "sim_measures"
BLOCKS = {1: [(0, 10, 399.0), (10, 20, 299.0)], 2: [(0, 10, 9.0), (10, 50, 7.0), (50, 150, 4.0)]}
SEEDS = st.integers(0, 2**32 - 1)


def reference_cases():
    cases = {}
    with (REFERENCE / "measures.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            key = int(row["setting"]), row["method"], int(row["seed"])
            cases.setdefault(key, {})[row["measure"]] = float(row["value"])
    return cases


def reference_loadings(setting, method, seed):
    with np.load(REFERENCE / f"loadings_sim{setting}.npz") as stored:
        return stored[f"{method}_{seed}"] / np.sqrt(50)


def truth(setting):
    """The paper's design, written out here so that the package's own is not its own judge."""
    V = np.zeros((500, len(BLOCKS[setting])))
    for k, (first, end, _) in enumerate(BLOCKS[setting]):
        V[first:end, k] = 1 / np.sqrt(end - first)
    spikes = [spike for _, _, spike in BLOCKS[setting]]
    return V, V @ np.diag(spikes) @ V.T + np.eye(500)


def orthogonal(rng, k):
    return np.linalg.qr(rng.normal(size=(k, k)))[0]


def random_psd(seed, p, rank):
    F = np.random.default_rng(seed).normal(size=(p, rank))
    return F @ F.T


class TestReference:
    @pytest.mark.parametrize("case", reference_cases(), ids=str)
    def test_angles_and_covariance(self, case):
        expected = reference_cases()[case]
        L, (V, Sigma) = reference_loadings(*case), truth(case[0])
        angles = [expected[f"d{k + 1}"] for k in range(V.shape[1])]
        np.testing.assert_allclose(component_angles(V, L), angles, atol=1e-9)
        np.testing.assert_allclose(covariance_distance(Sigma, L), expected["dcov"], rtol=1e-10)

    @pytest.mark.parametrize("case", reference_cases(), ids=str)
    def test_subspace(self, case):
        expected = reference_cases()[case]["dOR_fixed"]
        L, (V, _) = reference_loadings(*case), truth(case[0])
        distance = subspace_distance(V, L)
        if L.any(axis=0).all():
            np.testing.assert_allclose(distance, expected, atol=1e-9)
        else:  # R filled the missing directions arbitrarily, which can only come nearer to V
            assert expected <= distance <= np.sqrt(2 * V.shape[1])


class TestComponentAngles:
    def test_known_angles_in_degrees(self):
        V = np.eye(3)
        t = np.deg2rad([9.0, 45.0])
        L = np.column_stack(
            [[0, np.cos(t[0]), np.sin(t[0])], [np.cos(t[1]), 0, -np.sin(t[1])], [0, 0, 2.0]]
        )
        np.testing.assert_allclose(component_angles(V, L), [0.5, 0.1, 0.0], atol=1e-12)

    def test_tiny_angle_keeps_its_digits(self):
        angle = component_angles([[1.0], [0.0]], [[1.0], [1e-12]])[0]
        np.testing.assert_allclose(angle, 1e-12 / (np.pi / 2), rtol=1e-6)

    def test_greedy_in_the_order_of_v(self):
        # Column 0 of L is the nearest to both; the first column of V takes it.
        V = np.eye(3)[:, :2]
        L = np.array([[0.6, 0.0], [0.8, 0.0], [0.0, 1.0]])
        np.testing.assert_allclose(component_angles(V, L), [np.arccos(0.6) / (np.pi / 2), 1.0])
        np.testing.assert_allclose(
            component_angles(V[:, ::-1], L), [np.arccos(0.8) / (np.pi / 2), 1.0]
        )

    @pytest.mark.parametrize(
        "L", [np.empty((4, 0)), np.zeros((4, 2)), np.zeros((4, 1)), np.zeros((4, 5))]
    )
    def test_nothing_found(self, L):
        np.testing.assert_array_equal(component_angles(np.eye(4)[:, :2], L), [1.0, 1.0])

    def test_zero_column_is_not_matched(self):
        V = np.eye(4)[:, :2]
        L = np.zeros((4, 2))
        L[1, 0] = -3.0
        np.testing.assert_array_equal(component_angles(V, L), [1.0, 1.0])  # taken by v_1, at 90
        np.testing.assert_allclose(component_angles(V[:, ::-1], L), [0.0, 1.0], atol=1e-15)

    @pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e200, 1e308])
    def test_extreme_scales(self, scale):
        V = np.eye(3)[:, :2]
        np.testing.assert_allclose(component_angles(V, V * scale), 0.0, atol=1e-12)
        np.testing.assert_allclose(subspace_distance(V, V * scale), 0.0, atol=1e-12)

    @given(seed=SEEDS, p=st.integers(2, 8), k=st.integers(1, 4), m=st.integers(0, 4))
    def test_invariant_to_sign_scale_and_order(self, seed, p, k, m):
        rng = np.random.default_rng(seed)
        V, L = rng.normal(size=(p, k)), rng.normal(size=(p, m))
        angles = component_angles(V, L)
        assert angles.shape == (k,)
        assert np.all((angles >= 0) & (angles <= 1))
        changed = (L * rng.choice([-1, 1], m) * rng.uniform(0.1, 9, m))[:, rng.permutation(m)]
        np.testing.assert_allclose(component_angles(V, changed), angles, atol=1e-9)


class TestSubspaceDistance:
    @pytest.mark.parametrize("seed", range(5))
    def test_least_over_rotations_by_search(self, seed):
        rng = np.random.default_rng(seed)
        V, L = (np.linalg.qr(rng.normal(size=(5, 2)))[0] for _ in range(2))
        angles = np.linspace(0, 2 * np.pi, 20_001)
        c, s = np.cos(angles), np.sin(angles)
        searched = min(
            np.linalg.norm(np.einsum("pi,ijt->pjt", L, R) - V[:, :, None], axis=(0, 1)).min()
            for R in (np.array([[c, -s], [s, c]]), np.array([[c, s], [s, -c]]))
        )
        distance = subspace_distance(V, L)
        assert distance <= searched + 1e-12
        np.testing.assert_allclose(distance, searched, atol=1e-6)

    @given(seed=SEEDS, p=st.integers(4, 8), k=st.integers(1, 4), m=st.integers(1, 4))
    def test_formula_in_principal_angles(self, seed, p, k, m):
        rng = np.random.default_rng(seed)
        V, L = rng.normal(size=(p, k)), rng.normal(size=(p, m))
        angles = scipy.linalg.subspace_angles(V, L)
        squared = 2 * np.sum(1 - np.cos(angles)) + 2 * max(k - m, 0)
        np.testing.assert_allclose(subspace_distance(V, L), np.sqrt(squared), atol=1e-7)

    def test_missing_directions_are_orthogonal(self):
        V = np.eye(5)[:, :3]
        found = V[:, :1] * 4
        for L in (found, np.hstack([found, np.zeros((5, 2))]), np.hstack([found, -found])):
            np.testing.assert_allclose(subspace_distance(V, L), 2.0)
        for L in (np.empty((5, 0)), np.zeros((5, 3))):
            np.testing.assert_allclose(subspace_distance(V, L), np.sqrt(6))

    def test_extra_directions_are_left_alone(self):
        np.testing.assert_allclose(subspace_distance(np.eye(5)[:, :2], np.eye(5)), 0, atol=1e-15)

    def test_dependent_truth(self):
        with pytest.raises(ValueError, match=r"V has 2 columns that span only 1 .* drop"):
            subspace_distance([[1.0, 2.0], [1.0, 2.0], [0.0, 0.0]], np.eye(3))


class TestCovarianceDistance:
    def test_by_hand(self):
        Sigma, L = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([[1.0], [2.0]])
        assert covariance_distance(Sigma, L) == pytest.approx(np.sqrt(1 + 2 * 1 + 1))

    def test_no_components(self):
        assert covariance_distance(np.eye(9), np.empty((9, 0))) == pytest.approx(3.0)


class TestBuresWasserstein:
    @given(seed=SEEDS, p=st.integers(1, 6))
    def test_formula_with_matrix_square_roots(self, seed, p):
        A, B = random_psd(seed, p, p + 2), random_psd(seed + 1, p, p + 2)
        root = scipy.linalg.sqrtm(A).real
        inner = np.trace(scipy.linalg.sqrtm(root @ B @ root).real)
        squared = np.trace(A) + np.trace(B) - 2 * inner
        np.testing.assert_allclose(bures_wasserstein(A, B) ** 2, squared, atol=1e-6, rtol=1e-6)

    def test_commuting_matrices(self):
        A, B = np.diag([4.0, 9.0, 0.0]), np.diag([1.0, 0.0, 25.0])
        assert bures_wasserstein(A, B) == pytest.approx(np.sqrt(1 + 9 + 25))
        assert bures_wasserstein(4 * np.eye(2), np.eye(2)) == pytest.approx(np.sqrt(2))

    def test_rank_one_in_many_dimensions(self):
        a, b = np.random.default_rng(0).normal(size=(2, 300))
        expected = min(np.linalg.norm(a - b), np.linalg.norm(a + b))
        distance = bures_wasserstein(np.outer(a, a), np.outer(b, b))
        np.testing.assert_allclose(distance, expected, rtol=1e-9)
        assert bures_wasserstein(np.zeros((3, 3)), np.zeros((3, 3))) == 0.0

    def test_single_precision_covariance_is_accepted(self):
        X = np.random.default_rng(0).normal(size=(20, 60)).astype(np.float32)
        assert bures_wasserstein(X.T @ X, X.T @ X) < 1e-6

    def test_indefinite(self):
        with pytest.raises(ValueError, match=r"B is not positive semi-definite.*-1.*set negative"):
            bures_wasserstein(np.eye(2), np.diag([2.0, -1.0]))


SQUARE = np.eye(3)
BAD_CALLS = {
    "V one-dimensional": (component_angles, np.ones(3), SQUARE, r"V has 1 dim.*v\[:, None\]"),
    "L with NaN": (component_angles, SQUARE, np.full((3, 1), np.nan), r"L contains NaN.*impute"),
    "L sparse": (subspace_distance, SQUARE, scipy.sparse.eye_array(3), r"L is not .*toarray"),
    "L ragged": (subspace_distance, SQUARE, [[1.0], [1.0, 2.0]], r"L is not a numeric array"),
    "L complex": (subspace_distance, SQUARE, SQUARE * 1j, r"L is complex; pass real"),
    "L of words": (component_angles, SQUARE, [["a"], ["b"], ["c"]], r"L is not a numeric array"),
    "rows differ": (component_angles, SQUARE, np.eye(4), r"L has 4 rows, but V has 3; pass both"),
    "V empty": (subspace_distance, np.empty((3, 0)), SQUARE, r"V has no columns; pass"),
    "V zero": (component_angles, [[1, 0], [0, 0]], np.eye(2), r"zeros in column 1.*drop"),
    "Sigma oblong": (covariance_distance, np.ones((2, 3)), SQUARE, r"Sigma is 2 x 3; pass a sq"),
    "Sigma skew": (covariance_distance, [[1, 2], [0, 1]], np.eye(2), r"Sigma is not symmetric"),
    "Sigma and L": (covariance_distance, SQUARE, np.ones((2, 1)), r"L has 2 rows, but Sigma is 3"),
    "A empty": (bures_wasserstein, np.empty((0, 0)), SQUARE, r"A is 0 x 0; pass a square"),
    "sizes differ": (bures_wasserstein, SQUARE, np.eye(2), r"B is 2 x 2, but A is 3 x 3; pass"),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_input_is_named_with_a_remedy(name):
    metric, first, second, message = BAD_CALLS[name]
    with pytest.raises(ValueError, match=message):
        metric(first, second)

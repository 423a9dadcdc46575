"""Speed of `ebcd.ebnm`: every family beside R ebnm, and the default family in passes of `log_ndtr`.

Run with ``make bench``. One thread, medians. R's times are those of ebnm 1.1-42 (R 4.2.2, one
thread, another machine with two shared cores) on data of the same design, so the comparison is
rough; the passes compare two things within one run.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable

import numpy as np
import scipy
from scipy.special import log_ndtr
from threadpoolctl import threadpool_limits

import ebcd
from ebcd.priors import PRIORS, FittedPrior, make_family, make_prior
from ebcd.priors._solve import solve_columns

# seconds at n = 500, 10,000 and 100,000
R_SECONDS = {
    "point_normal": (0.00153, 0.0100, 0.0920),
    "point_laplace": (0.00395, 0.0540, 1.0780),
    "point_exponential": (0.00319, 0.0320, 0.3100),
    "normal": (0.00116, 0.0060, 0.0660),
    "laplace": (0.00326, 0.0350, 0.7880),
    "normal_scale_mixture": (0.00422, 0.1140, 2.5750),
    "npmle": (0.00699, 0.3260, 8.7770),
    "deconvolver": (0.00457, 0.0900, 2.5930),
    "generalized_binary": (0.01681, 0.2650, 4.2400),
    "flat": (0.00051, 0.0010, 0.0020),
    "point_mass": (0.00068, 0.0020, 0.0190),
    "unimodal": (0.06015, 1.1710, 15.9510),
    "unimodal_symmetric": (0.06275, 0.5600, 13.0720),
    "unimodal_nonnegative": (0.05740, 0.5550, 11.3070),
    "unimodal_nonpositive": (0.05975, 0.5600, 12.4980),
    "horseshoe": (0.6860, 31.6710, 218.7260),
}


def median_seconds(function: Callable[[], object], repeats: int) -> float:
    """Median time of a call, after one to warm up."""
    function()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return float(np.median(times))


def families(repeats: int) -> None:
    """Print every family, cold, at three sizes, common and individual noise."""
    rng = np.random.default_rng(7)
    print("\nseconds per call, beside R's; x = 80 % zero, 20 % |N(0, 3^2)|, plus N(0, 1)")
    print(
        f"{'family':22s}"
        + "".join(f"{f'n={n}':>12s}{'R':>9s}{'ratio':>8s}" for n in SIZES)
        + f"{'n=10000, s varies':>20s}"
    )
    for family in (name for name in PRIORS if name != "gmrf"):  # which needs an option
        cells = []
        for size, r_time in zip(SIZES, R_SECONDS.get(family, (np.nan,) * 3), strict=True):
            x = np.where(rng.random(size) < 0.2, np.abs(rng.normal(size=size) * 3), 0)
            x = x + rng.normal(size=size)
            x = -x if family == "unimodal_nonpositive" else x
            ours = median_seconds(lambda x=x, f=family: ebcd.ebnm(x, 1.0, f), repeats)
            cells.append(f"{ours:12.5f}{r_time:9.4f}{r_time / ours:8.1f}")
        s = np.exp(0.3 * rng.normal(size=10_000))
        x = np.where(rng.random(s.size) < 0.2, np.abs(rng.normal(size=s.size) * 3), 0)
        x = x + s * rng.normal(size=s.size)
        varying = median_seconds(lambda x=x, s=s, f=family: ebcd.ebnm(x, s, f), 1)
        print(f"{family:22s}" + "".join(cells) + f"{varying:20.4f}")


SIZES = (500, 10_000, 100_000)


def large_problems() -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Give 100,000 observations, their noise levels, and standard normals of the same number."""
    rng = np.random.default_rng(0)
    n = 100_000
    noise = rng.normal(size=n)
    theta = np.where(rng.random(n) < 0.1, rng.laplace(size=n) * 3, 0)
    common, varying = np.array(1.0), np.exp(0.3 * rng.normal(size=n))
    return {
        "common s, 10 % signal": (theta + noise, common, noise),
        "common s, pure null": (noise, common, noise),
        "vector s, 10 % signal": (theta + varying * noise, varying, noise),
        "vector s, pure null": (varying * noise, varying, noise),
    }


def three_columns() -> np.ndarray:
    """Give three columns of 500 observations with unit noise, one a row."""
    rng = np.random.default_rng(0)
    x = np.where(rng.random((3, 500)) < 0.1, rng.laplace(size=(3, 500)) * 5, 0)
    return x + rng.normal(size=x.shape)


def nearby(prior: FittedPrior) -> FittedPrior:
    """Give a prior that is 2 % off, as the last one is in a fit."""
    changed = {**prior.parameters, "scale": 0.98 * prior.parameters["scale"]}
    if "weight" in changed:
        changed["weight"] = min(1.0, 1.02 * changed["weight"])
    return make_prior(prior.family, **changed)


def passes(repeats: int) -> None:
    """Print the default family in passes of `log_ndtr` over a vector of the same length."""
    bars = {"common": (6, 3), "vector": (30, 12)}
    print("\npoint_laplace with posterior mean and sd, n = 100,000, in passes of log_ndtr")
    for name, (x, s, noise) in large_problems().items():
        cold_bar, warm_bar = bars[name.split()[0]]
        start = nearby(ebcd.ebnm(x, s).prior)
        one_pass = median_seconds(lambda z=noise: log_ndtr(z), repeats)
        cold = median_seconds(lambda x=x, s=s: ebcd.ebnm(x, s), repeats) / one_pass
        warm = (
            median_seconds(lambda x=x, s=s, g=start: ebcd.ebnm(x, s, start=g), repeats) / one_pass
        )
        rates = median_seconds(lambda x=x, s=s: ebcd.ebnm(x, s).lfsr, repeats) / one_pass - cold
        print(
            f"  {name:24s} cold {cold:6.2f} (bar {cold_bar})   warm {warm:6.2f} (bar {warm_bar})"
            f"   lfsr, when looked at, {rates:6.2f} more   (a pass is {1e3 * one_pass:.2f} ms)"
        )


def columns(repeats: int) -> None:
    """Print three columns of 500, warm, as in a fit."""
    x, s = three_columns(), np.array(1.0)
    family = [make_family("point_laplace")] * 3
    starts = [nearby(prior) for prior in solve_columns(x, s, family).priors]
    cold = median_seconds(lambda: solve_columns(x, s, family), repeats)
    warm = median_seconds(lambda: solve_columns(x, s, family, starts), repeats)
    print(
        f"\n500 x 3 columns, point_laplace: cold {1e3 * cold:.2f} ms, warm {1e3 * warm:.3f} ms "
        "(bar 0.5 ms)"
    )


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    print(
        f"ebcd {ebcd.__version__}, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"SciPy {scipy.__version__}, {platform.machine()}, {time.strftime('%Y-%m-%d')}"
    )
    with threadpool_limits(1):
        passes(4 * repeats + 1)
        columns(60 * repeats + 1)
        families(repeats)


if __name__ == "__main__":
    main()

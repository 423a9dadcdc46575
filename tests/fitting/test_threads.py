"""Fits never use more threads than they were allowed, and leave the limits as they were."""

import os
import subprocess
import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from ebcd import EBCD
from ebcd.fitting import _threads
from ebcd.fitting._states import Model

CONCURRENT = """
from threading import Event, Thread
import numpy as np
from threadpoolctl import threadpool_info
from ebcd.data import CovarianceMatrix
from ebcd.fitting._threads import threads_for

def threads():
    return max(lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas")

before = threads()
small = CovarianceMatrix(np.eye(3), 10)
entered, both, seen = Event(), Event(), []

def first():
    with threads_for(small):
        seen.append(threads())
        entered.set()
        both.wait()

def second():
    entered.wait()
    with threads_for(small):
        seen.append(threads())
        both.set()
        one.join()

one, other = Thread(target=first), Thread(target=second)
one.start(); other.start(); one.join(); other.join()
assert seen == [1, 1], seen
assert threads() == before, (threads(), before)
"""

PARALLEL = """
import numpy as np
from joblib import Parallel, delayed, parallel_config

def fitted(seed):
    from threadpoolctl import threadpool_info
    from ebcd import EBCD
    from ebcd.fitting import _threads
    from ebcd.fitting._states import Model

    _threads._SMALL = 0  # as if the data were large
    seen, shrink = [], Model.shrink

    def watched(self, *args):
        seen.extend(lib["num_threads"] for lib in threadpool_info())
        return shrink(self, *args)

    Model.shrink = watched
    X = np.random.default_rng(seed).normal(size=(20, 8))
    X[:, :4] += 3 * np.random.default_rng(seed + 9).normal(size=(20, 1))
    EBCD(1).fit(X)
    return max(seen)

with parallel_config("loky", inner_max_num_threads=1):
    assert Parallel(n_jobs=2)(delayed(fitted)(seed) for seed in range(2)) == [1, 1]
"""


def run(script, **variables):
    kept = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**kept, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def watch(monkeypatch):
    """Collect the number of BLAS threads during the iterations of fits."""
    seen, shrink = set(), Model.shrink

    def watched(self, *args):
        seen.update(lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas")
        return shrink(self, *args)

    monkeypatch.setattr(Model, "shrink", watched)
    return seen


@pytest.mark.parametrize("allowed", [1, 2])
@pytest.mark.parametrize("small", [True, False])
def test_the_users_limit_holds(monkeypatch, allowed, small):
    monkeypatch.setattr(_threads, "_SMALL", 10**6 if small else 0)
    seen = watch(monkeypatch)
    X = np.random.default_rng(0).normal(size=(30, 1)) * np.ones(6)
    X += np.random.default_rng(1).normal(size=(30, 6))
    with threadpool_limits(allowed, user_api="blas"):
        inside = {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}
        EBCD(1).fit(X)
        after = {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}
    assert after == inside
    assert seen == ({1} if small else inside)


@pytest.mark.slow
def test_fits_in_several_threads_put_the_limit_back():
    run(CONCURRENT, OPENBLAS_NUM_THREADS="2", MKL_NUM_THREADS="2")


@pytest.mark.slow
def test_limits_of_joblib_hold():
    run(PARALLEL)

"""The package stays small enough to keep in one's head: limits of `benchmarks/house.py`."""

import pytest

from benchmarks import house

# A feature may add what it needs and no more; otherwise they go down.
# Aims: 16,000 lines, 10,000 in the core, 100 numbers, 25 files.
LINES, CORE_LINES, NUMBERS, FILES, FRAMES = 26_450, 18_040, 162, 25, 11


@pytest.fixture(scope="module")
def fit():
    return house.trace_fit()


def test_lines():
    assert house.count_lines() <= LINES
    assert house.count_lines(*house.CORE) <= CORE_LINES


def test_tuning_numbers():
    numbers = house.tuning_numbers()
    assert len(numbers) <= NUMBERS, "\n".join(numbers)


def test_files_that_a_fit_runs(fit):
    assert len(fit.files) <= FILES, "\n".join(fit.files)


def test_frames_at_the_first_normal_means_call(fit):
    assert fit.frames, f"none of {house.NORMAL_MEANS} was called"
    assert len(fit.frames) <= FRAMES, "\n".join(fit.frames)


def test_a_reader_sees_which_code_runs():
    assert not house.shortcuts()


def test_docstrings_begin_with_a_verb_that_says_something():
    assert not house.weak_docstrings()

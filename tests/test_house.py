"""The package stays small enough to keep in one's head: limits of `benchmarks/house.py`."""

import pytest

from benchmarks import house

# Figures before the rebuild; to be tightened as it lands.
LINES, CORE_LINES, NUMBERS, FILES, FRAMES = 24_738, 16_000, 278, 44, 30


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
    assert len(house.shortcuts()) <= 9, "\n".join(house.shortcuts())

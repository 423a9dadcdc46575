"""Sizes in words, and how memory is divided."""

import numpy as np
import pytest

from ebcd.data import Memory, check_memory
from ebcd.data._rows import readable


class TestSizes:
    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            (None, None),
            (1000, 1000),
            (np.int64(7), 7),
            (2.5e9, 2_500_000_000),
            ("500MB", 500_000_000),
            ("500 mb", 500_000_000),
            ("1.5G", 1_500_000_000),
            (".5kB", 500),
            ("2GiB", 2 * 2**30),
            ("64 KiB", 65536),
            ("1TB", 10**12),
            ("123", 123),
        ],
    )
    def test_bytes(self, given, expected):
        assert check_memory(given) == expected

    @pytest.mark.parametrize(
        "bad", ["", "much", "5 bananas", "-3MB", "MB", "1e9", "0MB", 0, -5, np.nan, np.inf]
    )
    def test_words_and_numbers_without_meaning(self, bad):
        with pytest.raises(ValueError, match=r'max_memory must be .* a text such as "500MB"'):
            check_memory(bad)

    @pytest.mark.parametrize(
        ("size", "text"),
        [(12, "12 bytes"), (1500, "1.5 kB"), (2e6, "2 MB"), (3.21e9, "3.21 GB"), (4e13, "40 TB")],
    )
    def test_for_people(self, size, text):
        assert readable(size) == text


class TestDivision:
    def test_without_a_limit(self):
        assert Memory().has_room_for_matrix(10**6)
        assert Memory().chunk_bytes(100, matrix=False) == 16_000_000

    def test_rows_for_a_large_matrix_are_not_few(self):
        p = 5000
        assert Memory().chunk_bytes(p, matrix=True) >= 1000 * 8 * p
        assert Memory().chunk_bytes(10**6, matrix=False) >= 50 * 8 * 10**6

    def test_limit_is_kept(self):
        memory = Memory(100_000_000, 5)
        for p, matrix in ((100, True), (10_000, False)):
            chunk = memory.chunk_bytes(p, matrix)
            assert chunk >= 8 * p
            rest = memory.needed(p, matrix) - 24 * p
            assert rest + 3 * chunk <= memory.limit

    def test_matrix_only_if_it_fits(self):
        memory = Memory(100_000_000, 5)
        assert memory.has_room_for_matrix(1000)
        assert not memory.has_room_for_matrix(3000)

    def test_more_components_need_more(self):
        assert Memory(None, 20).needed(1000, False) > Memory(None, 2).needed(1000, False)
        assert Memory(None, None).needed(1000, False) == Memory(None, 20).needed(1000, False)

    def test_says_what_is_needed(self):
        memory = Memory(30_000_000, 5)
        match = r"max_memory is 30 MB, but a fit of 100000 features needs at least 3\d\d MB"
        with pytest.raises(ValueError, match=match):
            memory.chunk_bytes(100_000, matrix=False)

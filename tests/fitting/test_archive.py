"""What is stored comes back as it was."""

import numpy as np
import pytest

from ebcd.fitting._archive import read_archive, write_archive


class TestArchive:
    @pytest.mark.parametrize(
        "value",
        [
            None,
            True,
            -3,
            0.1 + 0.2,
            float("inf"),
            "text",
            np.float64(0.1),
            (1, [2.5, None], {"a": (np.arange(3),)}),
            np.asfortranarray(np.arange(6.0).reshape(2, 3)),
            np.array(1 / 3),
        ],
        ids=repr,
    )
    def test_values_come_back_as_they_were(self, tmp_path, value):
        write_archive(tmp_path / "a", tmp_path / "b", value)
        back = read_archive(tmp_path / "a")
        assert type(back) is type(value)
        np.testing.assert_equal(back, value)
        if isinstance(value, np.ndarray):
            assert back.flags.f_contiguous == value.flags.f_contiguous
        assert [path.name for path in tmp_path.iterdir()] == ["a"]

    def test_what_cannot_be_stored(self, tmp_path):
        with pytest.raises(TypeError, match="no way to store a object"):
            write_archive(tmp_path / "a", tmp_path / "b", object())
        assert list(tmp_path.iterdir()) == []

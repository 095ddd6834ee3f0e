"""Numbers of bytes as people read them."""

import pytest

from alphaswarm_rl.core.wording import size


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1024**2, "1.0 MiB"),
        (1024**3, "1.0 GiB"),
        (1024**4, "1.0 TiB"),
        (5000 * 1024**4, "5000.0 TiB"),
    ],
)
def test_a_full_unit_is_one_of_the_next(count, shown):
    assert size(count) == shown

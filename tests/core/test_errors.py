"""What every error says."""

import pytest

from alphaswarm_rl.core.errors import AlphaSwarmError, nearest


@pytest.mark.parametrize(
    ("why", "remedy", "text"),
    [
        ("it is so", "Mend it.", "x: it is so. Mend it."),
        ("it is so.", "Mend it.", "x: it is so. Mend it."),
        ("it is so..", "Mend it..", "x: it is so. Mend it."),
        ("is it?", "Did you mean 'y'?.", "x: is it? Did you mean 'y'?"),
        ("the library says: no.;", "Mend it.", "x: the library says: no. Mend it."),
        ("the library says:", "Mend it.", "x: the library says. Mend it."),
        ("a, b, ...", "Known: a, b ....", "x: a, b, ... Known: a, b ..."),
        ("it leads to '../y'", "Write ./y or ../y.", "x: it leads to '../y'. Write ./y or ../y."),
    ],
)
def test_no_sentence_ends_twice(why, remedy, text):
    assert str(AlphaSwarmError("x", why, remedy)) == text


def test_a_long_list_of_known_names_ends_once():
    names = [f"n{index:02}" for index in range(41)]
    assert nearest("zzzz", names).endswith("n39, ...")
    assert nearest("zzzz", names[:40]).endswith("n39.")

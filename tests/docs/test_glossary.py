"""The glossary: one term, one meaning, and a place that exists."""

import re

from tests.docs.pages import DOCS, ROOT

ROWS = [line.strip("|").split(" | ") for line in (DOCS / "glossary.md").read_text().splitlines() if line[:2] == "| "][
    1:
]


def test_every_term_has_one_row_and_one_sentence():
    terms = [row[0].strip() for row in ROWS]
    assert terms == sorted(set(terms), key=str.lower)
    assert all(len(row) == 3 and row[1].strip().endswith(".") for row in ROWS)


def test_every_place_exists():
    package = ROOT / "src" / "alphaswarm_rl"
    places = [place for row in ROWS for place in re.findall(r"`([^`]+)`", row[2])]
    assert len(places) >= len(ROWS)
    assert [place for place in places if not (package / place).exists()] == []

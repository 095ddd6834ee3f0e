"""The layers that import-linter enforces, the overview and AGENTS.md tell the same story."""

import re
import tomllib

from tests.docs.pages import DOCS, ROOT


def rooms(text):
    return [set(re.findall(r"\w+", layer)) for layer in text]


def contract():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return next(contract["layers"] for contract in contracts if contract["name"] == "Layers")


def layers():
    return rooms(contract())


def acquainted():
    """Rooms of one layer that may import each other: the contract has a colon between them, a bar between others."""
    assert not any("|" in layer and ":" in layer for layer in contract())
    return set().union(*rooms(layer for layer in contract() if ":" in layer))


def test_agents_md_lists_the_layers_in_order():
    text = " ".join((ROOT / "AGENTS.md").read_text().split())
    listed = re.search(r"Imports point down only: (.*?)\. - ", text).group(1)
    assert rooms(listed.split(">")) == layers()


def test_agents_md_says_which_rooms_of_a_layer_may_import_each_other():
    text = " ".join((ROOT / "AGENTS.md").read_text().split())
    (sentence,) = re.findall(r"do not import each other; (.*?) may\.", text)
    assert set(re.findall(r"`(\w+)`", sentence)) == acquainted()


def test_the_overview_has_one_row_per_layer_in_their_order():
    rows = [line for line in (DOCS / "overview.md").read_text().splitlines() if line.startswith("| `")]
    listed = [set(re.findall(r"`(\w+)(?:/|\.py)`", row.split(" | ")[0])) for row in rows]
    assert [row for row in listed if row] == layers()


def test_the_overview_says_which_rooms_of_a_row_may_import_each_other():
    text = " ".join((DOCS / "overview.md").read_text().split())
    (sentence,) = re.findall(r"Rooms of one row do not import each other, but for (.*?), which may\.", text)
    assert set(re.findall(r"`(\w+)(?:/|\.py)`", sentence)) == acquainted()

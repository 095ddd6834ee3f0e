"""The layers that import-linter enforces, the overview and AGENTS.md tell the same story."""

import re
import tomllib

from tests.docs.pages import DOCS, ROOT


def rooms(text):
    return [set(re.findall(r"\w+", layer)) for layer in text]


def layers():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return rooms(next(contract["layers"] for contract in contracts if contract["name"] == "Layers"))


def test_agents_md_lists_the_layers_in_order():
    text = " ".join((ROOT / "AGENTS.md").read_text().split())
    listed = re.search(r"Imports point down only: (.*?)\. - ", text).group(1)
    assert rooms(listed.split(">")) == layers()


def test_the_overview_lists_every_room_in_the_order_of_its_layer():
    rows = [line for line in (DOCS / "overview.md").read_text().splitlines() if line.startswith("| `")]
    order = {room: index for index, layer in enumerate(layers()) for room in layer}
    listed = [re.findall(r"`(\w+)(?:/|\.py)`", row.split(" | ")[0]) for row in rows if "`configs/`" not in row]
    assert {room for row in listed for room in row} == set(order)
    positions = [order[room] for row in listed for room in row]
    assert positions == sorted(positions)

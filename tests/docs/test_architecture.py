"""The walks through the source: every name exists, and the way is short."""

import ast

import pytest

from tests.docs.pages import DOCS, ROOT

WALKS = (DOCS / "architecture.md").read_text().split("\n## ")[1:]


def hops(walk):
    rows = [line.strip("| ").split(" | ") for line in walk.splitlines() if line.startswith("| ") and line[2].isdigit()]
    return [(int(number), path.strip("`"), name.strip("`")) for number, path, name, _ in rows]


def defined(path):
    """Functions, classes, and methods by `Class.method`, of a module."""
    names = set()
    for node in ast.parse((ROOT / "src" / "alphaswarm_rl" / path).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{child.name}" for child in node.body if isinstance(child, ast.FunctionDef)}
    return names


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.partition(":")[0])
def test_every_hop_names_something_that_exists(walk):
    found = hops(walk)
    assert [number for number, _, _ in found] == list(range(1, len(found) + 1))
    assert 5 < len(found) <= 25
    assert [(path, name) for _, path, name in found if name not in defined(path)] == []

"""The page of invariants names tests that exist, and the one invariant that has no better home."""

import ast
import re

import pytest

from tests.docs.pages import DOCS, ROOT

_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")

INVARIANTS = (DOCS / "invariants.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("path", "test"), _NAMED.findall(INVARIANTS), ids=lambda part: part.rpartition("/")[2])
def test_a_named_test_exists(path, test):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert test in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_invariant_has_a_name_of_its_own_and_a_test():
    rows = [line.split(" | ") for line in INVARIANTS.splitlines() if line.startswith("| ")][1:]
    names = [row[0].removeprefix("| ") for row in rows]
    assert len(names) == len(set(names))
    assert len(_NAMED.findall(INVARIANTS)) == len(names)

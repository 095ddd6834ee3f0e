"""The pages of invariants and promises name tests that exist."""

import ast
import re

import pytest

from tests.docs.pages import DOCS, ROOT

_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")

INVARIANTS = (DOCS / "invariants.md").read_text(encoding="utf-8")


#: Pages whose promises name their tests.
PROMISES = [DOCS / "reliability.md", ROOT / "SECURITY.md"]
NAMED = sorted({found for page in (DOCS / "invariants.md", *PROMISES) for found in _NAMED.findall(page.read_text())})


@pytest.mark.parametrize(("path", "test"), NAMED, ids=lambda part: part.rpartition("/")[2])
def test_a_named_test_exists(path, test):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert test in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_invariant_has_a_name_of_its_own_and_a_test():
    rows = [line.split(" | ") for line in INVARIANTS.splitlines() if line.startswith("| ")][1:]
    names = [row[0].removeprefix("| ") for row in rows]
    assert len(names) == len(set(names))
    assert len(_NAMED.findall(INVARIANTS)) == len(names)


@pytest.mark.parametrize("page", PROMISES, ids=lambda page: page.name)
def test_every_promise_has_a_test(page):
    promised = page.read_text(encoding="utf-8").partition("## After trouble")[0]
    rows = [line for line in promised.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 5
    assert [row for row in rows if _NAMED.search(row) is None and "not defended" not in row] == []

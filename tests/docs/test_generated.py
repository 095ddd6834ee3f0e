"""Generated pages are current, and the check notices when they are not."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.docs.pages import ROOT


def check(root, **environ):
    # A process of its own: other tests register components of theirs in this one.
    return subprocess.run(
        [sys.executable, str(root / "scripts" / "make_docs.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environ},
    )


def test_generated_pages_are_current():
    done = check(ROOT)
    assert done.returncode == 0, done.stderr


def test_they_do_not_depend_on_the_terminal_or_the_hash_seed():
    done = check(ROOT, COLUMNS="40", PYTHONHASHSEED="7", LC_ALL="C", RL_TRAIN_GAMMA="0.5")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", ["options.md", "spec.md"])
def test_a_stale_page_fails_with_its_difference(tmp_path, page):
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "make_docs.py", tmp_path / "scripts")
    stale = tmp_path / "docs" / page
    stale.write_text(
        stale.read_text(encoding="utf-8").replace("Transitions over all", "Steps over all"), encoding="utf-8"
    )
    done = check(tmp_path)
    assert done.returncode == 1
    assert f"docs/{page}" in done.stderr
    assert "make docs" in done.stderr

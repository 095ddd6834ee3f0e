"""Generated pages are current, and the check notices when they are not."""

import os
import shutil
import subprocess
import sys

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


def test_pages_are_current_and_do_not_depend_on_the_terminal_or_the_hash_seed():
    done = check(ROOT, COLUMNS="40", PYTHONHASHSEED="7", LC_ALL="C", RL_TRAIN_GAMMA="0.5")
    assert done.returncode == 0, done.stderr


def test_stale_pages_fail_with_their_differences(tmp_path):
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "make_docs.py", tmp_path / "scripts")
    for page in ("options.md", "spec.md"):
        stale = tmp_path / "docs" / page
        text = stale.read_text(encoding="utf-8").replace("Transitions over all", "Steps over all")
        stale.write_text(text, encoding="utf-8")
    done = check(tmp_path)
    assert done.returncode == 1
    assert "docs/options.md" in done.stderr
    assert "docs/spec.md" in done.stderr
    assert "make docs" in done.stderr

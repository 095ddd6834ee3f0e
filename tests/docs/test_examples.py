"""Every code block on every page does what the page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from alphaswarm_rl.core.yaml import load_yaml
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec, refuse_absent
from tests.docs.pages import ROOT, blocks, name_of, pages
from tests.docs.warm_rl import warm_rl

LANGUAGES = {"python", "bash", "yaml", "yaml settings", "text"}
#: The README shows a whole training; here it is enough that it starts, ends and is found again.
SHORTER = {"README.md": {"RL_TRAIN_TOTAL_TIMESTEPS": "2048", "RL_EVAL_EPISODES": "3"}}
#: It installs a distribution, which only a process that starts afterwards finds.
COLD = "docs/tutorials/add-a-reward-term.md"

_MAKE = re.compile(r"^\s*make\b(.*)$")
_TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)


def with_code():
    return [page for page in pages() if any(block.info != "text" for block in blocks(page))]


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_block_says_what_it_is(page):
    assert {block.info for block in blocks(page)} <= LANGUAGES


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    """The folder that `rl` is found in: a warm one where the system can wait for forks as that needs (Linux)."""
    if not hasattr(os, "pidfd_open"):
        yield Path(sys.executable).parent
        return
    with warm_rl(tmp_path_factory.mktemp("bin")) as folder:
        yield folder


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", with_code(), ids=name_of)
def test_every_block_runs(page, commands, tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    # What `Settings()` takes by default too, so that Python and shell blocks of a page share their runs.
    monkeypatch.setenv("ALPHASWARM_RL_HOME", str(work / ".alphaswarm"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    installed = Path(sys.executable).parent
    first = installed if name_of(page) == COLD else commands
    monkeypatch.setenv("PATH", os.pathsep.join([str(first), str(installed), os.environ["PATH"]]))
    for name, value in SHORTER.get(name_of(page), {}).items():
        monkeypatch.setenv(name, value)
    namespace = {"__name__": "page"}
    for block in blocks(page):
        place = f"{name_of(page)}, line {block.line}"
        if block.info == "text":
            continue
        if block.file is not None:
            (work / block.file).write_text(block.text, encoding="utf-8")
        elif block.info == "python":
            # Lines are padded so that a traceback names the line on the page.
            code = compile("\n" * (block.line - 1) + block.text, str(page), "exec", dont_inherit=True)
            exec(code, namespace)
        elif block.info == "bash":
            run_shell(block.text, place)
        elif block.info == "yaml settings":
            Settings.model_validate(load_yaml(block.text, source=place))
        else:
            refuse_absent(RLExperimentSpec.from_yaml_str(block.text, source=place))


def run_shell(text, place):
    targets = set(_TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
    commands = []
    for line in text.splitlines():
        make = _MAKE.match(line)
        if make is None:
            commands.append(line)
            continue
        asked = make[1].partition("#")[0].split()
        assert asked, f"{place}: make of what?"
        assert set(asked) <= targets, f"{place}: the Makefile has no target {set(asked) - targets}"
    if not any(command.strip() for command in commands):
        return
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(commands)],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{place}: exit code {done.returncode}\n{text}\n{done.stdout}\n{done.stderr}"

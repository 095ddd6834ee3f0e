"""The truth suite's page says what the code does."""

import json
import re

import pytest

from alphaswarm_rl.bench.truth_play import CONSTANT_BELOW
from alphaswarm_rl.bench.truth_tasks import AGENTS, EPISODES, FIRST_SEED, NUM_ENVS, TASKS
from tests.docs.pages import DOCS

PAGE = (DOCS / "truth.md").read_text(encoding="utf-8")
_CELLS = re.compile(r"^\| `(\w+)` \| (.+) \|$", re.MULTILINE)


def section(heading):
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def parameters(text):
    table = text.partition("| Parameter |")[2].partition("\n\n")[0]
    return {name: json.loads(value) for name, value in _CELLS.findall(table)}


@pytest.mark.parametrize("name", TASKS)
def test_parameters_are_the_environments_own(name):
    task = TASKS[name]
    config = task.component().config.model_dump(mode="json")
    assert parameters(section(task.env)) == config


def test_tasks_are_the_table_s():
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| " + " \\| ".join(["(\\S+)"] * 5) + r" \|$", PAGE, re.MULTILINE)
    expected = []
    for task in TASKS.values():
        known = task.solution()
        figures = (str(task.steps), str(task.needed), f"{known.j_opt:.4f}", f"{known.j_base:.4f}", known.base)
        expected.append((task.name, task.env, *figures))
    assert rows == expected


def test_parameters_of_the_agents_are_the_table_s():
    documented = parameters(section("What is measured"))
    assert documented == dict(AGENTS["ppo"]) == dict(AGENTS["ppo_inhouse"])
    assert f"train in {NUM_ENVS} environments" in PAGE
    words = " ".join(PAGE.split())
    assert f"the same {EPISODES} episodes" in words
    assert f"other seeds, from {FIRST_SEED} on" in words
    assert f"spread by less than {CONSTANT_BELOW}" in words

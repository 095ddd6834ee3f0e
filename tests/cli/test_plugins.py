"""Components of one's own, named by flag, variable or settings file: each command in a process of its own."""

import json
import os
import subprocess
import sys

import pytest

PLUGIN = '''
from alphaswarm_rl.core.kinds import RewardTerm

class Bonus(RewardTerm):
    """A constant bonus."""

    rl_alias = "plugin_bonus"

    def step(self, view, state, out):
        out[...] = 1.0
'''
LEAK = '''
import numpy as np
from alphaswarm_rl.core.kinds import ObservationBuilder


class Tomorrow(ObservationBuilder):
    """The next close, which nobody can know."""

    rl_alias = "tomorrow"

    def names(self, panel):
        return tuple(f"next:{asset}" for asset in panel.assets)

    def step(self, view, state, out):
        later = np.minimum(view.bar + 1, len(view.market.close) - 1)
        out[...] = view.market.close[later] / view.close - 1.0
'''
SPEC = """
name: Plugged
env: {class: stock_trading, kwargs: {fill: next_close, episode_bars: 20}}
data_pipeline: {class: synthetic, kwargs: {n_assets: 2, n_bars: 200, features: [macd], seed: 1}}
%s
agent: {class: random}
training: {total_timesteps: 40}
evaluation: {episodes: 1}
"""


@pytest.fixture
def rl(tmp_path):
    """Runs a command in a process and a folder of its own."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "my_rewards.py").write_text(PLUGIN)
    (folder / "spec.yaml").write_text(SPEC % "reward: {class: plugin_bonus}")

    def run(*words, code=0, **environ):
        command = [sys.executable, "-m", "alphaswarm_rl.cli", *words]
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, **environ}, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stderr
        return done

    run.folder = folder
    return run


def test_flag_variable_and_settings_file_name_plugins_and_the_row_pins_them(rl, tmp_path):
    unknown = rl("train", "spec.yaml", code=2)
    assert "--plugin MODULE, ALPHASWARM_RL_PLUGINS, or plugins: [MODULE] in settings.yaml" in unknown.stderr
    by_flag = json.loads(rl("train", "spec.yaml", "--plugin", "my_rewards", "--json").stdout)
    by_name = json.loads(rl("train", "spec.yaml", "--json", ALPHASWARM_RL_PLUGINS="my_rewards").stdout)
    assert by_flag["spec_hash"] == by_name["spec_hash"]
    rows = [json.loads(rl("runs", "show", found["run_id"], "--json").stdout) for found in (by_flag, by_name)]
    pinned = [row["run"]["code_fingerprint"]["plugins"] for row in rows]
    assert pinned[0] == pinned[1]
    assert set(pinned[0]) == {"my_rewards"}
    assert len(pinned[0]["my_rewards"]) == 64
    # A run that was made with one says so to whoever lacks it, and a settings file names it for good.
    lacking = rl("replay", by_flag["run_id"], "--seed", "3", code=2)
    assert "was made with my_rewards: --plugin my_rewards" in lacking.stderr
    (tmp_path / "home" / "settings.yaml").write_text("plugins: [my_rewards]\n")
    rl("replay", by_flag["run_id"], "--seed", "3")
    assert "plugin_bonus" in rl("components", "list", "--kind", "reward").stdout
    # Another source is another fingerprint, and no other component.
    (rl.folder / "my_rewards.py").write_text(PLUGIN + "\n# changed\n")
    again = json.loads(rl("train", "spec.yaml", "--json").stdout)
    row = json.loads(rl("runs", "show", again["run_id"], "--json").stdout)["run"]
    assert row["code_fingerprint"]["plugins"] != pinned[0]
    assert again["version_id"] == by_flag["version_id"]


def test_a_flag_goes_before_a_variable_and_a_variable_before_the_file(rl, tmp_path):
    for name in ("one", "two", "three", "four"):
        text = PLUGIN.replace("plugin_bonus", f"bonus_{name}").replace("Bonus", f"Bonus{name}")
        (rl.folder / f"my_{name}.py").write_text(text)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "settings.yaml").write_text("plugins: [my_one]\n")

    def named(*words, **environ):
        shown = rl("components", "list", "--kind", "reward", *words, **environ).stdout
        return {name for name in ("one", "two", "three", "four") if f"bonus_{name}" in shown}

    assert named() == {"one"}
    assert named(ALPHASWARM_RL_PLUGINS="my_two, my_three") == {"two", "three"}
    assert named("--plugin", "my_three", "--plugin", "my_four", ALPHASWARM_RL_PLUGINS="my_two") == {"three", "four"}


def test_a_module_that_is_not_there_is_an_error_and_wrong_settings_name_none(rl, tmp_path):
    absent = rl("spec", "show", "my_first_rl", "--plugin", "my_nothing", code=2).stderr
    assert "plug-in 'my_nothing'" in absent
    assert "it cannot be imported" in absent
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "settings.yaml").write_text("plugin: [my_rewards]\n")
    # What needs no settings does not fail over wrong ones.
    rl("spec", "show", "my_first_rl")
    assert "unknown key 'plugin'" in rl("runs", "list", code=2).stderr


def test_an_empty_name_is_refused_by_commands_that_need_no_settings_too(rl):
    for words, environ in ((("--plugin=",), {}), ((), {"ALPHASWARM_RL_PLUGINS": "my_rewards,,"})):
        refused = rl("spec", "show", "my_first_rl", *words, code=2, **environ).stderr
        assert "has an empty name in it" in refused
        assert "remedy: Give names" in refused


def test_training_with_a_component_that_looks_ahead_warns(rl):
    (rl.folder / "my_leak.py").write_text(LEAK)
    (rl.folder / "leak.yaml").write_text(SPEC % "observation: {class: tomorrow}")
    done = rl("train", "leak.yaml", "--plugin", "my_leak", "--json")
    assert "notice: look-ahead: observation 'tomorrow' (next:" in done.stderr
    row = json.loads(rl("runs", "show", json.loads(done.stdout)["run_id"], "--json", "--plugin", "my_leak").stdout)
    (found,) = [each for each in row["run"]["notices"] if each.startswith("look-ahead")]
    assert found.endswith("rl audit lookahead")
    honest = rl("train", "spec.yaml", "--plugin", "my_rewards", "--json")
    assert "look-ahead" not in honest.stderr

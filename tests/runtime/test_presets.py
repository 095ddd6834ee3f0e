"""Every preset is loaded, hashed and stepped."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import pytest

from alphaswarm_rl.core.presets import load_preset, preset_names
from alphaswarm_rl.core.refs import reference
from alphaswarm_rl.inference.builder import Builder
from alphaswarm_rl.spec import RLExperimentSpec, load_spec, refuse_absent

FOLDERS = sorted(entry.name for entry in (files("alphaswarm_rl") / "configs").iterdir() if entry.is_dir())
COMPONENTS = [(folder, name) for folder in FOLDERS if folder != "experiments" for name in preset_names(folder)]
#: The smallest experiment that a preset of each kind can be put into.
AROUND = {
    "name": "around a preset",
    "data_pipeline": {
        "class": "synthetic",
        "kwargs": {"n_assets": 2, "n_bars": 400, "features": ["macd"], "market_features": ["turbulence_60"]},
    },
    "env": {"class": "tradesim_portfolio", "kwargs": {"fill": "next_close"}},
    "agent": {"class": "random"},
}


def test_there_is_a_folder_for_every_kind_that_has_presets():
    kinds = ("actions", "agents", "data_pipelines", "envs", "experiments", "observations", "rewards")
    assert set(kinds) <= set(FOLDERS)
    assert all(preset_names(folder) for folder in FOLDERS)


@pytest.mark.parametrize(("folder", "name"), COMPONENTS)
def test_a_component_preset_is_used_in_an_experiment(folder, name):
    kind = folder.removesuffix("s")
    ref = reference({"preset": name}, kind)
    assert reference(load_preset(folder, name), kind) == ref
    around = dict(AROUND)
    if folder == "envs" and "initial_cash" not in ref.kwargs:
        around = {"name": "around", "agent": {"class": "random"}}
    if kind == "termination":
        around["terminations"] = [{"preset": name}]
    else:
        around[kind] = {"preset": name}
    play(RLExperimentSpec.from_data(around), steps=30)


@pytest.mark.parametrize("name", preset_names("experiments"))
def test_an_experiment_preset_is_hashed_and_stepped(name):
    spec = load_spec(name)
    refuse_absent(spec)
    assert RLExperimentSpec.from_yaml_str(spec.to_yaml()).spec_hash == spec.spec_hash
    play(spec, steps=60)


def play(spec, steps):
    """Random steps in the training environment, and the first of the evaluation."""
    builder = Builder(spec, seed=0, device="cpu")
    for phase, window in (("train", spec.training.window), ("evaluate", spec.evaluation.window)):
        env = builder.build_env("env", num_envs=2, phase=phase, window=window)
        env.reset()
        env.action_space.seed(0)
        for _ in range(steps if phase == "train" else 3):
            observation, rewards, *_ = env.step(env.action_space.sample())
            assert np.isfinite(observation).all()
            assert np.isfinite(rewards).all()
        env.close()

"""The component that takes any Gymnasium id."""

from __future__ import annotations

import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest

from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.contracts import EnvRequest, Window
from alphaswarm_rl.core.errors import ComponentError, EnvError, MissingExtra

from .toys import build, component

VERSION = gymnasium.__version__


@pytest.mark.parametrize("env_id", ["CartPole-v1", "LunarLander-v2", "Ant-v4", "forex-v0", "stocks-v0"])
def test_every_named_id_makes_200_random_steps(env_id):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        env = build(env_id, num_envs=2)
        env.reset()
        env.action_space.seed(0)
        for _ in range(200):
            observation, rewards, *_ = env.step(env.action_space.sample())
            assert np.isfinite(rewards).all()
            assert env.observation_space.contains(observation)
        env.close()
    # Gymnasium's own warnings, such as that a version is old, are said once by `notices` or not at all.
    assert not [warning for warning in caught if "WARN" in str(warning.message)]


@pytest.mark.parametrize(
    ("asked", "used"),
    [
        ("LunarLander-v2", "LunarLander-v3"),
        ("CartPole", "CartPole-v1"),
        ("Ant-v3", "Ant-v5"),
        ("Ant-v2", "Ant-v5"),
    ],
)
def test_a_version_that_is_not_there_stands_for_the_newest(asked, used):
    assert component(asked).notices() == (f"{asked} is not in Gymnasium {VERSION}; {used} is used",)
    assert build(asked).spec.id == used


@pytest.mark.parametrize(("asked", "newest"), [("LunarLander-v9", "LunarLander-v3"), ("stocks-v1", "stocks-v0")])
def test_a_version_that_never_was_is_refused(asked, newest):
    with pytest.raises(EnvError, match=f"{asked}.*no such version.*{newest}"):
        component(asked).notices()


@pytest.mark.parametrize("env_id", ["CartPole-v0", "CartPole-v1", "Ant-v4", "forex-v0"])
def test_an_id_that_is_there_is_used_as_it_is(env_id):
    assert component(env_id).notices() == ()
    assert build(env_id).spec.id == env_id


@pytest.mark.parametrize(
    ("asked", "suggested"),
    [
        ("CartPol-v1", "CartPole-v1"),
        ("lunarlander-v3", "LunarLander-v3"),
        ("forx-v0", "forex-v0"),
        ("Cart Pole!", "CartPole"),
    ],
)
def test_an_id_that_does_not_exist_is_an_error_with_a_suggestion(asked, suggested):
    for use in (component(asked).notices, lambda: build(asked)):
        with pytest.raises(EnvError, match=f"Did you mean '{suggested}"):
            use()


def test_an_id_never_imports_a_module():
    with pytest.raises(ComponentError, match="would import code"):
        catalogue.configure("env", "gymnasium", {"id": "antigravity:CartPole-v1"})
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize("key", ["render_mode", "vectorization_mode", "max_episode_steps", "df", "wrappers", "id"])
def test_kwargs_cannot_override_what_is_decided_elsewhere(key):
    with pytest.raises(ComponentError, match=f"'{key}' is not for kwargs"):
        catalogue.configure("env", "gymnasium", {"id": "CartPole-v1", "kwargs": {key: "human"}})


def test_kwargs_are_json_data():
    with pytest.raises(ComponentError, match=r"kwargs\.thing"):
        catalogue.configure("env", "gymnasium", {"id": "CartPole-v1", "kwargs": {"thing": object()}})


def test_kwargs_reach_the_environment():
    env = build("LunarLander-v3", gravity=-5.0)
    assert env.envs[1].unwrapped.gravity == -5.0
    with pytest.raises(EnvError, match=r"does not take its kwargs.*gravitee"):
        build("LunarLander-v3", gravitee=-5.0)


def test_the_limit_of_steps_can_be_set():
    env = component("CartPole-v1", max_episode_steps=2).build(EnvRequest(num_envs=1, seed=0))
    env.reset()
    assert [bool(env.step(np.array([0]))[3][0]) for _ in range(4)] == [False, True, False, True]


@pytest.mark.parametrize(
    ("env_id", "module", "package", "extra"),
    [
        ("LunarLander-v3", "Box2D", "gymnasium.envs.box2d", r"alphaswarm-rl\[box2d\]"),
        ("Ant-v5", "mujoco", "gymnasium.envs.mujoco", r"alphaswarm-rl\[mujoco\]"),
        ("stocks-v0", "gym_anytrading", "gym_anytrading", r"alphaswarm-rl\[anytrading\]"),
        ("ALE/Pong-v5", "ale_py", "ale_py", "ale-py"),
    ],
)
def test_a_missing_library_is_named_with_what_installs_it(monkeypatch, env_id, module, package, extra):
    for loaded in [name for name in sys.modules if name == package or name.startswith(package + ".")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=f"{module}.*pip install '?{extra}"):
        build(env_id)


def test_a_library_without_which_no_picture_is_drawn_is_named(monkeypatch):
    env = build("CartPole-v1", request={"render": True})
    env.reset()
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(MissingExtra, match=r"pygame.*alphaswarm-rl\[render\]"):
        env.render()


def test_what_has_no_dates_takes_no_window_and_knows_no_data():
    plain = component("CartPole-v1")
    window = Window(start="2017-01-01")
    assert plain.slots() == frozenset()
    assert plain.data_fingerprint(Window()) is None
    assert plain.in_sample(window, (window,)) is None
    with pytest.raises(EnvError, match="CartPole-v1 has no dates"):
        plain.build(EnvRequest(num_envs=1, seed=0, window=window))


def test_the_component_modules_are_light():
    code = (
        "import sys; import alphaswarm_rl.envs.gymnasium_env, alphaswarm_rl.envs.cartpole;"
        "heavy = {'numpy', 'gymnasium', 'torch', 'pandas', 'gym_anytrading', 'mujoco'} & set(sys.modules);"
        "sys.exit(', '.join(sorted(heavy)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

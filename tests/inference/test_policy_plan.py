"""A policy stands alone: a checkpoint answers without the environment and the data that it learnt from."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from alphaswarm_rl.arrays.backend_numpy import NUMPY
from alphaswarm_rl.core.errors import CheckpointError, DataError, EnvError, SpecError
from alphaswarm_rl.core.view import ARRAYS, View
from alphaswarm_rl.data_pipelines.synthetic import SyntheticPipeline
from alphaswarm_rl.envs.cartpole import CartPole
from alphaswarm_rl.envs.preprocessing import raw_env
from alphaswarm_rl.envs.trading import TradingComponent
from alphaswarm_rl.inference.builder import Builder
from alphaswarm_rl.inference.checkpoints import load_checkpoint
from alphaswarm_rl.inference.market_data import MarketData
from alphaswarm_rl.inference.policy import LoadedPolicy
from alphaswarm_rl.inference.policy_plan import scope_of
from alphaswarm_rl.inference.policy_server import PolicyServer
from alphaswarm_rl.market.decider import Decider
from alphaswarm_rl.runtime import RLRuntime
from tests.runtime.conftest import tiny
from tests.runtime.test_trading import trading

NATIVE = {"class": "ppo_inhouse", "kwargs": {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "net_arch": [8]}}
OBS = {"normalize": "running", "clip_range": 5.0, "stack_frames": 2}


def checkpoint_of(result):
    return load_checkpoint(Path(result.checkpoint), expected_sha256=result.checkpoint_sha256)


def in_schema_1(loaded):
    """The same checkpoint as 1 wrote it: without what answering needs."""
    return dataclasses.replace(loaded, policy=None)


@pytest.fixture
def nothing_is_built(monkeypatch):
    """Makes it an error to build an environment or to read data."""

    def refused(*arguments, **words):
        raise AssertionError("an environment was built or data were read")

    for owner, name in (
        (Builder, "__init__"),
        (MarketData, "load"),
        (SyntheticPipeline, "build"),
        (TradingComponent, "build"),
        (CartPole, "build"),
    ):
        monkeypatch.setattr(owner, name, refused)


@pytest.mark.parametrize(
    "spec",
    [
        trading(),
        trading(agent=NATIVE, obs=OBS),
        tiny(obs=OBS),
        tiny(agent={"class": "dqn", "kwargs": {"learning_starts": 16, "net_arch": [4]}}),
        tiny(agent={"class": "random"}),
    ],
    ids=["trading", "native trading", "cartpole", "dqn", "random"],
)
def test_a_checkpoint_answers_without_environment_or_data_as_with_them(settings, spec, request):
    loaded = checkpoint_of(RLRuntime(spec, settings).train())
    with_env = LoadedPolicy(in_schema_1(loaded), settings)
    seen = np.random.default_rng(0).normal(size=(20, *with_env.observation_space.shape)).astype(np.float32)
    expected = {}
    for deterministic in (True, False):
        with_env.seed_predictions(7)
        stream = with_env.stream()
        expected[deterministic] = [stream.act(row[None], deterministic=deterministic) for row in seen]
    request.getfixturevalue("nothing_is_built")
    alone = LoadedPolicy(loaded, settings)
    assert alone.plan.to_json() == with_env.plan.to_json()
    assert (alone.observation_space, alone.action_space) == (with_env.observation_space, with_env.action_space)
    for deterministic in (True, False):
        alone.seed_predictions(7)
        stream = alone.stream()
        answers = [stream.act(row[None], deterministic=deterministic) for row in seen]
        np.testing.assert_array_equal(answers, expected[deterministic])


def test_a_run_is_served_without_environment_or_data(settings, request):
    result = RLRuntime(trading(agent=NATIVE), settings).train()
    request.getfixturevalue("nothing_is_built")
    with PolicyServer.of_run(settings, run=result.run_id) as server:
        seen = np.zeros(server.policy.observation_space.shape)
        assert server.answer(seen).checkpoint_sha256 == result.checkpoint_sha256


def test_the_plan_says_what_was_seen_done_and_traded(settings):
    spec = trading()
    loaded = checkpoint_of(RLRuntime(spec, settings).train())
    builder = Builder(spec, seed=0, device="cpu")
    env = raw_env(builder.build_env("infer", num_envs=1, phase="evaluate", window=spec.evaluation.window))
    plan = LoadedPolicy(loaded, settings).plan
    assert plan.observation.features == env.feature_names
    assert [ref["class"] for ref in plan.observation.builders] == [part.rl_alias for part in env.plan.builders]
    assert plan.action.component["class"] == env.plan.action.rl_alias
    assert plan.action.trade == dataclasses.asdict(env.trade)
    assert plan.market.assets == env.plan.panel.assets
    assert plan.market.warmup_bars == builder.warmup_bars
    assert plan.scope == scope_of(spec, env)
    assert not plan.remembers
    assert not plan.needs_env


def test_a_policy_that_remembers_says_so(train, settings):
    assert LoadedPolicy(checkpoint_of(train(obs={"stack_frames": 2})), settings).plan.remembers
    encoder = {"class": "recurrent"}
    recurrent = {**NATIVE, "kwargs": {**NATIVE["kwargs"], "encoder": encoder, "embed_dim": 4}}
    assert LoadedPolicy(checkpoint_of(train(agent=recurrent)), settings).plan.remembers


def test_what_is_made_with_hindsight_never_answers(settings):
    spec = trading()
    loaded = checkpoint_of(RLRuntime(spec, settings).train())
    policy = json.loads(json.dumps(loaded.policy))
    policy["observation"]["hindsight"] = ["next_return"]
    with pytest.raises(SpecError, match="next_return"):
        LoadedPolicy(dataclasses.replace(loaded, policy=policy), settings)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("observation", "space"), {"type": "Box", "shape": [10**9], "dtype": "float32", "low": 0, "high": 1}),
        (("action", "space"), "Discrete(2)"),
        (("scope",), None),
        (("remembers",), "perhaps"),
        (("unknown",), 1),
    ],
)
def test_a_plan_that_cannot_be_read_is_explained(train, settings, path, value):
    loaded = checkpoint_of(train())
    policy = json.loads(json.dumps(loaded.policy))
    inner = policy
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    with pytest.raises(CheckpointError, match="policy section cannot be read"):
        LoadedPolicy(dataclasses.replace(loaded, policy=policy), settings)


# -- observer and decider -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 3])
def test_a_checkpoint_sees_and_decides_to_the_bit_what_its_environment_does(settings, monkeypatch, n):
    spec = trading()
    loaded = checkpoint_of(RLRuntime(spec, settings).train())
    builder = Builder(spec, seed=0, device="cpu")
    builder.restore_data(loaded.states)
    window = spec.evaluation.window
    env = builder.build_env("evaluate", num_envs=n, phase="evaluate", window=window)
    targets, decide = [], Decider.decide

    def recorded(self, *arguments):
        result = decide(self, *arguments)
        targets.append(result.copy())
        return result

    monkeypatch.setattr(Decider, "decide", recorded)
    policy = LoadedPolicy(loaded, settings)
    stream, raw = policy.stream(), builder.data.raw(window)
    market = policy.market(raw)
    observer, decider = policy.plan.observer(market, n), policy.plan.decider(market, n)
    assert observer.feature_names == policy.plan.observation.features
    observation, _ = env.reset()
    for _ in range(15):
        arrays = {name: getattr(env.view, name) for name in ARRAYS if getattr(env.view, name) is not None}
        view = View.of(market, env.plan.initial_cash, {name: NUMPY.put(array.copy()) for name, array in arrays.items()})
        np.testing.assert_array_equal(observer.observe(view), observation)
        actions = stream.act(observation, deterministic=True)
        decider.decide(view, actions)
        observation, *_ = env.step(actions)
        np.testing.assert_array_equal(targets[-1], targets[-2])
    assert len(targets) == 30


def test_bars_of_other_assets_are_refused(settings):
    loaded = checkpoint_of(RLRuntime(trading(), settings).train())
    other = Builder(trading(bars={"n_assets": 3}), seed=0, device="cpu").data.raw(trading().evaluation.window)
    with pytest.raises(DataError, match="assets"):
        LoadedPolicy(loaded, settings).market(other)


def test_a_policy_that_trades_nothing_has_no_observer(train, settings):
    plan = LoadedPolicy(checkpoint_of(train()), settings).plan
    with pytest.raises(EnvError, match="trades nothing"):
        plan.observer(None, 1)


# -- what is loaded to answer ---------------------------------------------------------------------------------------


def test_a_native_ppo_answers_without_torch_and_nothing_needs_pandas(settings):
    result = RLRuntime(trading(agent=NATIVE), settings).train()
    script = f"""
import sys
from pathlib import Path
from alphaswarm_rl import PolicyServer, Settings
with PolicyServer.of_run(Settings(home=Path({str(settings.home)!r})), run={result.run_id!r}) as server:
    server.answer([0.0] * server.policy.observation_space.shape[0])
print(sorted({{"torch", "pandas", "stable_baselines3", "skfolio", "duckdb", "alembic"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

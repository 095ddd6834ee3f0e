"""Training that begins with what another one learnt: `training.init_from`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alphaswarm_rl import RLExperimentSpec, RLRuntime, Settings
from alphaswarm_rl.core.errors import AlphaSwarmError, CheckpointError, SpecError
from alphaswarm_rl.inference.checkpoints import CheckpointStore, load_checkpoint
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.models import ModelRegistry

PPO = {"class": "ppo_inhouse", "kwargs": {"n_steps": 16, "n_epochs": 1, "net_arch": [8]}}
AGENTS = {
    "ppo_inhouse": PPO["kwargs"],
    "a2c_inhouse": {"n_steps": 8, "net_arch": [8]},
    "ddqn_inhouse": {"learning_starts": 64, "net_arch": [8]},
    "ppo": {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "net_arch": [8]},
}


def spec(init_from: object = None, **changes: Any) -> RLExperimentSpec:
    training = {"total_timesteps": 256, "n_envs": 4, "init_from": init_from, **changes.pop("training", {})}
    base = {"name": "Warm", "env": {"class": "cartpole"}, "agent": PPO, "evaluation": {"episodes": 2}}
    return RLExperimentSpec.from_data({**base, "training": training, **changes})


def weights(folder: str | Path) -> dict[str, np.ndarray]:
    arrays = load_checkpoint(Path(folder)).states["learner"].arrays
    named = ("weights/", "online/", "tensors/policy/")
    return {name: array for name, array in arrays.items() if name.startswith(named)}


@pytest.mark.parametrize("agent", AGENTS)
def test_training_begins_with_the_weights_and_the_normaliser_and_with_nothing_else(
    settings: Settings, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: dict[str, Any] = {"agent": {"class": agent, "kwargs": AGENTS[agent]}, "obs": {"normalize": "running"}}
    first = RLRuntime(spec(**changes), settings).train()
    begun: dict[str, Any] = {}
    from alphaswarm_rl.runtime import train as verb

    trains = verb._train

    def looked_at(session: Any) -> None:
        begun.update(session.states())
        trains(session)

    monkeypatch.setattr(verb, "_train", looked_at)
    second = RLRuntime(spec(first.run_id, **changes), settings).train()
    source = load_checkpoint(Path(str(first.checkpoint))).states
    taken = {name: begun["learner"].arrays[name] for name in weights(str(first.checkpoint))}
    assert taken
    assert all(np.array_equal(taken[name], array) for name, array in weights(str(first.checkpoint)).items())
    statistics = source["preprocessing"].arrays
    assert all(np.array_equal(begun["preprocessing"].arrays[name], statistics[name]) for name in statistics)
    own, theirs = begun["learner"].data, source["learner"].data
    counted = "counters" if agent == "ppo" else "timesteps"
    assert own[counted] != theirs[counted]
    assert own.get("gradient_steps", 0) == 0
    assert not any(array.any() for name, array in begun["learner"].arrays.items() if name.startswith("adam"))
    if agent in ("ppo_inhouse", "a2c_inhouse"):
        for name in ("scale_observations", "scale_rewards"):
            assert own[name] == theirs[name], name
    with Ledger.open(settings) as ledger:
        row = ledger.run(second.run_id)
    sha256 = first.checkpoint_sha256
    assert row.parent_run_id == first.run_id
    assert row.notices == [f"initial weights: run {first.run_id} at step 256, checkpoint sha256 {sha256}"]
    assert row.timesteps == 256
    cold = RLRuntime(spec(**changes), settings).train()
    assert cold.checkpoint_sha256 == first.checkpoint_sha256 != second.checkpoint_sha256


def test_every_name_of_a_checkpoint_is_one_version_and_one_training(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", data={"root": str(tmp_path)})
    first = RLRuntime(spec(), settings).train()
    with ModelRegistry.open(settings) as registry:
        (model,) = registry.list()
    sha256 = first.checkpoint_sha256
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(str(first.checkpoint), elsewhere)
    names = [
        first.run_id,
        first.run_id[:8],
        f"model:{model.id}",
        sha256,
        str(first.checkpoint),
        "./elsewhere",
        {"run": first.run_id, "checkpoint": 256},
        {"model": model.id, "sha256": sha256},
    ]
    runtimes = [RLRuntime(spec(name), settings) for name in names]
    assert {runtime.spec.canonical()["training"]["init_from"]["sha256"] for runtime in runtimes} == {sha256}
    assert len({runtime.spec.spec_hash for runtime in runtimes}) == 1
    assert runtimes[0].spec.spec_hash != spec().spec_hash
    results = [runtimes[index].train() for index in (0, 2, 3, 5)]
    assert len({result.version_id for result in results}) == 1
    # What a checkpoint holds of its spec depends on no name either.
    assert len({result.checkpoint_sha256 for result in results}) == 1
    written = RLExperimentSpec.from_yaml_str(runtimes[0].spec.to_yaml())
    assert written.spec_hash == runtimes[0].spec.spec_hash
    assert RLRuntime(written, settings).train().checkpoint_sha256 == results[0].checkpoint_sha256


def test_a_spec_without_initial_weights_is_hashed_as_before_there_were_any() -> None:
    assert "init_from" not in spec().canonical()["training"]
    assert spec().as_data()["training"]["init_from"] is None


def test_a_name_alone_has_no_hash() -> None:
    with pytest.raises(SpecError, match=r"training\.init_from: run abcd.*its checksum is not known yet"):
        _ = spec("abcd").spec_hash


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ({}, "name a run, a model, a checkpoint folder or a sha256"),
        ({"run": "abcd", "model": 1}, "run and model are two names"),
        ({"model": 1, "checkpoint": "best"}, "a model is one checkpoint"),
        ({"run": "abcd", "checkpoint": "/tmp/x"}, "checkpoint of a run is last, best or a step"),
        ({"sha256": "abc"}, "pattern"),
        ({"model": 0}, "greater than 0"),
        ("abc", "named by 4 characters of its id or more"),
    ],
)
def test_names_that_mean_nothing_are_refused(named: object, why: str) -> None:
    with pytest.raises(SpecError, match=why):
        spec(named)


def test_a_changed_file_is_refused_and_nothing_is_run(settings: Settings) -> None:
    first = RLRuntime(spec(), settings).train()
    pinned = RLRuntime(spec(first.run_id), settings)
    folder = Path(str(first.checkpoint))
    arrays = folder / "state.safetensors"
    content = bytearray(arrays.read_bytes())
    content[-1] ^= 1
    arrays.write_bytes(content)
    for runtime in (pinned, lambda: RLRuntime(spec(first.run_id), settings)):
        with pytest.raises(CheckpointError, match="changed after it was written"):
            (runtime if isinstance(runtime, RLRuntime) else runtime()).train()
    content[-1] ^= 1
    arrays.write_bytes(content)
    manifest = json.loads((folder / "checkpoint.json").read_text())
    (folder / "checkpoint.json").write_text(json.dumps({**manifest, "seed": 5}))
    with pytest.raises(CheckpointError, match="not the one the ledger recorded"):
        pinned.train()
    with Ledger.open(settings) as ledger:
        assert [row.id for row in ledger.runs()] == [first.run_id]


def test_another_checkpoint_than_the_pinned_one_is_refused_by_both_checksums(settings: Settings) -> None:
    first = RLRuntime(spec(), settings).train()
    with pytest.raises(CheckpointError, match=f"has the SHA-256 {first.checkpoint_sha256}, not {'a' * 64}"):
        RLRuntime(spec({"run": first.run_id, "sha256": "a" * 64}), settings)
    with pytest.raises(SpecError, match="no run and no model has it"):
        RLRuntime(spec("b" * 64), settings)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"env": {"class": "gymnasium", "kwargs": {"id": "Acrobot-v1"}}}, r"observation space Box\(.*\(4,\).*\(6,\)"),
        ({"agent": {"class": "a2c_inhouse"}}, "of the agent 'ppo_inhouse', and this spec's is 'a2c_inhouse'"),
        ({"agent": {**PPO, "kwargs": {**PPO["kwargs"], "net_arch": [9]}}}, r"pi\.0\.weight is of shape \(8, 4\)"),
        ({"obs": {"normalize": "running"}}, r"with obs\.normalize none, and this spec has running"),
        ({"obs": {"stack_frames": 2}}, r"with obs\.stack_frames None, and this spec has 2"),
        (
            {"agent": {**PPO, "kwargs": {**PPO["kwargs"], "normalize_observation": False}}},
            "learnt from standardised observations, and these from plain ones",
        ),
        ({"agent": {"class": "random"}}, "the agent 'random' learns nothing"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(settings: Settings, changes: dict[str, Any], why: str) -> None:
    first = RLRuntime(spec(), settings).train()
    with pytest.raises(AlphaSwarmError, match=why):
        RLRuntime(spec(first.run_id, **changes), settings).train()


def test_what_earlier_trainings_saw_is_in_sample_too(settings: Settings) -> None:
    def trading(start: str, end: str, judged: tuple[str, str], init_from: object = None, bars: int = 600) -> Any:
        changes = {
            "env": {"class": "stock_trading", "kwargs": {"fill": "next_close"}},
            "data_pipeline": {
                "class": "synthetic",
                "kwargs": {"n_assets": 2, "n_bars": bars, "seed": 1, "features": ["macd"]},
            },
            "evaluation": {"episodes": 1, "start": judged[0], "end": judged[1]},
            "training": {"start": start, "end": end},
        }
        result = RLRuntime(spec(init_from, **changes), settings).train()
        with Ledger.open(settings) as ledger:
            return ledger.run(result.run_id)

    first = trading("2020-01-03", "2020-07-01", ("2021-01-01", "2021-06-01"))
    assert first.in_sample is False
    later = ("2020-10-01", "2021-01-01")
    second = trading(*later, ("2021-01-01", "2021-06-01"), first.id)
    assert second.in_sample is False
    third = trading(*later, ("2020-03-01", "2020-06-01"), first.id)
    assert third.in_sample is True
    # Through two trainings as well, and in what is judged afterwards.
    fourth = trading("2020-12-01", "2021-01-01", ("2020-03-01", "2020-06-01"), second.id)
    assert fourth.in_sample is True
    again = RLRuntime.from_run(fourth.id, settings).evaluate()
    with Ledger.open(settings) as ledger:
        assert ledger.run(again.run_id).in_sample is True
    # The same dates of other data prove nothing; other dates of them do no harm.
    other = trading(*later, ("2020-03-01", "2020-06-01"), first.id, bars=599)
    assert other.in_sample is None
    assert trading(*later, ("2021-01-01", "2021-06-01"), first.id, bars=599).in_sample is False


def test_scalers_of_the_same_data_are_those_that_the_weights_know(settings: Settings) -> None:
    def trading(start: str, end: str, init_from: object = None, seed: int = 1) -> Any:
        pipeline = {"n_assets": 2, "n_bars": 600, "seed": seed, "features": ["macd"], "scaler": "zscore"}
        changes = {
            "env": {"class": "stock_trading", "kwargs": {"fill": "next_close"}},
            "data_pipeline": {"class": "synthetic", "kwargs": pipeline},
            "evaluation": {"episodes": 0},
            "training": {"start": start, "end": end},
        }
        result = RLRuntime(spec(init_from, **changes), settings).train()
        return result, load_checkpoint(Path(str(result.checkpoint))).states["data"].arrays

    first, fitted = trading("2020-01-03", "2020-07-01")
    _, taken = trading("2020-10-01", "2021-01-01", first.run_id)
    _, own = trading("2020-10-01", "2021-01-01")
    assert fitted
    assert all(np.array_equal(taken[name], fitted[name]) for name in fitted)
    assert not all(np.array_equal(own[name], fitted[name]) for name in fitted)
    other, scaled = trading("2020-10-01", "2021-01-01", first.run_id, seed=2)
    assert not all(np.array_equal(scaled[name], fitted[name]) for name in fitted)
    with Ledger.open(settings) as ledger:
        notices = ledger.run(other.run_id).notices
    assert any("was trained on another data_pipeline; data are scaled as this spec says" in each for each in notices)


def test_a_resumed_run_goes_on_with_its_own_weights(settings: Settings) -> None:
    first = RLRuntime(spec(), settings).train()
    one = Settings(home=settings.home, store={"checkpoint_freq": 128})
    whole = RLRuntime(spec(first.run_id), one).train()

    def stop(event: Any) -> str | None:
        return "enough" if event.stage == "train.checkpoint" and event.payload["timesteps"] == 128 else None

    halted = RLRuntime(spec(first.run_id), one, stop_when=stop).train()
    assert halted.status == "halted"
    CheckpointStore(one.models_path).remove(first.run_id)  # nobody needs it any more
    resumed = RLRuntime.from_run(halted.run_id, one).resume()
    assert resumed.checkpoint_sha256 == whole.checkpoint_sha256

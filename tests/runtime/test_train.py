import json
import sys
from pathlib import Path

import pytest

from alphaswarm_rl.core.errors import AlphaSwarmError, EnvError, PartNotHere, RunError, SpecError
from alphaswarm_rl.inference.checkpoints import load_checkpoint
from alphaswarm_rl.runtime import RLRuntime, RunFailed
from alphaswarm_rl.settings import LedgerSettings, Settings, StoreSettings
from tests.runtime.conftest import tiny


def stages(ledger, run_id):
    return [event.stage for event in ledger.events(run_id)]


def intervals(ledger, run_id):
    """Where log intervals ended."""
    events = [event.payload for event in ledger.events(run_id) if event.stage == "train.step"]
    return [payload["timesteps"] for payload in events if payload["reason"] == "interval"]


def test_a_run_tells_its_whole_story_in_order(train, ledger):
    result = train(training={"eval_during_training": True, "eval_freq": 256})
    seen = stages(ledger, result.run_id)
    assert seen[:4] == ["start", "data.loaded", "env.built", "agent.built"]
    assert seen[-2:] == ["train.checkpoint", "done"]
    assert set(seen[4:-1]) == {"train.step", "train.checkpoint", "eval.step", "model.validated"}
    assert [event.seq for event in ledger.events(result.run_id)] == list(range(1, len(seen) + 1))


def test_there_is_one_step_event_per_log_interval(train, ledger):
    result = train(training={"log_interval": 2, "total_timesteps": 1024})
    steps = intervals(ledger, result.run_id)
    assert steps == [256, 512, 768, 1024]  # two rollouts of 32 x 4 transitions each


def test_off_policy_logs_every_thousand_transitions(train, ledger):
    dqn = {"class": "dqn", "kwargs": {"learning_starts": 10, "net_arch": [8], "buffer_size": 5000}}
    result = train(agent=dqn, training={"log_interval": 1, "total_timesteps": 3000})
    steps = intervals(ledger, result.run_id)
    assert [step // 1000 for step in steps] == [1, 2, 3]


def test_the_row_pins_what_the_run_depends_on(train, ledger):
    result = train()
    row = ledger.run(result.run_id)
    assert row.status == "completed"
    assert row.seed == 3
    assert row.timesteps == 512
    assert row.total_timesteps == 512
    assert row.spec_hash == tiny().spec_hash
    assert row.exec_hash == tiny().exec_hash
    assert row.family == "tiny"
    assert set(row.code_fingerprint) == {"version", "git_commit", "lock_hash", "components"}
    assert row.code_fingerprint["components"] == {"env:cartpole": 1, "agent:ppo": 1}
    assert {"cpu", "isa", "torch_threads", "device"} <= set(row.machine)
    assert row.checkpoint_sha256 == load_checkpoint(Path(row.checkpoint)).checkpoint.sha256
    assert row.mean_reward == result.metrics["mean_reward"]


def test_should_halt_was_asked_on_every_vector_step_and_was_never_true(train, ledger):
    result = train(evaluation={"episodes": 1})
    row = ledger.run(result.run_id)
    evaluation = ledger.evaluations(result.run_id)[0]
    assert row.halt_checks == 512 // 4 + evaluation.metrics["lengths"][0]
    assert row.halt_reason is None


def test_the_same_seed_gives_the_same_bytes(train):
    first, second = train(), train()
    assert first.run_id != second.run_id
    assert first.checkpoint_sha256 == second.checkpoint_sha256
    assert first.metrics == second.metrics
    assert (
        Path(first.checkpoint, "state.safetensors").read_bytes()
        == Path(second.checkpoint, "state.safetensors").read_bytes()
    )


def test_another_seed_gives_other_weights(settings):
    runtime = RLRuntime(tiny(), settings)
    assert runtime.train(seed=1).checkpoint_sha256 != runtime.train(seed=2).checkpoint_sha256


def test_a_random_seed_is_drawn_and_pinned(settings, ledger):
    result = RLRuntime(tiny(), settings).train(seed="random")
    assert ledger.run(result.run_id).seed == result.seed
    again = RLRuntime(tiny(), settings).train(seed=result.seed)
    assert again.checkpoint_sha256 == result.checkpoint_sha256
    assert again.version_id == result.version_id


def test_training_with_evaluations_in_between_gives_the_same_weights(train):
    plain = train()
    watched = train(training={"eval_during_training": True, "eval_freq": 128})
    first, second = (Path(result.checkpoint, "state.safetensors").read_bytes() for result in (plain, watched))
    assert first == second


def test_every_evaluation_has_its_row(train, ledger):
    result = train(training={"eval_during_training": True, "eval_freq": 256})
    rows = ledger.evaluations(result.run_id)
    assert [(row.phase, row.timesteps) for row in rows] == [("validation", 256), ("validation", 512), ("evaluate", 512)]
    assert all(len(row.metrics["returns"]) == 4 for row in rows)


def test_the_best_model_is_kept_apart(train, ledger, settings):
    result = train(training={"eval_during_training": True, "eval_freq": 128, "total_timesteps": 1536})
    rows = [row for row in ledger.evaluations(result.run_id) if row.phase == "validation"]
    best = max(rows, key=lambda row: row.mean_reward)
    assert result.metrics["best_reward"] == best.mean_reward
    assert load_checkpoint(Path(result.best_checkpoint)).checkpoint.timesteps == best.timesteps


def test_eval_freq_null_means_a_tenth(train, ledger):
    result = train(training={"eval_during_training": True, "total_timesteps": 1280})
    assert sum(row.phase == "validation" for row in ledger.evaluations(result.run_id)) == 10


def test_episodes_are_written_one_row_each_below_the_rate(train, ledger, settings):
    result = train()
    rows = ledger.episodes(result.run_id)
    assert rows
    assert [row.episode for row in rows] == list(range(len(rows)))
    assert all(row.count == 1 and row.mean_reward == row.length for row in rows)


def test_above_the_rate_episodes_are_written_as_aggregates(train, tmp_path):
    from alphaswarm_rl.ledger import Ledger

    few = Settings(home=tmp_path / "few", ledger=LedgerSettings(episode_rate=0.001))
    result = train(using=few)
    with Ledger.open(few) as ledger:
        rows = ledger.episodes(result.run_id)
    assert rows
    assert all(row.count == row.last_episode - row.episode + 1 for row in rows)
    assert max(row.count for row in rows) > 1


def test_checkpoints_come_every_checkpoint_freq_transitions_and_the_last_k_stay(train, tmp_path):
    using = Settings(home=tmp_path / "home", store=StoreSettings(checkpoint_freq=128, keep_last=2))
    result = train(using=using)
    folder = Path(result.checkpoint).parent
    assert sorted(path.name for path in folder.iterdir()) == ["000000000384", "000000000512"]


def test_model_dir_and_log_dir_say_where_files_go(train, tmp_path):
    using = Settings(
        home=tmp_path / "home",
        store=StoreSettings(model_dir=tmp_path / "elsewhere", run_name="my run"),
        log_dir=tmp_path / "logs",
    )
    result = train(using=using)
    assert Path(result.checkpoint).is_relative_to(tmp_path / "elsewhere")
    lines = (tmp_path / "logs" / f"{result.run_id}.jsonl").read_text().splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, len(lines) + 1))
    from alphaswarm_rl.ledger import Ledger

    with Ledger.open(using) as ledger:
        assert ledger.run(result.run_id).name == "my run"


def test_a_device_that_is_not_there_is_refused_and_the_row_keeps_the_one_that_is(train, tmp_path, ledger):
    import torch

    from alphaswarm_rl.core.errors import OptionError
    from alphaswarm_rl.settings import InferSettings

    assert ledger.run(train().run_id).device == ("cuda" if torch.cuda.is_available() else "cpu")
    missing = "mps" if not torch.backends.mps.is_available() else "cuda"
    with pytest.raises(OptionError, match=f"device '{missing}'"):
        train(using=Settings(home=tmp_path / "home", infer=InferSettings(device=missing)))


def test_threads_are_set_for_the_run_pinned_in_the_row_and_put_back(train, tmp_path):
    import torch

    from alphaswarm_rl.ledger import Ledger
    from alphaswarm_rl.settings import InferSettings

    before = torch.get_num_threads()
    using = Settings(home=tmp_path / "home", infer=InferSettings(threads=before + 1))
    result = train(using=using)
    with Ledger.open(using) as ledger:
        assert ledger.run(result.run_id).machine["torch_threads"] == before + 1
    assert torch.get_num_threads() == before


def test_a_failing_environment_fails_the_run_with_its_reason(settings, ledger, monkeypatch):
    from alphaswarm_rl.envs.batched_cartpole import BatchedCartPole

    calls = 0

    def explode(self, actions):
        nonlocal calls
        calls += 1
        if calls == 40:
            raise ZeroDivisionError("the market is closed")
        return original(self, actions)

    original = BatchedCartPole.step
    monkeypatch.setattr(BatchedCartPole, "step", explode)
    with pytest.raises(RunFailed, match="the market is closed"):
        RLRuntime(tiny(), settings).train()
    row = ledger.runs()[0]
    assert row.status == "failed"
    assert "the market is closed" in row.error
    assert stages(ledger, row.id)[-1] == "error"


def test_an_environment_that_does_not_exist_is_named_with_the_nearest(settings, ledger):
    spec = tiny(env={"class": "gymnasium", "kwargs": {"id": "CartPol-v1"}})
    with pytest.raises(EnvError, match=r"CartPol-v1.*CartPole-v1"):
        RLRuntime(spec, settings).train()
    assert ledger.runs() == []  # a wrong request is no run


def test_an_environment_that_cannot_be_built_fails_the_run(settings, ledger):
    spec = tiny(env={"class": "gymnasium", "kwargs": {"id": "CartPole-v1", "kwargs": {"nothing": 1}}})
    with pytest.raises(EnvError, match="does not take its kwargs"):
        RLRuntime(spec, settings).train()
    assert ledger.runs()[0].status == "failed"


@pytest.mark.parametrize("agent", ["ppo", "random", "dqn"])
@pytest.mark.parametrize("what", ["reward", "observation"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_fails_the_run_and_is_named(settings, ledger, monkeypatch, agent, what, value):
    from alphaswarm_rl.envs.batched_cartpole import BatchedCartPole

    original, calls = BatchedCartPole.step, 0

    def poisoned(self, actions):
        nonlocal calls
        calls += 1
        observation, rewards, *rest = original(self, actions)
        if calls > 20:
            (rewards if what == "reward" else observation)[1] = value
        return observation, rewards, *rest

    monkeypatch.setattr(BatchedCartPole, "step", poisoned)
    kwargs = {"dqn": {"learning_starts": 5, "net_arch": [8]}, "ppo": {"n_steps": 32, "net_arch": [8]}, "random": {}}[
        agent
    ]
    with pytest.raises(EnvError, match=rf"environment's {what}.*environment 1 .*vector step 20"):
        RLRuntime(tiny(agent={"class": agent, "kwargs": kwargs}), settings).train()
    assert ledger.runs()[0].status == "failed"


def test_an_evaluation_of_nan_rewards_ends(settings, monkeypatch):
    from alphaswarm_rl.envs.batched_cartpole import BatchedCartPole

    original = BatchedCartPole.step

    def poisoned(self, actions):
        observation, rewards, *rest = original(self, actions)
        return observation, rewards * float("nan"), *rest

    monkeypatch.setattr(BatchedCartPole, "step", poisoned)
    with pytest.raises(EnvError, match="NaN"):
        RLRuntime(tiny(agent={"class": "random"}), settings).evaluate()


def test_an_environment_that_exits_fails_the_run(settings, ledger, monkeypatch):
    from alphaswarm_rl.envs.batched_cartpole import BatchedCartPole

    monkeypatch.setattr(BatchedCartPole, "step", lambda self, actions: sys.exit(0))
    with pytest.raises(RunFailed, match="SystemExit"):
        RLRuntime(tiny(), settings).train()
    assert ledger.runs()[0].status == "failed"


def test_threads_wait_for_each_other_and_repeat_themselves(settings):
    from concurrent.futures import ThreadPoolExecutor

    alone = RLRuntime(tiny(), settings).train().checkpoint_sha256
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda _: RLRuntime(tiny(), settings).train().checkpoint_sha256, range(3)))
    assert together == [alone] * 3


def test_a_picture_that_cannot_be_drawn_is_refused_before_training(settings, ledger):
    with pytest.raises(EnvError, match="draws none"):
        RLRuntime(tiny(evaluation={"render": True}), settings).train()
    assert "train.step" not in stages(ledger, ledger.runs()[0].id)


def test_more_transitions_than_asked_for_are_said(train):
    assert train(training={"total_timesteps": 100}).notices == [
        "trained 28 transitions more than 100: rollouts and vector steps are whole"
    ]
    assert train(training={"total_timesteps": 128}).notices == []


def test_the_last_model_competes_for_the_best_too(train, ledger):
    result = train(training={"eval_during_training": True, "eval_freq": 300})
    validated = [row.timesteps for row in ledger.evaluations(result.run_id) if row.phase == "validation"]
    assert validated == [384, 512]


def test_a_spec_may_be_plain_data(settings):
    assert RLRuntime(tiny().as_data(), settings).spec.spec_hash == tiny().spec_hash
    with pytest.raises(SpecError, match="not a mapping"):
        RLRuntime(None, settings)


def test_dates_for_an_environment_without_dates_are_refused(settings):
    with pytest.raises(SpecError, match="has no dates"):
        RLRuntime(tiny(evaluation={"start": "2020-01-01"}), settings).train()


def test_a_part_that_is_not_there_is_refused_before_anything_is_written(settings):
    with pytest.raises(PartNotHere):
        RLRuntime(tiny(extras={"a": 1}), settings)
    assert not settings.home.exists()


def test_nothing_starts_while_the_kill_switch_is_engaged(settings, ledger):
    ledger.engage("*", "fire drill", "tester")
    with pytest.raises(RunError, match="fire drill"):
        RLRuntime(tiny(), settings).train()
    assert ledger.runs() == []


def test_names_and_notes_are_stored_and_shown(train, ledger):
    result = train(
        name="Shown", description="What it is", annotations=["note"], universe={"metadata": {"source": "nowhere"}}
    )
    version = ledger.version(result.version_id)
    (stored,) = ledger.specs()
    assert (stored.name, stored.slug, stored.description, stored.annotations) == (
        "Shown",
        "shown",
        "What it is",
        ["note"],
    )
    assert version.payload["universe"]["metadata"] == {"source": "nowhere"}


def test_errors_carry_the_run_they_belong_to(settings, ledger):
    with pytest.raises(AlphaSwarmError) as caught:
        RLRuntime(tiny(evaluation={"render": True}), settings).train()
    assert caught.value.__notes__ == [ledger.runs()[0].id]


def test_without_settings_the_environment_says_where_state_goes(tmp_path, monkeypatch):
    monkeypatch.setenv("ALPHASWARM_RL_HOME", str(tmp_path / "from_env"))
    result = RLRuntime(tiny()).train()
    assert Path(result.checkpoint).is_relative_to(tmp_path / "from_env")

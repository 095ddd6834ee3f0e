"""A run that is trained further: `rl train --continue RUN`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alphaswarm_rl import RLExperimentSpec, RLRuntime, Settings
from alphaswarm_rl.core.errors import AlphaSwarmError, RunError
from alphaswarm_rl.inference.checkpoints import load_checkpoint
from alphaswarm_rl.lake.catalog import Lake, of_run
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.models import ModelRegistry
from alphaswarm_rl.operations.lake import verify_tables
from alphaswarm_rl.operations.operation import NamedRuns

QUICK = {"n_steps": 16, "batch_size": 32, "n_epochs": 2, "net_arch": [8]}
AGENTS: dict[str, dict[str, Any]] = {
    "ppo_inhouse": QUICK,
    "a2c_inhouse": {"n_steps": 16, "net_arch": [8]},
    "ddqn_inhouse": {"learning_starts": 64, "net_arch": [8]},
}
ENVS: dict[str, dict[str, Any]] = {
    "cartpole": {"env": {"class": "cartpole"}, "obs": {"normalize": "running"}},
    "trading": {
        "env": {"class": "stock_trading", "kwargs": {"fill": "next_close", "episode_bars": 20}},
        "data_pipeline": {
            "class": "synthetic",
            "kwargs": {"n_assets": 2, "n_bars": 200, "features": ["macd"], "seed": 1, "scaler": "zscore"},
        },
    },
}


def trained(settings: Settings, total: int, n_envs: int = 4, **changes: Any) -> Any:
    agent = changes.pop("agent", "ppo_inhouse")
    kwargs = {**AGENTS.get(agent, {}), **changes.pop("kwargs", {})}
    data = {
        "name": "Longer",
        **ENVS["cartpole"],
        "agent": {"class": agent, "kwargs": kwargs},
        "evaluation": {"episodes": 2},
        "training": {"total_timesteps": total, "n_envs": n_envs, "seed": 5, **changes.pop("training", {})},
    }
    return RLRuntime(RLExperimentSpec.from_data({**data, **changes}), settings).train()


def continued(settings: Settings, run: str, total: int) -> Any:
    return RLRuntime.from_run(run, settings).train_further(total)


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize(
    ("env", "totals", "n_envs"),
    [
        ("cartpole", (256, 512), 4),  # whole rollouts
        ("cartpole", (200, 333), 4),  # a rollout that the first total cut short, and one that the second cuts
        ("cartpole", (100, 130, 400), 3),  # twice, where steps do not fit the totals either
        ("trading", (150, 300), 2),
    ],
)
def test_a_training_that_goes_on_is_one_long_training_bit_for_bit(
    tmp_path: Path, agent: str, env: str, totals: tuple[int, ...], n_envs: int
) -> None:
    if (env, agent) == ("trading", "ddqn_inhouse"):
        changes = {**ENVS[env], "action": {"class": "discrete_buy_sell_hold"}}
        changes["data_pipeline"] = {
            "class": "synthetic",
            "kwargs": {"n_assets": 1, "n_bars": 200, "features": ["macd"]},
        }
    else:
        changes = ENVS[env]
    parts, whole = Settings(home=tmp_path / "parts"), Settings(home=tmp_path / "whole")
    run = trained(parts, totals[0], n_envs, agent=agent, **changes)
    first = run.checkpoint_sha256
    for total in totals[1:]:
        run = continued(parts, run.run_id, total)
    at_once = trained(whole, totals[-1], n_envs, agent=agent, **changes)
    assert run.status == "completed"
    assert run.checkpoint_sha256 == at_once.checkpoint_sha256 != first
    assert run.metrics["mean_reward"] == at_once.metrics["mean_reward"]
    assert run.spec_hash == at_once.spec_hash


def test_it_has_a_row_and_a_version_of_its_own_and_the_parent_stays(settings: Settings) -> None:
    first = trained(settings, 200)
    before = load_checkpoint(Path(first.checkpoint))
    second = continued(settings, first.run_id, 400)
    with Ledger.open(settings) as ledger:
        parent, child = ledger.run(first.run_id), ledger.run(second.run_id)
        versions = [ledger.version(row.version_id) for row in (parent, child)]
        assert [row.id for row in ledger.children(parent.id)] == [child.id]
        episodes = {row.id: ledger.episodes(row.id) for row in (parent, child)}
        events = ledger.events(child.id)
    assert (parent.timesteps, parent.total_timesteps, parent.status) == (200, 200, "completed")
    assert (child.timesteps, child.total_timesteps, child.resume) == (400, 400, "exact")
    assert (child.parent_run_id, child.seed) == (parent.id, 5)
    sha256 = first.checkpoint_sha256
    assert child.arguments == {"continues": {"run": parent.id, "step": 200, "sha256": sha256}}
    assert child.notices == [f"continues run {parent.id} from step 200; resume: exact"]
    assert [version.payload["training"]["total_timesteps"] for version in versions] == [200, 400]
    assert versions[1].notes == f"continues run {parent.id}"
    assert [version.version for version in versions] == [1, 2]
    # Episodes are counted on, each in the run that finished it.
    numbers = [row.last_episode for row in episodes[parent.id]], [row.episode for row in episodes[child.id]]
    assert min(numbers[1]) == max(numbers[0]) + 1
    built = next(event.payload for event in events if event.stage == "agent.built")
    assert (built["continues"], built["continued_at"]) == (parent.id, 200)
    # What it began with is as it was.
    assert load_checkpoint(Path(first.checkpoint)).checkpoint == before.checkpoint
    with ModelRegistry.open(settings) as registry:
        assert len(registry.list()) == 2


def test_every_step_is_recorded_once_in_the_run_that_made_it(settings: Settings) -> None:
    first = trained(settings, 200)
    second = continued(settings, first.run_id, 333)
    with Lake(settings) as lake:
        table = lake.table("trajectories")
        steps = {
            run: table.scan(row_filter=of_run(run)).to_pandas().query("phase == 'train'")
            for run in (first.run_id, second.run_id)
        }
    assert [len(each) for each in steps.values()] == [200, 136]
    both = [set(zip(each["env_idx"], each["episode"], each["step"], strict=True)) for each in steps.values()]
    assert not both[0] & both[1]
    assert verify_tables(settings, NamedRuns()).ok


def test_what_is_stopped_on_its_way_is_resumed_exactly(settings: Settings) -> None:
    first = trained(settings, 200, training={"eval_during_training": True, "eval_freq": 150})
    whole = continued(settings, first.run_id, 520)
    often = Settings(home=settings.home, store={"checkpoint_freq": 64})

    def stop(event: Any) -> str | None:
        return "enough" if event.stage == "train.checkpoint" else None

    runtime = RLRuntime.from_run(first.run_id, often)
    object.__setattr__(runtime._setup, "stop_when", stop)
    halted = runtime.train_further(520)
    assert halted.status == "halted"
    resumed = RLRuntime.from_run(halted.run_id, often).resume()
    assert resumed.checkpoint_sha256 == whole.checkpoint_sha256
    # What was due before it went on belongs to the first run: nothing is made up for.
    with Ledger.open(settings) as ledger:
        judged = [[(row.phase, row.timesteps, row.mean_reward) for row in ledger.evaluations(each.run_id)]
                  for each in (whole, resumed)]  # fmt: skip
        best = [ledger.run(each.run_id).best_reward for each in (whole, resumed)]
    assert judged[0] == judged[1]
    assert best[0] == best[1]


def test_a_halted_run_can_be_trained_further_too(settings: Settings) -> None:
    often = Settings(home=settings.home, store={"checkpoint_freq": 64})

    def stop(event: Any) -> str | None:
        return "enough" if event.stage == "train.checkpoint" else None

    spec = RLExperimentSpec.from_data(
        {
            "name": "Longer",
            **ENVS["cartpole"],
            "agent": {"class": "ppo_inhouse", "kwargs": QUICK},
            "evaluation": {"episodes": 2},
            "training": {"total_timesteps": 200, "n_envs": 4, "seed": 5},
        }
    )
    halted = RLRuntime(spec, often, stop_when=stop).train()
    assert halted.status == "halted"
    longer = continued(settings, halted.run_id, 400)
    assert longer.checkpoint_sha256 == trained(settings, 400).checkpoint_sha256


@pytest.mark.parametrize(
    ("agent", "kwargs", "named"),
    [
        ("ppo_inhouse", {"lr_schedule": "linear"}, "lr_schedule"),
        ("ppo_inhouse", {"lr_schedule": "linear", "clip_schedule": "linear"}, "lr_schedule, clip_schedule"),
        ("ppo", {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "lr_schedule": "linear"}, "lr_schedule"),
        ("dqn", {"learning_starts": 16}, "exploration_fraction"),
    ],
)
def test_schedules_run_on_over_the_new_total_and_a_notice_says_so(
    settings: Settings, agent: str, kwargs: dict[str, Any], named: str
) -> None:
    first = trained(settings, 256, agent=agent, kwargs=kwargs)
    second = continued(settings, first.run_id, 512)
    with Ledger.open(settings) as ledger:
        notices = ledger.run(second.run_id).notices
        rates = [
            event.payload["metrics"].get("train/learning_rate")
            for event in ledger.events(second.run_id)
            if event.stage == "train.step"
        ]
    expected = (
        f"{named} of the agent run over the whole training: from step 256 on over 512 transitions, before over 256"
    )
    assert any(notice.startswith(expected) for notice in notices)
    if agent == "ppo_inhouse":
        # The last rollout of 64 begins when 448 of 512 are done.
        assert rates[-1] == pytest.approx(3e-4 * (1 - 448 / 512))


def test_an_agent_that_resumes_approximately_goes_on_and_says_so(settings: Settings) -> None:
    kwargs = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "net_arch": [8]}
    first = trained(settings, 256, agent="ppo", kwargs=kwargs)
    second = continued(settings, first.run_id, 512)
    with Ledger.open(settings) as ledger:
        row = ledger.run(second.run_id)
    assert (row.timesteps, row.resume) == (512, "approximate")
    assert row.notices[0].endswith("resume: approximate (episodes start fresh)")
    counters = load_checkpoint(Path(second.checkpoint)).states["learner"].data["counters"]
    assert counters["num_timesteps"] == 512


def test_an_environment_that_cannot_be_put_back_keeps_what_the_last_rollout_taught(settings: Settings) -> None:
    env = {"class": "gymnasium", "kwargs": {"id": "Acrobot-v1"}}
    first = trained(settings, 200, env=env)
    second = continued(settings, first.run_id, 400)
    with Ledger.open(settings) as ledger:
        row = ledger.run(second.run_id)
    assert row.resume == "approximate"
    states = [load_checkpoint(Path(each.checkpoint)).states["learner"].data for each in (first, second)]
    # 64 of 200 transitions are a rollout of 16 steps: 3 whole ones and a short one, then 3 whole ones and a short one.
    assert [state["timesteps"] for state in states] == [200, 400]
    assert states[1]["gradient_steps"] > states[0]["gradient_steps"]


def test_a_checkpoint_of_before_rollouts_were_kept_says_that_its_last_one_was_short(settings: Settings) -> None:
    first = trained(settings, 200)
    loaded = load_checkpoint(Path(first.checkpoint))
    state = loaded.states["learner"]
    older = {name for name in state.arrays if name.startswith("before_cut")}
    assert older
    assert "before_cut" in state.data
    for name in older:
        del state.arrays[name]
    del state.data["before_cut"]
    from alphaswarm_rl.runtime import continuing

    choose = continuing.Resumed.choose

    def without(*args: Any) -> Any:
        chosen = choose(*args)
        object.__setattr__(chosen, "loaded", loaded)
        return chosen

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(continuing.Resumed, "choose", without)
        second = continued(settings, first.run_id, 400)
    with Ledger.open(settings) as ledger:
        assert any("was cut short by its total and learnt from" in each for each in ledger.run(second.run_id).notices)


def test_a_run_whose_rollouts_were_all_whole_keeps_none(settings: Settings) -> None:
    state = load_checkpoint(Path(trained(settings, 256).checkpoint)).states["learner"]
    assert "before_cut" not in state.data
    assert not any(name.startswith("before_cut") for name in state.arrays)


def test_what_cannot_go_on_is_refused_and_leaves_no_row(settings: Settings, tmp_path: Path) -> None:
    first = trained(settings, 200)
    evaluated = RLRuntime.from_run(first.run_id, settings).evaluate()
    for run, total, why in (
        (first.run_id, 200, "it has been trained for 200 transitions, and 200 are no more"),
        (first.run_id, 199, "199 are no more than that. Give more: --total-timesteps 400"),
        (evaluated.run_id, 400, "it is a run of 'evaluate'"),
    ):
        with pytest.raises(RunError, match=why):
            continued(settings, run, total)
    with pytest.raises(RunError, match="it was not made from a run"):
        RLRuntime("cartpole_ppo", settings).train_further(10)
    Path(first.checkpoint, "checkpoint.json").write_text("{}")
    with pytest.raises(AlphaSwarmError, match="none of its 1 checkpoints is intact"):
        continued(settings, first.run_id, 400)
    with Ledger.open(settings) as ledger:
        assert len(ledger.runs()) == 2


def test_data_that_changed_are_refused(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", data={"root": str(tmp_path)})
    days = np.arange("2020-01-01", "2020-12-01", dtype="datetime64[D]")
    closes = 100 + np.sin(np.arange(len(days)))

    def write(values: np.ndarray) -> None:
        lines = ["timestamp,symbol,close", *(f"{day},KO,{value}" for day, value in zip(days, values, strict=True))]
        (tmp_path / "bars.csv").write_text("\n".join(lines))

    write(closes)
    first = trained(
        settings,
        64,
        env={"class": "stock_trading", "kwargs": {"fill": "next_close", "episode_bars": 20}},
        data_pipeline={"class": "csv", "kwargs": {"path": "bars.csv", "features": ["macd"]}},
    )
    write(closes + 1)
    with pytest.raises(RunError, match=f"its data have changed.*--init-from {first.run_id}"):
        continued(settings, first.run_id, 128)
    write(closes)
    assert continued(settings, first.run_id, 128).status == "completed"

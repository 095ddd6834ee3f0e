"""What a run leaves in the six tables, and how settings and flags change it."""

import duckdb
import gymnasium
import numpy as np
import pytest

from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.tables import KINDS
from alphaswarm_rl.lake.verify import verify
from alphaswarm_rl.lake.views import ensure_duckdb_views, register_run_views
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.runtime import RLRuntime, evaluate
from alphaswarm_rl.settings import LedgerSettings, RecordSettings, Settings, StoreSettings, TrajectorySettings
from tests.cli.calling import RANDOM, call
from tests.lake.killing import rows_of
from tests.runtime.conftest import tiny
from tests.runtime.test_resume import HaltAt, halted_run
from tests.runtime.test_trading import trading

RANDOM_AGENT = {"agent": {"class": "random"}}
CARTPOLE = tiny(**RANDOM_AGENT, training={"total_timesteps": 3000})
#: The variables of the tables, each with a value that is not its default, and the flag that says the same.
VARIABLES = {
    "ALPHASWARM_RL_TRAJECTORY_NAMESPACE": ("--trajectory-namespace", "lab"),
    "ALPHASWARM_RL_TRAJECTORY_TABLE": ("--trajectory-table", "paths"),
    "ALPHASWARM_RL_EQUITY_TABLE": ("--equity-table", "money"),
    "ALPHASWARM_RL_ACTION_LOG_TABLE": ("--action-log-table", "deeds"),
    "ALPHASWARM_RL_REWARD_DECOMP_TABLE": ("--reward-decomp-table", "terms"),
    "ALPHASWARM_RL_POSITIONS_TABLE": ("--positions-table", "held"),
    "ALPHASWARM_RL_FILLS_TABLE": ("--fills-table", "trades"),
    "ALPHASWARM_RL_PERSIST_TRAJECTORIES": ("--persist-trajectories", "true"),
    "ALPHASWARM_RL_TRAJECTORY_FLUSH_ROWS": ("--trajectory-flush-rows", "17"),
    "ALPHASWARM_RL_REQUIRE_ICEBERG": ("--require-iceberg", "true"),
}
NAMES = {"trajectories": "lab.paths", "equity_curves": "lab.money", "action_logs": "lab.deeds"}
NAMES |= {"reward_decomposition": "lab.terms", "positions": "lab.held", "fills": "lab.trades"}


def with_record(settings, **record):
    return settings.model_copy(update={"record": RecordSettings(**record)})


def frames(settings, run_id):
    """A run's rows as pandas frames, by kind."""
    with Lake(settings) as lake:
        return {kind: rows.to_pandas() for kind, rows in rows_of(lake, run_id).items()}


# -- what is in the tables -------------------------------------------------------------------------------------------


def test_cartpole_has_steps_and_actions_and_neither_money_nor_terms(settings, ledger):
    result = RLRuntime(CARTPOLE, settings).train()
    found = frames(settings, result.run_id)
    assert found["equity_curves"].empty
    assert found["reward_decomposition"].empty
    steps = found["trajectories"]
    assert len(steps[steps.phase == "train"]) == result.timesteps
    assert len(found["action_logs"]) == len(steps)
    assert steps.ts.isna().all()
    judged = steps[steps.phase == "evaluate"]
    returns = ledger.evaluations(result.run_id)[-1].metrics["returns"]
    assert judged.groupby("episode").reward.sum().tolist() == pytest.approx(returns)
    assert ledger.run(result.run_id).recording["rows"] == {"trajectories": len(steps), "action_logs": len(steps)}


def test_a_trading_run_has_one_equity_row_per_step_and_contributions_that_sum_to_the_reward(settings, ledger):
    result = RLRuntime(trading(training={"eval_during_training": True}), settings).train()
    with duckdb.connect() as connection:
        names = register_run_views(result.run_id, connection, settings)
        matched = f"""
            SELECT count(*), count(e.portfolio_value), count(e.cash), count(e.ts)
            FROM {names["trajectories"]} t FULL JOIN {names["equity_curves"]} e USING (phase, env_idx, episode, step)
        """
        steps, *values = connection.execute(matched).fetchone()
        assert values == [steps] * 3
        wrong = f"""
            SELECT count(*) FROM (
                SELECT phase, env_idx, episode, step, sum(contribution) AS total
                FROM {names["reward_decomposition"]} GROUP BY ALL
            ) FULL JOIN {names["trajectories"]} USING (phase, env_idx, episode, step)
            WHERE total IS NULL OR reward IS NULL OR abs(total - reward) > 1e-9
        """
        assert connection.execute(wrong).fetchone() == (0,)
        phases = f"SELECT DISTINCT phase FROM {names['trajectories']} ORDER BY 1"
        assert connection.execute(phases).fetchall() == [("evaluate",), ("train",), ("validation",)]
        last = (
            f"SELECT portfolio_value FROM {names['equity_curves']} WHERE phase = 'evaluate' ORDER BY step DESC LIMIT 1"
        )
        (value,) = connection.execute(last).fetchone()
    assert value == pytest.approx(ledger.evaluations(result.run_id)[-1].metrics["final_value"])


def test_the_view_of_a_spec_has_training_and_replay(settings):
    trained = RLRuntime(trading(), settings).train()
    replayed = RLRuntime.from_run(trained.run_id, settings).replay()
    with duckdb.connect() as connection:
        ensure_duckdb_views(connection, settings)
        query = f'SELECT DISTINCT run_id, phase FROM alphaswarm_silver_rl_trajectories."{trained.spec_hash}" ORDER BY 2'
        assert connection.execute(query).fetchall() == [
            (trained.run_id, "evaluate"),
            (replayed.run_id, "replay"),
            (trained.run_id, "train"),
        ]


def test_every_validation_is_recorded_the_last_one_too(settings, ledger):
    # The last validation comes after the last checkpoint: no interval ends with the training.
    spec = tiny(**RANDOM_AGENT, training={"total_timesteps": 1200, "eval_during_training": True, "eval_freq": 1000})
    result = RLRuntime(spec, settings).train()
    judged = [row for row in ledger.evaluations(result.run_id) if row.phase == "validation"]
    steps = frames(settings, result.run_id)["trajectories"]
    steps = steps[steps.phase == "validation"]
    returns = [value for row in judged for value in row.metrics["returns"]]
    assert steps.groupby("episode").reward.sum().tolist() == pytest.approx(returns)


def test_values_and_log_probabilities_are_those_of_the_agent(settings):
    result = RLRuntime(tiny(), settings).train()
    steps = frames(settings, result.run_id)["trajectories"]
    trained = steps[steps.phase == "train"]
    assert trained.value.notna().all()
    assert (trained.log_prob < 0).all()
    assert steps[steps.phase == "evaluate"].value.isna().all()


@pytest.mark.parametrize("agent", [{}, RANDOM_AGENT], ids=["ppo", "random"])
def test_a_halted_run_that_goes_on_has_every_step_once(settings, ledger, agent):
    spec = tiny(**agent, training={"total_timesteps": 6000})
    stopped = halted_run(spec, settings)
    resumed = RLRuntime.from_run(stopped.run_id, settings).resume()
    assert resumed.status == "completed"
    with Lake(settings) as lake:
        assert verify(lake, ledger, [resumed.run_id]) == []
    found = frames(settings, resumed.run_id)
    steps = found["trajectories"]
    assert len(steps[steps.phase == "train"]) == resumed.timesteps
    row = ledger.run(resumed.run_id)
    assert row.recording["rows"]["trajectories"] == len(steps)
    assert row.recording["rows"]["action_logs"] == len(found["action_logs"])


def test_a_rollout_that_a_halt_came_into_leaves_no_trace(settings, ledger):
    # The halt is seen some hundred steps after the boundary: episodes end in the rollout that is dropped.
    spec = tiny(agent_kwargs={"n_steps": 512, "batch_size": 512}, training={"total_timesteps": 5000})
    slowly = settings.model_copy(update={"ledger": LedgerSettings(halt_poll_seconds=0.05)})
    stopped = RLRuntime(spec, slowly, sinks=[HaltAt(settings, count=1)]).train()
    assert (stopped.status, stopped.timesteps) == ("halted", 2048)
    ledger.release(stopped.run_id, "go on", "test")
    resumed = RLRuntime.from_run(stopped.run_id, settings).resume()
    with Lake(settings) as lake:
        assert verify(lake, ledger, [resumed.run_id]) == []
    steps = frames(settings, resumed.run_id)["trajectories"]
    trained = steps[steps.phase == "train"]
    assert len(trained) == resumed.timesteps
    ended = trained[trained.terminated | trained.truncated]
    assert sum(row.count for row in ledger.episodes(resumed.run_id, phase="train")) == len(ended)


def test_a_validation_that_a_halt_cut_short_is_made_once_more(settings, ledger, monkeypatch):
    training_spec = {"total_timesteps": 5000, "eval_during_training": True, "eval_freq": 1024, "n_envs": 4}
    spec = tiny(**RANDOM_AGENT, training=training_spec, evaluation={"episodes": 4})
    whole = RLRuntime(spec, settings).train()
    real, calls = evaluate.evaluate_learner, []

    def cut_short(*args, halt, **more):
        calls.append(halt)
        left = iter(range(5))

        class Halting:
            def should_halt(self):
                if len(calls) == 2 and next(left, None) is None:
                    halt.request("cut short")
                return halt.should_halt()

        return real(*args, halt=Halting(), **more)

    monkeypatch.setattr(evaluate, "evaluate_learner", cut_short)
    stopped = RLRuntime(spec, settings).train()
    assert stopped.status == "halted"
    resumed = RLRuntime.from_run(stopped.run_id, settings).resume()
    with Lake(settings) as lake:
        assert verify(lake, ledger, [resumed.run_id]) == []
    expected, found = (
        frames(settings, result.run_id)["trajectories"].sort_values(["phase", "env_idx", "episode", "step"])
        for result in (whole, resumed)
    )
    for name in ("phase", "env_idx", "episode", "step", "obs_hash", "reward"):
        np.testing.assert_array_equal(found[name], expected[name])


def test_a_halted_run_is_not_compacted_because_a_resume_drops_whole_files(settings, ledger):
    stopped = halted_run(tiny(**RANDOM_AGENT, training={"total_timesteps": 6000}), settings)
    refused = call("lake", "compact", stopped.run_id, "--home", str(settings.home))
    assert refused.code != 0


def test_a_run_is_not_resumed_where_its_steps_cannot_be_found(settings):
    stopped = halted_run(tiny(**RANDOM_AGENT, training={"total_timesteps": 6000}), settings)
    renamed = settings.model_copy(update={"trajectory": TrajectorySettings(table="elsewhere")})
    forgotten = settings.model_copy(update={"trajectory": TrajectorySettings(persist=False)})
    for other in (renamed, forgotten):
        with pytest.raises(RunError, match="settings that it was recorded with"):
            RLRuntime.from_run(stopped.run_id, other).resume()
    assert RLRuntime.from_run(stopped.run_id, settings).resume().status == "completed"


def test_six_tables_need_six_names():
    with pytest.raises(ValueError, match="six names"):
        TrajectorySettings(equity_table="trajectories")
    with pytest.raises(ValueError, match="pattern"):
        TrajectorySettings(table="../elsewhere")


class Telling(gymnasium.Env):
    """An environment of somebody else that tells of an account, of terms, and other things."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        terms = {"gain": 1.0, "fee": -0.25}
        info = {"portfolio_value": 100.0 + self.steps, "reward_terms": terms, "odd": {1: float("nan"), (2, 3): "x"}}
        return np.full(2, self.steps / 10, np.float32), 0.75, self.steps == 5, False, info


def test_an_environment_of_somebody_else_fills_what_it_has(settings, ledger):
    gymnasium.register("Telling-v0", entry_point=Telling)
    env = {"env": {"class": "gymnasium", "kwargs": {"id": "Telling-v0"}}}
    result = RLRuntime(tiny(**RANDOM_AGENT, **env, training={"total_timesteps": 400}), settings).train()
    found = frames(settings, result.run_id)
    steps, money, terms = (found[kind] for kind in ("trajectories", "equity_curves", "reward_decomposition"))
    assert len(money) == len(steps)
    assert len(terms) == 2 * len(steps)
    assert (money.portfolio_value == 101.0 + money.step).all()
    assert money.cash.isna().all()
    assert set(steps["info"]) == {'{"odd": {"(2, 3)": "x", "1": null}}'}
    with Lake(settings) as lake:
        assert verify(lake, ledger, [result.run_id]) == []


# -- how much is recorded --------------------------------------------------------------------------------------------


def whole_episodes(steps):
    """(environment, episode) of the episodes that are there from their first step to their last."""
    by_episode = steps.groupby(["env_idx", "episode"]).agg({"step": ["min", "max", "size"], "terminated": "any"})
    assert (by_episode["step", "min"] == 0).all()
    assert (by_episode["step", "max"] + 1 == by_episode["step", "size"]).all()
    return set(by_episode.index)


def test_a_sample_has_whole_episodes_the_same_after_a_resume_and_the_rate_is_told(settings, ledger, tmp_path):
    spec = tiny(**RANDOM_AGENT, training={"total_timesteps": 8000, "log_interval": 1})
    everything = frames(settings, RLRuntime(spec, settings).train().run_id)["trajectories"]
    sampling = with_record(settings, train="sample:5").model_copy(update={"store": StoreSettings(checkpoint_freq=512)})
    sampled = RLRuntime(spec, sampling).train()
    steps = frames(settings, sampled.run_id)["trajectories"]
    trained = steps[steps.phase == "train"]
    kept = whole_episodes(trained)
    known = everything[everything.phase == "train"]
    all_of_them = set(zip(known.env_idx, known.episode, strict=True))
    assert 0.1 < len(kept) / len(all_of_them) < 0.3
    chosen = known[[key in kept for key in zip(known.env_idx, known.episode, strict=True)]]
    assert np.array_equal(trained.obs_hash, chosen.obs_hash)
    # The evaluation is recorded in full.
    assert len(steps[steps.phase == "evaluate"]) == len(everything[everything.phase == "evaluate"])
    recording = ledger.run(sampled.run_id).recording
    assert (recording["train"], recording["rate"], recording["sampled_from"]) == ("sample:5", 0.2, 0)
    stopped = halted_run(spec, sampling, count=4)
    resumed = RLRuntime.from_run(stopped.run_id, sampling).resume()
    again = frames(settings, resumed.run_id)["trajectories"]
    assert again.equals(steps)
    with Lake(sampling) as lake:
        assert verify(lake, ledger, [resumed.run_id, sampled.run_id]) == []


def test_beyond_the_limit_one_episode_in_a_hundred_is_recorded(settings, ledger):
    spec = tiny(**RANDOM_AGENT, training={"total_timesteps": 40_000})
    limited = with_record(settings, max_rows=4000)
    result = RLRuntime(spec, limited).train()
    steps = frames(settings, result.run_id)["trajectories"]
    trained = steps[steps.phase == "train"]
    episodes = whole_episodes(trained)
    assert 4000 <= len(trained) < 6000
    recording = ledger.run(result.run_id).recording
    assert (recording["train"], recording["rate"], recording["sampled_from"]) == ("all", 0.01, 4000)
    # All that begin before the limit are there.
    for index in range(4):
        numbers = sorted(episode for env, episode in episodes if env == index)
        assert numbers[:30] == list(range(30))
    with Lake(limited) as lake:
        assert verify(lake, ledger, [result.run_id]) == []


def test_a_run_below_the_limit_is_recorded_in_full(settings, ledger):
    result = RLRuntime(CARTPOLE, settings).train()
    recording = ledger.run(result.run_id).recording
    assert (recording["rate"], recording["sampled_from"]) == (1.0, None)


def test_training_that_is_not_recorded_is_judged_all_the_same(settings, ledger):
    result = RLRuntime(CARTPOLE, with_record(settings, train="off")).train()
    steps = frames(settings, result.run_id)["trajectories"]
    assert set(steps.phase) == {"evaluate"}
    recording = ledger.run(result.run_id).recording
    assert (recording["train"], recording["rate"]) == ("off", 0.0)


def test_without_persistence_memory_is_used_and_no_file_is_left(settings, ledger):
    forgetful = settings.model_copy(update={"trajectory": TrajectorySettings(persist=False)})
    result = RLRuntime(CARTPOLE, forgetful).train()
    assert result.status == "completed"
    assert not settings.lake_path.exists()
    assert not (settings.home / "trajectories").exists()
    recording = ledger.run(result.run_id).recording
    assert recording["store"] == "memory"
    assert recording["rows"]["trajectories"] > 3000


def test_the_store_of_the_spec_is_used(settings, ledger):
    spec = tiny(**RANDOM_AGENT, trajectory_store={"class": "parquet"})
    result = RLRuntime(spec, settings).train()
    assert ledger.run(result.run_id).recording["store"] == "parquet"
    assert not (settings.lake_path / "catalog.db").exists()
    with Lake(settings) as lake, duckdb.connect() as connection:
        assert verify(lake, ledger, [result.run_id]) == []
        names = register_run_views(result.run_id, connection, settings)
        trained = f"SELECT count(*) FROM {names['trajectories']} WHERE phase = 'train'"
        assert connection.execute(trained).fetchone() == (result.timesteps,)


# -- names by variables ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["environment", "flags"])
def test_tables_views_refs_and_verification_follow_their_variables(way, tmp_path, monkeypatch):
    home = tmp_path / "home"
    flags = []
    for name, (flag, value) in VARIABLES.items():
        if way == "environment":
            monkeypatch.setenv(name, value)
        else:
            flags += [flag] if value == "true" else [flag, value]
    spec = tmp_path / "spec.yaml"
    spec.write_text(TRADING)
    answer = call("train", spec, *flags, "--json")
    assert answer.code == 0, answer.err
    run_id = answer.json["run_id"]
    settings = Settings(
        home=home,
        trajectory=TrajectorySettings(
            namespace="lab",
            table="paths",
            equity_table="money",
            action_log_table="deeds",
            reward_decomp_table="terms",
            positions_table="held",
            fills_table="trades",
        ),
    )
    with Lake(settings) as lake, Ledger.open(settings) as ledger, duckdb.connect() as connection:
        assert {kind: lake.identifier(kind) for kind in KINDS} == NAMES
        names = ("deeds", "held", "money", "paths", "terms", "trades")
        assert lake.catalog.list_tables("lab") == [("lab", name) for name in names]
        found = rows_of(lake, run_id)
        assert all(rows.num_rows for rows in found.values())
        refs = {f"{ref.iceberg_namespace}.{ref.iceberg_table}" for ref in ledger.refs(run_id)}
        assert refs == set(NAMES.values())
        assert verify(lake, ledger) == []
        ensure_duckdb_views(connection, settings)
        for kind, rows in found.items():
            assert connection.execute(f"SELECT count(*) FROM rl_{kind}").fetchone() == (rows.num_rows,)
        # A damage there is seen: verification looks at these tables.
        ledger.drop_refs(run_id)
        assert verify(lake, ledger) != []
    assert call("lake", "verify", *flags[:10]).code == 1


TRADING = """\
name: eight
env: {class: stock_trading, kwargs: {fill: next_close, episode_bars: 20}}
data_pipeline: {class: synthetic, kwargs: {n_assets: 2, n_bars: 300, features: [macd], seed: 1}}
agent: {class: random}
training: {total_timesteps: 200, n_envs: 2, end: "2020-08-03"}
evaluation: {start: "2020-08-03", end: "2020-11-02", episodes: 1}
"""


def test_flush_rows_change_neither_rows_nor_files(settings):
    few = settings.model_copy(update={"trajectory": TrajectorySettings(flush_rows=7)})
    with Lake(settings) as lake:
        one, other = (RLRuntime(CARTPOLE, each).train().run_id for each in (settings, few))
        assert rows_of(lake, one) == rows_of(lake, other)
        for kind in KINDS:
            identifier = lake.identifier(kind)
            assert len(lake.files(identifier, one)) == len(lake.files(identifier, other))


def test_no_persistence_by_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("ALPHASWARM_RL_PERSIST_TRAJECTORIES", "false")
    spec = tmp_path / "spec.yaml"
    spec.write_text(RANDOM)
    assert call("train", spec).code == 0
    assert not (tmp_path / "home" / "lake").exists()

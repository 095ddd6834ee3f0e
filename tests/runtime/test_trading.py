"""A spec of a trading environment trains, is judged, replayed and resumed on market data."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from alphaswarm_rl.core.contracts import State
from alphaswarm_rl.core.errors import CheckpointError, DataError, RunError, SpecError
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.data_pipelines.files import CsvPipeline
from alphaswarm_rl.data_pipelines.synthetic import SyntheticPipeline
from alphaswarm_rl.inference.builder import Builder
from alphaswarm_rl.inference.checkpoints import load_checkpoint
from alphaswarm_rl.inference.policy_server import PolicyServer
from alphaswarm_rl.observations.technical_indicators import TechnicalIndicators
from alphaswarm_rl.recording.episodes import EpisodeTracker
from alphaswarm_rl.runtime import RLRuntime, RunFailed
from alphaswarm_rl.settings import DataSettings
from alphaswarm_rl.spec import RLExperimentSpec
from tests.runtime.test_resume import halted_run

BARS = {"n_assets": 2, "n_bars": 300, "features": ["macd"], "scaler": "zscore", "seed": 1}
PPO = {"class": "ppo", "kwargs": {"n_steps": 16, "batch_size": 32, "n_epochs": 1, "net_arch": [8]}}
TRAINING_END = "2020-08-03"
LATER = Window("2020-11-02", "2021-01-01")


def trading(**changes):
    """A tiny trading spec; sections are merged, `bars` and `env_kwargs` go into pipeline and environment."""
    pipeline = {"class": "synthetic", "kwargs": {**BARS, **changes.pop("bars", {})}}
    env = {"fill": "next_close", "episode_bars": 20, **changes.pop("env_kwargs", {})}
    data = {
        "name": "Trading",
        "env": {"class": "stock_trading", "kwargs": env},
        "data_pipeline": changes.pop("data_pipeline", pipeline),
        "agent": PPO,
        "training": {"total_timesteps": 128, "n_envs": 4, "log_interval": 1, "end": TRAINING_END},
        "evaluation": {"start": TRAINING_END, "end": "2020-11-02"},
    }
    for key, value in changes.items():
        data[key] = {**data[key], **value} if key in ("training", "evaluation") else value
    return RLExperimentSpec.from_data(data)


def builder(spec, **arguments):
    return Builder(spec, seed=3, device="cpu", **arguments)


def returns(ledger, result):
    return ledger.evaluations(result.run_id)[-1].metrics["returns"]


# -- train, evaluate, replay, resume --------------------------------------------------------------------------------


def test_a_trained_policy_replays_on_other_dates_under_its_own_version(settings, ledger):
    trained = RLRuntime(trading(), settings).train()
    runtime = RLRuntime.from_run(trained.run_id, settings)
    first, second, same_dates = runtime.replay(LATER), runtime.replay(LATER), runtime.evaluate()
    assert first.run_id != second.run_id
    for result in (first, second, same_dates):
        assert (result.parent_run_id, result.version_id) == (trained.run_id, trained.version_id)
        assert result.checkpoint_sha256 == trained.checkpoint_sha256
    assert returns(ledger, first) == returns(ledger, second)
    assert same_dates.metrics == trained.metrics
    prints = [ledger.run(result.run_id).data_fingerprint for result in (trained, first, second, same_dates)]
    assert prints[1] == prints[2]
    assert len(set(prints)) == 3  # training, the replay's and the evaluation's dates
    assert (first.metrics["in_sample"], trained.metrics["in_sample"]) == (False, False)


@pytest.mark.parametrize("obs", [{}, {"normalize": "running", "stack_frames": 2}], ids=["plain", "preprocessed"])
def test_a_resumed_run_ends_in_the_same_bytes(settings, ledger, obs):
    spec = trading(agent={"class": "random"}, training={"total_timesteps": 20_000, "n_envs": 8}, obs=obs)
    whole = RLRuntime(spec, settings).train()
    stopped = halted_run(spec, settings)
    assert stopped.timesteps < 20_000
    resumed = RLRuntime.from_run(stopped.run_id, settings).resume()
    assert resumed.timesteps == whole.timesteps == 20_000
    assert resumed.checkpoint_sha256 == whole.checkpoint_sha256
    assert ledger.run(resumed.run_id).resume == "exact"
    assert resumed.metrics == whole.metrics


def test_a_run_that_broke_off_goes_on_from_its_last_checkpoint_to_the_same_bytes(settings):
    spec = trading(agent={"class": "random"}, training={"total_timesteps": 16_384, "n_envs": 8})
    often = settings.model_copy(update={"store": settings.store.model_copy(update={"checkpoint_freq": 8192})})
    whole = RLRuntime(spec, often).train()

    def break_off(event):
        if event.stage == "train.step" and event.payload["timesteps"] > 10_000:
            raise ConnectionError("the power is gone")

    with pytest.raises(RunFailed) as caught:
        RLRuntime(spec, often, sinks=[break_off]).train()
    (run_id,) = caught.value.__notes__
    resumed = RLRuntime.from_run(run_id, often).resume()
    assert any("resumed at step 8192 from failed; resume: exact" in notice for notice in resumed.notices)
    assert resumed.checkpoint_sha256 == whole.checkpoint_sha256
    assert resumed.metrics == whole.metrics


def test_a_scaler_is_fitted_once_in_training_and_then_only_loaded(settings, monkeypatch):
    spec = trading(training={"total_timesteps": 2000})
    stopped = halted_run(spec, settings)
    stored = load_checkpoint(Path(stopped.checkpoint)).states["data"]
    expected = builder(spec).data.fitted
    assert stored.data == expected.data
    assert np.array_equal(stored.arrays["centre"], expected.arrays["centre"])

    def refitted(self, panel):
        raise AssertionError("fitted again")

    monkeypatch.setattr(SyntheticPipeline, "fit", refitted)
    runtime = RLRuntime.from_run(stopped.run_id, settings)
    assert runtime.replay(LATER).status == "completed"
    assert runtime.resume().status == "completed"
    inference = PolicyServer.of_run(settings, run=stopped.run_id)
    assert len(list(inference.roll_out(1))) == 64
    inference.close()


def test_a_policy_that_learns_nothing_is_scaled_by_the_training_window(settings):
    spec = trading(agent={"class": "random"})
    assert RLRuntime(spec, settings).evaluate().metrics["in_sample"] is False
    built = builder(spec)
    centre = built.data.fitted.arrays["centre"][0, 0]
    window = built.data.raw(spec.training.window)
    defined = window.features[window.feature_from[0, 0] :, 0, 0].astype(np.float64)
    assert centre == pytest.approx(defined.mean())


def test_a_checkpoint_without_the_scaler_is_refused():
    with pytest.raises(CheckpointError, match="data pipeline"):
        builder(trading()).restore_data({"learner": State()})


def test_changed_bars_stop_a_resume(settings, monkeypatch):
    stopped = halted_run(trading(training={"total_timesteps": 2000}), settings)
    real = SyntheticPipeline.load
    monkeypatch.setattr(SyntheticPipeline, "load", lambda self, request: replace_close(real(self, request)))
    with pytest.raises(RunError, match="data have changed"):
        RLRuntime.from_run(stopped.run_id, settings).resume()


def replace_close(panel):
    return replace(panel, close=panel.close * 1.01)


# -- where the bars come from ---------------------------------------------------------------------------------------


def table_of(panel):
    shape = (panel.num_bars, panel.num_assets)
    return pd.DataFrame(
        {
            "date": np.repeat(panel.timestamps, panel.num_assets),
            "tic": np.tile(panel.assets, panel.num_bars),
            "close": panel.close.reshape(shape).ravel(),
        }
    )


@pytest.fixture
def table():
    return table_of(builder(trading(bars={"features": []})).data.load((Window(),)))


def test_a_file_is_read_once_however_many_windows_there_are(settings, tmp_path, table, monkeypatch):
    (tmp_path / "bars").mkdir()
    table.to_csv(tmp_path / "bars" / "prices.csv", index=False)
    reads = []
    real = CsvPipeline.load
    monkeypatch.setattr(CsvPipeline, "load", lambda self, request: reads.append(request) or real(self, request))
    spec = trading(
        data_pipeline={"class": "csv", "kwargs": {"path": "bars/prices.csv", "features": ["macd"]}},
        training={
            "eval_during_training": True,
            "eval_freq": 64,
            "end": "2020-07-01",
            "validation_start": "2020-07-01",
            "validation_end": TRAINING_END,
        },
    )
    with_data = settings.model_copy(update={"data": DataSettings(root=tmp_path)})
    trained = RLRuntime(spec, with_data).train()
    assert trained.status == "completed"
    assert len(reads) == 1
    assert RLRuntime.from_run(trained.run_id, with_data).replay(LATER).status == "completed"
    assert len(reads) == 2
    with pytest.raises(DataError, match=r"prices\.csv"):
        RLRuntime(spec, settings).train()  # the working folder has no such file


def test_a_frame_is_handed_in_by_name_and_again_for_a_replay(settings, ledger, table):
    spec = trading(data_pipeline={"class": "frame", "kwargs": {"name": "prices", "features": ["macd"]}})
    trained = RLRuntime(spec, settings, frames={"prices": table}).train()
    runtime = RLRuntime.from_run(trained.run_id, settings, frames={"prices": table})
    assert runtime.replay(LATER).metrics["in_sample"] is False
    with pytest.raises(DataError, match=r"'prices'.*handed in"):
        RLRuntime.from_run(trained.run_id, settings).replay(LATER)
    assert ledger.runs()[0].status == "completed"  # it was refused before there was a row
    with pytest.raises(DataError, match="there are: other"):
        RLRuntime(spec, settings, frames={"other": table}).train()


def test_a_policy_replays_on_bars_that_training_never_had(settings, table):
    spec = trading(data_pipeline={"class": "frame", "kwargs": {"name": "prices", "features": ["macd"]}})
    trained = RLRuntime(spec, settings, frames={"prices": table}).train()
    later = table[table["date"] >= "2020-11-02"]
    replayed = RLRuntime.from_run(trained.run_id, settings, frames={"prices": later}).replay(LATER)
    assert replayed.metrics["in_sample"] is False


def test_frames_that_nothing_takes_are_refused(settings, ledger, table):
    from tests.runtime.conftest import tiny

    with pytest.raises(RunError, match="no data_pipeline"):
        RLRuntime(tiny(), settings, frames={"prices": table}).train()
    assert ledger.runs() == []


def test_the_universe_chooses_and_orders_the_assets():
    spec = trading(universe={"symbols": ["SYN1", "SYN0.NYSE"]})
    assert spec.universe.symbols == ["SYN1", "SYN0.NYSE"]
    assert builder(spec).data.raw(Window()).assets == ("SYN1", "SYN0")


def test_a_symbol_that_is_not_there_fails_the_run(settings, ledger):
    with pytest.raises(DataError, match="no such asset"):
        RLRuntime(trading(universe={"symbols": ["AAPL"]}), settings).train()
    assert ledger.runs()[0].status == "failed"


@pytest.mark.parametrize(
    "section",
    [
        {"training": {"end": None, "start": "2030-01-01"}},
        {"evaluation": {"start": "2030-01-01", "end": "2031-01-01"}},
        {"training": {"eval_during_training": True, "validation_start": "2030-01-01"}},
    ],
    ids=["training", "evaluation", "validation"],
)
def test_a_window_outside_the_data_fails_before_training(settings, ledger, section):
    with pytest.raises(DataError, match="There are bars from 2020-01-01"):
        RLRuntime(trading(**section), settings).train()
    row = ledger.runs()[0]
    assert row.status == "failed"
    assert "train.step" not in [event.stage for event in ledger.events(row.id)]


def test_the_runs_seed_makes_the_bars_where_the_pipeline_has_none(settings, ledger):
    spec = trading(bars={"seed": None}, agent={"class": "random"})
    prints = [ledger.run(RLRuntime(spec, settings).evaluate(seed=seed).run_id).data_fingerprint for seed in (1, 2, 1)]
    assert prints[0] == prints[2] != prints[1]


def test_the_fingerprint_is_of_the_windows_bars_with_warm_up_before_scaling(settings, ledger, monkeypatch):
    monkeypatch.setattr(TechnicalIndicators, "warmup_bars", lambda self: 7)
    spec = trading(agent={"class": "random"})
    result = RLRuntime(spec, settings).evaluate()
    whole = builder(spec).data.load((Window(),))
    expected = whole.window(TRAINING_END, "2020-11-02", warmup_bars=7)
    assert expected.warmup == 7
    assert ledger.run(result.run_id).data_fingerprint == expected.fingerprint
    (loaded,) = [event.payload for event in ledger.events(result.run_id) if event.stage == "data.loaded"]
    assert (loaded["assets"], loaded["bars"], loaded["warmup_bars"]) == (2, expected.num_bars - 7, 7)
    assert loaded["first_bar"] == "2020-08-03T00:00:00"


# -- in-sample ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "training", "overlap"),
    [
        (Window(TRAINING_END), {}, False),
        (Window("2020-07-31"), {}, True),
        (Window(), {}, True),
        (Window(None, "2020-02-01"), {"start": "2020-02-03"}, False),
        # The first bar after a Friday is Monday: a weekend is no bar that both could have.
        (Window("2020-08-01"), {"end": "2020-08-02"}, False),
        (Window("2020-09-01"), {"validation_start": "2020-08-31", "validation_end": "2020-09-02"}, True),
        (Window("2020-09-01"), {"validation_start": "2020-08-31", "validation_end": "2020-09-01"}, False),
        (Window("2020-09-01"), {"eval_during_training": True}, True),
        (Window("2020-09-01"), {"end": None}, True),
    ],
)
def test_in_sample_means_a_bar_of_training_or_validation(window, training, overlap):
    assert builder(trading(training=training)).in_sample(window) is overlap


def test_warm_up_bars_do_not_make_an_evaluation_in_sample(monkeypatch):
    monkeypatch.setattr(TechnicalIndicators, "warmup_bars", lambda self: 30)
    built = builder(trading())
    assert built.data.raw(Window(TRAINING_END)).timestamps[0] < np.datetime64(TRAINING_END)
    assert built.in_sample(Window(TRAINING_END)) is False


def test_an_evaluation_without_a_window_is_in_sample_for_what_was_trained():
    assert builder(trading()).in_sample(Window()) is True
    assert builder(trading(agent={"class": "random"})).in_sample(Window()) is False


# -- composed parts -------------------------------------------------------------------------------------------------


def test_the_specs_parts_replace_the_environments_own():
    spec = trading(
        reward={"class": "drawdown_penalty"},
        observation={"class": "portfolio_state"},
        action={"class": "integer_shares", "kwargs": {"hmax": 3}},
        terminations=[{"class": "drawdown", "kwargs": {"limit": 0.5}}],
    )
    plan = builder(spec).build_env("env", num_envs=1, phase="train", window=Window()).plan
    assert [named.name for named in plan.terms] == ["drawdown_penalty"]
    assert [part.rl_alias for part in plan.builders] == ["portfolio_state"]
    assert plan.action.config.hmax == 3
    assert [part.rl_alias for part in plan.terminations] == ["drawdown"]
    assert "terminations" not in builder(trading()).parts


def test_the_stop_penalty_is_for_training_alone():
    built = builder(trading(training={"stop_properly_penalty_coef": 0.2}))
    for phase, terms in (("train", ["pnl", "stop_properly"]), ("evaluate", ["pnl"])):
        plan = built.build_env("env", num_envs=1, phase=phase, window=Window()).plan
        assert [named.name for named in plan.terms] == terms
        assert phase == "evaluate" or plan.terms[-1].term.config.coef == 0.2


@pytest.mark.parametrize(
    "field",
    [
        {"reward": {"class": "pnl"}},
        {"observation": {"class": "portfolio_state"}},
        {"action": {"class": "integer_shares"}},
        {"terminations": [{"class": "drawdown"}]},
        {"data_pipeline": {"class": "synthetic"}},
        {"universe": {"symbols": ["KO"]}},
        {"universe": {"model": {"class": "static", "kwargs": {"symbols": ["KO"]}}}},
        {"training": {"stop_properly_penalty_coef": 0.5}},
    ],
    ids=lambda field: next(iter(field)),
)
def test_a_part_that_the_environment_does_not_take_is_refused(settings, field):
    from tests.runtime.conftest import tiny

    with pytest.raises(SpecError) as caught:
        RLRuntime(tiny(**field), settings)
    assert next(iter(field)) in caught.value.what
    assert "'cartpole'" in caught.value.why


def test_a_trading_environment_without_data_is_refused_with_the_remedy(settings):
    with pytest.raises(SpecError, match=r"stock_trading.*data_pipeline: \{class: synthetic\}"):
        RLRuntime(trading(data_pipeline=None), settings)


def test_a_symbol_with_the_venue_that_was_once_added_finds_its_asset(settings):
    stored = trading(universe={"symbols": ["SYN1.NASDAQ", "SYN0.NASDAQ"]})
    assert stored.universe.symbols == ["SYN1.NASDAQ", "SYN0.NASDAQ"]
    assert builder(stored).data.raw(Window()).assets == ("SYN1", "SYN0")


# -- honesty --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fill", ["same_close", "cheat_on_open", "next_close"])
def test_optimistic_fills_are_said_in_the_row(settings, ledger, fill):
    result = RLRuntime(trading(env_kwargs={"fill": fill}, agent={"class": "random"}), settings).evaluate()
    notices = ledger.run(result.run_id).notices
    assert any(notice.startswith("optimistic_fill") for notice in notices) == (fill != "next_close")


def test_hindsight_is_left_out_of_evaluation_and_the_rows_say_so(settings, ledger):
    notice = "reward terms left out of evaluation: hindsight; the portfolio return is reported instead"
    never_best = (
        "models of this run are never the best: the spec has dates and no validation window, and only scores on that "
        "choose; it is named by training.validation_start and validation_end"
    )
    spec = trading(reward={"class": "hindsight"})
    trained = RLRuntime(spec, settings).train()
    runtime = RLRuntime.from_run(trained.run_id, settings)
    assert ledger.run(trained.run_id).notices == [notice, never_best]
    for result in (runtime.evaluate(), runtime.replay(LATER)):
        assert ledger.run(result.run_id).notices == [notice]
    blind = RLRuntime(trading(reward={"class": "hindsight"}, evaluation={"episodes": 0}), settings).train()
    assert blind.notices == [never_best]


def test_what_is_reported_instead_of_hindsight_is_the_portfolio_return(settings):
    reported, expected = (
        RLRuntime(constant([1.0, 1.0], reward={"class": reward}), settings).evaluate().metrics
        for reward in ("hindsight", "portfolio_return")
    )
    assert reported == expected
    assert reported["mean_reward"] != 0


def test_of_several_terms_those_without_hindsight_are_paid():
    terms = [{"class": "pnl"}, {"class": "hindsight"}]
    built = builder(trading(reward={"class": "composite", "kwargs": {"terms": terms}}))
    assert built.notices(judges=True) == ["reward terms left out of evaluation: hindsight"]
    for phase, paid in (("train", {"pnl", "hindsight"}), ("evaluate", {"pnl"})):
        plan = built.build_env("env", num_envs=1, phase=phase, window=Window()).plan
        assert {named.name for named in plan.terms} == paid


def test_a_column_made_with_hindsight_is_refused_at_train(settings, ledger):
    spec = trading(bars={"model": "oracle"})
    with pytest.raises(SpecError, match=r"next_return.*episodes: 0"):
        RLRuntime(spec, settings).train()
    row = ledger.runs()[0]
    assert row.status == "failed"
    assert "train.step" not in [event.stage for event in ledger.events(row.id)]


def test_an_observation_made_with_hindsight_is_refused_at_train(settings, monkeypatch):
    monkeypatch.setattr(TechnicalIndicators, "training_only", True)
    with pytest.raises(SpecError, match="technical_indicators"):
        RLRuntime(trading(), settings).train()


def test_without_an_evaluation_hindsight_may_train_and_is_not_judged(settings, ledger):
    spec = trading(bars={"model": "oracle"}, evaluation={"episodes": 0})
    trained = RLRuntime(spec, settings).train()
    assert (trained.status, trained.metrics) == ("completed", {})
    assert ledger.evaluations(trained.run_id) == []
    runtime = RLRuntime.from_run(trained.run_id, settings)
    with pytest.raises(SpecError, match="hindsight"):
        runtime.evaluate(episodes=1)


def test_a_spec_without_evaluation_is_judged_by_the_episodes_that_are_asked_for(settings, ledger):
    trained = RLRuntime(trading(evaluation={"episodes": 0}), settings).train()
    runtime = RLRuntime.from_run(trained.run_id, settings)
    for verb in (runtime.evaluate, runtime.replay):
        with pytest.raises(RunError, match="--episodes"):
            verb()
    assert len(ledger.runs()) == 1
    assert runtime.replay(LATER, episodes=2).metrics["episodes"] == 2


# -- portfolio metrics ----------------------------------------------------------------------------------------------


def constant(value, **changes):
    return trading(agent={"class": "constant", "kwargs": {"action": value}}, **changes)


def test_the_metrics_are_those_of_the_equity_curve(settings, ledger):
    spec = constant([1.0, 1.0])
    result = RLRuntime(spec, settings).evaluate()
    built = builder(spec)
    env = built.build_env("evaluate", num_envs=1, phase="evaluate", window=spec.evaluation.window)
    env.reset()
    values, turnover, cost = [1e6], [], []
    ended = False
    while not ended:
        _, _, terminated, truncated, infos = env.step(np.ones((1, 2), np.float32))
        values.append(infos["portfolio_value"][0])
        turnover.append(infos["turnover"][0])
        cost.append(infos["cost"][0])
        ended = bool(terminated[0] or truncated[0])
    curve = np.array(values)
    earned = curve[1:] / curve[:-1] - 1
    expected = {
        "total_return": curve[-1] / 1e6 - 1,
        "annual_return": (curve[-1] / 1e6) ** (252 / len(earned)) - 1,
        "sharpe": np.sqrt(252) * earned.mean() / earned.std(ddof=1),
        "sortino": np.sqrt(252) * earned.mean() / np.sqrt((np.minimum(earned, 0) ** 2).mean()),
        "max_drawdown": (curve / np.maximum.accumulate(curve) - 1).min(),
        "volatility": np.sqrt(252) * earned.std(ddof=1),
        "turnover": np.mean(turnover),
        "cost": np.sum(cost) / 1e6,
        "final_value": curve[-1],
    }
    assert expected["turnover"] > 0
    assert {name: result.metrics[name] for name in expected} == pytest.approx(expected)
    row, (evaluation,) = ledger.run(result.run_id), ledger.evaluations(result.run_id)
    (event,) = [event for event in ledger.events(result.run_id) if event.stage == "eval.step"]
    for name in ("sharpe", "max_drawdown", "final_value", "total_return"):
        assert getattr(row, name) == getattr(evaluation, name) == result.metrics[name]
    for name in expected:
        assert row.result_summary[name] == evaluation.metrics[name] == event.payload[name] == result.metrics[name]


def test_the_metrics_are_means_over_episodes_whatever_the_number_of_environments(settings):
    def judged(agent, n_envs, episodes):
        spec = trading(agent=agent, training={"n_envs": n_envs}, evaluation={"deterministic": False})
        return RLRuntime(spec, settings).evaluate(episodes=episodes).metrics

    hold = {"class": "constant", "kwargs": {"action": [1.0, 0.5]}}
    one, many = judged(hold, 1, 1), judged(hold, 2, 5)  # every evaluation episode is the same whole window
    for name in ("total_return", "sharpe", "turnover", "cost", "final_value"):
        assert many[name] == pytest.approx(one[name])
    assert one["total_return"] != 0


@pytest.mark.parametrize("obs", [{"clip_range": 10.0}, {"stack_frames": 3}, {"normalize": "running"}])
def test_the_metrics_do_not_depend_on_how_observations_are_prepared(settings, obs):
    plain, prepared = (
        RLRuntime(constant([1.0, 0.5], **more), settings).evaluate().metrics for more in ({}, {"obs": obs})
    )
    assert prepared == plain
    assert "sharpe" in plain


def test_an_account_that_does_nothing_keeps_its_money(settings):
    metrics = RLRuntime(constant([0.0, 0.0]), settings).evaluate().metrics
    for name in (
        "total_return",
        "annual_return",
        "max_drawdown",
        "volatility",
        "turnover",
        "cost",
    ):
        assert metrics[name] == 0.0
    # What does not exist is null, and the reason stands beside it.
    assert (metrics["sharpe"], metrics["sortino"]) == (None, None)
    assert metrics["undefined"] == {"sharpe": "the returns do not vary", "sortino": "no return is a loss"}
    assert metrics["final_value"] == 1e6


def test_an_environment_without_accounts_has_no_such_metrics(train):
    assert "sharpe" not in train().metrics


def test_training_episodes_keep_the_value_they_ended_with(settings, ledger):
    trained = RLRuntime(constant([0.0, 0.0]), settings).train()
    rows = ledger.episodes(trained.run_id)
    assert rows
    assert {row.portfolio_value for row in rows} == {1e6}


# -- what lies around the environment -------------------------------------------------------------------------------


def test_tracking_and_preprocessing_pass_everything_through():
    spec = trading(obs={"normalize": "running", "clip_range": 5, "stack_frames": 3})
    built = builder(spec)
    wrapped = EpisodeTracker(built.build_env("env", num_envs=2, phase="train", window=Window()))
    plain = builder(trading()).build_env("env", num_envs=2, phase="train", window=Window())
    wrapped.reset()
    plain.reset()
    actions = np.full((2, 2), 0.5, np.float32)
    for _ in range(25):  # over the end of an episode
        *_, ours = wrapped.step(actions)
        *_, theirs = plain.step(actions)
        assert ours.keys() == theirs.keys()
        for name in ("portfolio_value", "nav_return", "turnover", "cost", "timestamp", "improper_stop"):
            assert np.array_equal(ours[name], theirs[name])
        if "_final_obs" in theirs:
            assert np.array_equal(ours["reason"], theirs["reason"])
    saved = wrapped.env.get_state()
    again = [wrapped.step(actions)[0].tolist() for _ in range(5)]
    wrapped.env.set_state(saved)
    assert [wrapped.step(actions)[0].tolist() for _ in range(5)] == again
    assert not hasattr(wrapped, "action_masks")


def test_masks_are_seen_through_the_wrappers(monkeypatch):
    from alphaswarm_rl.actions.integer_shares import IntegerShares

    monkeypatch.setattr(IntegerShares, "mask", lambda self, view, state: np.ones((view.n, 3), np.bool_))
    spec = trading(obs={"clip_range": 5})
    env = EpisodeTracker(builder(spec).build_env("env", num_envs=2, phase="train", window=Window()))
    assert env.action_masks().shape == (2, 3)

"""What was held and traded: positions and fills in their tables, and the day that they are asked for."""

import duckdb
import numpy as np
import pandas as pd
import pytest

from alphaswarm_rl.core.errors import OptionError
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.queries import query
from alphaswarm_rl.lake.verify import verify
from alphaswarm_rl.lake.views import register_run_views
from alphaswarm_rl.operations.run_steps import (
    HoldingsQuery,
    StepQuery,
    TradesQuery,
    actions,
    fills,
    holdings,
    positions,
)
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.settings import RecordSettings, Settings
from tests.lake.killing import rows_of
from tests.runtime.conftest import tiny
from tests.runtime.test_trading import trading

RANDOM = {"agent": {"class": "random"}}
SOFTMAX = {"action": {"class": "softmax_weights"}, **RANDOM}
#: A Monday inside the evaluation window, and the Sunday before it.
DAY, SUNDAY = "2020-09-07", "2020-09-06"
#: What did it hold that day, why, and at what cost? In one statement.
STATEMENT = """
    SELECT p.symbol, p.quantity, p.value, p.weight, p.stages, p.targets, a.action_value, f.reasons, coalesce(f.cost, 0)
    FROM rl_positions p
    LEFT JOIN (
        SELECT run_id, phase, env_idx, episode, step, symbol, list(reason) AS reasons,
            sum(commission + spread + impact) AS cost
        FROM rl_fills GROUP BY ALL
    ) f USING (run_id, phase, env_idx, episode, step, symbol)
    LEFT JOIN rl_action_logs a USING (run_id, phase, env_idx, episode, step, symbol)
    WHERE p.run_id = '{run}' AND p.phase = 'evaluate' AND p.episode = 0 AND p.ts::DATE = '{day}'
    ORDER BY p.asset_idx
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("traded") / "home"


@pytest.fixture(scope="module")
def judged(home):
    """A training with validations and an evaluation, recorded as it comes."""
    spec = trading(training={"eval_during_training": True, "eval_freq": 64}, evaluation={"episodes": 2}, **SOFTMAX)
    return RLRuntime(spec, Settings(home=home)).train()


@pytest.fixture(scope="module")
def recorded(home, judged):
    """Its rows as frames, by kind."""
    with Lake(Settings(home=home)) as lake:
        return {kind: rows.to_pandas() for kind, rows in rows_of(lake, judged.run_id).items()}


@pytest.fixture
def settings(home, judged):
    return Settings(home=home)


def test_judged_steps_have_positions_and_fills_and_training_has_none(recorded):
    steps, held, filled = (recorded[kind] for kind in ("trajectories", "positions", "fills"))
    assert set(steps.phase) == {"train", "validation", "evaluate"}
    assert set(held.phase) == set(filled.phase) == {"validation", "evaluate"}
    judged = steps[steps.phase != "train"]
    assert len(held) == 3 * len(judged)
    assert held.symbol.tolist()[:3] == ["CASH", "SYN0", "SYN1"]
    assert held.asset_idx.tolist()[:3] == [-1, 0, 1]
    assert set(filled.reason) == {"action"}
    assert set(filled.side) == {"buy", "sell"}
    assert (filled.quantity > 0).all()


def test_the_account_of_judged_steps_has_costs_and_exposures(recorded):
    curves, held = recorded["equity_curves"], recorded["positions"]
    columns = ["cost", "carry", "turnover", "gross_exposure", "net_exposure"]
    assert curves[curves.phase == "train"][columns].isna().all(axis=None)
    judged = curves[curves.phase == "evaluate"].set_index(["episode", "step"]).sort_index()
    assert judged[columns].notna().all(axis=None)
    assets = held[(held.phase == "evaluate") & (held.asset_idx >= 0)].groupby(["episode", "step"]).value.sum()
    np.testing.assert_allclose(judged.net_exposure, assets / judged.portfolio_value, rtol=1e-12)
    assert (judged.cost > 0).any()


def test_positions_fills_and_equity_add_up(recorded, settings, ledger_of):
    held, curves = recorded["positions"], recorded["equity_curves"]
    key = ["phase", "env_idx", "episode", "step"]
    equity = curves[curves.phase != "train"].set_index(key).portfolio_value.sort_index()
    np.testing.assert_allclose(held.groupby(key).value.sum().sort_index(), equity, rtol=1e-12)
    with Lake(settings) as lake, ledger_of(settings) as ledger:
        assert verify(lake, ledger) == []


@pytest.fixture
def ledger_of():
    from alphaswarm_rl.ledger import Ledger

    return Ledger.open


def test_the_targets_of_weights_leave_the_rest_to_cash(recorded):
    held = recorded["positions"]
    totals = held.assign(target=[target[-1] for target in held.targets]).groupby(["phase", "episode", "step"]).target
    np.testing.assert_allclose(totals.sum(), 1.0, rtol=1e-12)


def test_the_runs_row_says_what_its_numbers_are_about(judged, settings, ledger_of):
    with ledger_of(settings) as ledger:
        recording = ledger.run(judged.run_id).recording
    assert recording["positions"] == "judged"
    assert recording["assets"] == ["SYN0", "SYN1"]
    assert recording["action"] == ["CASH", "SYN0", "SYN1"]
    assert (recording["stages"], recording["targets"]) == (["softmax_weights"], "weights")


def test_components_of_actions_have_symbols(judged, settings):
    shown = actions(settings, StepQuery(judged.run_id, phase="evaluate", episode=0, limit=3))
    assert [row["symbol"] for row in shown.rows] == ["CASH", "SYN0", "SYN1"]


def test_what_was_held_on_a_day_why_and_at_what_cost(judged, settings):
    found = holdings(settings, HoldingsQuery(judged.run_id, asof=DAY))
    assert (found.phase, found.episode, str(found.ts.date())) == ("evaluate", 0, DAY)
    statement = STATEMENT.format(run=judged.run_id, day=DAY)
    rows = query(settings, statement, 10, list).rows
    assert [row[0] for row in rows] == ["CASH", "SYN0", "SYN1"]
    for held, (symbol, quantity, value, weight, stages, targets, action, reasons, cost) in zip(
        found.holdings, rows, strict=True
    ):
        assert (held["symbol"], held["quantity"], held["value"], held["weight"]) == (symbol, quantity, value, weight)
        assert held["targets"] == dict(zip(stages, targets, strict=True))
        assert (held["action"], held["reasons"], held["cost"]) == (action, reasons or [], cost)
    assert found.equity == pytest.approx(sum(held["value"] for held in found.holdings))
    so_far = fills(settings, TradesQuery(judged.run_id, phase="evaluate", episode=0, asof=DAY)).rows
    paid = sum(row["commission"] + row["spread"] + row["impact"] for row in so_far)
    assert sum(held["cost_so_far"] for held in found.holdings) == pytest.approx(paid)


def test_a_day_without_a_bar_is_answered_by_the_bar_before_it(judged, settings):
    found = holdings(settings, HoldingsQuery(judged.run_id, asof=SUNDAY))
    assert str(found.ts.date()) == "2020-09-04"
    moment = holdings(settings, HoldingsQuery(judged.run_id, asof=f"{DAY}T00:00:00"))
    assert str(moment.ts.date()) == DAY
    before = holdings(settings, HoldingsQuery(judged.run_id, asof=f"{SUNDAY}T23:59:59+00:00"))
    assert str(before.ts.date()) == "2020-09-04"


def test_without_a_day_it_is_the_end_of_the_first_episode(judged, settings, recorded):
    found = holdings(settings, HoldingsQuery(judged.run_id))
    curve = recorded["equity_curves"]
    last = curve[(curve.phase == "evaluate") & (curve.episode == 0)].iloc[-1]
    assert (found.phase, found.step) == ("evaluate", last.step)
    assert found.equity == pytest.approx(last.portfolio_value)


def test_a_day_that_the_evaluation_does_not_reach_is_answered_by_a_phase_that_does(judged, settings, recorded):
    after = recorded["positions"][recorded["positions"].phase == "validation"].ts.max()
    found = holdings(settings, HoldingsQuery(judged.run_id, asof=str(after.date())))
    assert (found.phase, found.ts) == ("validation", after)
    none = holdings(settings, HoldingsQuery(judged.run_id, asof="1999-12-31"))
    assert none.holdings == []
    assert "its steps are from 2020-" in none.why_empty


def test_positions_as_of_a_day_are_those_of_each_episode(judged, settings):
    shown = positions(settings, TradesQuery(judged.run_id, phase="evaluate", asof=SUNDAY))
    assert [(row["episode"], str(row["ts"].date())) for row in shown.rows[::3]] == [
        (0, "2020-09-04"),
        (1, "2020-09-04"),
    ]
    made = fills(settings, TradesQuery(judged.run_id, phase="evaluate", asof=SUNDAY)).rows
    assert max(row["ts"] for row in made).date() == pd.Timestamp("2020-09-04").date()


def test_of_many_fills_until_a_day_the_newest_are_shown_in_order(judged, settings, recorded):
    filled = recorded["fills"]
    until = filled[filled.ts < "2020-09-08"].sort_values(["ts", "phase", "env_idx", "episode", "step", "fill_idx"])
    key = ["ts", "phase", "episode", "step", "fill_idx"]
    for count in (1, 3, len(until), len(until) + 1):
        shown = fills(settings, TradesQuery(judged.run_id, asof=DAY, limit=count))
        rows = [[row[name] for name in key] for row in shown.rows]
        assert rows == [list(row) for row in until[key].tail(count).itertuples(index=False)]
        assert shown.more == (count < len(until))
    assert {str(row["ts"].date()) for row in fills(settings, TradesQuery(judged.run_id, asof=DAY, limit=3)).rows} == {
        DAY
    }


def test_what_is_no_day_is_refused(judged, settings):
    with pytest.raises(OptionError, match="it is not a date"):
        holdings(settings, HoldingsQuery(judged.run_id, asof="yesterday"))


# -- how much is recorded --------------------------------------------------------------------------------------------


def phases_of(run_id, settings):
    """The phases that have positions, and the account's costs."""
    with duckdb.connect() as connection:
        names = register_run_views(run_id, connection, settings)
        held = connection.execute(f"SELECT DISTINCT phase FROM {names['positions']} ORDER BY 1").fetchall()
        curve = f"SELECT DISTINCT phase FROM {names['equity_curves']} WHERE cost IS NOT NULL ORDER BY 1"
        return [phase for (phase,) in held], [phase for (phase,) in connection.execute(curve).fetchall()]


@pytest.mark.parametrize(
    ("mode", "held", "costs"),
    [("all", ["evaluate", "train"], ["evaluate", "train"]), ("none", [], ["evaluate"])],
)
def test_positions_are_recorded_of_all_steps_or_of_none(tmp_path, ledger_of, mode, held, costs):
    settings = Settings(home=tmp_path, record=RecordSettings(positions=mode))
    result = RLRuntime(trading(), settings).train()
    assert phases_of(result.run_id, settings) == (held, costs)
    with Lake(settings) as lake, ledger_of(settings) as ledger:
        assert verify(lake, ledger) == []
    why = holdings(settings, HoldingsQuery(result.run_id)).why_empty
    assert why == ("record.positions is none" if mode == "none" else None)


def test_a_replay_has_positions(judged, settings):
    replayed = RLRuntime.from_run(judged.run_id, settings).replay()
    assert holdings(settings, HoldingsQuery(replayed.run_id)).phase == "replay"


def test_an_environment_without_the_decision_step_has_none(settings):
    result = RLRuntime(tiny(**RANDOM, training={"total_timesteps": 200}), settings).train()
    assert positions(settings, TradesQuery(result.run_id)).why_empty == (
        "the environment has no account on the decision step"
    )


def test_a_run_from_before_there_were_positions_says_so(settings, ledger_of):
    with_none = settings.model_copy(update={"record": RecordSettings(positions="none")})
    result = RLRuntime(trading(**RANDOM), with_none).train()
    with ledger_of(settings) as ledger:
        kept = ledger.run(result.run_id).recording
        of_then = {name: value for name, value in kept.items() if name not in ("positions", "assets", "stages")}
        ledger.update_run(result.run_id, recording=of_then)
    why = "it was recorded before there were positions and fills"
    assert holdings(settings, HoldingsQuery(result.run_id)).why_empty == why
    assert fills(settings, TradesQuery(result.run_id)).why_empty == why

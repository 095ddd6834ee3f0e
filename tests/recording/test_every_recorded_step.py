"""Positions, fills, carry and equity of every recorded step add up, over random specs of trading."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from alphaswarm_rl import make_env
from alphaswarm_rl.lake.row_checks import flaws
from alphaswarm_rl.lake.segments import fitted
from alphaswarm_rl.lake.tables import KINDS, arrow_schema
from alphaswarm_rl.market.fills import FILL_POLICIES
from alphaswarm_rl.recording.numbering import ALL, Numbering
from alphaswarm_rl.recording.rows import RowKey, TradesPlan, tables_of
from alphaswarm_rl.recording.steps import StepBlock, observation_hashes
from tests.envs.panels import random_panel
from tests.envs.test_trades import BY_WEIGHT, COSTS, MARGIN, SIZINGS, TRADING, WAYS, actions_of

KEY = ["env_idx", "episode", "step"]
ENVS, STEPS = 3, 34


def recorded(env, seed):
    """The rows of some steps, by kind, as they are written; two blocks of them."""
    trades = TradesPlan(env.log_trades(), positions=True)
    numbering = Numbering(np.zeros(ENVS, np.int64), np.zeros(ENVS, np.int64), stride=1, sampling=ALL, vector_steps=0)
    observation, _ = env.reset(seed=seed)
    rng, parts = np.random.default_rng(seed), {kind: [arrow_schema(kind).empty_table()] for kind in KINDS}
    for first in (0, STEPS // 2):
        block = StepBlock(first, STEPS // 2)
        for _ in range(STEPS // 2):
            actions = actions_of(env, rng)
            block.hashes.append(observation_hashes(observation))
            observation, rewards, terminated, truncated, infos = env.step(actions)
            block.actions.append(actions)
            block.add_infos(infos, keep=False)
            for column, values in ((block.terminated, terminated), (block.truncated, truncated)):
                column.append(values)
            block.rewards.append(rewards)
        numbers = numbering.take(np.ascontiguousarray(block.terminated.batched() | block.truncated.batched()))
        rows = tables_of(block, RowKey("r", "s", "evaluate"), numbers, observations=False, trades=trades)
        for kind, table in rows.items():
            parts[kind].append(fitted(table, arrow_schema(kind)))
    return {kind: pa.concat_tables(tables) for kind, tables in parts.items()}


def assert_adds_up(tables):
    """What `rl lake verify` checks, and beside it everything that one step's rows say twice."""
    with duckdb.connect() as connection:
        for kind, table in tables.items():
            connection.register(kind, table)
        assert flaws(connection, every_episode=True) == []
    held, filled, curve = (tables[kind].to_pandas() for kind in ("positions", "fills", "equity_curves"))
    curve = curve.set_index(KEY).sort_index()
    assets, cash = held[held.asset_idx >= 0], held[held.asset_idx < 0].set_index(KEY).sort_index()
    size = np.maximum(np.abs(held.assign(size=held.value.abs()).groupby(KEY)["size"].sum()), 1.0)

    def same(found, expected):
        assert (np.abs(found - expected) <= 1e-9 * size).all()

    same(held.groupby(KEY).value.sum(), curve.portfolio_value)
    same(cash.quantity, curve.cash)
    same(held.groupby(KEY).carry.sum(), curve.carry)
    cost = filled.assign(cost=filled.commission + filled.spread + filled.impact).groupby(KEY).cost.sum()
    same(cost.reindex(curve.index, fill_value=0.0), curve.cost)
    for suffix in ("", "_before"):
        equity = held.groupby(KEY)[f"value{suffix}"].transform("sum")
        alive = equity > 0
        weights = (held[f"value{suffix}"] / equity)[alive]
        np.testing.assert_allclose(held[f"weight{suffix}"][alive], weights, rtol=1e-9, atol=1e-12)
    alive = curve.portfolio_value > 0
    worth = assets.assign(gross=assets.value.abs()).groupby(KEY)[["gross", "value"]].sum()
    for name, column in (("gross_exposure", "gross"), ("net_exposure", "value")):
        np.testing.assert_allclose(curve[name][alive], (worth[column] / curve.portfolio_value)[alive], rtol=1e-9)
        assert curve[name][~alive].isna().all()
    assert_goes_on(held)


def assert_goes_on(held):
    """What an episode holds after a step it holds before the next, at the same price."""
    held = held.sort_values([*KEY, "asset_idx"])
    by_asset = held.groupby(["env_idx", "episode", "asset_idx"])
    for name in ("quantity", "price", "value"):
        before, last = held[f"{name}_before"], by_asset[name].shift()
        inside = last.notna()
        np.testing.assert_allclose(before[inside], last[inside], rtol=1e-12, atol=1e-12)
    begins = held[(held.step == 0) & (held.asset_idx >= 0)]
    assert (begins.quantity_before == 0).all()


def assert_play_adds_up(seed, fill, costs, way, actions, funding, **sizing):
    """Some recorded steps of an environment of that kind add up."""
    action, lends = WAYS[way]
    env = make_env(
        "stock_trading",
        panel=random_panel(seed, actions=actions),
        num_envs=ENVS,
        phase="train",
        fill=fill,
        costs={**costs, "funding_rate": funding} if lends else costs,
        margin=MARGIN if lends else None,
        initial_cash=10_000.0,
        episode_bars=12,
        action=action,
        observation={"class": "portfolio_state"},
        **sizing,
    )
    assert_adds_up(recorded(env, seed))


MARKETS = {
    "seed": st.integers(0, 10_000),
    "fill": st.sampled_from(sorted(FILL_POLICIES)),
    "costs": st.sampled_from(COSTS),
    "actions": st.booleans(),
    "funding": st.sampled_from([0.0, 0.02]),
}


@settings(max_examples=25)
@given(way=st.sampled_from(sorted(WAYS)), **MARKETS)
def test_every_recorded_step_of_every_way_of_trading_adds_up(way, **market):
    assert_play_adds_up(way=way, **market)


@settings(max_examples=15)
@given(way=st.sampled_from(BY_WEIGHT), sizing=st.sampled_from(["at_decision", "lots"]), **MARKETS)
def test_every_recorded_step_with_orders_of_the_decision_adds_up(way, sizing, **market):
    assert_play_adds_up(way=way, **market, **SIZINGS[sizing])


def test_every_recorded_step_of_every_environment_on_the_decision_step_adds_up():
    for alias in TRADING:
        panel = random_panel(7, bars=60, assets=1 if alias == "tradesim_algotrading" else 4, actions=True)
        kwargs = {"lookback": 10} if alias == "stock_portfolio" else {}
        tables = recorded(make_env(alias, panel=panel, num_envs=ENVS, phase="train", **kwargs), 3)
        assert_adds_up(tables)
        assert set(pd.unique(tables["positions"]["symbol"].to_pandas())) == {"CASH", *panel.assets}

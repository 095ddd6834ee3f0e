"""One table says which parts a spec, an environment, a request and a plan have."""

from __future__ import annotations

import dataclasses

import pytest

from alphaswarm_rl.core import catalogue, slots
from alphaswarm_rl.core.kinds import EnvComponent
from alphaswarm_rl.core.refs import reference
from alphaswarm_rl.envs.trading import TradingComponent, TradingConfig
from alphaswarm_rl.envs.trading_plan import TradingPlan
from alphaswarm_rl.spec.experiment import RLExperimentSpec


def kind_of(field):
    """The kind of component that a field of a model refers to."""
    return next(kind for kind in catalogue.kinds() if f"'rl_kind': '{kind}'" in str(field))


@pytest.mark.parametrize("slot", slots.PARTS, ids=lambda slot: slot.name)
def test_a_spec_has_a_field_of_each_slot(slot):
    assert kind_of(RLExperimentSpec.model_fields[slot.name]) == slot.kind


def test_a_spec_has_data_and_a_trading_environment_its_stages():
    assert slots.DATA_PIPELINE in RLExperimentSpec.model_fields
    assert kind_of(TradingConfig.model_fields[slots.PORTFOLIO.name]) == slots.PORTFOLIO.kind


def test_a_trading_environment_takes_dates_data_and_every_slot():
    assert {"window", "data_pipeline", "reward", "observation", "action", "terminations"} == slots.TRADING


def test_environments_take_nothing_else():
    for cls in catalogue.listing("env"):
        assert issubclass(cls, EnvComponent)
        assert cls.takes <= slots.TRADING, cls.rl_alias
        if issubclass(cls, TradingComponent):
            assert cls.takes == slots.TRADING
            assert set(cls.parameters_of) <= {slot.name for slot in slots.PARTS}


def test_a_trading_environment_has_a_part_of_its_own_for_each_slot():
    for cls in catalogue.listing("env"):
        if issubclass(cls, TradingComponent):
            own = cls().defaults()
            assert set(own) == {slot.name for slot in slots.PARTS}
            kinds = {ref.kind for ref in cls().own_parts(frozenset())}
            assert kinds <= {slot.kind for slot in slots.PARTS}


def test_a_plan_holds_what_every_slot_consists_of():
    held = {"reward": "terms", "observation": "builders", "portfolio": "stages"}
    fields = {field.name for field in dataclasses.fields(TradingPlan)}
    assert {held.get(slot.name, slot.name) for slot in (*slots.PARTS, slots.PORTFOLIO)} <= fields


def test_parts_are_built_by_slot_and_what_is_not_given_is_left_out():
    drawdown, horizon = {"class": "drawdown"}, reference({"class": "horizon"}, "termination")
    parts = slots.build_parts({"terminations": [drawdown, horizon], "reward": {"class": "pnl"}, "action": None})
    assert [part.rl_alias for part in parts["terminations"]] == ["drawdown", "horizon"]
    assert parts["reward"].rl_alias == "pnl"
    assert set(parts) == {"terminations", "reward"}
    assert slots.build_parts({"terminations": []}) == {"terminations": ()}

"""The weighted sum."""

import numpy as np
import pytest
import yaml

from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.hashing import canonical_json, plain_fields
from alphaswarm_rl.core.refs import reference, walk_refs
from alphaswarm_rl.envs.making import make_env
from alphaswarm_rl.rewards.composite import Composite
from alphaswarm_rl.rewards.log_return import LogReturn
from alphaswarm_rl.rewards.penalties import CashIdle, DrawdownPenalty
from alphaswarm_rl.rewards.pnl import PnL
from alphaswarm_rl.rewards.stop_properly import StopProperlyWrapper
from tests.rewards.episodes import panel_of

PARTS = (
    CashIdle,
    Composite,
    DrawdownPenalty,
    LogReturn,
    PnL,
    StopProperlyWrapper,
)  # imported, so that references find them


def composite(*terms, **kwargs):
    return {"class": "composite", "kwargs": {"terms": list(terms), **kwargs}}


def terms_of(ref):
    return reference(ref, "reward").build().terms()


def refused(ref):
    with pytest.raises(ComponentError) as caught:
        reference(ref, "reward")
    return str(caught.value)


def test_its_yaml_is_flat():
    text = """
    class: composite
    kwargs:
      terms:
        - {class: pnl, kwargs: {scale: 0.5}, weight: 0.25, name: profit}
        - class: drawdown_penalty
      clip: [-1, 1]
    """
    ref = reference(yaml.safe_load(text), "reward")
    assert ref.kwargs == {
        "terms": [
            {
                "class": "drawdown_penalty",
                "kwargs": {"weight": 1.0, "threshold": 0.0},
                "weight": 1.0,
                "name": "drawdown_penalty",
            },
            {"class": "pnl", "kwargs": {"scale": 0.5}, "weight": 0.25, "name": "profit"},
        ],
        "clip": [-1.0, 1.0],
    }
    assert reference({"class": "composite", "kwargs": ref.kwargs}, "reward") == ref


def test_what_is_written_out_reads_back_as_the_same():
    config = reference(composite({"class": "pnl"}, composite({"class": "cash_idle"})), "reward").resolved[1]
    assert Composite.Config.model_validate(plain_fields(config)) == config


def test_other_spellings_of_a_reference_are_taken():
    wrapped = composite({"spec": {"class": "PnL"}, "weight": 2.0})
    assert reference(wrapped, "reward") == reference(composite({"class": "pnl", "weight": 2.0}), "reward")


def test_its_schema_is_that_of_the_flat_form():
    schema = Composite.Config.model_json_schema(by_alias=True)
    entry = schema["$defs"]["Entry"]
    assert list(entry["properties"]) == ["class", "kwargs", "weight", "name"]
    assert entry["required"] == ["class"]
    assert entry["additionalProperties"] is False
    assert all(field["description"] for field in entry["properties"].values())


def hashed(ref):
    return canonical_json(reference(ref, "reward").canonical_form())


def test_an_inner_parameter_changes_what_is_hashed():
    def with_scale(scale):
        return composite(composite({"class": "pnl", "kwargs": {"scale": scale}}), {"class": "cash_idle"})

    assert hashed(with_scale(1e-4)) != hashed(with_scale(1e-3))


def test_inner_defaults_are_hashed():
    assert '"threshold":0' in hashed(composite({"class": "drawdown_penalty"}))


@pytest.mark.parametrize("change", [{"weight": 2.0}, {"name": "other"}])
def test_weight_and_name_change_what_is_hashed(change):
    assert hashed(composite({"class": "pnl"})) != hashed(composite({"class": "pnl", **change}))


@pytest.mark.parametrize("same", [{"weight": 1}, {"name": "pnl"}, {"name": ""}, {"kwargs": {"scale": 1e-4}}])
def test_writing_a_default_out_changes_nothing(same):
    assert hashed(composite({"class": "pnl"})) == hashed(composite({"class": "pnl", **same}))


def test_the_order_of_terms_changes_nothing():
    terms = [{"class": "pnl"}, {"class": "cash_idle"}, {"class": "log_return"}]
    assert hashed(composite(*terms)) == hashed(composite(*reversed(terms)))
    assert [term.name for term in terms_of(composite(*terms))] == ["cash_idle", "log_return", "pnl"]


def test_inner_references_are_found():
    config = reference(composite({"class": "pnl"}, composite({"class": "cash_idle"})), "reward").resolved[1]
    assert sorted(ref.name for ref in walk_refs(config)) == ["cash_idle", "composite", "pnl"]


def test_a_composite_inside_is_taken_apart():
    inner = {**composite({"class": "pnl", "weight": 3.0}, {"class": "cash_idle"}), "name": "money", "weight": 0.5}
    terms = terms_of(composite(inner, {"class": "pnl"}))
    assert [(term.name, term.weight) for term in terms] == [
        ("money.cash_idle", 0.5),
        ("money.pnl", 1.5),
        ("pnl", 1.0),
    ]


def test_two_terms_of_one_name_are_refused_until_one_is_named():
    twice = [{"class": "pnl"}, {"class": "pnl", "kwargs": {"scale": 1.0}}]
    assert "two terms are called 'pnl'. Give one of them another name" in refused(composite(*twice))
    twice[0]["name"] = "small"
    assert [term.name for term in terms_of(composite(*twice))] == ["pnl", "small"]


def test_mistakes_are_named():
    assert "unknown key 'wieght'. Did you mean 'weight'?" in refused(composite({"class": "pnl", "wieght": 2}))
    assert "Did you mean 'pnl'" in refused(composite({"class": "pnll"}))
    assert "scale" in refused(composite({"class": "pnl", "kwargs": {"scale": -1}}))
    assert "terms" in refused(composite())
    assert "the first number must be below the second" in refused(composite({"class": "pnl"}, clip=[1, 1]))
    inner = composite({"class": "cash_idle"}, clip=[-1, 1])
    assert "only the outermost composite" in refused(composite(inner))
    named = {"class": "pnl", "name": "clip_residual"}
    assert "taken by clip" in refused(composite(named, clip=[-1, 1]))
    assert "a reference is a mapping" in refused({"class": "composite", "kwargs": {"terms": ["pnl"]}})


def test_the_clip_comes_after_ordinary_terms_and_before_those_that_settle():
    stop = {"class": "stop_properly", "name": "a_stop"}
    names = [term.name for term in terms_of(composite(stop, {"class": "pnl"}, clip=[-1, 1]))]
    assert names == ["pnl", "clip_residual", "a_stop"]


def test_in_an_environment_contributions_are_weighted_and_sum_to_the_clipped_reward():
    panel = panel_of([10.0, 10.0, 13.0, 9.0, 9.5])
    reward = composite(
        {"class": "pnl", "kwargs": {"scale": 1.0}, "weight": 0.01}, {"class": "log_return"}, clip=[-2, 1]
    )
    env = make_env("stock_trading", panel=panel, reward=reward, fill="next_close", episode_bars=None)
    env.reset()
    value, rewards = 1_000_000.0, []
    for _ in range(4):
        _, got, _, _, infos = env.step(np.ones((1, 1), np.float32))
        terms = {name: values[0] for name, values in infos["reward_terms"].items()}
        assert list(terms) == ["log_return", "pnl", "clip_residual"]
        assert terms["pnl"] == pytest.approx(0.01 * (infos["portfolio_value"][0] - value))
        assert got[0] == sum(terms.values())
        value = infos["portfolio_value"][0]
        rewards.append(got[0])
    assert rewards[1] == pytest.approx(1.0)
    assert rewards[2] == pytest.approx(-2.0)
    assert max(map(abs, rewards)) <= 2.0

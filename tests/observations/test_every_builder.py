"""What holds for every observation of the market."""

import numpy as np
import pytest

from alphaswarm_rl.arrays.backend_torch import TorchBackend
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.envs.making import make_env
from tests.observations.panels import observed, sample_panel

BUILDERS = [
    ("covariance", {"lookback": 6}),
    ("covariance", {"lookback": 6, "triangle": True, "annualise": False, "scale": 1e4}),
    ("turbulence", {}),
    ("vix", {}),
    ("technical_indicators", {"features": ["ask", "macd"]}),
    ("lookback_stack", {}),
    ("lookback_stack", {"lookback": 3, "features": ["macd"], "price_returns": True}),
    ("lookback_stack", {"lookback": 2, "features": [], "price_returns": True}),
    ("multi_timeframe", {"timeframes": ["2d", "1w"]}),
    ("fundamentals", {"fields": ["bid", "macd"]}),
    ("microstructure", {"lookback": 4}),
    ("next_open", {}),
]
every_builder = pytest.mark.parametrize(("alias", "kwargs"), BUILDERS, ids=lambda value: str(value))


def built(alias, kwargs):
    return build_from_config({"class": alias, "kwargs": kwargs}, kind="observation")


@every_builder
def test_every_value_has_its_name_and_is_finite(alias, kwargs):
    builder, panel = built(alias, kwargs), sample_panel()
    names, shown = builder.names(panel), observed(builder, panel)
    assert len(set(names)) == len(names) == shown.shape[1]
    assert shown.dtype == np.float32
    assert np.isfinite(shown).all()
    assert (shown != 0).any(axis=0).mean() > 0.5


@every_builder
def test_one_environment_alone_sees_what_it_sees_among_others(alias, kwargs):
    builder, panel = built(alias, kwargs), sample_panel()
    first = builder.warmup_bars()
    shown = observed(builder, panel)
    for bar in (first, 20, 39):
        assert observed(builder, panel, [bar])[0].tobytes() == shown[bar - first].tobytes()


@every_builder
@pytest.mark.parametrize("bar", [8, 11, 25, 38])
def test_nothing_after_t_changes_anything_at_t(alias, kwargs, bar):
    builder = built(alias, kwargs)
    before, after = observed(builder, sample_panel()), observed(builder, sample_panel(noise_after=bar))
    # The next open may be known one bar ahead, and nothing further.
    seen = bar + 1 - builder.warmup_bars() - (alias == "next_open")
    assert before[:seen].tobytes() == after[:seen].tobytes()
    assert before[seen:].tobytes() != after[seen:].tobytes()


@every_builder
def test_torch_shows_the_same_as_numpy(alias, kwargs):
    builder, panel = built(alias, kwargs), sample_panel()
    assert observed(builder, panel, backend=TorchBackend("cpu")).tobytes() == observed(builder, panel).tobytes()


@every_builder
def test_a_builder_changes_neither_its_tables_nor_the_panel(alias, kwargs):
    builder, panel = built(alias, kwargs), sample_panel()
    fingerprint, tables = panel.fingerprint, builder.prepare(panel)
    kept = {name: table.copy() for name, table in tables.items()}
    observed(builder, panel)
    assert all(np.array_equal(tables[name], kept[name]) for name in kept)
    assert type(panel).fingerprint.func(panel) == fingerprint


def test_all_of_them_stand_side_by_side_in_an_environment():
    panel = sample_panel()
    parts = [{"class": alias, "kwargs": kwargs} for alias, kwargs in BUILDERS]
    env = make_env(
        "stock_trading",
        panel=panel,
        num_envs=3,
        phase="evaluate",
        fill="cheat_on_open",
        observation={"class": "stacked", "kwargs": {"parts": parts}},
    )
    shown, _ = env.reset(seed=0)
    bar = max(built(alias, kwargs).warmup_bars() for alias, kwargs in BUILDERS)
    expected = np.concatenate([observed(built(alias, kwargs), panel, [bar])[0] for alias, kwargs in BUILDERS])
    np.testing.assert_array_equal(shown, np.tile(expected, (3, 1)))
    assert len(env.feature_names) == len(expected)


def test_the_fill_policy_that_cheats_brings_the_next_open_along():
    panel = sample_panel()
    env = make_env("stock_trading", panel=panel, fill="cheat_on_open", phase="evaluate")
    assert env.feature_names[-3:] == ("next_open:KO", "next_open:PEP", "next_open:XOM")
    shown, _ = env.reset(seed=0)
    assert shown[0, -1] == np.float32(panel.open[1, 2] / panel.close[0, 2] - 1.0)

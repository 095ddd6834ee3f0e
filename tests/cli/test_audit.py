"""`rl audit lookahead` on specs as users have them."""

import json

import pytest

LEAK = '''
import numpy as np
from alphaswarm_rl.core.kinds import ObservationBuilder


class Tomorrow(ObservationBuilder):
    """The next close, which nobody can know."""

    rl_alias = "tomorrow"

    def names(self, panel):
        return tuple(f"next:{asset}" for asset in panel.assets)

    def step(self, view, state, out):
        later = np.minimum(view.bar + 1, len(view.market.close) - 1)
        out[...] = view.market.close[later] / view.close - 1.0
'''
SPEC = """
name: audited
data_pipeline: {class: synthetic, kwargs: {model: %s, n_assets: 2, n_bars: 300, features: [macd, rsi_14]}}
env: {class: %s}
%s
agent: {class: random}
evaluation: {episodes: 0}
"""


@pytest.fixture
def spec(tmp_path):
    def write(model="gbm", env="tradesim_portfolio", more=""):
        path = tmp_path / "audited.yaml"
        path.write_text(SPEC % (model, env, more))
        return path

    return write


def test_an_honest_spec_passes(rl, spec):
    answer = rl("audit", "lookahead", spec())
    assert answer.code == 0
    assert "nothing looks ahead" in answer.out
    assert "observation:lookback_stack" in answer.out


def test_a_leaking_plugin_is_named_with_its_first_column(rl, spec, tmp_path, monkeypatch):
    (tmp_path / "leaking_plugin.py").write_text(LEAK)
    monkeypatch.chdir(tmp_path)
    path = spec(more="observation: {class: tomorrow}")
    answer = rl("audit", "lookahead", path, "--plugin", "leaking_plugin")
    assert answer.code == 1
    assert "tomorrow" in answer.out
    assert "next:" in answer.out
    assert "LEAK" in answer.out
    document = json.loads(rl("audit", "lookahead", path, "--plugin", "leaking_plugin", "--json").out)
    assert document["clean"] is False
    assert document["findings"][0]["component"] == "tomorrow"


def test_a_declared_look_ahead_is_reported_and_passes(rl, spec):
    answer = rl("audit", "lookahead", spec(model="oracle", more="reward: {class: hindsight}"))
    assert answer.code == 0
    assert "next_return" in answer.out
    assert "hindsight" in answer.out
    assert "declared" in answer.out
    assert "LEAK" not in answer.out


def test_it_says_how_far_it_looked(rl, spec):
    assert "looked at 290 bars\n" in rl("audit", "lookahead", spec()).out
    path = spec(more="terminations: [{class: horizon, kwargs: {steps: 50}}]")
    assert "looked at 50 of 290 bars: episodes end there" in rl("audit", "lookahead", path).out
    document = json.loads(rl("audit", "lookahead", path, "--json").out)
    assert (document["bars"], document["window_bars"]) == (50, 290)


def test_episodes_that_end_at_once_are_an_error(rl, spec):
    answer = rl("audit", "lookahead", spec(more="terminations: [{class: horizon, kwargs: {steps: 1}}]"))
    assert answer.code == 2
    assert "end with their first step" in answer.err


def test_a_preset_passes(rl):
    assert rl("audit", "lookahead", "stock_trading_ppo").code == 0


def test_an_environment_without_a_market_is_refused(rl):
    answer = rl("audit", "lookahead", "cartpole_ppo")
    assert answer.code == 2
    assert "no market data" in answer.err

"""It learns: CartPole-v1 is solved with standard hyper-parameters, and one seed gives one result."""

import pytest

from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.spec import load_spec


def returns(settings, result):
    with Ledger.open(settings) as ledger:
        return ledger.evaluations(result.run_id)[-1].metrics["returns"]


def train(settings, seed):
    return RLRuntime(load_spec("cartpole_ppo"), settings).train(seed=seed)


def check_solved(settings, result):
    assert result.metrics["episodes"] == 20
    assert result.metrics["mean_reward"] >= 475, returns(settings, result)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_cartpole_is_solved_for_every_seed_and_repeats_itself(settings, seed):
    first, second = train(settings, seed), train(settings, seed)
    check_solved(settings, first)
    assert returns(settings, first) == returns(settings, second)
    assert first.checkpoint_sha256 == second.checkpoint_sha256

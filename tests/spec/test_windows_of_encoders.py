"""An encoder whose windows would be too short for it is refused with the spec, before anything runs."""

import pytest

from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.spec import RLExperimentSpec, refuse_absent

NATIVE, SB3, DQN = "ppo_inhouse", "ppo", "ddqn_inhouse"


def spec(agent=NATIVE, frames=None, env="cartpole", encoder=None, **kwargs):
    encoder = {"class": "patch_tst", "kwargs": kwargs} if encoder is None else encoder
    return RLExperimentSpec.from_data(
        {
            "name": "x",
            "env": {"class": env},
            "obs": {"stack_frames": frames},
            "agent": {"class": agent, "kwargs": {"encoder": encoder}},
        }
    )


@pytest.mark.parametrize("agent", [NATIVE, SB3, DQN])
@pytest.mark.parametrize(("frames", "steps"), [(None, "1 step are"), (4, "4 steps are"), (15, "15 steps are")])
def test_too_few_frames_are_refused_and_it_says_how_many_are_needed(agent, frames, steps):
    with pytest.raises(ComponentError, match=f"its windows of {steps} shorter than a patch of 16") as refused:
        refuse_absent(spec(agent, frames))
    assert "obs.stack_frames: 16" in refused.value.remedy


@pytest.mark.parametrize("agent", [NATIVE, SB3, DQN])
def test_enough_frames_are_taken(agent):
    refuse_absent(spec(agent, 16))
    refuse_absent(spec(agent, 4, patch=4, stride=2))
    refuse_absent(spec(agent, 4, encoder="transformer"))
    refuse_absent(spec(agent, None, encoder="mlp"))


def test_a_length_of_its_own_goes_before_the_frames():
    with pytest.raises(ComponentError, match="windows of 8 steps"):
        refuse_absent(spec(frames=32, length=8))
    refuse_absent(spec(frames=4, length=32))


@pytest.mark.parametrize("env", ["CartPole-v1", "cartpole"])
def test_ids_of_gymnasium_are_looked_at_too(env):
    with pytest.raises(ComponentError, match="windows of 4 steps"):
        refuse_absent(spec(frames=4, env=env))


def test_where_an_observation_has_steps_of_its_own_frames_say_nothing_of_them(monkeypatch):
    from alphaswarm_rl.core import catalogue

    cartpole = catalogue.get("env", "cartpole")
    for flat in (False, None):
        monkeypatch.setattr(cartpole, "flat_observations", lambda self, flat=flat: flat)
        refuse_absent(spec(frames=4))


def test_a_stored_spec_is_still_read():
    stored = spec(frames=4).as_data()
    assert RLExperimentSpec.from_data(stored, stored=True).spec_hash == spec(frames=4).spec_hash

"""Our own PPO and A2C: repeated and resumed bit for bit, bootstrapped rightly, and learning."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from alphaswarm_rl.agents.native.action_head import ActionHead
from alphaswarm_rl.agents.native.ppo import A2cInhouse, PpoInhouse
from alphaswarm_rl.agents.native.scaling import RunningMoments
from alphaswarm_rl.core.contracts import Advantages, AgentRequest, EnvRequest, RolloutRewards, State
from alphaswarm_rl.core.errors import CheckpointError, EnvError, RunError
from alphaswarm_rl.envs.batched_cartpole import BatchedCartPole
from alphaswarm_rl.envs.making import make_env

AGENTS = {"ppo_inhouse": PpoInhouse, "a2c_inhouse": A2cInhouse}


class Hooks:
    """Counts, and halts after so many vector steps."""

    def __init__(self, halt_after: int | None = None) -> None:
        self.steps = 0
        self.metrics: list[dict[str, float]] = []
        self._halt_after = halt_after

    def boundary(self, metrics: Any) -> None:
        self.metrics.append(dict(metrics))

    def decided(self, values: Any, log_probs: Any) -> None:
        assert values.shape == log_probs.shape

    def should_halt(self) -> bool:
        self.steps += 1
        return self.steps == self._halt_after


def cartpole(seed: int = 3, n: int = 4) -> BatchedCartPole:
    return BatchedCartPole(EnvRequest(num_envs=n, seed=seed))


def built(agent: str, env: Any, seed: int = 5, **kwargs: Any) -> Any:
    kind = AGENTS[agent]
    short = {"n_steps": 16, "batch_size": 32, "n_epochs": 3} if agent == "ppo_inhouse" else {"n_steps": 8}
    return kind(kind.Config(**{**short, **kwargs})).build(AgentRequest.for_env(env=env, seed=seed))


def same(one: State, other: State) -> None:
    assert one.data == other.data
    assert set(one.arrays) == set(other.arrays)
    for name, array in one.arrays.items():
        np.testing.assert_array_equal(array, other.arrays[name], err_msg=name)


@pytest.mark.parametrize("path", ["auto", "torch"])
@pytest.mark.parametrize("agent", AGENTS)
def test_a_training_repeats_itself(agent: str, path: str) -> None:
    states = []
    for _ in range(2):
        env = cartpole()
        learner = built(agent, env, path=path)
        learner.train(env, 320, Hooks())
        states.append(learner.get_state())
    same(*states)


@pytest.mark.parametrize("halt_after", [16, 21, 39])
@pytest.mark.parametrize("path", ["auto", "torch"])
@pytest.mark.parametrize("agent", AGENTS)
def test_a_training_that_was_stopped_anywhere_goes_on_bit_for_bit(agent: str, path: str, halt_after: int) -> None:
    env = cartpole()
    whole = built(agent, env, path=path)
    whole.train(env, 400, Hooks())
    first_env = cartpole()
    first = built(agent, first_env, path=path)
    first.train(first_env, 400, Hooks(halt_after))
    assert first.timesteps == halt_after * 4
    learner_state, env_state = first.get_state(), first_env.get_state()
    second_env = cartpole(seed=77)
    second = built(agent, second_env, seed=99, path=path)
    second.set_state(learner_state)
    second_env.set_state(env_state)
    second.train(second_env, 400, Hooks())
    assert second.timesteps == whole.timesteps == 400
    same(second.get_state(), whole.get_state())
    np.testing.assert_array_equal(second_env.get_state().arrays["physics"], env.get_state().arrays["physics"])


def test_an_environment_that_cannot_go_on_is_begun_anew() -> None:
    env = cartpole()
    learner = built("ppo_inhouse", env)
    learner.train(env, 400, Hooks(21))
    again = built("ppo_inhouse", env)
    again.set_state(learner.get_state())
    stateless = make_env("gymnasium", id="CartPole-v1", num_envs=4)
    again.train(stateless, 400, Hooks())
    assert again.timesteps == 400


def test_a_halt_in_an_environment_that_cannot_go_on_forgets_the_rollout_it_came_into() -> None:
    stateless, hooks = make_env("gymnasium", id="CartPole-v1", num_envs=4), Hooks(21)
    learner = built("ppo_inhouse", stateless)
    learner.train(stateless, 400, hooks)
    assert learner.timesteps == len(hooks.metrics) * learner.rollout_transitions < 21 * 4
    assert not learner.get_state().under("rollout")["rewards"].size


def test_a_training_that_diverges_says_so() -> None:
    env = cartpole()
    learner = built("ppo_inhouse", env)
    learner.net.set_weights({name: np.full_like(array, np.nan) for name, array in learner.net.weights().items()})
    with pytest.raises(RunError, match="not finite"):
        learner.train(env, 400, Hooks())


def test_the_kl_stop_looks_at_the_pass_that_was_made() -> None:
    """The policy moves further with each pass; a mean over all of them would see it late."""

    class Drifting:
        def __init__(self, net: Any) -> None:
            self._net, self._before = net, net.steps

        def __getattr__(self, name: str) -> Any:
            return getattr(self._net, name)

        def learn(self, batch: Any, loss: Any, rate: float, clip_range: float) -> Any:
            found = self._net.learn(batch, loss, rate, clip_range)
            passes = (self._net.steps - self._before - 1) // 2 + 1
            found[3] = 0.005 * passes
            return found

    env, hooks = cartpole(), Hooks()
    learner = built("ppo_inhouse", env, n_steps=16, batch_size=32, n_epochs=10, target_kl=0.02)
    learner.net = Drifting(learner.net)
    learner.train(env, 64, hooks)
    # 1.5 times 0.02 is passed by the seventh pass, of two steps each.
    assert hooks.metrics[0]["train/n_updates"] == 14
    assert hooks.metrics[0]["train/stopped_early"] == 1


def test_the_loss_is_what_is_minimised() -> None:
    env, hooks = cartpole(), Hooks()
    built("ppo_inhouse", env, vf_coef=0.25, ent_coef=0.5).train(env, 64, hooks)
    found = {name.removeprefix("train/"): value for name, value in hooks.metrics[0].items()}
    assert found["loss"] == found["policy_gradient_loss"] + 0.25 * found["value_loss"] - 0.5 * found["entropy"]
    assert 0 < found["entropy"] <= np.log(2)
    assert found["explained_variance"] < 1


def test_numbers_with_one_bound_keep_it() -> None:
    head = ActionHead.of(spaces.Box(np.array([0.0, -np.inf]), np.array([np.inf, 2.0]), dtype=np.float32))
    assert head.to_env(np.array([[-3.0, 5.0], [3.0, -5.0]])).tolist() == [[0.0, 2.0], [3.0, -5.0]]


def test_a_step_that_only_begins_an_episode_is_not_learnt_from() -> None:
    env = SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 2, autoreset_mode=AutoresetMode.NEXT_STEP)
    with pytest.raises(EnvError, match="SAME_STEP"):
        built("ppo_inhouse", env).train(env, 64, Hooks())


def test_a_mask_that_allows_nothing_is_refused() -> None:
    env = cartpole()
    learner = built("ppo_inhouse", env)
    seen, _ = env.reset()
    with pytest.raises(EnvError, match="allows nothing"):
        learner.predict(seen, None, np.ones(4), deterministic=True, masks=np.zeros((4, 2), np.bool_))


def test_a_number_that_hardly_changes_is_not_blown_up() -> None:
    moments = RunningMoments(np.zeros(2))
    moments.update(np.array([[100.0, 0.0], [100.00001, 1.0]]))
    assert moments.deviation[0] > 1e-4
    assert moments.deviation[1] == pytest.approx(0.5)


def test_memory_for_batches_of_many_sizes_is_bounded() -> None:
    learner = built("ppo_inhouse", cartpole())
    for n in range(1, 200):
        learner.net.values(np.zeros((n, 4), np.float32))
    assert len(learner.net._buffers) <= 16


def test_the_last_rollout_ends_where_the_training_does() -> None:
    env = cartpole()
    learner = built("ppo_inhouse", env)
    hooks = Hooks()
    learner.train(env, 70, hooks)
    assert (learner.timesteps, len(hooks.metrics)) == (72, 2)


class Counting(VectorEnv[Any, Any, Any]):
    """Shows its step, pays it, is cut off after three of them in one environment, and terminates in the other."""

    metadata: ClassVar[dict[str, Any]] = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(self) -> None:
        self.num_envs = 2
        self.single_observation_space = spaces.Box(-10, 10, (1,), np.float32)
        self.single_action_space = spaces.Discrete(2)
        self.observation_space = spaces.Box(-10, 10, (2, 1), np.float32)
        self.action_space = spaces.MultiDiscrete([2, 2])
        self.count = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.count = 0
        return np.zeros((2, 1), np.float32), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        self.count += 1
        shown, rewards = np.full((2, 1), self.count, np.float32), np.full(2, float(self.count))
        ended = self.count == 3
        infos: dict[str, Any] = {}
        if ended:
            infos = {"final_obs": shown.copy(), "_final_obs": np.ones(2, np.bool_)}
            shown[:] = 0
            self.count = 0
        return shown, rewards, np.array([False, ended]), np.array([ended, False]), infos


def test_truncated_episodes_are_bootstrapped_from_what_they_showed_last() -> None:
    env = Counting()
    learner = PpoInhouse(
        PpoInhouse.Config(n_steps=4, batch_size=4, net_arch=(), normalize_observation=False, normalize_reward=False)
    ).build(AgentRequest.for_env(env=env, seed=0))
    # The value of what is seen is ten times it.
    learner.net.set_weights(
        {
            "action.weight": np.zeros((2, 1)),
            "action.bias": np.zeros(2),
            "value.weight": np.full((1, 1), 10.0),
            "value.bias": np.zeros(1),
        }
    )
    learner.observation, _ = env.reset()
    rollout = learner._rollout
    learner._collect(env, rollout, 4, Hooks())
    given: list[RolloutRewards] = []

    def compute(rewards: RolloutRewards) -> Advantages:
        given.append(rewards)
        return Advantages(rewards.rewards)

    learner._estimator = SimpleNamespace(uses_values=True, compute=compute)
    learner._learn(rollout, 4, 0.0)
    (seen,) = given
    np.testing.assert_array_equal(seen.rewards, [[1, 1], [2, 2], [3, 3], [1, 1]])
    np.testing.assert_array_equal(seen.values, [[0, 0], [10, 10], [20, 20], [0, 0]])
    # After step 3 the cut-off episode would have gone on at 30; the next episode begins at 0, and is at 1 in the end.
    np.testing.assert_array_equal(seen.next_values[:, 0], [10, 20, 30, 10])
    np.testing.assert_array_equal(seen.truncated[:, 0], [False, False, True, False])
    np.testing.assert_array_equal(seen.terminated[:, 1], [False, False, True, False])


class Recall(VectorEnv[Any, Any, Any]):
    """Shows a sign once, and pays for naming it three steps later."""

    metadata: ClassVar[dict[str, Any]] = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(self, n: int = 16) -> None:
        self.num_envs = n
        self.single_observation_space = spaces.Box(-1, 1, (2,), np.float32)
        self.single_action_space = spaces.Discrete(2)
        self.observation_space = spaces.Box(-1, 1, (n, 2), np.float32)
        self.action_space = spaces.MultiDiscrete([2] * n)
        self._random = np.random.default_rng(0)
        self.step_number, self.signs = 0, np.zeros(n, np.int64)

    def _show(self) -> Any:
        shown = np.zeros((self.num_envs, 2), np.float32)
        shown[:, 0] = 2 * self.signs - 1 if self.step_number == 0 else 0
        shown[:, 1] = self.step_number / 3
        return shown

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.step_number, self.signs = 0, self._random.integers(0, 2, self.num_envs)
        return self._show(), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        last = self.step_number == 3
        rewards = (np.asarray(actions) == self.signs).astype(float) if last else np.zeros(self.num_envs)
        ended = np.full(self.num_envs, last)
        infos: dict[str, Any] = {}
        if last:
            infos = {"final_obs": self._show(), "_final_obs": ended}
            shown, _ = self.reset()
        else:
            self.step_number += 1
            shown = self._show()
        return shown, rewards, ended, np.zeros(self.num_envs, np.bool_), infos


REMEMBERING = {
    "encoder": {"class": "recurrent", "kwargs": {"hidden": 16, "layers": 1, "dropout": 0.0}},
    "embed_dim": 16,
}


def recalled(learner: Any) -> float:
    env = Recall(64)
    seen, _ = env.reset()
    memory, starts, paid = None, np.ones(64, np.bool_), []
    for _ in range(40):
        actions, memory = learner.predict(seen, memory, starts, deterministic=True)
        seen, rewards, starts, _, _ = env.step(actions)
        if starts.all():
            paid.append(rewards.mean())
    return float(np.mean(paid))


def test_a_recurrent_encoder_remembers_from_step_to_step() -> None:
    for kwargs, least, most in ((REMEMBERING, 0.95, 1.0), ({}, 0.3, 0.7)):
        env = Recall()
        config = PpoInhouse.Config(n_steps=32, batch_size=128, n_epochs=4, learning_rate=3e-3, **kwargs)
        learner = PpoInhouse(config).build(AgentRequest.for_env(env=env, seed=0))
        learner.train(env, 20_000, Hooks())
        assert least <= recalled(learner) <= most


@pytest.mark.parametrize("halt_after", [16, 21])
def test_what_is_remembered_goes_on_bit_for_bit(halt_after: int) -> None:
    env = cartpole()
    whole = built("ppo_inhouse", env, **REMEMBERING)
    whole.train(env, 240, Hooks())
    first_env = cartpole()
    first = built("ppo_inhouse", first_env, **REMEMBERING)
    first.train(first_env, 240, Hooks(halt_after))
    second_env = cartpole(seed=77)
    second = built("ppo_inhouse", second_env, seed=99, **REMEMBERING)
    second.set_state(first.get_state())
    second_env.set_state(first_env.get_state())
    second.train(second_env, 240, Hooks())
    same(second.get_state(), whole.get_state())


def test_sequences_are_judged_as_they_were_drawn() -> None:
    """Before the first gradient step, the probabilities of a rollout seen as sequences are those of its steps."""
    env = cartpole()
    learner = built("ppo_inhouse", env, n_epochs=1, learning_rate=1e-12, **REMEMBERING)
    hooks = Hooks()
    learner.train(env, 64 * 4, hooks)
    for metrics in hooks.metrics:
        assert abs(metrics["train/approx_kl"]) < 1e-6


@pytest.mark.parametrize(
    ("id", "kwargs"),
    [("Pendulum-v1", {}), ("FrozenLake-v1", {"is_slippery": False}), ("CliffWalking-v1", {})],
)
def test_any_gymnasium_environment_can_be_trained_in(id: str, kwargs: dict[str, Any]) -> None:  # noqa: A002
    env = (
        make_env("gymnasium", id=id, num_envs=2, kwargs=kwargs) if kwargs else make_env("gymnasium", id=id, num_envs=2)
    )
    learner = built("ppo_inhouse", env)
    hooks = Hooks()
    learner.train(env, 128, hooks)
    assert all(np.isfinite(value) for name, value in hooks.metrics[-1].items() if "variance" not in name)
    seen, _ = env.reset()
    actions, memory = learner.predict(seen, None, np.ones(2, np.bool_), deterministic=True)
    assert memory is None
    assert all(env.single_action_space.contains(action) for action in actions)


def test_illegal_actions_are_never_drawn() -> None:
    class Masked(BatchedCartPole):
        def action_masks(self) -> Any:
            return np.tile([False, True], (self.num_envs, 1))

        def step(self, actions: Any) -> Any:
            assert (np.asarray(actions) == 1).all()
            return super().step(actions)

    env = Masked(EnvRequest(num_envs=4, seed=0))
    learner = built("ppo_inhouse", env)
    learner.train(env, 128, Hooks())
    seen, _ = env.reset()
    actions, _ = learner.predict(seen, None, np.ones(4), deterministic=False, masks=np.tile([True, False], (4, 1)))
    assert (actions == 0).all()


def test_predictions_repeat_themselves_and_leave_training_alone() -> None:
    env = cartpole()
    learner = built("ppo_inhouse", env)
    learner.train(env, 64, Hooks())
    seen, _ = cartpole(8).reset()
    drawn = []
    before = learner.get_state()
    for _ in range(2):
        learner.seed_predictions(4, env)
        drawn.append([learner.predict(seen, None, np.ones(4), deterministic=False)[0] for _ in range(5)])
    np.testing.assert_array_equal(*drawn)
    same(before, learner.get_state())


def test_it_predicts_from_a_state_without_being_trained() -> None:
    env = cartpole()
    learner = built("ppo_inhouse", env)
    learner.train(env, 64, Hooks())
    asked = PpoInhouse(PpoInhouse.Config(n_steps=16)).build(
        AgentRequest.for_env(env=cartpole(n=2), seed=1, training=False)
    )
    asked.set_state(learner.get_state())
    seen, _ = cartpole(8).reset()
    for deterministic in (True, False):
        for each in (learner, asked):
            each.seed_predictions(4, env)
        found = [each.predict(seen, None, np.ones(4), deterministic=deterministic)[0] for each in (learner, asked)]
        np.testing.assert_array_equal(*found)


def test_the_state_of_another_agent_or_form_is_refused() -> None:
    env = cartpole()
    learner = built("ppo_inhouse", env)
    with pytest.raises(CheckpointError, match="a2c_inhouse"):
        learner.set_state(built("a2c_inhouse", env).get_state())
    with pytest.raises(CheckpointError, match="does not fit"):
        learner.set_state(built("ppo_inhouse", env, net_arch=(32,)).get_state())


def test_spaces_that_it_cannot_act_in_are_refused() -> None:
    class Texts(Counting):
        def __init__(self) -> None:
            super().__init__()
            self.single_action_space = spaces.Text(3)  # type: ignore[assignment]

    with pytest.raises(EnvError, match="native agents"):
        built("ppo_inhouse", Texts())


@pytest.mark.parametrize("path", ["auto", pytest.param("torch", marks=pytest.mark.slow)])
def test_ppo_solves_cartpole(path: str) -> None:
    env = cartpole(seed=1, n=8)
    learner = PpoInhouse(PpoInhouse.Config(path=path)).build(AgentRequest.for_env(env=env, seed=1))
    learner.train(env, 100_000, Hooks())
    assert mean_return(learner, lambda: cartpole(seed=100, n=10)) >= 475


def test_a2c_learns_cartpole() -> None:
    env = cartpole(seed=1, n=16)
    learner = A2cInhouse(A2cInhouse.Config(learning_rate=3e-3)).build(AgentRequest.for_env(env=env, seed=1))
    learner.train(env, 150_000, Hooks())
    assert mean_return(learner, lambda: cartpole(seed=100, n=10)) >= 300


def mean_return(learner: Any, make: Callable[[], Any]) -> float:
    env = make()
    seen, _ = env.reset()
    alive, total = np.ones(env.num_envs, bool), np.zeros(env.num_envs)
    while alive.any():
        actions, _ = learner.predict(seen, None, ~alive, deterministic=True)
        seen, rewards, terminated, truncated, _ = env.step(actions)
        total += rewards * alive
        alive &= ~(terminated | truncated)
    return float(total.mean())

"""Proximal policy optimisation (Schulman et al., 2017): its settings, its update and its saved state.

A rollout is T steps of N environments, arrays (T, N, ...). The estimator makes advantages of it; then several passes of
clipped gradient steps over minibatches move the networks. `host_learner` collects rollouts and minibatches in NumPy,
`device_learner` in tensors on the environment's device; all else is here, once for both. A2C is the same with one pass
over one batch and nothing clipped.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from alphaswarm_rl.advantage.estimators import GAEAdvantage
from alphaswarm_rl.advantage.functions import namespace
from alphaswarm_rl.agents.encoders import encoded_shape, encoder_for
from alphaswarm_rl.agents.native.action_head import ActionHead
from alphaswarm_rl.agents.native.actor_critic import (
    APPROX_KL,
    ENTROPY,
    POLICY_LOSS,
    STATISTICS,
    VALUE_LOSS,
    ActorCritic,
    Decisions,
    LossSettings,
    Minibatch,
    NetworkShape,
)
from alphaswarm_rl.agents.native.host_actor_critic import HostActorCritic
from alphaswarm_rl.agents.native.learner import NativeLearner
from alphaswarm_rl.agents.native.ppo import A2cInhouse, NativeOnPolicyConfig, PpoInhouse
from alphaswarm_rl.agents.native.scaling import RewardScale
from alphaswarm_rl.agents.observations import flattening
from alphaswarm_rl.agents.rollouts import refuse_large_batch
from alphaswarm_rl.agents.stepping import is_on_device
from alphaswarm_rl.core.contracts import Advantages, AgentRequest, Learner, RolloutRewards, State, Stateful
from alphaswarm_rl.core.errors import TrainingDiverged
from alphaswarm_rl.core.kinds import BaseAdvantageEstimator
from alphaswarm_rl.core.seeding import derived_seed, generator
from alphaswarm_rl.core.types import BackendArray

#: An update stops when its steps have moved the policy this many times `target_kl`.
_KL_SLACK = 1.5


@dataclass(frozen=True)
class PpoSettings:
    """What PPO and A2C differ in, and the loss they share.

    Attributes:
        n_steps: Steps per environment in one rollout.
        batch_size: Transitions per gradient step.
        n_epochs: Passes over each rollout.
        learning_rate: At the start.
        anneals_rate: Whether it falls in a line to 0.
        anneals_clip: Whether the clip range falls in a line to 0.
        target_kl: Beyond 1.5 times this an update stops; None: never.
        gamma: Discount per step.
        scales_observations: Whether observations are standardised.
        scales_rewards: Whether rewards are.
        estimator: Makes advantages of rewards.
        loss: The loss of one gradient step.
    """

    n_steps: int
    batch_size: int
    n_epochs: int
    learning_rate: float
    anneals_rate: bool
    anneals_clip: bool
    target_kl: float | None
    gamma: float
    scales_observations: bool
    scales_rewards: bool
    estimator: BaseAdvantageEstimator
    loss: LossSettings

    @classmethod
    def of(cls, config: PpoInhouse.Config | A2cInhouse.Config, request: AgentRequest) -> PpoSettings:
        """Those of an agent's parameters; the estimator is that of the request, or GAE.

        A2C is one pass over one batch: the ratio of new to old probabilities is 1 there, so its gradient is the plain
        one.
        """
        ppo = config if isinstance(config, PpoInhouse.Config) else None
        gae = {"gamma": config.gamma, "lam": config.gae_lambda, "normalize": config.normalize_advantage}
        estimator = request.advantage or GAEAdvantage(GAEAdvantage.Config(**gae))
        return cls(
            n_steps=config.n_steps,
            batch_size=ppo.batch_size if ppo else config.n_steps * request.num_envs,
            n_epochs=ppo.n_epochs if ppo else 1,
            learning_rate=config.learning_rate,
            anneals_rate=config.lr_schedule == "linear",
            anneals_clip=ppo is not None and ppo.clip_schedule == "linear",
            target_kl=ppo.target_kl if ppo else None,
            gamma=config.gamma,
            scales_observations=config.normalize_observation and not config.encoder_is_scaled,
            scales_rewards=config.normalize_reward,
            estimator=estimator,
            loss=LossSettings(
                clip_range=ppo.clip_range if ppo else math.inf,
                clip_range_vf=ppo.clip_range_vf if ppo else None,
                clip_vf_form=ppo.clip_vf_form if ppo else "max",
                ent_coef=config.ent_coef,
                # Without values to learn there is no critic.
                vf_coef=config.vf_coef if estimator.uses_values else 0.0,
                max_grad_norm=config.max_grad_norm,
                adam_eps=config.adam_eps,
            ),
        )

    def annealed(self, progress: float) -> tuple[float, float]:
        """Learning rate and clip range when that share of the training is done."""
        left = 1.0 - progress
        rate = self.learning_rate * (left if self.anneals_rate else 1.0)
        return rate, self.loss.clip_range * (left if self.anneals_clip else 1.0)


def build_learner(alias: str, config: PpoInhouse.Config | A2cInhouse.Config, request: AgentRequest) -> Learner:
    """The learner; where the environment is on a device, all of it is."""
    refuse_large_batch(alias, config, request)
    settings = PpoSettings.of(config, request)
    if is_on_device(request.env):
        from alphaswarm_rl.agents.native.device_learner import DevicePpoLearner

        return DevicePpoLearner(alias, config, settings, request)
    from alphaswarm_rl.agents.native.host_learner import HostPpoLearner

    return HostPpoLearner(alias, settings, request, _host_networks(config, request))


def network_shape(config: NativeOnPolicyConfig, request: AgentRequest, inputs: int) -> NetworkShape:
    """The size of the networks, for observations of so many numbers."""
    pi, vf = config.layers
    return NetworkShape(inputs, pi, vf, ActionHead.of(request.action_space), config.activation)


def _host_networks(config: NativeOnPolicyConfig, request: AgentRequest) -> HostActorCritic:
    """Networks for the environment's spaces: by hand in NumPy where they are plain MLPs on a CPU, else in torch."""
    shape = network_shape(config, request, flattening(request.observation_space)[0])
    weights = generator(request.seed, "weights")
    if config.path == "auto" and config.encoder is None and request.device == "cpu":
        from alphaswarm_rl.agents.native.numpy_actor_critic import NumpyActorCritic

        return NumpyActorCritic(shape, weights)
    from alphaswarm_rl.agents.native.torch_actor_critic import TorchActorCritic

    return TorchActorCritic(
        shape,
        weights,
        device=request.device,
        encoder=encoder_for(config, request, carries_state=True),
        encoded_shape=encoded_shape(config, request),
        dropout_seed=derived_seed(request.seed, "dropout"),
    )


@dataclass(kw_only=True)
class Rollout(Decisions):
    """Steps of all environments, time first, (T, N, ...); what is not filled yet holds nothing.

    Attributes:
        final_values: Values of what truncated episodes showed last, (T, N).
        rewards: (T, N).
        terminated: Which episodes terminated in that step, (T, N).
        truncated: Which were cut off there, (T, N).
        filled: Steps so far.
    """

    final_values: BackendArray
    rewards: BackendArray
    terminated: BackendArray
    truncated: BackendArray
    filled: int = 0

    def transitions(self, length: int, observations: BackendArray, found: Advantages) -> Minibatch:
        """The first steps as one batch: step after step, and the environments of a step side by side."""
        batch = Minibatch(
            observations=observations,
            actions=self.actions,
            log_probs=self.log_probs,
            advantages=found.advantages,
            returns=self.values if found.returns is None else found.returns,
            values=self.values,
            masks=self.masks,
        )
        return batch.map(lambda array: array[:length].reshape(-1, *array.shape[2:]))


class PpoLearner(NativeLearner):
    """Learns from each rollout by several passes of clipped steps.

    Args:
        alias: What the agent is called.
        settings: How it learns.
        request: What it is built for.
        net: Its networks.
    """

    #: What standardises observations, where anything does; its state is saved.
    _observation_moments: Stateful | None = None
    _reward_scale: RewardScale | None = None

    def __init__(self, alias: str, settings: PpoSettings, request: AgentRequest, net: ActorCritic) -> None:
        super().__init__(alias)
        self.rollout_transitions = settings.n_steps * request.num_envs
        self.net = net
        self._settings = settings
        self._estimator = settings.estimator
        self._training = request.training
        #: Before the update by a rollout that the total cut short: a longer training goes on filling that rollout.
        self._before_cut: State | None = None
        #: Gradient steps of a loaded policy, which a learner that only predicts has no optimiser for.
        self._loaded_updates = 0

    @property
    def updates(self) -> int | None:
        """Gradient steps that made its policy."""
        return self.net.steps if self._training else self._loaded_updates

    # The update.

    def _estimate(
        self, rollout: Rollout, length: int, values: BackendArray, last_values: BackendArray | None
    ) -> Advantages:
        """The advantages of a rollout.

        Args:
            rollout: The rollout.
            length: How many of its steps count.
            values: Of what was seen at each step, (T, N).
            last_values: Of what is seen after the last, (N,); None: there is no critic.
        """
        terminated, truncated = rollout.terminated[:length], rollout.truncated[:length]
        rewards = rollout.rewards[:length]
        if self._reward_scale is not None:
            rewards = self._reward_scale(rewards, terminated | truncated)
        if last_values is None:
            return self._estimator.compute(RolloutRewards(rewards, terminated, truncated))
        xp = namespace(rewards)
        # The value after a truncated step is that of what the episode showed last.
        after = xp.concatenate([values[1:], last_values[None]])
        next_values = xp.where(truncated, rollout.final_values[:length], after)
        return self._estimator.compute(RolloutRewards(rewards, terminated, truncated, values, next_values))

    def _update(
        self,
        batches: Callable[[], Iterator[Minibatch]],
        totals: BackendArray,
        progress: float,
        extras: Mapping[str, BackendArray | float],
    ) -> dict[str, float]:
        """Passes over a rollout until they are done or the policy moved too far; gives the metrics.

        Args:
            batches: Gives the minibatches of a pass, in a new order at each call.
            totals: Zeros for the sums of the `STATISTICS`.
            progress: Share of the training that was done when the rollout began.
            extras: What else there is to report; of a device it is read once the update is done.
        """
        settings = self._settings
        rate, clip_range = settings.annealed(progress)
        updates, stopped = 0, False
        for _ in range(settings.n_epochs):
            before, done = totals[APPROX_KL] + 0.0, updates
            for batch in batches():
                totals += self.net.learn(batch, settings.loss, rate, clip_range)
                updates += 1
            # By the mean over the pass: one minibatch says little. Only where it is limited, for reading it waits for
            # the device.
            if settings.target_kl is not None:
                moved = float(totals[APPROX_KL] - before) / (updates - done)
                stopped = moved > _KL_SLACK * settings.target_kl
            if stopped:
                break
        means = (totals / updates).tolist()
        steps = self.net.steps
        loss = means[POLICY_LOSS] + settings.loss.vf_coef * means[VALUE_LOSS] - settings.loss.ent_coef * means[ENTROPY]
        more = {"learning_rate": rate, "clip_range": clip_range, "n_updates": steps, "stopped_early": stopped, **extras}
        return _metrics(means, steps, {"loss": loss, **more})

    # State.

    def get_state(self) -> State:
        """Weights, optimiser, statistics, generators, counters, and what training goes on from."""
        first, second, steps = self.net.optimiser()
        more = self._training_state()
        arrays = State(self.net.weights()).prefixed("weights")
        arrays |= State(first).prefixed("adam_first") | State(second).prefixed("adam_second") | more.arrays
        data = {"agent": self._alias, "timesteps": self.timesteps, "gradient_steps": steps, **more.data}
        for name, scale in self._scales().items():
            state = scale.get_state()
            arrays |= state.prefixed(f"scale_{name}")
            data[f"scale_{name}"] = state.data
        if self._before_cut is not None:
            arrays |= self._before_cut.prefixed("before_cut")
            data["before_cut"] = self._before_cut.data
        return State(arrays, data)

    @property
    def waiting(self) -> int:
        """Transitions of the rollout that is not full yet."""
        return 0

    @property
    def is_cut(self) -> bool:
        """Whether it learnt from a rollout that a total cut short, and cannot go back to before."""
        assert self.rollout_transitions is not None
        return self._before_cut is None and (self.timesteps - self.waiting) % self.rollout_transitions != 0

    def _load_policy(self, state: State) -> None:
        measures, measured = self._observation_moments, "scale_observations" in state.data
        if measured != (measures is not None):
            theirs, ours = ("standardised", "plain") if measured else ("plain", "standardised")
            raise ValueError(f"its networks learnt from {theirs} observations, and these from {ours} ones")
        self.net.set_weights(state.under("weights"))
        if measures is not None:
            measures.set_state(state.part("scale_observations"))
        if self._reward_scale is not None and "scale_rewards" in state.data:
            # The value function speaks on this scale; sums of episodes in progress are none of this training.
            self._reward_scale.moments.set_state(state.part("scale_rewards"))

    def _load(self, state: State) -> bool:
        self.net.set_weights(state.under("weights"))
        if self._observation_moments is not None:
            self._observation_moments.set_state(state.part("scale_observations"))
        self.timesteps = int(state.data["timesteps"])
        self._loaded_updates = steps = int(state.data["gradient_steps"])
        if not self._training:
            return False  # what only training needs may be of another device
        self._before_cut = state.part("before_cut") if "before_cut" in state.data else None
        self._load_training_state(state)
        self.net.set_optimiser(state.under("adam_first"), state.under("adam_second"), steps)
        for name, scale in self._scales().items():
            scale.set_state(state.part(f"scale_{name}"))
        return True

    def _scales(self) -> dict[str, Stateful]:
        """What keeps statistics, by the name that a checkpoint has for it."""
        scales = {"observations": self._observation_moments, "rewards": self._reward_scale}
        return {name: scale for name, scale in scales.items() if scale is not None}

    @abstractmethod
    def _training_state(self) -> State:
        """What training needs beside networks and statistics, under names of its own."""

    @abstractmethod
    def _load_training_state(self, state: State) -> None:
        """Continues with that."""


def _metrics(means: Iterable[float], steps: int, more: Mapping[str, BackendArray | float]) -> dict[str, float]:
    """What an update reports; means that are not finite are an error.

    Args:
        means: Of the `STATISTICS` of its gradient steps.
        steps: Gradient steps since the beginning.
        more: What else there is to report.
    """
    statistics = dict(zip(STATISTICS, map(float, means), strict=True))
    if not all(map(math.isfinite, statistics.values())):
        raise TrainingDiverged(
            f"the update after {steps} gradient steps",
            f"its numbers are not finite any more: {statistics}",
            "Lower learning_rate or max_grad_norm, and look for rewards or observations that are not finite.",
        )
    return {f"train/{name}": float(value) for name, value in {**statistics, **more}.items()}

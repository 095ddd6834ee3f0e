"""Proximal policy optimisation (Schulman et al., 2017)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from alphaswarm_rl.advantage.estimators import GAEAdvantage
from alphaswarm_rl.agents.encoders import encoded_shape, encoder_for
from alphaswarm_rl.agents.native.action_head import ActionHead
from alphaswarm_rl.agents.native.actor_critic import ActorCritic, LossSettings, Minibatch
from alphaswarm_rl.agents.native.on_policy_learner import OnPolicyLearner, Rollout
from alphaswarm_rl.agents.native.ppo import NativeOnPolicyConfig
from alphaswarm_rl.agents.observations import flattening
from alphaswarm_rl.agents.stepping import is_on_device
from alphaswarm_rl.core.contracts import Advantages, AgentRequest, Learner
from alphaswarm_rl.core.errors import TrainingDiverged
from alphaswarm_rl.core.kinds import BaseAdvantageEstimator
from alphaswarm_rl.core.seeding import derived_seed, generator

#: An update stops when its steps have moved the policy this many times `target_kl`.
_KL_SLACK = 1.5
#: What a gradient step tells.
STATISTICS = ("policy_gradient_loss", "value_loss", "entropy", "approx_kl", "clip_fraction")


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
    loss: LossSettings

    @classmethod
    def of(cls, config: NativeOnPolicyConfig, estimator: BaseAdvantageEstimator, **more: Any) -> PpoSettings:
        """Those of an agent's parameters; what PPO alone has is in `more`."""
        return cls(
            n_steps=more["n_steps"],
            batch_size=more["batch_size"],
            n_epochs=more["n_epochs"],
            learning_rate=config.learning_rate,
            anneals_rate=config.lr_schedule == "linear",
            anneals_clip=more.get("clip_schedule") == "linear",
            target_kl=more.get("target_kl"),
            gamma=config.gamma,
            scales_observations=config.normalize_observation and not config.encoder_is_scaled,
            scales_rewards=config.normalize_reward,
            loss=LossSettings(
                clip_range=more["clip_range"],
                clip_range_vf=more.get("clip_range_vf"),
                ent_coef=more["ent_coef"],
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

    def is_too_far(self, approx_kl: float) -> bool:
        """Whether an update that moved the policy so far stops."""
        return self.target_kl is not None and approx_kl > _KL_SLACK * self.target_kl


def build_learner(alias: str, config: NativeOnPolicyConfig, request: AgentRequest) -> Learner:
    """The learner of PPO, or of A2C, which has no clip range.

    In A2C the ratio of new to old probabilities is 1 in the first step of a pass, so its gradient is the plain one.
    """
    estimator = _estimator(config, request)
    given = dict(config)
    if "clip_range" not in given:
        given |= {"batch_size": given["n_steps"] * request.num_envs, "n_epochs": 1, "clip_range": math.inf}
    return _build(alias, config, request, estimator, PpoSettings.of(config, estimator, **given))


def _estimator(config: NativeOnPolicyConfig, request: AgentRequest) -> BaseAdvantageEstimator:
    named: BaseAdvantageEstimator | None = request.advantage
    if named is not None:
        return named
    given = {"gamma": config.gamma, "lam": config.gae_lambda, "normalize": config.normalize_advantage}
    return GAEAdvantage(GAEAdvantage.Config(**given))


def _build(
    alias: str,
    config: NativeOnPolicyConfig,
    request: AgentRequest,
    estimator: BaseAdvantageEstimator,
    settings: PpoSettings,
) -> Learner:
    """The learner; where the environment is on a device, all of it is."""
    if is_on_device(request.env):
        from alphaswarm_rl.agents.native.device_learner import DevicePpoLearner

        return DevicePpoLearner(alias, config, settings, request, estimator)
    return PpoLearner(alias, settings, request, build_net(config, request), estimator)


def build_net(config: NativeOnPolicyConfig, request: AgentRequest) -> ActorCritic:
    """Networks for the environment's spaces: by hand in NumPy where they are plain MLPs on a CPU, else in torch."""
    head = ActionHead.of(request.action_space)
    width, _ = flattening(request.observation_space)
    pi, vf = config.layers
    weights = generator(request.seed, "weights")
    if config.path == "auto" and config.encoder is None and request.device == "cpu":
        from alphaswarm_rl.agents.native.mlp_actor_critic import MlpActorCritic

        return MlpActorCritic(width, pi, vf, head, activation=config.activation, generator=weights)
    from alphaswarm_rl.agents.native.torch_actor_critic import TorchActorCritic

    return TorchActorCritic(
        width,
        pi,
        vf,
        head,
        activation=config.activation,
        generator=weights,
        device=request.device,
        encoder=encoder_for(config, request, carries_state=True),
        shape=encoded_shape(config, request),
        dropout_seed=derived_seed(request.seed, "dropout"),
    )


class PpoLearner(OnPolicyLearner):
    """Learns from each rollout by several passes of clipped steps.

    Args:
        alias: What the agent is called.
        settings: How it learns.
        request: What it is built for.
        net: Its networks.
        estimator: Makes advantages of rewards.
    """

    def __init__(
        self,
        alias: str,
        settings: PpoSettings,
        request: AgentRequest,
        net: ActorCritic,
        estimator: BaseAdvantageEstimator,
    ) -> None:
        super().__init__(
            request,
            net,
            alias=alias,
            n_steps=settings.n_steps,
            gamma=settings.gamma,
            estimator=estimator,
            scale_observations=settings.scales_observations,
            scale_rewards=settings.scales_rewards,
        )
        self._settings = settings

    def _learn(self, rollout: Rollout, length: int, progress: float) -> dict[str, float]:
        settings = self._settings
        found = self._estimator.compute(self._rewards(rollout, length))
        rate, clip_range = settings.annealed(progress)
        loss = dataclasses.replace(settings.loss, clip_range=clip_range)
        whole = self._whole(rollout, length, found)
        batches = self._batches(whole) if whole.memory is None else self._sequences(whole, rollout.rewards.shape[1])
        told, updates, stopped = np.zeros(len(STATISTICS)), 0, False
        for _ in range(settings.n_epochs):
            before, count = told[3], updates
            for batch in batches():
                told += self.net.learn(batch, loss, rate)
                updates += 1
            # By the mean over the pass: one minibatch says little.
            if settings.is_too_far((told[3] - before) / (updates - count)):
                stopped = True
                break
        if self._scale is not None:
            self._scale.update(rollout.observations[:length].reshape(-1, self._width))
        critic = {} if found.returns is None else {"explained_variance": _explained(whole.values, whole.returns)}
        extras = {**critic, **found.extras}
        return update_metrics(told / updates, rate, clip_range, self.net.steps, stopped=stopped, extras=extras)

    def _whole(self, rollout: Rollout, length: int, found: Advantages) -> Minibatch:
        """All of a rollout, flat: step after step, and the environments of a step side by side."""

        def flat(array: Any) -> Any:
            return array[:length].reshape(-1, *array.shape[2:])

        returns = found.returns if found.returns is not None else rollout.values[:length]
        return Minibatch(
            observations=self._scaled(flat(rollout.observations)),
            actions=flat(rollout.actions),
            log_probs=flat(rollout.log_probs),
            advantages=flat(found.advantages).astype(np.float32),
            returns=flat(returns).astype(np.float32),
            values=flat(rollout.values),
            masks=None if rollout.masks is None else flat(rollout.masks),
            memory=rollout.memory,
            starts=None if rollout.starts is None else rollout.starts[:length],
        )

    def _batches(self, whole: Minibatch) -> Callable[[], Iterator[Minibatch]]:
        """Gives minibatches in a new order at each call."""
        count, size = len(whole.log_probs), self._settings.batch_size

        def batches() -> Iterator[Minibatch]:
            shuffled = _chosen(whole, self._shuffling.permutation(count))
            for first in range(0, count, size):
                yield _chosen(shuffled, slice(first, first + size))

        return batches

    def _sequences(self, whole: Minibatch, n: int) -> Callable[[], Iterator[Minibatch]]:
        """Gives whole sequences of some environments, about as many transitions as a batch has, in a new order."""
        length = len(whole.log_probs) // n
        size = max(1, self._settings.batch_size // length)

        def of(array: Any, rows: Any) -> Any:
            return array.reshape(length, n, *array.shape[1:])[:, rows]

        def batches() -> Iterator[Minibatch]:
            order = self._shuffling.permutation(n)
            for first in range(0, n, size):
                rows = order[first : first + size]
                flat = {
                    name: np.ascontiguousarray(of(getattr(whole, name), rows)).reshape(
                        -1, *getattr(whole, name).shape[1:]
                    )
                    for name in ("actions", "log_probs", "advantages", "returns", "values")
                }
                masks = None
                if whole.masks is not None:
                    masks = np.ascontiguousarray(of(whole.masks, rows)).reshape(-1, whole.masks.shape[1])
                yield Minibatch(
                    observations=np.ascontiguousarray(of(whole.observations, rows)),
                    **flat,
                    masks=masks,
                    memory=whole.memory[rows],
                    starts=np.ascontiguousarray(whole.starts[:, rows]),
                )

        return batches


def update_metrics(
    means: Iterable[float], rate: float, clip_range: float, steps: int, *, stopped: bool, extras: Mapping[str, Any]
) -> dict[str, float]:
    """What is told of an update.

    Args:
        means: Of what its gradient steps told.
        rate: Learning rate.
        clip_range: Largest change of the probability ratio.
        steps: Gradient steps since the beginning.
        stopped: Whether it moved the policy too far to go on.
        extras: What else there is to tell.
    """
    told = dict(zip(STATISTICS, map(float, means), strict=True))
    if not all(map(math.isfinite, told.values())):
        raise TrainingDiverged(
            f"the update after {steps} gradient steps",
            f"its numbers are not finite any more: {told}",
            "Lower learning_rate or max_grad_norm, and look for rewards or observations that are not finite.",
        )
    told |= {
        "learning_rate": rate,
        "clip_range": clip_range,
        "n_updates": steps,
        "stopped_early": stopped,
        **extras,
    }
    return {f"train/{name}": float(value) for name, value in told.items()}


def _chosen(batch: Minibatch, rows: Any) -> Minibatch:
    return Minibatch(
        batch.observations[rows],
        batch.actions[rows],
        batch.log_probs[rows],
        batch.advantages[rows],
        batch.returns[rows],
        batch.values[rows],
        None if batch.masks is None else batch.masks[rows],
    )


def _explained(values: Any, returns: Any) -> float:
    """The share of the returns' variance that the values knew; NaN where there is none."""
    variance = float(returns.var())
    return 1.0 - float((returns - values).var()) / variance if variance > 0 else math.nan

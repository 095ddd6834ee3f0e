"""PPO where the environment itself is on the device: nothing leaves it during rollout and update.

It stops and is saved between rollouts alone. Observations are standardised where the environment wrote them: they are
by far the largest thing here, and are stored once, one row more than there are steps, so that the environment writes
what follows a step straight to its place.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol, cast

import numpy as np
import torch
from torch import Tensor

from alphaswarm_rl.agents.native.actor_critic import STATISTICS, Minibatch
from alphaswarm_rl.agents.native.ppo import NativeOnPolicyConfig
from alphaswarm_rl.agents.native.ppo_learner import PpoLearner, PpoSettings, Rollout, network_shape
from alphaswarm_rl.agents.native.scaling import CLIP, RewardScale, RunningMoments
from alphaswarm_rl.agents.native.torch_actor_critic import DeviceActorCritic
from alphaswarm_rl.agents.native.torch_layers import to_array
from alphaswarm_rl.arrays.compiled_function import CompiledFunction
from alphaswarm_rl.core.contracts import AgentRequest, AnyVectorEnv, State, Stateful, TrainingHooks
from alphaswarm_rl.core.errors import CheckpointError, EnvError
from alphaswarm_rl.core.seeding import derived_seed, generator
from alphaswarm_rl.core.types import Array, Batch, JsonObject, Masks

# cuBLAS reads it when it is first used, and repeats itself only with workspaces of a fixed size.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


class _DeviceEnv(Protocol):
    """An environment of tensors, which writes what it shows where it is told to."""

    def step(
        self, actions: Tensor, *, out: Tensor, final_out: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, JsonObject]:
        """One step of all environments."""

    def action_masks(self) -> Tensor:
        """Which actions are legal now."""


class DevicePpoLearner(PpoLearner):
    """Collects rollouts of tensors, and learns from each.

    Args:
        alias: What the agent is called.
        config: Its parameters.
        settings: How it learns.
        request: What it is built for.
    """

    net: DeviceActorCritic

    def __init__(self, alias: str, config: NativeOnPolicyConfig, settings: PpoSettings, request: AgentRequest) -> None:
        if config.encoder is not None:
            raise EnvError(
                "an encoder", "with an environment on a device only plain layers are computed there", "Leave it out."
            )
        self._device = torch.device(request.device)
        self._width = int(np.prod(request.observation_space.shape or (1,)))
        shape = network_shape(config, request, self._width)
        net = DeviceActorCritic(shape, generator(request.seed, "weights"), device=self._device)
        super().__init__(alias, settings, request, net)
        self._precision = config.precision
        wide = {"dtype": torch.float64, "device": self._device}
        self._scale = self._observation_moments = (
            RunningMoments(torch.zeros(self._width, **wide)) if settings.scales_observations else None
        )
        self._no_sums = torch.zeros(request.num_envs, **wide)
        self._reward_scale = RewardScale(self._no_sums.clone(), settings.gamma) if settings.scales_rewards else None
        self._random = torch.Generator(self._device)
        self._random.manual_seed(derived_seed(request.seed, "device"))
        # One for all that is done in a step, rather than dozens of small ones.
        self._act = CompiledFunction(self._acted, self._device, enabled=None, name="Acting")
        self._value = CompiledFunction(self._valued, self._device, enabled=None, name="Judging what was seen last")
        self._rollout: Rollout | None = None
        self.seed_predictions(request.seed)

    def _new_rollout(self, n: int, *, masked: bool) -> Rollout:
        steps, head, device = self._settings.n_steps, self.net.head, self._device
        numbers = zip(
            ("log_probs", "values", "rewards", "final_values"), torch.zeros((4, steps, n), device=device), strict=True
        )
        terminated, truncated = torch.zeros((2, steps, n), dtype=torch.bool, device=device)
        kind = torch.int64 if head.discrete else torch.float32
        return Rollout(
            observations=torch.zeros((steps + 1, n, self._width), device=device),
            actions=torch.zeros((steps, n, head.numbers), dtype=kind, device=device),
            **dict(numbers),
            terminated=terminated,
            truncated=truncated,
            masks=torch.zeros((steps, n, head.outputs), dtype=torch.bool, device=device) if masked else None,
        )

    # Training.

    def train(self, env: AnyVectorEnv, total_timesteps: int, hooks: TrainingHooks) -> None:
        """Collects and learns until `timesteps` reaches `total_timesteps` or a halt."""
        n = env.num_envs
        if self._rollout is None:
            self._rollout = self._new_rollout(n, masked=self.net.head.discrete and hasattr(env, "action_masks"))
            self._final = torch.zeros((n, self._width), device=self._device)
        rollout = self._rollout
        with _exactly(self._precision):
            if self._needs_reset(env):
                self.observation, _ = env.reset()
                if self._reward_scale is not None:
                    self._reward_scale.restart()
                self._first_measure(self.observation)
            while self.timesteps < total_timesteps:
                length = min(self._settings.n_steps, math.ceil((total_timesteps - self.timesteps) / n))
                progress = min(self.timesteps / total_timesteps, 1.0)
                self._collect(env, rollout, length)
                self.timesteps += length * n
                hooks.boundary(self._learn(rollout, length, progress))
                if hooks.should_halt():
                    break

    def _first_measure(self, observation: Tensor) -> None:
        if self._scale is not None and self._scale.count == 0:
            self._scale.variance = observation.abs().amax(0).to(torch.float64).clamp(min=1.0) ** 2
            # Far from 0, sums of squares would have no digits left for the variance.
            self._scale.mean = observation.mean(0, dtype=torch.float64)

    def _measure(self) -> tuple[Tensor, Tensor] | None:
        """Mean and inverse standard deviation of observations, for this rollout."""
        if self._scale is None:
            return None
        mean, deviation = torch.as_tensor(self._scale.mean), torch.as_tensor(self._scale.deviation)
        return mean.to(torch.float32), (1.0 / deviation).to(torch.float32)

    def _collect(self, env: AnyVectorEnv, rollout: Rollout, length: int) -> None:
        device_env = cast(_DeviceEnv, env)
        measure = self._measure()
        total, squares = torch.zeros((2, self._width), dtype=torch.float64, device=self._device)
        seen, net = rollout.observations, self.net
        seen[0].copy_(self.observation)
        for step in range(length):
            noise, masks = net.noise(self._random, env.num_envs), []
            if rollout.masks is not None:
                rollout.masks[step] = device_env.action_masks().reshape(rollout.masks[step].shape)
                masks = [rollout.masks[step]]
            *sums, drawn, log_probs, values, actions = self._act(
                [net.parameters, seen[step], noise, *(measure or ()), *masks]
            )
            if sums:
                # Of standardised numbers float32 has digits enough for a step, and float64 for all of them.
                total += sums[0]
                squares += sums[1]
            _, rewards, terminated, truncated, _ = device_env.step(actions, out=seen[step + 1], final_out=self._final)
            rollout.actions[step], rollout.log_probs[step], rollout.values[step] = drawn, log_probs, values
            rollout.rewards[step], rollout.terminated[step], rollout.truncated[step] = rewards, terminated, truncated
            if self._estimator.uses_values:
                # For all of them: looking whether any was truncated would wait for the device.
                (rollout.final_values[step],) = self._value([net.parameters, self._final, *(measure or ())])
        self.observation = seen[length].clone()
        if measure is not None and self._scale is not None:
            count = length * env.num_envs
            mean, spread = total / count, squares / count - (total / count) ** 2
            deviation = 1.0 / measure[1].to(torch.float64)
            self._scale.merge(
                count, measure[0].to(torch.float64) + mean * deviation, spread.clamp(min=0.0) * deviation**2
            )
            seen[length].copy_(_standardised(seen[length], *measure))

    def _acted(self, parameters: Tensor, seen: Tensor, noise: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        """Standardises what is seen where it lies, and draws: sums and squares of that, and what came of it."""
        sums: tuple[Tensor, ...] = ()
        measured = 2 if self._scale is not None else 0
        if measured:
            scaled = (seen - more[0]) * more[1]
            sums = scaled.sum(0), (scaled * scaled).sum(0)
            seen.copy_(scaled.clamp(-CLIP, CLIP))
        masks = more[measured] if len(more) > measured else None
        drawn, log_probs, values = self.net.draw(seen, noise, masks, parameters)
        return *sums, drawn, log_probs, values, self.net.to_env(drawn)

    def _valued(self, parameters: Tensor, seen: Tensor, *measure: Tensor) -> tuple[Tensor]:
        return (self.net.values(_standardised(seen, *measure) if measure else seen, parameters),)

    def _learn(self, rollout: Rollout, length: int, progress: float) -> dict[str, float]:
        last_values = self.net.values(rollout.observations[length]) if self._estimator.uses_values else None
        found = self._estimate(rollout, length, rollout.values[:length], last_values)
        whole = rollout.transitions(length, rollout.observations, found)
        count = len(whole.log_probs)
        size = min(self._settings.batch_size, count)

        def batches() -> Iterator[Minibatch]:
            order = torch.randperm(count, generator=self._random, device=self._device)
            for rows in order.split(size):
                yield whole.map(partial(torch.index_select, dim=0, index=rows))

        extras = {} if found.returns is None else {"explained_variance": _explained(whole.values, whole.returns)}
        totals = torch.zeros(len(STATISTICS), device=self._device)
        return self._update(batches, totals, progress, {**extras, **found.extras})

    # Prediction.

    def seed_predictions(self, seed: int, env: AnyVectorEnv | None = None) -> None:
        """Starts the stream of predictions anew, so that an evaluation repeats itself."""
        self._predicting = torch.Generator(self._device)
        self._predicting.manual_seed(derived_seed(seed, "predict"))

    def predict(
        self, observation: Batch, memory: object, episode_start: Array, *, deterministic: bool, masks: Masks = None
    ) -> tuple[Array, None]:
        """Actions for a batch of NumPy arrays; it has no memory."""
        seen = torch.as_tensor(np.asarray(observation, np.float32)).to(self._device).reshape(len(observation), -1)
        measure = self._measure()
        if measure is not None:
            seen = _standardised(seen, *measure)
        noise = None if deterministic else self.net.noise(self._predicting, len(seen))
        legal = None
        if masks is not None and self.net.head.discrete:
            legal = torch.from_numpy(self.net.head.legal(masks, len(seen))).to(self._device)
        with _exactly(self._precision):
            drawn, _, _ = self.net.draw(seen, noise, legal)
        return self.net.head.to_env(drawn.cpu().numpy()), None

    # State.

    def _scales(self) -> dict[str, Stateful]:
        scales = super()._scales()
        if self._reward_scale is not None:
            scales["rewards"] = self._reward_scale.moments  # its sums are kept with the generator
        return scales

    def _training_state(self) -> State:
        sums = self._no_sums if self._reward_scale is None else self._reward_scale.sums
        arrays = {"device/random": to_array(self._random.get_state()), "device/sums": to_array(sums)}
        if self.observation is not None:
            arrays["observation"] = to_array(self.observation)
        return State(arrays)

    def _load_training_state(self, state: State) -> None:
        arrays = state.arrays
        if "device/random" not in arrays:
            raise CheckpointError(
                f"the state of agent {self._alias!r}",
                "it was trained where its environment is on no device",
                "Resume a run on the kind of device that it was begun on.",
            )
        self._random.set_state(torch.from_numpy(np.array(arrays["device/random"])))
        if self._reward_scale is not None:
            self._reward_scale.sums = torch.from_numpy(np.array(arrays["device/sums"])).to(self._device)
        seen = arrays.get("observation")
        self.observation = None if seen is None else torch.from_numpy(np.array(seen)).to(self._device)


def _standardised(observations: Tensor, mean: Tensor, inverse: Tensor) -> Tensor:
    return ((observations - mean) * inverse).clamp_(-CLIP, CLIP)


def _explained(values: Tensor, returns: Tensor) -> Tensor:
    """The share of the returns' variance that the values knew; not finite where there is none."""
    return 1.0 - (returns - values).var(correction=0) / returns.var(correction=0)


@contextmanager
def _exactly(precision: str) -> Iterator[None]:
    """Products of matrices of that precision, and nothing that adds up in another order each time."""
    before = torch.get_float32_matmul_precision(), torch.are_deterministic_algorithms_enabled()
    fills = torch.utils.deterministic.fill_uninitialized_memory
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.use_deterministic_algorithms(True)
    # Nothing here reads memory that it did not write.
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.use_deterministic_algorithms(before[1])
        torch.utils.deterministic.fill_uninitialized_memory = fills

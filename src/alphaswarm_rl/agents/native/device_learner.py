"""PPO where the environment itself is on the device: nothing leaves it during rollout and update."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from alphaswarm_rl.agents.native.action_head import ActionHead
from alphaswarm_rl.agents.native.device_policy import DevicePolicy
from alphaswarm_rl.agents.native.ppo import NativeOnPolicyConfig
from alphaswarm_rl.agents.native.ppo_learner import STATISTICS, PpoSettings, update_metrics
from alphaswarm_rl.agents.native.restoring import restore
from alphaswarm_rl.agents.native.running_moments import CLIP, RunningMoments
from alphaswarm_rl.agents.stepping import goes_on
from alphaswarm_rl.arrays.compiled_function import CompiledFunction
from alphaswarm_rl.core.contracts import AgentRequest, AnyVectorEnv, RolloutRewards, State, TrainingHooks
from alphaswarm_rl.core.errors import CheckpointError, EnvError
from alphaswarm_rl.core.kinds import BaseAdvantageEstimator
from alphaswarm_rl.core.seeding import derived_seed, generator

Array = np.ndarray[Any, Any]

# cuBLAS reads it when it is first used, and repeats itself only with workspaces of a fixed size.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


class DevicePpoLearner:
    """The twin of `PpoLearner` for environments of tensors.

    It stops and is saved between rollouts alone. Observations are standardised where the environment wrote them: they
    are by far the largest thing here, and are stored once.

    Args:
        alias: What the agent is called.
        config: Its parameters.
        settings: How it learns.
        request: What it is built for.
        estimator: Makes advantages of rewards.
    """

    resume: Literal["exact", "approximate"] = "exact"

    def __init__(
        self,
        alias: str,
        config: NativeOnPolicyConfig,
        settings: PpoSettings,
        request: AgentRequest,
        estimator: BaseAdvantageEstimator,
    ) -> None:
        if config.encoder is not None:
            raise EnvError(
                "an encoder", "with an environment on a device only plain layers are computed there", "Leave it out."
            )
        self.timesteps = 0
        self.observation: Any = None
        self.rollout_transitions: int | None = settings.n_steps * request.num_envs
        self._alias = alias
        self._precision = config.precision
        self._estimator = estimator
        self._device = torch.device(request.device)
        self._width = int(np.prod(request.observation_space.shape or (1,)))
        pi, vf = config.layers
        self.policy = DevicePolicy(
            self._width,
            pi,
            vf,
            ActionHead.of(request.action_space),
            activation=config.activation,
            generator=generator(request.seed, "weights"),
            device=self._device,
        )
        self._settings = settings
        wide = {"dtype": torch.float64, "device": self._device}
        self._scale = RunningMoments(torch.zeros(self._width, **wide)) if settings.scales_observations else None
        self._reward_scale = RunningMoments(torch.zeros((), **wide)) if settings.scales_rewards else None
        self._sums = torch.zeros(request.num_envs, **wide)
        self._random = torch.Generator(self._device)
        self._random.manual_seed(derived_seed(request.seed, "device"))
        # One for all that is done in a step, rather than dozens of small ones.
        self._act = CompiledFunction(self._acted, self._device, enabled=None, name="Acting")
        self._value = CompiledFunction(self._valued, self._device, enabled=None, name="Judging what was seen last")
        self._storage: _Storage | None = None
        self._training = request.training
        self._restored = False
        self.seed_predictions(request.seed)

    # Training.

    def train(self, env: AnyVectorEnv, total_timesteps: int, hooks: TrainingHooks) -> None:
        """Collects and learns until `timesteps` reaches `total_timesteps` or a halt."""
        if self._storage is None:
            masked = self.policy.head.discrete and hasattr(env, "action_masks")
            self._storage = _Storage(self._settings.n_steps, env.num_envs, self.policy, self._width, masked=masked)
        storage = self._storage
        with _exactly(self._precision):
            if self.observation is None or (self._restored and not goes_on(env)):
                self.observation, _ = env.reset()
                self._sums.zero_()
                self._first_measure(self.observation)
            self._restored = False
            while self.timesteps < total_timesteps:
                length = min(self._settings.n_steps, math.ceil((total_timesteps - self.timesteps) / env.num_envs))
                progress = min(self.timesteps / total_timesteps, 1.0)
                self._collect(env, storage, length)
                self.timesteps += length * env.num_envs
                hooks.boundary(self._learn(storage, length, progress))
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
        return self._scale.mean.to(torch.float32), (1.0 / self._scale.deviation).to(torch.float32)

    def _collect(self, env: AnyVectorEnv, storage: _Storage, length: int) -> None:
        measure = self._measure()
        count, total, squares = 0, *torch.zeros((2, self._width), dtype=torch.float64, device=self._device)
        seen = storage.observations
        seen[0].copy_(self.observation)
        policy = self.policy
        for step in range(length):
            noise, masks = policy.noise(self._random, env.num_envs), []
            if storage.masks is not None:
                storage.masks[step] = env.action_masks().reshape(storage.masks[step].shape)  # type: ignore[attr-defined]
                masks = [storage.masks[step]]
            *sums, drawn, log_probs, values, actions = self._act(
                [policy.parameters, seen[step], noise, *(measure or ()), *masks]
            )
            if sums:
                # Of standardised numbers float32 has digits enough for a step, and float64 for all of them.
                count += env.num_envs
                total += sums[0]
                squares += sums[1]
            _, rewards, terminated, truncated, _ = env.step(actions, out=seen[step + 1], final_out=storage.final)
            storage.actions[step], storage.log_probs[step], storage.values[step] = drawn, log_probs, values
            storage.rewards[step], storage.terminated[step], storage.truncated[step] = rewards, terminated, truncated
            if self._estimator.uses_values:
                # For all of them: looking whether any was truncated would wait for the device.
                (storage.final_values[step],) = self._value([policy.parameters, storage.final, *(measure or ())])
        self.observation = seen[length].clone()
        if measure is not None:
            assert self._scale is not None
            mean, spread = total / count, squares / count - (total / count) ** 2
            deviation = 1.0 / measure[1].to(torch.float64)
            self._scale.merge(
                count, measure[0].to(torch.float64) + mean * deviation, spread.clamp(min=0.0) * deviation**2
            )
            seen[length].copy_(_standardised(seen[length], *measure))

    def _acted(self, parameters: Tensor, seen: Tensor, noise: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
        """Standardises what is seen where it lies, and draws: sums and squares of that, and what came of it."""
        sums: tuple[Tensor, ...] = ()
        measured = 2 if self._scale is not None else 0
        if measured:
            scaled = (seen - others[0]) * others[1]
            sums = scaled.sum(0), (scaled * scaled).sum(0)
            seen.copy_(scaled.clamp(-CLIP, CLIP))
        masks = others[measured] if len(others) > measured else None
        drawn, log_probs, values = self.policy.drawn(parameters, seen, noise, masks)
        return *sums, drawn, log_probs, values, self.policy.to_env(drawn)

    def _valued(self, parameters: Tensor, seen: Tensor, *measure: Tensor) -> tuple[Tensor]:
        return (self.policy.valued(parameters, _standardised(seen, *measure) if measure else seen),)

    def _rewards(self, storage: _Storage, length: int) -> RolloutRewards:
        terminated, truncated = storage.terminated[:length], storage.truncated[:length]
        rewards = storage.rewards[:length]
        if self._reward_scale is not None:
            rewards = self._scaled_rewards(rewards, terminated | truncated)
        values = next_values = None
        if self._estimator.uses_values:
            values = storage.values[:length]
            after = self.policy.values(storage.observations[length])
            next_values = torch.where(truncated, storage.final_values[:length], torch.cat([values[1:], after[None]]))
        return RolloutRewards(rewards, terminated, truncated, values=values, next_values=next_values)

    def _scaled_rewards(self, rewards: Tensor, ended: Tensor) -> Tensor:
        assert self._reward_scale is not None
        sums = torch.empty_like(rewards, dtype=torch.float64)
        running = self._sums
        for step in range(len(rewards)):
            running = running * self._settings.gamma + rewards[step]
            sums[step] = running
            running = torch.where(ended[step], 0.0, running)
        self._sums = running
        self._reward_scale.update(sums.reshape(-1))
        scale = self._reward_scale.deviation.to(torch.float32)
        return (rewards / scale).clamp(-CLIP, CLIP)

    def _learn(self, storage: _Storage, length: int, progress: float) -> dict[str, float]:
        settings = self._settings
        found = self._estimator.compute(self._rewards(storage, length))
        rate, clip_range = settings.annealed(progress)
        count = length * storage.rewards.shape[1]
        returns = storage.values[:length] if found.returns is None else found.returns
        whole = [
            tensor[:length].reshape(count, *tensor.shape[2:])
            for tensor in (
                storage.observations,
                storage.actions,
                storage.log_probs,
                found.advantages,
                returns,
                storage.values,
                *(() if storage.masks is None else (storage.masks,)),
            )
        ]
        told, updates, stopped = torch.zeros(len(STATISTICS), device=self._device), 0, False
        size = min(settings.batch_size, count)
        for _ in range(settings.n_epochs):
            order = torch.randperm(count, generator=self._random, device=self._device)
            before, done = told[3].clone(), updates
            for first in range(0, count, size):
                rows = order[first : first + size]
                batch = [tensor.index_select(0, rows) for tensor in whole]
                told += self.policy.learn(batch, settings.loss, rate, clip_range)
                updates += 1
            # Only where it is asked for: looking waits for the device.
            if settings.target_kl is not None and settings.is_too_far(float(told[3] - before) / (updates - done)):
                stopped = True
                break
        # The one moment at which the host waits for the device.
        means = (told / updates).tolist()
        return update_metrics(means, rate, clip_range, self.policy.steps, stopped=stopped, extras=found.extras)

    # Prediction.

    def seed_predictions(self, seed: int, env: AnyVectorEnv | None = None) -> None:
        """Starts the stream of predictions anew, so that an evaluation repeats itself."""
        self._predicting = torch.Generator(self._device)
        self._predicting.manual_seed(derived_seed(seed, "predict"))

    def predict(
        self, observation: Any, memory: Any, episode_start: Array, *, deterministic: bool, masks: Any = None
    ) -> tuple[Array, Any]:
        """Actions for a batch of this side of the bus; it has no memory."""
        seen = torch.as_tensor(np.asarray(observation, np.float32)).to(self._device).reshape(len(observation), -1)
        measure = self._measure()
        if measure is not None:
            seen = _standardised(seen, *measure)
        noise = None if deterministic else self.policy.noise(self._predicting, len(seen))
        legal = None
        if masks is not None and self.policy.head.discrete:
            legal = torch.from_numpy(self.policy.head.legal(masks, len(seen))).to(self._device)
        with _exactly(self._precision):
            drawn, _, _ = self.policy.draw(seen, noise, legal)
        return self.policy.head.to_env(drawn.cpu().numpy()), None

    # State.

    def get_state(self) -> State:
        """Weights, optimiser, statistics, generator, counters and the last observation."""
        first, second, steps = self.policy.optimiser()
        parts = {"weights": self.policy.weights(), "adam_first": first, "adam_second": second}
        data: dict[str, Any] = {"agent": self._alias, "timesteps": self.timesteps, "gradient_steps": steps}
        for name, scale in (("observations", self._scale), ("rewards", self._reward_scale)):
            if scale is not None:
                state = scale.get_state()
                parts[f"scale_{name}"], data[f"scale_{name}"] = state.arrays, state.data
        parts["device"] = {"random": self._random.get_state().numpy().copy(), "sums": self._sums.cpu().numpy().copy()}
        arrays = {f"{part}/{name}": array for part, its in parts.items() for name, array in its.items()}
        if self.observation is not None:
            arrays["observation"] = self.observation.cpu().numpy().copy()
        return State(arrays, data)

    def set_state(self, state: State) -> None:
        """Continues from there, on the same kind of device bit for bit; one that only predicts takes what it needs."""
        restore(self._alias, state, self._take)

    def _take(self, state: State) -> None:
        arrays, data = state.arrays, state.data
        self.policy.set_weights(state.under("weights"))
        if self._scale is not None:
            self._scale.set_state(state.part("scale_observations"))
        self.timesteps = int(data["timesteps"])
        if not self._training:
            return
        if "device/random" not in arrays:
            raise CheckpointError(
                f"the state of agent {self._alias!r}",
                "it was trained where its environment is on no device",
                "Resume a run on the kind of device that it was begun on.",
            )
        self.policy.set_optimiser(state.under("adam_first"), state.under("adam_second"), int(data["gradient_steps"]))
        if self._reward_scale is not None:
            self._reward_scale.set_state(state.part("scale_rewards"))
        self._random.set_state(torch.from_numpy(np.array(arrays["device/random"])))
        self._sums = torch.from_numpy(np.array(arrays["device/sums"])).to(self._device)
        seen = arrays.get("observation")
        self.observation = None if seen is None else torch.from_numpy(np.array(seen)).to(self._device)
        self._restored = True


class _Storage:
    """Steps of all environments, time first."""

    def __init__(self, steps: int, n: int, policy: DevicePolicy, width: int, *, masked: bool) -> None:
        device, head = policy.device, policy.head
        # One more than there are steps: the environment writes what follows a step straight to its place.
        self.observations = torch.zeros((steps + 1, n, width), device=device)
        self.final = torch.zeros((n, width), device=device)
        kind = torch.int64 if head.discrete else torch.float32
        self.actions = torch.zeros((steps, n, head.numbers), dtype=kind, device=device)
        self.log_probs, self.values, self.rewards, self.final_values = torch.zeros((4, steps, n), device=device)
        self.terminated, self.truncated = torch.zeros((2, steps, n), dtype=torch.bool, device=device)
        self.masks = torch.zeros((steps, n, head.outputs), dtype=torch.bool, device=device) if masked else None


def _standardised(observations: Tensor, mean: Tensor, inverse: Tensor) -> Tensor:
    return ((observations - mean) * inverse).clamp_(-CLIP, CLIP)


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

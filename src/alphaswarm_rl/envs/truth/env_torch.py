"""A task with a known optimum in torch: what runs on a GPU."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import torch
from gymnasium import Space
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from torch import Tensor

from alphaswarm_rl.arrays.backend import torch_device
from alphaswarm_rl.arrays.backend_torch import TorchArrays, float64_by_default
from alphaswarm_rl.arrays.compiled_function import CompiledFunction
from alphaswarm_rl.arrays.counter_rng_torch import block, seed_words
from alphaswarm_rl.core.contracts import EnvRequest, State, episode_key
from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.envs.episodes import check_identity, checked_request, checked_seed, matching, refuse_window
from alphaswarm_rl.envs.truth.env import NOISE_STREAM
from alphaswarm_rl.envs.truth.task import TruthTask

Tensors = dict[str, Tensor]


class TorchTruthEnv(VectorEnv[Tensor, Tensor, Tensor]):
    """Many environments of one task on a device; the twin of `TruthEnv`.

    Everything that goes in and out of `step` is a tensor on the device, and nothing in it waits for the device: so
    `final_obs` and `_final_obs` are in the infos of every step, rows of `final_obs` whose episode goes on hold what
    `step` returns, an action that is not a finite number counts as 0, and a whole one that is out of range as the
    nearest one. A step is one function of tensors, compiled on a GPU where that is possible; the state stays in the
    same tensors, so that steps can be recorded as CUDA graphs.

    Args:
        request: How many, with which seed, and where.
        task: What happens in them.
        compile: Whether to compile the step with `torch.compile`. None: on a GPU where that is possible.
    """

    def __init__(self, request: EnvRequest, task: TruthTask, *, compile: bool | None = None) -> None:  # noqa: A002  (as torch calls it)
        refuse_window(task.name, request.window)
        if request.render:
            self.render()
        self.num_envs = checked_request(request).num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}
        self.task = task
        self.device = torch_device(request.device)
        self.single_observation_space = Box(-np.inf, np.inf, (len(task.columns),), np.float32)
        self.single_action_space: Space[Any] = task.action_space()
        self._xp = TorchArrays(self.device)
        self._phase = request.phase
        self._seeded = request.seed
        self._words = seed_words(request.seed, self.device)
        self._index = torch.arange(self.num_envs, device=self.device)
        self._started = False
        with torch.no_grad(), float64_by_default():
            begun = self._beginning(self._words, torch.zeros_like(self._index))
            self._state = {name: tensor.clone() for name, tensor in begun.items()}
        self._state["steps"] = torch.zeros_like(self._index)
        self._state["episodes"] = torch.full_like(self._index, -1)
        self._run = CompiledFunction(self._advance, self.device, enabled=compile, name="The step of the environment")
        self._graphs: Any = None
        if self.device.type == "cuda" and self._run.compiles:
            from alphaswarm_rl.envs.step_graphs import StepGraphs

            self._graphs = StepGraphs(self._step)

    @cached_property
    def observation_space(self) -> Space[Any]:  # type: ignore[override]
        """Of all of them."""
        return batch_space(self.single_observation_space, self.num_envs)

    @cached_property
    def action_space(self) -> Space[Any]:  # type: ignore[override]
        """Of all of them."""
        return batch_space(self.single_action_space, self.num_envs)

    @property
    def compiled(self) -> bool:
        """Whether steps are compiled, or will be from the first on."""
        return self._run.compiles

    @property
    def episode_numbers(self) -> Tensor:
        """The current episode of each environment; -1 before the first reset."""
        return self._state["episodes"].clone()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Tensor, dict[str, Any]]:
        """Starts each environment's next episode; a seed replaces the request's and starts again from episode 0."""
        if options:
            raise EnvError(f"reset options {sorted(options)}", "this environment takes none", "Leave options out.")
        if seed is not None:
            self._seed(checked_seed(seed))
            self._state["episodes"].fill_(-1)
        with torch.no_grad(), float64_by_default():
            self._state["episodes"] += 1
            self._state["steps"].zero_()
            begun = self._beginning(self._words, self._state["episodes"])
            for name, tensor in begun.items():
                self._state[name].copy_(tensor)
            self._started = True
            return self._observe(begun), {}

    def step(
        self, actions: Tensor, out: Tensor | None = None, final_out: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Any]]:
        """One step of all; ended episodes are followed at once by their next.

        Args:
            actions: One per environment, on the device.
            out: Where the observation is to be written, (n, D) float32 on the device; None: into a new tensor.
            final_out: Where what was seen before resets is to be written; None: into a new tensor.
        """
        if not self._started:
            raise ResetNeeded("Cannot call step() before calling reset()")
        observations, final = self._storage(out), self._storage(final_out)
        step = self._step if self._graphs is None or out is None or final_out is None else self._graphs
        with torch.no_grad(), float64_by_default():
            rewards, cost, terminated, truncated = step(self._checked(actions), observations, final)
        infos = {"cost": cost, "final_obs": final, "_final_obs": truncated}
        return observations, rewards, terminated, truncated, infos

    def render(self) -> NoReturn:
        """Not offered."""
        raise EnvError("a picture of this environment", "it draws none", "Set evaluation.render: false.")

    def get_state(self) -> State:
        """Everything, as NumPy arrays of the names and types that the NumPy form has."""
        arrays = {name: tensor.cpu().numpy().copy() for name, tensor in self._state.items()}
        return State(arrays, {"seed": self._seeded, "identity": self.task.identity()})

    def set_state(self, state: State) -> None:
        """Continues from there, bit for bit on the same device."""
        check_identity(state, self.task.identity())
        found = {name: matching(state, name, tensor.cpu().numpy()) for name, tensor in self._state.items()}
        self._seed(checked_seed(state.data["seed"]))
        for name, tensor in self._state.items():
            tensor.copy_(torch.tensor(found[name], dtype=tensor.dtype))
        self._started = bool((found["episodes"] >= 0).all())

    def _step(self, actions: Tensor, observations: Tensor, final: Tensor) -> tuple[Tensor, ...]:
        shown, last, *rest = self._run([self._words, actions, *self._state.values()])
        observations.copy_(shown)
        final.copy_(last)
        return tuple(rest)

    def _advance(self, words: Tensor, actions: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """All results of a step; the tensors of the state themselves hold the state after resets then."""
        old = dict(zip(self._state, state, strict=True))
        steps, episodes = old["steps"] + 1, old["episodes"]
        own = {name: tensor for name, tensor in old.items() if name not in ("steps", "episodes")}
        new, rewards, cost = self.task.step(own, actions, self._noise(words, episodes, steps), self._xp)
        ended = steps >= self.task.horizon
        last = self._observe(new)
        episodes = episodes + ended.to(torch.int64)
        begun = self._beginning(words, episodes)
        after = {name: torch.where(ended, begun[name], tensor) for name, tensor in new.items()}
        results = (self._observe(after), last, rewards, cost, torch.zeros_like(ended), ended)
        after |= {"steps": torch.where(ended, torch.zeros_like(steps), steps), "episodes": episodes}
        for name, tensor in after.items():
            old[name].copy_(tensor)
        return results

    def _beginning(self, words: Tensor, episodes: Tensor) -> Tensors:
        """The task's own arrays as these episodes begin."""
        begun: Tensors = self.task.begin(self._noise(words, episodes, torch.zeros_like(episodes)), self._xp)
        return begun

    def _noise(self, words: Tensor, episodes: Tensor, steps: Tensor) -> list[Tensor]:
        """The noise of these steps of these episodes."""
        kinds = self.task.noise
        first, second = episode_key(self._phase, self.num_envs, self._index, episodes)
        drawn = []
        for index, kind in enumerate(kinds):
            one, other = block(words, first, second, steps * len(kinds) + index, NOISE_STREAM)
            if kind == "normal":
                one = torch.sqrt(-2.0 * torch.log(1.0 - one)) * torch.cos(2.0 * math.pi * other)
            drawn.append(one)
        return drawn

    def _observe(self, state: Tensors) -> Tensor:
        return torch.stack(self.task.observe(state), dim=-1).to(torch.float32)

    def _seed(self, seed: int) -> None:
        self._seeded = seed
        self._words.copy_(seed_words(seed, self.device))

    def _storage(self, out: Tensor | None) -> Tensor:
        shape = (self.num_envs, len(self.task.columns))
        if out is None:
            return torch.empty(shape, dtype=torch.float32, device=self.device)
        if tuple(out.shape) != shape or out.dtype != torch.float32 or out.device != self.device:
            raise EnvError(
                f"storage of shape {tuple(out.shape)} and type {out.dtype} on {out.device}",
                f"the observation is of shape {shape} and type float32 on {self.device}",
                "Give a tensor like that, or leave it out.",
            )
        return out

    def _checked(self, actions: Tensor) -> Tensor:
        space = self.single_action_space
        shape = (self.num_envs, *(space.shape or ()))
        whole = isinstance(space, Discrete)
        sound = isinstance(actions, Tensor) and tuple(actions.shape) == shape and actions.device == self.device
        if not sound or actions.dtype.is_floating_point == whole:
            raise EnvError(
                f"actions {actions.dtype, tuple(actions.shape), actions.device}"
                if isinstance(actions, Tensor)
                else f"actions as {type(actions).__name__}",
                f"{self.task.name} takes a tensor of shape {shape} on {self.device} for {space}",
                "Give one action per environment, on its device.",
            )
        if whole:
            return actions.to(torch.int64).clamp(0, int(space.n) - 1)  # type: ignore[attr-defined]
        return torch.nan_to_num(actions.to(torch.float64), nan=0.0, posinf=0.0, neginf=0.0).clamp(-1.0, 1.0)

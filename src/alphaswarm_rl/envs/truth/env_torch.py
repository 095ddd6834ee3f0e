"""A task with a known optimum in torch: what runs on a GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from torch import Tensor

from alphaswarm_rl.arrays.backend import torch_device
from alphaswarm_rl.arrays.backend_torch import TorchArrays
from alphaswarm_rl.arrays.counter_rng_torch import block
from alphaswarm_rl.core.contracts import EnvRequest, episode_key
from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.envs.base_torch import Tensors, TorchVectorEnv
from alphaswarm_rl.envs.episodes import refuse_window
from alphaswarm_rl.envs.truth.env import NOISE_STREAM
from alphaswarm_rl.envs.truth.task import TruthComponent

if TYPE_CHECKING:
    from alphaswarm_rl.core.view import ArrayFunctions


class TorchTruthEnv(TorchVectorEnv):
    """Many environments of one task on a device; the twin of `TruthEnv`.

    Rows of `final_obs` whose episode goes on hold what `step` returns, an action that is not a finite number counts as
    0, and a whole one that is out of range as the nearest one.

    Args:
        request: How many, with which seed, and where.
        task: What happens in them.
        compile: Whether to compile the step with `torch.compile`. None: on a GPU where that is possible.
    """

    def __init__(self, request: EnvRequest, task: TruthComponent, *, compile: bool | None = None) -> None:  # noqa: A002  (as torch calls it)
        refuse_window(task.rl_alias, request.window)
        self.task = task
        self._xp = cast("ArrayFunctions", TorchArrays(torch_device(request.device)))
        space = Box(-np.inf, np.inf, (len(task.columns),), np.float32)
        super().__init__(request, observation_space=space, action_space=task.action_space(), compile=compile)

    def identity(self) -> JsonObject:
        """The task with its parameters."""
        return self.task.identity()

    def beginning(self, words: Tensor, episodes: Tensor) -> Tensors:
        """The task's own arrays as these episodes begin, and no step made."""
        steps = torch.zeros_like(episodes)
        return {**self.task.begin(self._noise(words, episodes, steps), self._xp), "steps": steps}

    def observe(self) -> Tensor:
        """What the environments show."""
        return self._shown(self._state)

    def step_into(self, actions: Tensor, observations: Tensor, final: Tensor) -> tuple[Tensor, ...]:
        """Steps, writes the observations, and gives rewards, flags and costs."""
        shown, last, *rest = self.run(actions)
        observations.copy_(shown)
        final.copy_(last)
        return tuple(rest)

    def infos(self, results: Sequence[Tensor]) -> dict[str, Any]:
        """The costs, and where episodes ended."""
        cost, ended = results
        return {"cost": cost, "_final_obs": ended}

    def advance(self, words: Tensor, actions: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """All results of a step; the tensors of the state themselves hold the state after resets then."""
        old = dict(zip(self.step_names, state, strict=True))
        steps, episodes = old["steps"] + 1, old["episodes"]
        own = {name: tensor for name, tensor in old.items() if name not in ("steps", "episodes")}
        new, rewards, cost = self.task.step(own, actions, self._noise(words, episodes, steps), self._xp)
        ended = steps >= self.task.config.horizon
        last = self._shown(new)
        episodes = episodes + ended.to(torch.int64)
        begun = self.beginning(words, episodes)
        after = {name: torch.where(ended, begun[name], tensor) for name, tensor in {**new, "steps": steps}.items()}
        results = (self._shown(after), last, rewards, torch.zeros_like(ended), ended, cost, ended)
        for name, tensor in {**after, "episodes": episodes}.items():
            old[name].copy_(tensor)
        return results

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

    def _shown(self, state: Tensors) -> Tensor:
        return torch.stack(self.task.observe(state), dim=-1).to(torch.float32)

    def checked(self, actions: Tensor) -> Tensor:
        """The actions in the task's form, refused where they are of another shape, type or device."""
        space = self.single_action_space
        whole = isinstance(space, Discrete)
        if not self._fits(actions) or actions.dtype.is_floating_point == whole:
            shape = (self.num_envs, *(space.shape or ()))
            raise EnvError(
                f"actions {actions.dtype, tuple(actions.shape), actions.device}"
                if isinstance(actions, Tensor)
                else f"actions as {type(actions).__name__}",
                f"{self.task.rl_alias} takes a tensor of shape {shape} on {self.device} for {space}",
                "Give one action per environment, on its device.",
            )
        if isinstance(space, Discrete):
            return actions.to(torch.int64).clamp(0, int(space.n) - 1)
        return torch.nan_to_num(actions.to(torch.float64), nan=0.0, posinf=0.0, neginf=0.0).clamp(-1.0, 1.0)

"""The base of a batched environment in torch: write a few functions of tensors, get the whole contract.

The state of all environments is a dict of tensors with one row per environment. They stay the same tensors all the
time, and a step writes into them, so that steps can be recorded as CUDA graphs. `episodes` counts each environment's
episodes; all randomness is a function of the seed's words, the environment and the episode.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NoReturn

import torch
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from torch import Tensor

from alphaswarm_rl.arrays.backend import torch_device
from alphaswarm_rl.arrays.backend_torch import float64_by_default
from alphaswarm_rl.arrays.compiled_function import CompiledFunction
from alphaswarm_rl.arrays.counter_rng_torch import seed_words
from alphaswarm_rl.core.contracts import EnvRequest, State
from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.core.types import AnySpace, JsonObject
from alphaswarm_rl.envs.episodes import (
    check_identity,
    checked_request,
    checked_seed,
    matching,
    refuse_options,
    refuse_picture,
)

Tensors = dict[str, Tensor]


class TorchVectorEnv(VectorEnv[Tensor, Tensor, Tensor], abc.ABC):
    """Many environments stepped together on a device, with SAME_STEP autoreset; the twin of `BaseRLEnv`.

    Everything that goes in and out of `step` is a tensor on the device, and nothing in it waits for the device: so
    `final_obs` and `_final_obs` are in the infos of every step. Tensors that it hands out stay as they are. A subclass
    writes:

    - `beginning(words, episodes)`: the state as these episodes begin, without `episodes`;
    - `observe()`: what the environments show, as a new tensor;
    - `advance(words, actions, *state)`: what of a step is one function of tensors, compiled where that is possible. It
      is given the tensors of the state that `step_names` names, and leaves the state after resets in them;
    - `step_into(actions, observations, final)`: a whole step, which calls `run`. Writes the observations, and the last
      ones of ended episodes to `final`; gives rewards, terminated, truncated and whatever `infos` needs;
    - `checked(actions)`, `infos(results)` and `identity()`.

    Args:
        request: How many, with which seed, and where.
        observation_space: Of one environment.
        action_space: Of one environment.
        compile: Whether to compile `advance` with `torch.compile`. None: on a GPU where that is possible.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}  # noqa: RUF012  (Gymnasium says so)

    def __init__(
        self,
        request: EnvRequest,
        *,
        observation_space: AnySpace,
        action_space: AnySpace,
        compile: bool | None,  # noqa: A002  (as torch calls it)
    ) -> None:
        if request.render:
            self.render()
        self.num_envs = checked_request(request).num_envs
        self.device = torch_device(request.device)
        self.single_observation_space = observation_space
        self.single_action_space = action_space
        self._phase = request.phase
        self._index = torch.arange(self.num_envs, device=self.device)
        self._seed = request.seed
        self._words = seed_words(request.seed, self.device)
        self._started = False
        with torch.no_grad(), float64_by_default():
            # Tensors of its own each, which every step writes over.
            self._state = {name: tensor.clone() for name, tensor in self.initial().items()}
        self._state["episodes"] = torch.full_like(self._index, -1)
        self.step_names = tuple(self._state)
        self._compile = compile
        self._graphs: Any = None
        self.step_anew()
        if self.device.type == "cuda" and self._run.compiles:
            from alphaswarm_rl.envs.step_graphs import StepGraphs

            self._graphs = StepGraphs(self.step_into)

    @abc.abstractmethod
    def beginning(self, words: Tensor, episodes: Tensor) -> Tensors:
        """The state as these episodes begin, without `episodes`."""

    @abc.abstractmethod
    def observe(self) -> Tensor:
        """What all environments show, as a new tensor."""

    @abc.abstractmethod
    def advance(self, words: Tensor, actions: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """The function of tensors that a step is; the tensors of the state hold the state after resets then."""

    @abc.abstractmethod
    def step_into(self, actions: Tensor, observations: Tensor, final: Tensor) -> tuple[Tensor, ...]:
        """A whole step: rewards, terminated, truncated and what `infos` needs."""

    @abc.abstractmethod
    def checked(self, actions: Tensor) -> Tensor:
        """The actions, refused where they are not one tensor of the action space on the device."""

    @abc.abstractmethod
    def infos(self, results: Sequence[Tensor]) -> dict[str, Any]:
        """The infos of a step, from what `step_into` gave beyond rewards, terminated and truncated."""

    @abc.abstractmethod
    def identity(self) -> JsonObject:
        """What a state of another environment would differ in, as plain data: it is refused then."""

    def step_anew(self) -> None:
        """Forgets how steps were compiled: `advance` gives other results from now on, and no graph has them."""
        self._graphs = None
        self._run = CompiledFunction(
            self.advance, self.device, enabled=self._compile, name="The step of the environment"
        )

    def initial(self) -> Tensors:
        """The state before the first reset."""
        return self.beginning(self._words, torch.zeros_like(self._index))

    @cached_property
    def observation_space(self) -> AnySpace:  # type: ignore[override]
        """The batched observation space; made when first used, as its bounds are as large as an observation."""
        return batch_space(self.single_observation_space, self.num_envs)

    @cached_property
    def action_space(self) -> AnySpace:  # type: ignore[override]
        """The batched action space."""
        return batch_space(self.single_action_space, self.num_envs)

    @property
    def compiled(self) -> bool:
        """Whether steps are compiled, or will be from the first on."""
        return self._run.compiles

    @property
    def episode_numbers(self) -> Tensor:
        """The current episode of each environment; -1 before the first reset."""
        return self._state["episodes"].clone()

    def reset(self, *, seed: int | None = None, options: JsonObject | None = None) -> tuple[Tensor, dict[str, Any]]:
        """Starts each environment's next episode; a seed replaces the request's and starts again from episode 0."""
        refuse_options(options)
        with torch.no_grad(), float64_by_default():
            episodes = self._state["episodes"] + 1
            if seed is not None:
                self._reseed(checked_seed(seed))
                episodes = torch.zeros_like(episodes)
            self._write({**self.beginning(self._words, episodes), "episodes": episodes})
            self._started = True
            return self.observe(), {}

    def step(
        self, actions: Tensor, out: Tensor | None = None, final_out: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Any]]:
        """One step of all; ended episodes are followed at once by their next.

        Args:
            actions: One per environment, on the device.
            out: Where the observation is to be written, (n, D) float32 on the device; None: into a new tensor.
            final_out: Where the last observations of ended episodes are to be written; other rows may stay as they are.
        """
        if not self._started:
            raise ResetNeeded("Cannot call step() before calling reset()")
        observations = self._empty() if out is None else self._checked_storage(out)
        final = torch.zeros_like(observations) if final_out is None else self._checked_storage(final_out)
        step = self.step_into if self._graphs is None or out is None or final_out is None else self._graphs
        with torch.no_grad(), float64_by_default():
            rewards, terminated, truncated, *rest = step(self.checked(actions), observations, final)
        return observations, rewards, terminated, truncated, {**self.infos(rest), "final_obs": final}

    def run(self, actions: Tensor) -> tuple[Tensor, ...]:
        """The results of `advance`, compiled where that is possible."""
        return self._run([self._words, actions, *(self._state[name] for name in self.step_names)])

    def render(self) -> NoReturn:
        """Not offered."""
        refuse_picture()

    def get_state(self) -> State:
        """Everything, as NumPy arrays of the names and types that the NumPy form has."""
        arrays = {name: tensor.cpu().numpy().copy() for name, tensor in self._state.items()}
        return State(arrays, {"seed": self._seed, "identity": self.identity()})

    def set_state(self, state: State) -> None:
        """Continues from there, bit for bit on the same device."""
        check_identity(state, self.identity())
        found = {name: matching(state, name, tensor.cpu().numpy()) for name, tensor in self._state.items()}
        self._reseed(checked_seed(state.data["seed"]))
        self._write({name: torch.tensor(found[name], dtype=tensor.dtype) for name, tensor in self._state.items()})
        self._started = bool((found["episodes"] >= 0).all())

    def _write(self, state: Mapping[str, Tensor]) -> None:
        """Writes into the tensors of the state, which stay the same ones."""
        for name, tensor in state.items():
            self._state[name].copy_(tensor)

    def _reseed(self, seed: int) -> None:
        self._seed = seed
        self._words.copy_(seed_words(seed, self.device))

    def _fits(self, actions: object) -> bool:
        """Whether actions are a tensor of the action space's shape on the device."""
        shape = (self.num_envs, *(self.single_action_space.shape or ()))
        return isinstance(actions, Tensor) and tuple(actions.shape) == shape and actions.device == self.device

    def _empty(self) -> Tensor:
        shape = (self.num_envs, *(self.single_observation_space.shape or ()))
        return torch.empty(shape, dtype=torch.float32, device=self.device)

    def _checked_storage(self, out: Tensor) -> Tensor:
        shape = (self.num_envs, *(self.single_observation_space.shape or ()))
        if tuple(out.shape) != shape or out.dtype != torch.float32 or out.device != self.device:
            raise EnvError(
                f"storage of shape {tuple(out.shape)} and type {out.dtype} on {out.device}",
                f"the observation is of shape {shape} and type float32 on {self.device}",
                "Give a tensor like that, or leave it out.",
            )
        return out

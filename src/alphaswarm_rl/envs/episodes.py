"""Which episode each environment is in, and the random numbers that each episode starts from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

import numpy as np

from alphaswarm_rl.arrays.counter_rng import uniform
from alphaswarm_rl.core.contracts import EnvRequest, State, Window, episode_key
from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.core.seeding import LARGEST_SEED
from alphaswarm_rl.core.types import Array, JsonMapping

#: Stream of the counter generator for what an episode starts from; an environment that draws on takes others.
START_STREAM = 0

#: Episodes drawn ahead at once: one draw of Philox costs 80 us for one environment and 3 ms for 16,384.
_AHEAD = 16


class Episodes:
    """The episode counters of a batch, and `count` uniform numbers for each episode.

    The numbers of an episode are a function of the seed and `episode_key` alone. They are drawn ahead in blocks, which
    changes nothing but the time it takes.

    Attributes:
        seed: Seed of all episodes.
        numbers: The current episode of each environment; -1 before the first reset.
    """

    def __init__(self, request: EnvRequest, count: int) -> None:
        self.seed = request.seed
        self.numbers = np.full(request.num_envs, -1, np.int64)
        self._phase = request.phase
        self._count = count
        self._first = np.zeros(request.num_envs, np.int64)
        self._drawn = np.empty((request.num_envs, _AHEAD, count))
        self._forget()

    def restart(self, seed: int | None) -> Array:
        """The numbers for every environment's next episode, or for episode 0 of a new seed."""
        if seed is not None:
            self.seed = checked_seed(seed)
            self.numbers[:] = -1
            self._forget()
        return self.advance(np.arange(len(self.numbers)))

    def advance(self, indices: Array) -> Array:
        """Moves these environments on to their next episode and gives its numbers, of shape (len(indices), count)."""
        self.numbers[indices] += 1
        if (self.numbers[indices] - self._first[indices]).max() >= _AHEAD:
            self._draw()
        drawn: Array = self._drawn[indices, self.numbers[indices] - self._first[indices]]
        return drawn

    def state(self) -> State:
        """The seed and the episode numbers."""
        return State(arrays={"episodes": self.numbers.copy()}, data={"seed": self.seed})

    def set_state(self, state: State) -> None:
        """Goes on from those episodes: the next one of each environment is its number + 1."""
        numbers, self.seed = matching(state, "episodes", self.numbers), checked_seed(state.data["seed"])
        self.numbers[:] = numbers
        self._forget()

    def _forget(self) -> None:
        self._first[:] = self.numbers - _AHEAD

    def _draw(self) -> None:
        # Whoever has used up half of its block is drawn along, so that a large batch does not draw on every step.
        used_up = np.flatnonzero(self.numbers - self._first >= _AHEAD // 2)
        episodes = np.maximum(self.numbers[used_up], 0)[:, None] + np.arange(_AHEAD)
        keys = np.empty((*episodes.shape, 2), np.int64)
        keys[..., 0], keys[..., 1] = episode_key(self._phase, len(self.numbers), used_up[:, None], episodes)  # type: ignore[arg-type]
        drawn = uniform(self.seed, keys.reshape(-1, 2), START_STREAM, self._count)
        self._drawn[used_up] = drawn.reshape(len(used_up), _AHEAD, self._count)
        self._first[used_up] = episodes[:, 0]


def checked_seed(seed: object) -> int:
    """The seed as a plain number, refused where a library could not take it."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed <= LARGEST_SEED:
        raise EnvError(
            f"seed {seed!r}", f"a seed is one whole number from 0 to {LARGEST_SEED}", "Give one such number."
        )
    return int(seed)


def checked_request(request: EnvRequest) -> EnvRequest:
    """The request, with its seed and its number of environments checked."""
    checked_seed(request.seed)
    if not isinstance(request.num_envs, int) or isinstance(request.num_envs, bool):
        raise EnvError(f"num_envs {request.num_envs!r}", "it is not a whole number", "Give one, such as num_envs=8.")
    if request.num_envs < 1:
        raise EnvError(f"num_envs {request.num_envs}", "there must be at least one environment", "Use 1 or more.")
    return request


def checked_pair(actions: object, num_envs: int, env: str, words: str) -> Array:
    """Actions of an environment that has two, 0 and 1; `words` says what they mean."""
    array = np.asarray(actions)
    if array.shape != (num_envs,) or array.dtype.kind not in "iu":
        raise EnvError(
            f"actions of shape {array.shape} and type {array.dtype}",
            f"{env} takes {num_envs} whole numbers",
            f"Give {words} per environment.",
        )
    # Halved, 0 and 1 alone are 0; a negative index would otherwise count from the end.
    if np.count_nonzero(array >> 1):
        wrong = array[(array != 0) & (array != 1)][0]
        raise EnvError(f"action {wrong}", f"{env} has two actions", f"Give {words}.")
    return array


def refuse_options(options: Mapping[str, object] | None, env: str = "this environment") -> None:
    """Refuses options of a reset, which no environment here takes."""
    if options:
        raise EnvError(f"reset options {sorted(options)}", f"{env} takes none", "Leave options out.")


def refuse_picture(remedy: str = "Set evaluation.render: false.") -> NoReturn:
    """Refuses to draw."""
    raise EnvError("a picture of this environment", "it draws none", remedy)


def refuse_window(name: str, window: Window) -> None:
    """An environment without dates cannot be shown a part of them."""
    if window:
        raise EnvError(
            f"the window {window.start} to {window.end}",
            f"{name} has no dates",
            "Leave start and end empty, or choose an environment with dates.",
        )


def matching(state: State, name: str, like: Array) -> Array:
    """An array of a state, refused where it is not of this batch's shape."""
    array = state.arrays.get(name)
    if array is None or array.shape != like.shape:
        found = "missing" if array is None else f"of shape {array.shape}"
        raise EnvError(
            f"the environment state's {name!r}",
            f"it is {found}, and this environment's is of shape {like.shape}",
            "Build the environment as it was built for the run that saved the state.",
        )
    return array


def check_identity(state: State, identity: JsonMapping) -> None:
    """Refuses a state of another environment."""
    saved = state.data.get("identity", {})
    for name in sorted({*saved, *identity}):
        if saved.get(name) != identity.get(name):
            raise EnvError(
                f"the environment state's {name}",
                f"it is {saved.get(name)!r}, and this environment's is {identity.get(name)!r}",
                "Build the environment as it was built for the run that saved the state.",
            )

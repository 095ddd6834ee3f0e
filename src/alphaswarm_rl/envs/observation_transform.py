"""What is done to observations before an agent sees them: frames stacked, values normalised, values clipped.

An observation is one array or, in a Dict space, several by name; here it is always a dict of parts, of which the only
one of a plain observation has a name of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from gymnasium.spaces import Box, Dict

from alphaswarm_rl.core.contracts import State
from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.core.types import AnyObservation, AnySpace, Array

#: Name under which the only part of an observation that is no Dict is kept.
_WHOLE = "observation"
#: How much the starting guess (mean 0, variance 1) weighs, in samples; Stable-Baselines3's value.
_WEIGHT_OF_THE_GUESS = 1e-4
_EPSILON = 1e-8


@dataclass(frozen=True)
class ObservationSettings:
    """How observations are prepared.

    Attributes:
        normalize: `running` learns mean and variance while training, `fixed` takes them from a warm-up before it.
        clip_range: Bounds of every value afterwards; one number c means (-c, c).
        stack_frames: How many frames an observation shows.
    """

    normalize: Literal["none", "running", "fixed"] = "none"
    clip_range: float | tuple[float, float] | None = None
    stack_frames: int | None = None

    @property
    def changes_nothing(self) -> bool:
        """Whether observations are left as they come."""
        return self.normalize == "none" and self.clip_range is None and self.stack_frames is None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """`clip_range` as lower and upper bound."""
        clip = self.clip_range
        if clip is None:
            return None
        low, high = clip if isinstance(clip, tuple | list) else (-clip, clip)
        if not low < high:
            raise EnvError(f"obs.clip_range {clip!r}", "it leaves no room", "Give a positive number, or two in order.")
        return float(low), float(high)


class Moments:
    """Running mean and variance of each entry of an observation, in float64 (Chan et al. 1979).

    Attributes:
        mean: Mean so far.
        var: Variance so far.
        count: Samples so far.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.mean = np.zeros(shape)
        self.var = np.ones(shape)
        self.count = _WEIGHT_OF_THE_GUESS

    def update(self, batch: Array) -> None:
        """Takes in a batch, whose first axis counts samples."""
        samples = batch.astype(np.float64)
        added = len(samples)
        mean = np.add.reduce(samples) / added
        samples -= mean
        squares = np.add.reduce(samples * samples)
        delta = mean - self.mean
        total = self.count + added
        self.var = (self.var * self.count + squares + delta * delta * (self.count * added / total)) / total
        self.mean = self.mean + delta * (added / total)
        self.count = total

    def normalize(self, batch: Array) -> Array:
        """The batch with mean 0 and variance 1, as far as is known, in float32."""
        return ((batch - self.mean) / np.sqrt(self.var + _EPSILON)).astype(np.float32)

    def arrays(self, name: str) -> dict[str, Array]:
        """Everything, under that name."""
        return {f"{name}.mean": self.mean.copy(), f"{name}.var": self.var.copy(), f"{name}.count": np.array(self.count)}

    def load(self, name: str, arrays: dict[str, Array]) -> None:
        """Becomes what `arrays` said; a KeyError or ValueError where that is not of this shape."""
        mean, var, count = (arrays[f"{name}.{part}"] for part in ("mean", "var", "count"))
        if mean.shape != self.mean.shape or var.shape != self.var.shape:
            raise ValueError(f"{name} is of shape {mean.shape}, not {self.mean.shape}")
        self.mean, self.var = mean.astype(np.float64), var.astype(np.float64)
        self.count = float(count)


class ObservationTransform:
    """The transform of a batch of observation streams.

    Frames of 1-D and 2-D boxes are joined along their last axis, those of 3-D boxes along the channels (the first axis
    where it is the shortest, as Stable-Baselines3 decides, otherwise the last); an episode's first frame is repeated.
    Of a Dict, every Box is stacked, every Box of floats is normalised and clipped, and the rest is left alone.

    It needs no environment: a policy that is served holds one per stream and calls `apply`.

    Args:
        space: The space of one raw observation.
        settings: How observations are prepared.
    """

    def __init__(self, space: AnySpace, settings: ObservationSettings) -> None:
        self.settings = settings
        self.ready = settings.normalize != "fixed"
        self._is_dict = isinstance(space, Dict)
        parts: dict[str, AnySpace] = dict(space.items()) if isinstance(space, Dict) else {_WHOLE: space}
        self._bounds = settings.bounds
        self._depth = settings.stack_frames or 1
        _check(parts, settings)
        boxes = {name: part for name, part in parts.items() if isinstance(part, Box)}
        self._axes = {name: _stacking_axis(box) for name, box in boxes.items()} if self._depth > 1 else {}
        stacked = {name: _stack_space(box, self._axes.get(name), self._depth) for name, box in boxes.items()}
        self._floats = tuple(name for name, box in boxes.items() if _is_float(box))
        self._moments = {name: Moments(stacked[name].shape) for name in self._floats if settings.normalize != "none"}
        self._frames: dict[str, list[Array]] = {}
        self._flat = isinstance(space, Box) and len(space.shape) == 1
        finished = {name: self._finished_space(name, box) for name, box in stacked.items()}
        spaces = {**parts, **finished}
        #: The space of one observation afterwards.
        self.space: AnySpace = Dict(spaces) if self._is_dict else spaces[_WHOLE]

    @property
    def stacked_frames(self) -> int | None:
        """How many frames follow each other in a flat observation, the oldest first; None where there is but one."""
        return self._depth if self._depth > 1 and self._flat else None

    def apply(self, observations: AnyObservation, episode_start: Array, *, learn: bool = False) -> Any:
        """Transforms the next observations of all streams.

        Args:
            observations: A batch of raw observations.
            episode_start: Which streams begin an episode with it. All do at the first call.
            learn: Whether the statistics take it in.
        """
        return self.finish(self.push(observations, episode_start), learn=learn)

    def push(self, observations: AnyObservation, episode_start: Array) -> dict[str, Array]:
        """Takes the next raw frames in, and gives the stacks."""
        parts = self._parts(observations)
        for name, axis in self._axes.items():
            newest = np.array(parts[name])
            frames = self._frames.get(name)
            if frames is None:
                frames = [newest.copy() for _ in range(self._depth - 1)]
            else:
                frames = frames[1:]
                if episode_start.any():
                    for frame in frames:
                        frame[episode_start] = newest[episode_start]
            self._frames[name] = [*frames, newest]
            parts[name] = np.concatenate(self._frames[name], axis=axis)
        return parts

    def last(self, observations: AnyObservation, rows: Array) -> dict[str, Array]:
        """The stacks that end with these raw frames, for some streams; nothing is taken in."""
        parts = {name: array[rows] for name, array in self._parts(observations).items()}
        for name, axis in self._axes.items():
            parts[name] = np.concatenate([*(frame[rows] for frame in self._frames[name][1:]), parts[name]], axis=axis)
        return parts

    def finish(self, stacks: dict[str, Array], *, learn: bool = False) -> Any:
        """Stacks normalised and clipped."""
        parts = dict(stacks)
        if self._moments and not (self.ready or learn):
            raise EnvError(
                "obs.normalize: fixed", "its statistics are not there yet", "Call fit() or load_statistics() first."
            )
        for name, moments in self._moments.items():
            if learn:
                moments.update(parts[name])
            parts[name] = moments.normalize(parts[name])
        if self._bounds is not None:
            low, high = self._bounds
            for name in self._floats:
                parts[name] = np.minimum(
                    np.maximum(parts[name], parts[name].dtype.type(low)), parts[name].dtype.type(high)
                )
        return parts if self._is_dict else parts[_WHOLE]

    def _parts(self, observations: AnyObservation) -> dict[str, Array]:
        return dict(observations) if self._is_dict else {_WHOLE: observations}  # type: ignore[dict-item]

    def forget_frames(self) -> None:
        """Begins every stream anew with the next observation."""
        self._frames = {}

    def statistics(self) -> State:
        """Mean, variance and count of every normalised part."""
        arrays = {key: array for name, moments in self._moments.items() for key, array in moments.arrays(name).items()}
        return State(arrays=arrays, data={"ready": self.ready})

    def load_statistics(self, state: State) -> None:
        """Takes statistics over, such as those of the training run for its evaluation."""
        try:
            for name, moments in self._moments.items():
                moments.load(name, state.arrays)
        except (KeyError, ValueError) as error:
            raise EnvError(
                "observation statistics",
                f"they are not of this environment: {error}",
                "Use those of its own training run.",
            ) from error
        self.ready = bool(state.data["ready"])

    def get_state(self) -> State:
        """The statistics and the frames."""
        statistics = self.statistics()
        frames = {f"{name}.frame.{age}": f.copy() for name, kept in self._frames.items() for age, f in enumerate(kept)}
        return State(arrays={**statistics.arrays, **frames}, data=statistics.data)

    def set_state(self, state: State) -> None:
        """Continues from there, bit for bit."""
        self.load_statistics(state)
        kept = {name: [f"{name}.frame.{age}" for age in range(self._depth)] for name in self._axes}
        self._frames = {
            name: [state.arrays[key].copy() for key in keys] for name, keys in kept.items() if keys[0] in state.arrays
        }

    def _finished_space(self, name: str, box: Box) -> Box:
        if name not in self._floats:
            return box
        low, high, dtype = box.low, box.high, box.low.dtype.type
        if name in self._moments:
            low, high, dtype = np.full(box.shape, -np.inf), np.full(box.shape, np.inf), np.float32
        if self._bounds is not None:
            low, high = np.clip(low, *self._bounds), np.clip(high, *self._bounds)
        return Box(low.astype(dtype), high.astype(dtype), dtype=dtype)


def _is_float(space: AnySpace) -> bool:
    return isinstance(space, Box) and np.issubdtype(space.dtype, np.floating)


def _check(parts: dict[str, AnySpace], settings: ObservationSettings) -> None:
    """Refuses what would have no effect."""
    shown = ", ".join(str(part) for part in parts.values())
    if not any(map(_is_float, parts.values())):
        why = f"the observation has no part of floats ({shown})"
        if settings.normalize != "none":
            raise EnvError(f"obs.normalize: {settings.normalize}", why, "Write obs.normalize: none.")
        if settings.clip_range is not None:
            raise EnvError(f"obs.clip_range: {settings.clip_range}", why, "Write obs.clip_range: null.")
    frames = settings.stack_frames
    if frames is not None and frames < 1:
        raise EnvError(f"obs.stack_frames: {frames}", "there is at least one frame", "Give 1 or more, or null.")
    if frames is not None and frames > 1 and not any(isinstance(part, Box) for part in parts.values()):
        why = f"only boxes can be stacked, and the observation is {shown}"
        raise EnvError(f"obs.stack_frames: {frames}", why, "Write obs.stack_frames: null.")


def _stacking_axis(box: Box) -> int:
    """The axis of a batch along which frames are joined."""
    if not 1 <= len(box.shape) <= 3:
        raise EnvError(
            "obs.stack_frames", f"a box of shape {box.shape} has no axis for it", "Write obs.stack_frames: null."
        )
    return 1 if len(box.shape) == 3 and int(np.argmin(box.shape)) == 0 else len(box.shape)


def _stack_space(box: Box, axis: int | None, depth: int) -> Box:
    if axis is None:
        return box
    low, high = (np.concatenate([bound] * depth, axis=axis - 1) for bound in (box.low, box.high))
    return Box(low, high, dtype=box.low.dtype.type)

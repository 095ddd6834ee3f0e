"""What every batched environment must do. A new environment's test calls `check_vector_env`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from alphaswarm_rl.core.contracts import EnvRequest

Build = Callable[[EnvRequest], "VectorEnv[Any, Any, Any]"]


@dataclass(frozen=True)
class Step:
    """One step of one environment; `final` is its last observation where the episode ended."""

    observation: bytes
    reward: float
    terminated: bool
    truncated: bool
    final: bytes | None


def check_vector_env(build: Build, *, steps: int = 120, expect_end: bool = True) -> None:
    """Checks one environment against the whole contract.

    Args:
        build: Builds it; called many times.
        steps: How long each check runs.
        expect_end: Whether some episode must end within `steps`, so that the checks of ends are not empty.
    """
    check_spaces_and_flags(build, steps, expect_end=expect_end)
    check_kept_arrays_stay(build, steps)
    check_caller_may_write(build, steps)
    check_repeatable(build, steps)
    check_independent_of_company(build, steps)
    check_evaluation_set(build)
    check_reset_numbering(build)
    check_state_round_trip(build, steps)


def leaves(observation: Any) -> list[np.ndarray]:
    """The arrays of an observation, in a fixed order."""
    return [observation[key] for key in sorted(observation)] if isinstance(observation, dict) else [observation]


def row(observation: Any, index: int) -> bytes:
    """One environment's observation as bytes."""
    return b"".join(np.ascontiguousarray(leaf[index]).tobytes() for leaf in leaves(observation))


def actions_for(env: VectorEnv, seed: int, steps: int) -> list[np.ndarray]:
    """Random actions that depend on the environment's index, not on how many there are."""
    per_env = []
    for index in range(env.num_envs):
        env.single_action_space.seed(1000 * seed + index)
        per_env.append([env.single_action_space.sample() for _ in range(steps)])
    return [np.stack([np.asarray(rows[step]) for rows in per_env]) for step in range(steps)]


def roll(env: VectorEnv, steps: int, *, seed: int = 0) -> list[list[Step]]:
    """Runs from a reset and gives each environment's own stream."""
    observation, _ = env.reset()
    streams = [[Step(row(observation, i), 0.0, False, False, None)] for i in range(env.num_envs)]
    for actions in actions_for(env, seed, steps):
        record(streams, env.step(actions))
    return streams


def record(streams: list[list[Step]], result: tuple[Any, ...]) -> None:
    observation, rewards, terminated, truncated, infos = result
    for i, stream in enumerate(streams):
        ended = bool(terminated[i] or truncated[i])
        final = row(infos["final_obs"], i) if ended else None
        stream.append(Step(row(observation, i), float(rewards[i]), bool(terminated[i]), bool(truncated[i]), final))


def check_spaces_and_flags(build: Build, steps: int, *, expect_end: bool) -> None:
    env = build(EnvRequest(num_envs=3, seed=1))
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert env.num_envs == 3
    assert env.episode_numbers.tolist() == [-1, -1, -1]
    observation, infos = env.reset()
    assert isinstance(infos, dict)
    _assert_in_space(env, observation)
    ends = np.zeros(3, np.int64)
    for actions in actions_for(env, 0, steps):
        before = env.episode_numbers
        observation, rewards, terminated, truncated, infos = env.step(actions)
        _assert_in_space(env, observation)
        assert rewards.shape == terminated.shape == truncated.shape == (3,)
        assert rewards.dtype == np.float64
        assert terminated.dtype == truncated.dtype == np.bool_
        assert not (terminated & truncated).any(), "an episode ends by one flag"
        ended = terminated | truncated
        assert ("final_obs" in infos) == ("_final_obs" in infos) == bool(ended.any())
        if ended.any():
            np.testing.assert_array_equal(infos["_final_obs"], ended)
            _assert_in_space(env, infos["final_obs"], rows=np.flatnonzero(ended))
        ends += ended
        np.testing.assert_array_equal(env.episode_numbers, before + ended)
    assert not expect_end or ends.all(), "no episode ended: run longer"
    env.close()


def _assert_in_space(env: VectorEnv, observation: Any, rows: Any = range(3)) -> None:
    for leaf in leaves(observation):
        assert leaf.shape[0] == env.num_envs
    for i in rows:
        one = {key: array[i] for key, array in observation.items()} if isinstance(observation, dict) else observation[i]
        assert env.single_observation_space.contains(one), f"{one!r} is not in {env.single_observation_space}"


def check_kept_arrays_stay(build: Build, steps: int) -> None:
    env = build(EnvRequest(num_envs=2, seed=2))
    observation, _ = env.reset()
    kept = [(array, array.copy()) for array in leaves(observation)]
    for actions in actions_for(env, 0, steps):
        observation, rewards, terminated, truncated, infos = env.step(actions)
        given = [*leaves(observation), rewards, terminated, truncated, env.episode_numbers]
        if "final_obs" in infos:
            given += [*leaves(infos["final_obs"]), infos["_final_obs"]]
        kept += [(array, array.copy()) for array in given]
    env.reset()
    for array, copy in kept:
        np.testing.assert_array_equal(array, copy)
    env.close()


def check_caller_may_write(build: Build, steps: int) -> None:
    """What a caller does to arrays it was given changes nothing."""
    env, scribbled = (build(EnvRequest(num_envs=2, seed=2)) for _ in range(2))
    results = [env.reset()[0], scribbled.reset()[0]]
    for actions in actions_for(env, 1, steps):
        assert [row(results[0], i) for i in range(2)] == [row(results[1], i) for i in range(2)]
        for array in leaves(results[1]):
            array[...] = 0
        results = [env.step(actions)[0], scribbled.step(actions)[0]]


def check_repeatable(build: Build, steps: int) -> None:
    request = EnvRequest(num_envs=2, seed=5)
    first = roll(build(request), steps)
    assert first == roll(build(request), steps), "the same seed gives the same bytes"
    reseeded = build(EnvRequest(num_envs=2, seed=99))
    reseeded.reset()
    reseeded.reset(seed=5)
    assert reseeded.episode_numbers.tolist() == [0, 0]


def check_independent_of_company(build: Build, steps: int) -> None:
    alone = roll(build(EnvRequest(num_envs=1, seed=7)), steps)
    together = roll(build(EnvRequest(num_envs=5, seed=7)), steps)
    assert alone[0] == together[0], "environment 0 of 1 is environment 0 of 5"


def check_evaluation_set(build: Build) -> None:
    """The first six evaluation episodes start alike for one, two, three and six environments."""
    sets = [_evaluation_starts(build, num_envs) for num_envs in (1, 2, 3, 6)]
    assert all(starts == sets[0] for starts in sets)


def _evaluation_starts(build: Build, num_envs: int) -> list[bytes]:
    env = build(EnvRequest(num_envs=num_envs, seed=3, phase="evaluate"))
    starts = []
    for _ in range(6 // num_envs):
        observation, _ = env.reset()
        starts += [row(observation, i) for i in range(num_envs)]
    env.close()
    return starts


def check_reset_numbering(build: Build) -> None:
    env = build(EnvRequest(num_envs=2, seed=4))
    first, _ = env.reset()
    assert env.episode_numbers.tolist() == [0, 0]
    env.reset()
    assert env.episode_numbers.tolist() == [1, 1]
    again, _ = env.reset(seed=4)
    assert env.episode_numbers.tolist() == [0, 0]
    assert row(first, 0) == row(again, 0)
    env.close()


def check_state_round_trip(build: Build, steps: int) -> None:
    """A state carries everything on, bit for bit, whatever the other environment did before."""
    env = build(EnvRequest(num_envs=3, seed=6))
    if not hasattr(env, "get_state") or not getattr(env, "inner_stateful", True):
        return
    env.reset()
    actions = actions_for(env, 1, 2 * steps)
    for action in actions[:steps]:
        env.step(action)
    state = env.get_state()
    kept = {name: array.copy() for name, array in state.arrays.items()}
    other = build(EnvRequest(num_envs=3, seed=123))
    other.reset()
    other.set_state(state)
    expected: list[list[Step]] = [[] for _ in range(3)]
    found: list[list[Step]] = [[] for _ in range(3)]
    for action in actions[steps:]:
        record(expected, env.step(action))
        record(found, other.step(action))
    assert expected == found
    for name, array in kept.items():
        np.testing.assert_array_equal(state.arrays[name], array, err_msg="a state that was given stays as it is")

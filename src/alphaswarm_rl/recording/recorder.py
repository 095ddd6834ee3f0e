"""The recorder: takes in the steps of a run while it goes on, and writes them from a thread of its own.

The loop hashes observations and copies everything else. When a block of steps is full it goes to the writer, who
numbers episodes, makes rows and hands them to the trajectory store. The loop stands aside for that moment, and waits
where the writer does not keep up: memory is bounded, and nothing is dropped.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from alphaswarm_rl.core.contracts import OpenStore
from alphaswarm_rl.recording.numbering import Numbering
from alphaswarm_rl.recording.recorded_rows import RowKey, tables_of
from alphaswarm_rl.recording.recorded_steps import Steps, are_here, hashes_of

#: Blocks that wait for the writer; with the one being filled and the one being written they share the memory.
_WAITING = 2
_BLOCKS = 8
#: Seconds that the loop stands aside for a block.
_LEND_S = 0.25


class Writer:
    """A thread that does one thing after the other.

    Args:
        name: What the thread is called.
    """

    def __init__(self, name: str) -> None:
        self.waited = 0.0
        self._failure: BaseException | None = None
        self._queue: queue.Queue[Callable[[], None] | threading.Event | None] = queue.Queue(_WAITING)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], None]) -> None:
        """Has something done; waits while too much is waiting. A failure of earlier work is raised here."""
        self.check()
        try:
            self._queue.put_nowait(work)
        except queue.Full:
            began = time.perf_counter()
            self._queue.put(work)
            self.waited += time.perf_counter() - began

    def lend(self, work: Callable[[], None]) -> None:
        """Has something done, and stands aside for it.

        Two threads that work at once on neighbouring cores, with one interpreter lock between them, slow each other
        down by more than they win: done one after the other, the same takes half the CPU time. Where the writer is
        busy for long, as with a catalogue that does not answer, the loop goes on.
        """
        self.submit(work)
        done = threading.Event()
        self._queue.put(done)
        began = time.perf_counter()
        done.wait(_LEND_S)
        self.waited += time.perf_counter() - began

    def wait(self) -> None:
        """Until everything so far is done."""
        done = threading.Event()
        self._queue.put(done)
        began = time.perf_counter()
        done.wait()
        self.waited += time.perf_counter() - began
        self.check()

    def check(self) -> None:
        """Raises what went wrong."""
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Ends the thread after what is waiting."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            if isinstance(work, threading.Event):
                work.set()
            elif self._failure is None:  # after a failure nothing more is done
                try:
                    work()
                except BaseException as error:  # noqa: BLE001  (it is raised in the loop's thread)
                    self._failure = error


class PhaseRecorder:
    """Records one phase of a run.

    Args:
        writer: The thread.
        store: Where rows go.
        key: Whose rows they are.
        numbering: Numbers episodes and steps.
        num_envs: How many are stepped together.
        block: Steps of the batch before they go to the writer.
        first: Steps of the batch before this recorder.
        timesteps: Transitions of the run: None counts the steps of this phase, a number is that of a judgement.
        episodes: Episodes with this number or a higher one are not recorded; None: all are.
        observations: Whether whole observations are written.
        holds: Whether steps count only once they are released.
    """

    def __init__(
        self,
        writer: Writer,
        store: OpenStore,
        key: RowKey,
        numbering: Numbering,
        *,
        num_envs: int,
        block: int,
        first: int = 0,
        timesteps: int | None = None,
        episodes: int | None = None,
        observations: bool = False,
        holds: bool = False,
    ) -> None:
        self.rows = 0
        self._writer = writer
        self._store = store
        self._key = key
        self._numbering = numbering
        self._num_envs = num_envs
        self._block = block
        self._timesteps = timesteps
        self._episodes = episodes
        self._observations = observations
        self._holds = holds
        self._released = first
        self._steps = Steps(first, block)
        self._seen: Any = None
        self._hashes_here = False
        self._held: list[Steps] = []

    @property
    def transitions(self) -> int:
        """Transitions so far."""
        return (self._steps.first + len(self._steps)) * self._num_envs

    def begin(self, observation: Any) -> None:
        """Every environment was reset, and shows this; what came before counts."""
        self.release()
        self.flush()
        self._writer.submit(self._numbering.next_episodes)
        self.go_on(observation)

    def go_on(self, observation: Any) -> None:
        """The environments go on from a checkpoint, and show this."""
        self._seen = observation
        # Hashed while they lie in the cache, and let go: to hold thousands of them would cost the loop more than that.
        # Those on a device come over to this side by the block.
        self._hashes_here = not self._observations and are_here(observation)

    def step(
        self, actions: Any, observation: Any, rewards: Any, terminated: Any, truncated: Any, infos: dict[str, Any]
    ) -> None:
        """Takes in one step of all; `observation` is what they show after it."""
        steps = self._steps
        if len(steps) >= self._block:
            # Not earlier: what the agent thought of the last step is told after it.
            self.flush()
            steps = self._steps
        steps.actions.append(actions if type(actions) is np.ndarray else _copied(actions))
        if self._hashes_here:
            steps.hashes.append(hashes_of(self._seen))
        else:
            steps.observations.append(self._seen)
        steps.tell(infos, keep=self._observations)
        steps.terminated.append(terminated)
        steps.truncated.append(truncated)
        steps.rewards.append(rewards)
        self._seen = observation

    def decided(self, values: Any, log_probs: Any) -> None:
        """What the agent thought of the last step."""
        self._steps.values.append(values)
        self._steps.log_probs.append(log_probs)

    def release(self) -> None:
        """All steps so far count."""
        self._released = self._steps.first + len(self._steps)

    def abandon(self) -> None:
        """Steps that were not released are forgotten, as if they had not been."""
        released = self._released
        if self._steps.first <= released:
            self._steps, _ = self._steps.split(released - self._steps.first)
        else:
            self._steps = Steps(released, self._block)
            self._writer.submit(lambda: self._cut(released))
        self.flush()

    def flush(self) -> None:
        """Hands what there is to the writer."""
        steps, released = self._steps, self._released
        self._steps = Steps(steps.first + len(steps), self._block)
        if len(steps):
            self._writer.lend(lambda: self._take(steps, released))
        elif self._holds:
            self._writer.submit(lambda: self._write(released))

    # What follows runs in the writer's thread.

    def _take(self, steps: Steps, released: int) -> None:
        steps.hash_observations(keep=self._observations)
        if not self._observations:
            steps.infos = [_without_final(info) for info in steps.infos]
        self._held.append(steps)
        self._write(released if self._holds else steps.first + len(steps))

    def _cut(self, released: int) -> None:
        held = [
            steps if steps.first + len(steps) <= released else steps.split(released - steps.first)[0]
            for steps in self._held
            if steps.first < released
        ]
        self._held = held

    def _write(self, released: int) -> None:
        while self._held and self._held[0].first < released:
            steps, rest = self._held[0].split(min(released - self._held[0].first, len(self._held[0])))
            self._held[:1] = [rest] if len(rest) else []
            self._put(steps)
        self._store.deliver()

    def _put(self, steps: Steps) -> None:
        ended = np.ascontiguousarray(steps.terminated.batched() | steps.truncated.batched())
        episodes, numbers, kept = self._numbering.take(ended)
        if self._episodes is not None:
            kept &= episodes < self._episodes
        rows = tables_of(steps, self._key, episodes, numbers, kept, observations=self._observations)
        end = (steps.first + len(steps)) * self._num_envs
        self.rows += rows["trajectories"].num_rows if rows else 0
        self._store.write(self._key.phase, rows, end if self._timesteps is None else self._timesteps)


def block_size(num_envs: int, observation_bytes: int, *, flush_rows: int, memory_mb: int) -> int:
    """Steps of the batch in one block: as many as asked for, or as many as the memory allows."""
    per_step = num_envs * (2 * observation_bytes + 1024)
    return max(1, min(flush_rows, memory_mb * 1_000_000 // _BLOCKS // per_step))


def _without_final(info: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in info.items() if name != "final_obs"} if "final_obs" in info else info


def _copied(actions: Any) -> Any:
    if isinstance(actions, dict):
        return {name: _copied(part) for name, part in actions.items()}
    if isinstance(actions, tuple | list):
        return tuple(_copied(part) for part in actions)
    return actions.clone() if hasattr(actions, "clone") else np.array(actions)

"""Collects the steps of one phase of a run in blocks, and hands full blocks to a writer thread.

The loop hashes observations and copies everything else into a block. When a block is full it goes to the writer, who
numbers episodes, makes rows and hands them to the trajectory store. The loop stands aside for that moment, and waits
where the writer does not keep up: memory is bounded, and nothing is dropped.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from alphaswarm_rl.core.contracts import OpenStore
from alphaswarm_rl.core.types import Array, Batch, JsonMapping, JsonObject
from alphaswarm_rl.recording.numbering import Numbering
from alphaswarm_rl.recording.rows import RowKey, TradesPlan, tables_of
from alphaswarm_rl.recording.steps import StepBlock, observation_hashes, on_host

#: Blocks that wait for the writer; with the one being filled and the one being written they share the memory.
_WAITING = 2
_BLOCKS = 8
#: Seconds that the loop stands aside for a block.
_PAUSE_S = 0.25


class Writer:
    """A thread that does one task after the other.

    Args:
        name: What the thread is called.

    Attributes:
        waited: Seconds that the loop has waited for it.
    """

    def __init__(self, name: str) -> None:
        self.waited = 0.0
        self._failure: BaseException | None = None
        self._queue: queue.Queue[Callable[[], None] | threading.Event | None] = queue.Queue(_WAITING)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, task: Callable[[], None]) -> None:
        """Queues a task; waits while too many are queued. A failure of earlier tasks is raised here."""
        self.check()
        try:
            self._queue.put_nowait(task)
        except queue.Full:
            began = time.perf_counter()
            self._queue.put(task)
            self.waited += time.perf_counter() - began

    def submit_and_pause(self, task: Callable[[], None]) -> None:
        """Queues a task and waits a moment for the writer to finish it.

        Two threads that work at once on neighbouring cores, with one interpreter lock between them, slow each other
        down by more than they win: done one after the other, the same takes half the CPU time. Where the writer is
        busy for long, as with a catalogue that does not answer, the loop goes on.
        """
        self.submit(task)
        self._wait(_PAUSE_S)

    def wait(self) -> None:
        """Waits until all tasks so far are done."""
        self._wait(None)
        self.check()

    def _wait(self, seconds: float | None) -> None:
        done = threading.Event()
        self._queue.put(done)
        began = time.perf_counter()
        done.wait(seconds)
        self.waited += time.perf_counter() - began

    def check(self) -> None:
        """Raises the error of a task that failed."""
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Ends the thread after the tasks that are queued."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (task := self._queue.get()) is not None:
            if isinstance(task, threading.Event):
                task.set()
            elif self._failure is None:  # after a failure nothing more is done
                try:
                    task()
                except BaseException as error:  # noqa: BLE001  (it is raised in the loop's thread)
                    self._failure = error


@dataclass(frozen=True)
class PhasePlan:
    """How one phase of a run is recorded.

    Attributes:
        key: What all its rows begin with.
        num_envs: How many environments are stepped together.
        block_steps: Steps of the batch that make a block.
        observations: Whether whole observations are written.
        first_step: Steps of the batch before this recorder.
        timesteps: Transitions of the run that rows are stored under; None counts the steps of this phase.
        episode_limit: Episodes with this number or a higher one are not recorded; None: all are.
        holds: Whether steps are written only once they are released.
        trades: How trades are recorded; None where the environment logs none.
    """

    key: RowKey
    num_envs: int
    block_steps: int
    observations: bool
    first_step: int = 0
    timesteps: int | None = None
    episode_limit: int | None = None
    holds: bool = False
    trades: TradesPlan | None = None


class PhaseRecorder:
    """Records one phase of a run.

    Args:
        writer: The thread.
        store: Where rows go.
        numbering: Numbers episodes and steps.
        plan: How the phase is recorded.
    """

    def __init__(self, writer: Writer, store: OpenStore, numbering: Numbering, plan: PhasePlan) -> None:
        self._writer = writer
        self._store = store
        self._numbering = numbering
        self._plan = plan
        self._block_steps = plan.block_steps
        self._keep_observations = plan.observations
        self._released = plan.first_step
        self._block = StepBlock(plan.first_step, plan.block_steps)
        self._observation: Batch = None
        self._hashes_at_once = False
        #: Blocks that wait in the writer's thread for their release.
        self._held: list[StepBlock] = []

    def reset(self, observation: Batch) -> None:
        """Every environment was reset, and shows this; steps before it count."""
        self.release()
        self.flush()
        self._writer.submit(self._numbering.next_episodes)
        self.resume(observation)

    def resume(self, observation: Batch) -> None:
        """The environments continue from a checkpoint, and show this."""
        self._observation = observation
        # Hashed while they lie in the cache, and released: to hold thousands of them would cost the loop more than
        # that. Those on a device come to the host by the block.
        self._hashes_at_once = not self._keep_observations and on_host(observation)

    def step(
        self,
        actions: Batch,
        observation: Batch,
        rewards: Array,
        terminated: Array,
        truncated: Array,
        infos: JsonObject,
    ) -> None:
        """Takes in one step of all environments; `observation` is what they show after it."""
        block = self._block
        if len(block) >= self._block_steps:
            # Not earlier: the agent's value of the last step comes after it.
            self.flush()
            block = self._block
        block.actions.append(actions if type(actions) is np.ndarray else _copy(actions))
        if self._hashes_at_once:
            block.hashes.append(observation_hashes(self._observation))
        else:
            block.observations.append(self._observation)
        block.add_infos(infos, keep=self._keep_observations)
        block.terminated.append(terminated)
        block.truncated.append(truncated)
        block.rewards.append(rewards)
        self._observation = observation

    def decided(self, values: Batch, log_probs: Batch) -> None:
        """Takes in the agent's value estimates and log-probabilities of the last step."""
        self._block.values.append(values)
        self._block.log_probs.append(log_probs)

    def release(self) -> None:
        """All steps so far are to be written."""
        self._released = self._block.first + len(self._block)

    def abandon(self) -> None:
        """Forgets the steps that were not released; they are never written."""
        released = self._released
        if self._block.first <= released:
            self._block, _ = self._block.split(released - self._block.first)
        else:
            self._block = StepBlock(released, self._block_steps)
            self._writer.submit(lambda: self._drop_after(released))
        self.flush()

    def flush(self) -> None:
        """Hands the steps so far to the writer."""
        block, released = self._block, self._released
        self._block = StepBlock(block.first + len(block), self._block_steps)
        if len(block):
            self._writer.submit_and_pause(lambda: self._take(block, released))
        elif self._plan.holds:
            self._writer.submit(lambda: self._write(released))

    # What follows runs in the writer's thread.

    def _take(self, block: StepBlock, released: int) -> None:
        block.hash_observations(keep=self._keep_observations)
        if not self._keep_observations:
            block.infos = [_without_final(info) for info in block.infos]
        self._held.append(block)
        self._write(released if self._plan.holds else block.first + len(block))

    def _drop_after(self, released: int) -> None:
        self._held = [
            block if block.first + len(block) <= released else block.split(released - block.first)[0]
            for block in self._held
            if block.first < released
        ]

    def _write(self, released: int) -> None:
        while self._held and self._held[0].first < released:
            block, rest = self._held[0].split(min(released - self._held[0].first, len(self._held[0])))
            self._held[:1] = [rest] if len(rest) else []
            self._put(block)
        self._store.deliver()

    def _put(self, block: StepBlock) -> None:
        plan = self._plan
        numbers = self._numbering.take(np.ascontiguousarray(block.terminated.batched() | block.truncated.batched()))
        if plan.episode_limit is not None:
            np.logical_and(numbers.kept, numbers.episodes < plan.episode_limit, out=numbers.kept)
        rows = tables_of(block, plan.key, numbers, observations=plan.observations, trades=plan.trades)
        end = (block.first + len(block)) * plan.num_envs
        self._store.write(plan.key.phase, rows, end if plan.timesteps is None else plan.timesteps)


def block_size(num_envs: int, observation_bytes: int, *, flush_rows: int, memory_mb: int, trade_bytes: int = 0) -> int:
    """Steps of the batch in one block: as many as requested, or as many as the memory allows."""
    per_step = num_envs * (2 * observation_bytes + trade_bytes + 1024)
    return max(1, min(flush_rows, memory_mb * 1_000_000 // _BLOCKS // per_step))


def _without_final(info: JsonMapping) -> JsonMapping:
    return {name: value for name, value in info.items() if name != "final_obs"} if "final_obs" in info else info


def _copy(actions: Batch) -> Batch:
    if isinstance(actions, dict):
        return {name: _copy(part) for name, part in actions.items()}
    if isinstance(actions, tuple | list):
        return tuple(_copy(part) for part in actions)
    return actions.clone() if hasattr(actions, "clone") else np.array(actions)

"""Delivery: operations go from a run's journal to its tracker in order, and a state file says how far.

The journal is a file with one operation per line (`begin`, `params`, `tags`, `metrics`, `artefact`, `model`, `end`; and
for the journal's own use `episodes` and `drop`). The state beside it holds the offset in bytes up to which the tracker
has them. `Delivery.once` sends what lies behind the offset and moves it; `follow` calls it at intervals while the run
goes on. Points that a resumed run dropped are not sent, and those that were sent already are taken back
(`Tracker.drop`). Three things may stand in the way:

- the tracker fails: the offset stays, the reason is the state's `problem`, and the next call tries again;
- it refuses one operation for good (`Unacceptable`): that one is noted in `set_aside`, and the others go on;
- the process is killed between sending and writing the state: operations are sent again, and a tracker that is given
  the same operation twice keeps it once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from alphaswarm_rl.db.redaction import MASK
from alphaswarm_rl.tracking.destination import Destination, shown
from alphaswarm_rl.tracking.journal import (
    UNREADABLE,
    Operation,
    State,
    journal_path,
    operations,
    read_state,
    turn,
    write_state,
)
from alphaswarm_rl.tracking.points import dropped
from alphaswarm_rl.tracking.tracker import Artefact, Outdated, Tracker, Unacceptable

_log = logging.getLogger(__name__)

#: After these the state is written at once: they cost something, or others build on them.
_WEIGHTY = ("begin", "artefact", "model", "end")
_MOST_AT_ONCE = 500
_LONGEST_REASON = 300
#: Seconds between two deliveries, and the longest between two attempts at a tracker that fails.
_SHORTEST_PAUSE_S, _USUAL_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 5.0, 30.0
#: Deliveries shall take this share of the time at most.
_SHARE = 0.1


class Delivery:
    """Delivers the journal of one run; keeps the tracker open between two deliveries.

    Args:
        folder: Folder of the journals; the local tracker's files are beside it.
        run_id: The run.
        uri: The tracker's address with its secrets, which the journal does not keep; None where it has none.
    """

    def __init__(self, folder: Path, run_id: str, uri: str | None = None) -> None:
        self.run_id = run_id
        self._folder = folder
        self._path = journal_path(folder, run_id)
        self._uri = uri
        self._tracker: Tracker | None = None
        self._warned = False

    def once(self) -> bool:
        """Delivers what waits; says whether the tracker has everything now. What stands in the way is in the state."""
        try:
            with turn(self._folder, self.run_id) as ours:
                return ours and self._once()
        except OSError as error:
            # The disk does not even take how far it is.
            level = logging.DEBUG if self._warned else logging.WARNING
            _log.log(level, "run %s: nothing can be delivered to its tracker: %s", self.run_id, error)
            self._warned = True
            return False

    def _once(self) -> bool:
        state = read_state(self._folder, self.run_id)
        if not waits(self._path, state):
            return True
        try:
            state = self._deliver(state)
        except Exception as error:  # noqa: BLE001  (whatever it is, the journal keeps what is not delivered)
            _log.debug("run %s: not delivered", self.run_id, exc_info=True)
            self._tracker = None
            state = replace(read_state(self._folder, self.run_id), problem=_reason(error))
        write_state(self._folder, self.run_id, state)
        return state.problem is None

    def _deliver(self, state: State) -> State:
        is_new = self._tracker is None
        tracker = self._opened()
        if tracker.whole or not tracker.knows:
            state = replace(state, offset=0, set_aside=[])
            tracker.knows = True
        try:
            return self._send_waiting(tracker, state, is_new=is_new)
        except Outdated:
            _log.info("run %s: its tracker gets it anew, without the points that a resume dropped", self.run_id)
            state = replace(state, offset=0, set_aside=[])
            write_state(self._folder, self.run_id, state)
            return self._send_waiting(tracker, state, is_new=False)

    def _send_waiting(self, tracker: Tracker, state: State, *, is_new: bool) -> State:
        waiting = list(operations(self._path, state.offset))
        if is_new or any(operation.kind == "drop" for operation, _ in waiting):
            self._take_back(tracker, state.offset)
        passed_over = _passed_over([operation for operation, _ in waiting])
        for count, (operation, end) in enumerate(waiting, 1):
            try:
                if operation.number not in passed_over:
                    tracker_run = _send(tracker, operation)
                    state = state if tracker_run is None else replace(state, tracker_run=tracker_run)
            except Unacceptable as error:
                state = replace(state, set_aside=[*state.set_aside, f"{operation.number}: {_reason(error)}"])
            state = replace(state, offset=end, problem=None)
            if not tracker.whole and (operation.kind in _WEIGHTY or count % _MOST_AT_ONCE == 0):
                state = _flushed(tracker, state)
                write_state(self._folder, self.run_id, state)
        if tracker.whole:
            self._tracker = None
            tracker.close()
        else:
            state = _flushed(tracker, state)
        return state

    def _take_back(self, tracker: Tracker, offset: int) -> None:
        """Has the tracker take back what it was told and a resume dropped since."""
        points = [
            (operation, end) for operation, end in operations(self._path) if operation.kind in ("metrics", "drop")
        ]
        gone = dropped(operation for operation, _ in points)
        if gone:
            kept = [operation for operation, end in points if end <= offset and operation.number not in gone]
            tracker.drop([operation for operation, _ in points if operation.number in gone], kept)

    def _opened(self) -> Tracker:
        if self._tracker is not None:
            self._tracker.ready()
        else:
            destination = destination_of(self._folder, self.run_id)
            assert destination is not None
            if self._uri is not None and destination.uri == shown(self._uri):
                destination = replace(destination, uri=self._uri)
            elif MASK in (destination.uri or ""):
                raise RuntimeError(
                    f"{destination.uri} has a secret, which the journal does not keep: "
                    "set RL_STORE_TRACKING_URI to the whole address"
                )
            self._tracker = open_tracker(destination, self._folder.parent, self.run_id)
        return self._tracker


def follow(delivery: Delivery, stop: threading.Event) -> None:
    """Delivers at intervals until `stop` is set, and once more after that; failures lengthen the intervals."""
    failures = 0
    while True:
        last = stop.is_set()
        began = time.monotonic()
        failures = 0 if delivery.once() else failures + 1
        if last:
            return
        usual = min(max(_SHORTEST_PAUSE_S, (time.monotonic() - began) / _SHARE), _USUAL_PAUSE_S)
        stop.wait(min(usual * 2 ** min(failures, 10), _LONGEST_PAUSE_S))


def waits(path: Path, state: State) -> bool:
    """Whether there is something in a journal that its tracker does not have."""
    return next(operations(path, state.offset), None) is not None


def destination_of(folder: Path, run_id: str) -> Destination | None:
    """Where a journal goes to; None where there is none."""
    first, _ = next(operations(journal_path(folder, run_id)), (None, 0))
    if first is None or first.kind != "begin":
        return None
    uri = read_state(folder, run_id).uri
    destination = Destination.of_data(first.data["destination"])
    return destination if uri is None else replace(destination, uri=uri)


def open_tracker(destination: Destination, root: Path, run_id: str) -> Tracker:
    """The tracker of a destination; nothing of another one is imported.

    Args:
        destination: Where it is.
        root: Folder below which local trackers keep their files.
        run_id: The run.
    """
    if destination.backend == "mlflow":
        from alphaswarm_rl.tracking.mlflow_tracker import MlflowTracker

        return MlflowTracker(destination, run_id)
    if destination.backend == "wandb":
        from alphaswarm_rl.tracking.wandb_tracker import WandbTracker

        return WandbTracker(root, destination, run_id)
    if destination.backend == "s3":
        from alphaswarm_rl.tracking.s3_tracker import S3Tracker

        return S3Tracker(root, destination, run_id)
    if destination.backend == "tensorboard":
        from alphaswarm_rl.tracking.tensorboard_tracker import TensorBoardTracker

        return TensorBoardTracker(root, destination.experiment, run_id)
    from alphaswarm_rl.tracking.local_tracker import LocalTracker

    return LocalTracker(root, destination.experiment, run_id)


def _passed_over(waiting: Sequence[Operation]) -> set[int]:
    """The numbers of what need not be sent: dropped points, and artefacts that later ones replace and may be gone."""
    artefacts = [operation for operation in waiting if operation.kind == "artefact"]
    last = {operation.data["name"]: operation.number for operation in artefacts}
    replaced = {operation.number for operation in artefacts if last[operation.data["name"]] != operation.number}
    return dropped(waiting) | replaced


def _send(tracker: Tracker, operation: Operation) -> str | None:
    data = operation.data
    match operation.kind:
        case "begin":
            return tracker.begin(data["name"], operation.time)
        case "params":
            tracker.params(data["params"])
        case "tags":
            tracker.tags(data["tags"])
        case "metrics":
            tracker.metrics(operation.number, operation.time, data["step"], data["metrics"])
        case "artefact":
            path = data.get("path")
            tracker.artefact(
                Artefact(data["name"], data.get("text"), None if path is None else Path(path), data.get("sha256"))
            )
        case "model":
            tracker.model(data["name"], data["artefact"], data["tags"])
        case "end":
            tracker.end(data["status"], operation.time)
        case "episodes" | "drop":
            pass  # what they are for is done before anything is sent
        case kind:
            why = "a line that cannot be read" if kind == UNREADABLE else f"nobody knows operations {kind!r}"
            raise Unacceptable(why)
    return None


def _flushed(tracker: Tracker, state: State) -> State:
    refused = dict.fromkeys(_short(reason) for reason in tracker.flush())
    # The same metric may be refused again and again.
    return replace(state, set_aside=[*state.set_aside, *(each for each in refused if each not in state.set_aside)])


def _reason(error: Exception) -> str:
    return _short(str(error)) or type(error).__name__


def _short(reason: str) -> str:
    text = shown(" ".join(reason.split()))
    return text if len(text) <= _LONGEST_REASON else f"{text[: _LONGEST_REASON - 3]}..."

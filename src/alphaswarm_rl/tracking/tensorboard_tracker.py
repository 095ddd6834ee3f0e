"""The files of the local tracker, and beside them an event file that TensorBoard reads.

    <root>/<experiment>/<run id>/events.out.tfevents.<milliseconds>.<run id>

An event file is a sequence of records: a length, its checksum, an `Event`, its checksum. The first two records say the
version of the format and that nothing before them counts; then comes one for each line of `metrics.jsonl`, in the same
order. What the file lacks is therefore known from how many records it has. Where points are taken back it is written
anew under a later name: TensorBoard reads the files of a folder in the order of their names.
"""

from __future__ import annotations

import json
import os
import struct
import time as clock
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from alphaswarm_rl.core.errors import require
from alphaswarm_rl.core.types import JsonMapping
from alphaswarm_rl.tracking.journal import Operation
from alphaswarm_rl.tracking.local_tracker import LocalTracker

_NAME = "events.out.tfevents"
_FORMAT = "brain.Event:2"
#: Records before the first point.
_HEAD = 2
#: A record's length, and the bytes of both checksums.
_LENGTH, _LENGTH_BYTES, _CHECKSUM_BYTES = "<Q", 8, 4


class TensorBoardTracker(LocalTracker):
    """Keeps a run in a folder of its own, with its metrics as TensorBoard's scalars too.

    Args:
        root: Folder of all experiments; TensorBoard's `--logdir`.
        experiment: The experiment.
        run_id: The run.
    """

    def __init__(self, root: Path, experiment: str, run_id: str) -> None:
        self._events = require("tensorboard.compat.proto.event_pb2", extra="tensorboard")
        self._records = require("tensorboard.summary.writer.record_writer", extra="tensorboard")
        super().__init__(root, experiment, run_id)
        self._catch_up()

    def metrics(self, number: int, time: int, step: int, values: Mapping[str, float]) -> None:
        """One line of metrics.jsonl and one record of the event file, unless they are there already."""
        last = self._last_number
        super().metrics(number, time, step, values)
        if number > last:
            self._append([{"time": time, "step": step, "metrics": values}])

    def drop(self, gone: Sequence[Operation], kept: Sequence[Operation]) -> None:
        """Writes both files anew without the points that count no more."""
        numbers = {point.number for point in gone}
        if any(point["n"] in numbers for point in self._points()):
            # The event file first: whoever is killed in between leaves none, and the next one writes it.
            for path in self._event_files():
                path.unlink()
        super().drop(gone, kept)
        self._catch_up()

    def _catch_up(self) -> None:
        """Appends the points that metrics.jsonl has and the event file lacks, because a process was killed."""
        points, files = self._points(), self._event_files()
        known = _whole_records(files[-1]) if files else 0
        if len(points) > max(known - _HEAD, 0):
            self._append(points[max(known - _HEAD, 0) :])

    def _points(self) -> list[JsonMapping]:
        path = self.folder / "metrics.jsonl"
        return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []

    def _event_files(self) -> list[Path]:
        return sorted(self.folder.glob(f"{_NAME}.*"))

    def _append(self, points: Iterable[JsonMapping]) -> None:
        files = self._event_files()
        path = files[-1] if files else self.folder / f"{_NAME}.{clock.time_ns() // 1_000_000}.{self._run_id}"
        with path.open("ab") as file:
            writer = self._records.RecordWriter(file)
            if not file.tell():
                start = self._events.SessionLog(status=self._events.SessionLog.START)
                for event in (self._events.Event(file_version=_FORMAT), self._events.Event(session_log=start)):
                    writer.write(event.SerializeToString())
            for point in points:
                event = self._events.Event(wall_time=point["time"] / 1000, step=point["step"])
                for name, value in point["metrics"].items():
                    event.summary.value.add(tag=name, simple_value=value)
                writer.write(event.SerializeToString())


def _whole_records(path: Path) -> int:
    """How many records an event file has; half a one or half a head, which a killed process left, is cut off."""
    content = path.read_bytes()
    count = position = 0
    while len(content) - position >= _LENGTH_BYTES:
        (length,) = struct.unpack_from(_LENGTH, content, position)
        end = position + _LENGTH_BYTES + _CHECKSUM_BYTES + length + _CHECKSUM_BYTES
        if end > len(content):
            break
        count, position = count + 1, end
    if count < _HEAD:
        count = position = 0
    if position < len(content):
        os.truncate(path, position)
    return count

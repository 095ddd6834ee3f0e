"""Stores that write segment files: rows go into the spool first, and are delivered from there."""

from __future__ import annotations

import logging
import math
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from alphaswarm_rl.core.claims import Claim, StaleClaim, newest_folder
from alphaswarm_rl.core.contracts import StoreRequest
from alphaswarm_rl.core.errors import LakeError
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.lake.catalog import explained
from alphaswarm_rl.lake.compaction import merge_spooled
from alphaswarm_rl.lake.segments import (
    Facts,
    Segment,
    SegmentName,
    SegmentWriter,
    discard_open,
    prune_empty,
    read_facts,
    remove,
    spooled,
    take_over,
)
from alphaswarm_rl.lake.tables import KINDS, Kind, identifier
from alphaswarm_rl.settings import Settings

_log = logging.getLogger(__name__)

#: Rows of closed segments that are kept in memory until they are merged.
_AT_HAND_BYTES = 64_000_000


class SpoolDeleted(LakeError):
    """Segments of a run that goes on were deleted by somebody else."""


@dataclass(frozen=True)
class Delivered:
    """A file that is where it belongs."""

    kind: Kind
    phase: str
    name: SegmentName
    rows: int


class SegmentedStore(ABC):
    """Writes segments into the spool and delivers them from there.

    Segments close by transitions, never by time, so that two runs of one seed have the same ones.

    Args:
        request: Which run, and where.
        required: Whether a failed delivery is an error, or is logged and tried again later.
    """

    #: What the run's row calls it.
    name: str

    def __init__(self, request: StoreRequest, *, required: bool) -> None:
        self.settings: Settings = request.settings
        self.run_id = request.run_id
        self.claim = Claim(request.run_id, request.claim)
        self.spool = self.settings.lake_path / "spool"
        self._request = request
        self._required = required
        self._open: dict[tuple[Kind, str], SegmentWriter] = {}
        self._numbers: dict[tuple[Kind, str], int] = {}
        self._began: dict[str, int] = {}
        self._steps: Counter[str] = Counter()
        self._timesteps: dict[str, int] = {}
        self._pending: list[Segment] = []
        self._rows: Counter[str] = Counter()
        self._delivered_at = dict.fromkeys(KINDS, time.monotonic())
        self._problem: str | None = None

    def write(self, phase: str, rows: Mapping[str, pa.Table], timesteps: int) -> None:
        """Appends to the open segments of that phase; full ones are closed."""
        with self._writing():
            if phase != "train" and self._timesteps.get(phase, timesteps) != timesteps:
                self._close(phase)  # another judgement: each can be dropped alone
            for kind in KINDS:
                if kind in rows and rows[kind].num_rows:
                    self._writer(kind, phase).write(rows[kind])
                    self._rows[kind] += rows[kind].num_rows
            self._timesteps[phase] = timesteps
            self._steps[phase] += rows["trajectories"].num_rows if "trajectories" in rows else 0
            counted = timesteps - self._began.setdefault(phase, 0) if phase == "train" else self._steps[phase]
            if counted >= self.settings.lake.segment_rows:
                self._close(phase)

    def close_segments(self) -> None:
        """Closes what is open; it is on disk then."""
        with self._writing():
            for phase in list(self._timesteps):
                self._close(phase)
        self._refuse_deleted()

    def _refuse_deleted(self) -> None:
        """Refuses to go on where segments are neither in the spool any more nor where they belong."""
        gone = [segment for segment in self._pending if not segment.path.exists()]
        for segment in gone:
            facts = segment.facts
            # Somebody else may have delivered it.
            if not any(name.holds(segment.name) for name in self._names(facts.kind, facts.phase)):
                raise self._deleted(segment.path)

    def _deleted(self, path: Path) -> SpoolDeleted:
        return SpoolDeleted(
            f"the spool of run {self.run_id}",
            f"somebody deleted {path} while the run went on: steps that were not in their tables yet are lost",
            "Leave the spool alone while runs go on, and train the spec again: rl train.",
        )

    def deliver(self) -> None:
        """Delivers the kinds of which there is enough, or for which it is time."""
        now, rows = time.monotonic(), Counter[str]()
        for segment in self._pending:
            rows[segment.facts.kind] += segment.facts.rows
        limits = self.settings.lake
        # After a failure only time counts: a catalogue that does not answer is not asked at every block.
        enough = limits.commit_rows if self._problem is None else math.inf
        due = [
            kind
            for kind in KINDS
            if rows[kind] >= enough or (rows[kind] and now - self._delivered_at[kind] >= limits.commit_seconds)
        ]
        if due:
            self._deliver([segment for segment in self._pending if segment.facts.kind in due])
            self._delivered_at |= dict.fromkeys(due, time.monotonic())

    def refuse_split(self, timesteps: int) -> None:
        """Refuses a step that is inside of a file: files are dropped whole, and earlier steps would go with it."""
        # What earlier claims left in the spool is not taken over yet.
        waiting = spooled(self.spool, self.run_id)
        spooled_names = {name for path, name in waiting.items() if path.parent.name == "train"}
        names = self._names("trajectories", "train") | spooled_names
        begun = 0
        for name in sorted(names):
            if begun < timesteps < name.timesteps:
                raise LakeError(
                    f"steps of run {self.run_id}",
                    f"those from {begun} to {name.timesteps} were merged into one file, and the run would go on from "
                    f"step {timesteps}",
                    "Go on from another checkpoint with --from STEP, or train the spec again.",
                )
            begun = max(begun, name.timesteps)

    def drop_after(self, timesteps: int, judged: Collection[tuple[str, int]]) -> None:
        """Drops segments that were closed later, and what was left half written; goes on counting behind the rest.

        Raises:
            StaleClaim: Another process has taken the run over.
        """

        def unwanted(phase: str, name: SegmentName) -> bool:
            return name.timesteps > timesteps or (phase != "train" and (phase, name.timesteps) not in judged)

        kept = self._drop(unwanted)
        self._pending = self._waiting()
        for segment in self._pending:
            kept.append(Delivered(segment.facts.kind, segment.facts.phase, segment.name, segment.facts.rows))
        self._numbers.clear()
        self._rows.clear()
        # A killed process may have left a segment in both places, or a merged one beside its parts.
        for file in sorted(kept, key=lambda file: (file.name.first, -file.name.last)):
            key = (file.kind, file.phase)
            if file.name.last >= self._numbers.get(key, 0):
                self._numbers[key] = file.name.last + 1
                self._rows[file.kind] += file.rows
        self._began = dict.fromkeys({"train", *(file.phase for file in kept)}, timesteps)

    def finish(self, *, compact: bool) -> None:
        """Closes, delivers, and compacts where that is asked for."""
        self.close_segments()
        if compact:
            self._merge()
        if self._pending:
            self._deliver(list(self._pending))
        if not self._pending:
            self._leave_spool()
        if compact and self._problem is None:
            try:
                self._settle()
            except StaleClaim:
                raise
            except Exception as error:  # noqa: BLE001  (all rows are where they belong: a finished run does not fail)
                self._problem = str(error)
                _log.warning("run %s: its files are not compacted: %s", self.run_id, error)

    def report(self) -> JsonObject:
        """What the run's row keeps."""
        return {
            "store": self.name,
            "rows": dict(self._rows),
            "undelivered": len(self._pending),
            "problem": self._problem,
        }

    def close(self) -> None:
        """Leaves whole segments in the spool, and nothing half written."""
        for writer in self._open.values():
            writer.abandon()
        self._open.clear()

    @abstractmethod
    def rows(self, kind: Kind) -> pa.Table:
        """The run's rows."""

    @abstractmethod
    def _names(self, kind: Kind, phase: str) -> set[SegmentName]:
        """The files of a phase that are where they belong."""

    @abstractmethod
    def _send(self, segments: list[Segment]) -> None:
        """Brings segments where they belong, and reports them to the account keeper."""

    @abstractmethod
    def _drop(self, unwanted: Callable[[str, SegmentName], bool]) -> list[Delivered]:
        """Takes segments out of the spool and from where they belong; gives those that stay there."""

    def _drop_spooled(self, unwanted: Callable[[str, SegmentName], bool]) -> None:
        """Takes over what earlier claims left in the spool, but for segments that are unwanted."""
        root = self.spool / self.run_id
        if self.claim.number > 1:
            take_over(root, self.claim, lambda path: unwanted_path(path, unwanted))
        discard_open(self.claim.folder(root))
        segments = spooled(self.spool, self.run_id, claim=self.claim, parts=True)
        remove(path for path in segments if unwanted_path(path, unwanted))

    def _waiting(self) -> list[Segment]:
        """Whole segments in the spool; one that is gone was delivered by somebody else."""
        found = []
        for path, name in spooled(self.spool, self.run_id, claim=self.claim).items():
            try:
                found.append(Segment(path, name, read_facts(path)))
            except LakeError:
                if path.exists():
                    raise
        return found

    def _leave_spool(self) -> None:
        """Deletes the run's folders of the spool, where nothing is left, and what earlier claims wrote meanwhile."""
        root = self.spool / self.run_id
        if self.claim.number > 1 and newest_folder(root) in (root, own := self.claim.folder(root)):
            take_over(root, self.claim, lambda path: True)
            prune_empty(own, levels=2)

    def _merge(self) -> None:
        """Merges small segments; where that cannot be done they are delivered as they are."""
        try:
            merge_spooled(self.spool, self.claim, {segment.path: segment for segment in self._pending})
        except (LakeError, OSError) as error:
            _log.warning("run %s: its segments are not merged: %s", self.run_id, error)
            discard_open(self.claim.folder(self.spool / self.run_id))
        self._pending = self._waiting()

    @abstractmethod
    def _settle(self) -> None:
        """What there is to do once everything is delivered."""

    def _deliver(self, segments: list[Segment]) -> None:
        try:
            self._send(segments)
        except LakeError as error:
            self._refuse_deleted()
            if self._required:
                raise
            # Loud, not fatal: the segments are on disk, and `rl lake commit` delivers them.
            self._problem = str(error)
            _log.warning("run %s: steps are kept in %s and not in their tables: %s", self.run_id, self.spool, error)
        else:
            gone = {segment.path for segment in segments}
            self._pending = [segment for segment in self._pending if segment.path not in gone]
            self._problem = None

    def _writer(self, kind: Kind, phase: str) -> SegmentWriter:
        key = (kind, phase)
        if key not in self._open:
            facts = Facts(identifier(kind, self.settings.trajectory), self.run_id, kind, phase)
            folder = self.claim.folder(self.spool / self.run_id) / kind / phase
            self._open[key] = SegmentWriter(folder, self._numbers.setdefault(key, 0), facts)
        return self._open[key]

    def _close(self, phase: str) -> None:
        timesteps = self._timesteps.pop(phase, None)
        if timesteps is None:
            return
        self._began[phase] = timesteps
        self._steps[phase] = 0
        for kind in KINDS:
            writer = self._open.pop((kind, phase), None)
            if writer is not None:
                try:
                    segment = writer.close(timesteps)
                except FileNotFoundError as error:
                    raise self._deleted(writer.path) from error
                self._pending.append(self._bounded(segment))
                self._numbers[kind, phase] += 1

    def _bounded(self, segment: Segment) -> Segment:
        """The segment, with its rows only while those at hand are few."""
        at_hand = sum(other.rows_bytes for other in (*self._pending, segment))
        return segment if at_hand <= _AT_HAND_BYTES else replace(segment, rows=None, rows_bytes=0)

    def _writing(self) -> AbstractContextManager[None]:
        what = f"steps of run {self.run_id}"
        return explained(what, f"Free space below {self.spool}, then: rl resume {self.run_id}.")


def unwanted_path(path: Path, unwanted: Callable[[str, SegmentName], bool]) -> bool:
    """Whether a segment's file is unwanted, by its phase and its name."""
    name = SegmentName.parse(path.name)
    return name is not None and unwanted(path.parent.name, name)

"""The one door to the ledger."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Self

from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.core.types import EvaluationPhase, JsonMapping, JsonObject
from alphaswarm_rl.db.database import Database, open_ready
from alphaswarm_rl.db.engine import damage, read
from alphaswarm_rl.db.schema import LEDGER
from alphaswarm_rl.ledger import components, halts, liveness, refs, results, runs, specs
from alphaswarm_rl.ledger.rows import (
    ComponentRow,
    EpisodeRow,
    EvaluationRow,
    EventRow,
    FamilyCount,
    HaltLogRow,
    HaltRow,
    RefRow,
    RunRow,
    SpecRow,
    VersionRow,
)
from alphaswarm_rl.ledger.specs import PersistableSpec
from alphaswarm_rl.options import load_settings
from alphaswarm_rl.settings import Settings


class Ledger(Database):
    """Specs, versions, runs and what they brought, in one database. Safe to use from several threads.

    Every method is one transaction of its own, and an error of the database is an error here.
    """

    @classmethod
    def open(cls, settings: Settings | None = None) -> Self:
        """The ledger of these settings; an empty database gets its tables now.

        Args:
            settings: Where it is; None reads the environment and the settings file, as `RLRuntime` does.

        Raises:
            LedgerError: The database cannot be used, or needs another version of the package.
        """
        resolved = load_settings({}, os.environ) if settings is None else settings
        return cls(open_ready(resolved.database_url, LEDGER))

    def damage(self) -> str | None:
        """What the database itself finds wrong with its file; None where it finds nothing."""
        return damage(self.engine)

    # Specs and versions.

    def persist_spec(
        self, spec: PersistableSpec, *, project_id: str = "default", notes: str = "", created_by: str | None = None
    ) -> VersionRow:
        """The version of this content: the stored one without any write, or the next number of its slug."""
        return specs.persist_spec(self.engine, spec, project_id=project_id, notes=notes, created_by=created_by)

    def specs(self, project_id: str | None = None) -> list[SpecRow]:
        """The specs of a project, or all."""
        return specs.specs(self.engine, project_id=project_id)

    def versions(self, slug: str, *, project_id: str = "default") -> list[VersionRow]:
        """The versions of a spec, the oldest first; an unknown slug is a LedgerError."""
        return specs.versions(self.engine, slug, project_id=project_id)

    def version(self, version_id: str) -> VersionRow:
        """One version; an unknown id is a LedgerError."""
        with read(self.engine) as connection:
            return specs.version(connection, version_id)

    def pinned_data(self) -> list[JsonObject]:
        """The data pipelines that stored versions name, as they name them, the oldest version first."""
        return specs.pinned_data(self.engine)

    # Runs.

    def create_run(self, *, version_id: str, target: str, seed: int, **columns: object) -> RunRow:
        """Opens a run that this process holds, with status `running`.

        Args:
            version_id: The version that is run; spec id, hashes and family come from it unless given.
            target: The verb: train, evaluate or replay.
            seed: The run's seed.
            **columns: object other column of the row; its `id` too, if the caller has made one.
        """
        return runs.create(self.engine, version_id=version_id, target=target, seed=seed, **columns)

    def run(self, ref: str) -> RunRow:
        """The run with this id, or a unique beginning of one (4 characters or more), or `latest`."""
        return runs.get(self.engine, ref)

    def runs(
        self,
        status: str | None = None,
        target: str | None = None,
        slug: str | None = None,
        limit: int | None = 100,
        *,
        include_removed: bool = False,
    ) -> list[RunRow]:
        """Runs, the newest first."""
        return runs.listed(self.engine, status=status, target=target, slug=slug, limit=limit, removed=include_removed)

    def runs_by_spec_hash(self) -> dict[str, list[str]]:
        """The ids of the runs of each spec hash, the oldest first, without removed ones."""
        return runs.runs_by_spec_hash(self.engine)

    def count_family(self, family: str) -> FamilyCount:
        """How many training runs a family has, removed ones included, and of how many different specs."""
        return runs.count_family(self.engine, family)

    def children(self, run_id: str) -> list[RunRow]:
        """The runs whose parent is this one, the oldest first."""
        return runs.children(self.engine, run_id)

    def standing_on(self, folder: str) -> list[RunRow]:
        """The runs that judged a policy by a checkpoint below that folder, whoever their parent is."""
        return runs.standing_on(self.engine, folder)

    def update_run(self, run_id: str, **columns: object) -> None:
        """Sets columns of a run; not its status, its identity or its holder."""
        runs.change(self.engine, run_id, **columns)

    def finish_run(self, run_id: str, status: str, **columns: object) -> RunRow:
        """Closes a run that this process holds; a RunError when it has ended already or another process holds it."""
        return runs.finish(self.engine, run_id, status, **columns)

    def heartbeat(self, run_id: str) -> None:
        """Says that this process still works on the run; a RunError when it is not its run any more."""
        runs.heartbeat(self.engine, run_id)

    def claim_for_resume(self, run_id: str) -> RunRow:
        """Takes an interrupted, halted or failed run over; anything else is a RunError that says who holds it."""
        return runs.claim(self.engine, run_id)

    def mark_removed(self, run_id: str) -> RunRow:
        """Marks a run whose files were removed; a live one is a RunError."""
        return runs.mark_removed(self.engine, run_id)

    def reconcile(self) -> list[str]:
        """Marks runs of dead processes as interrupted and returns their ids; looks at runs do so by themselves."""
        return liveness.reconcile(self.engine)

    # Events.

    def append_event(self, run_id: str, seq: int, stage: str, ts: datetime, payload: JsonMapping) -> None:
        """Stores one event."""
        results.add_event(self.engine, run_id, seq, stage, ts, payload)

    def next_seq(self, run_id: str) -> int:
        """The number of the run's next event, from 1."""
        return results.next_seq(self.engine, run_id)

    def events(self, run_id: str, after: int = 0, limit: int | None = None) -> list[EventRow]:
        """The run's events behind number `after`."""
        return results.list_events(self.engine, run_id, after=after, limit=limit)

    # Episodes and evaluations.

    def add_episodes(self, run_id: str, rows: Iterable[JsonMapping]) -> int:
        """Stores a batch of episodes (the columns but `run_id`) and returns its size."""
        return results.add_episodes(self.engine, run_id, rows)

    def episodes(self, run_id: str, phase: str | None = None) -> list[EpisodeRow]:
        """The run's episodes."""
        return results.list_episodes(self.engine, run_id, phase=phase)

    def training_curve(self, run_id: str, until: int | None) -> list[tuple[int, float]]:
        """Transitions and return of the episodes of a training run, in order; NaN where an episode has no return.

        Args:
            run_id: The run.
            until: Transitions that a model learnt from: what came later says nothing about it. None takes all.
        """
        return [
            (row.timesteps, float("nan") if row.mean_reward is None else row.mean_reward)
            for row in self.episodes(run_id, phase="train")
            if until is None or row.timesteps <= until
        ]

    def add_evaluation(
        self,
        run_id: str,
        *,
        phase: EvaluationPhase,
        timesteps: int,
        seed: int,
        episodes: int,
        deterministic: bool,
        started_at: datetime,
        **columns: object,
    ) -> EvaluationRow:
        """Stores one evaluation; `ended_at` is now unless given."""
        return results.add_evaluation(
            self.engine,
            run_id,
            phase=phase,
            timesteps=timesteps,
            seed=seed,
            episodes=episodes,
            deterministic=deterministic,
            started_at=started_at,
            **columns,
        )

    def evaluations(self, run_id: str) -> list[EvaluationRow]:
        """The run's evaluations in order."""
        return results.list_evaluations(self.engine, run_id)

    def drop_beyond(self, run_id: str, timesteps: int, *, judged_too: bool = False) -> dict[str, int]:
        """Deletes the run's episodes, evaluations and refs after a checkpoint; rows deleted by table.

        Args:
            run_id: The run.
            timesteps: Transitions at the checkpoint.
            judged_too: Deletes what judged the policy of this very checkpoint too: all at `timesteps` but training.
        """
        return results.drop_beyond(self.engine, run_id, timesteps, judged_too=judged_too)

    # Where recorded steps lie.

    def add_refs(self, segments: Iterable[JsonMapping]) -> None:
        """Stores which files of recorded steps are in their tables; one that is stored already changes nothing.

        A file takes the place of those whose segments it holds all, and one whose segments another holds adds nothing.

        Args:
            segments: The fields of `RefRow`, and `kind`: "equity_curves" or another.
        """
        refs.add(self.engine, segments)

    def refs(self, run_id: str | None = None) -> list[RefRow]:
        """The refs of a run, or all: by run, phase, table and segment."""
        return refs.listed(self.engine, run_id=run_id)

    def drop_refs(self, run_id: str, unwanted: Callable[[RefRow], bool] | None = None) -> int:
        """Deletes the run's refs that are unwanted, or all, and returns how many it were."""
        return refs.drop(self.engine, run_id, unwanted=unwanted)

    # The kill switch.

    def engage(self, scope: str, reason: str, actor: str) -> HaltRow:
        """Halts everything (`*`) or one run until it is released."""
        return halts.engage(self.engine, scope, reason, actor)

    def release(self, scope: str, reason: str, actor: str) -> HaltRow:
        """Ends a halt."""
        return halts.release(self.engine, scope, reason, actor)

    def halt_status(self) -> list[HaltRow]:
        """Every scope that is halted now."""
        return halts.status(self.engine)

    def refuse_if_halted(self, run_id: str | None = None) -> None:
        """Refuses to start anything while the kill switch is engaged, for everything or for this run."""
        for halt in self.halt_status():
            if halt.scope in (halts.EVERYTHING, run_id):
                scope = "" if halt.scope == halts.EVERYTHING else f"{halt.scope} "
                remedy = f"Release it first: rl halt {scope}--release --reason WHY."
                raise RunError("the kill switch", f"it is engaged: {halt.reason}", remedy)

    def halt_reason(self, run_id: str) -> str | None:
        """Why this run must halt, or None."""
        return halts.reason_for(self.engine, run_id)

    def halt_log(self) -> list[HaltLogRow]:
        """Every use of the kill switch, the oldest first."""
        return halts.log(self.engine)

    # The mirror of the catalogue.

    def sync_components(self, rows: Iterable[JsonMapping], fingerprint: str) -> bool:
        """Replaces the mirror unless it has this fingerprint; returns whether it wrote."""
        return components.sync(self.engine, rows, fingerprint)

    def components(self, kind: str | None = None) -> list[ComponentRow]:
        """The mirrored components."""
        return components.listed(self.engine, kind=kind)

    def components_fingerprint(self) -> str | None:
        """The fingerprint of the mirror, or None when there is none."""
        return components.stored_fingerprint(self.engine)

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.db.engine import read
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.ledger.rows import RefRow
from alphaswarm_rl.ledger.tables import equity_curve_refs, trajectory_refs
from tests.ledger import crew as tasks
from tests.ledger.crew import SIZE, Crew
from tests.ledger.samples import SampleSpec, new_run, segment_ref


@dataclass(frozen=True)
class SpecWithData(SampleSpec):
    data_pipeline: dict[str, Any] | None = field(default=None)

    def as_data(self) -> dict[str, Any]:
        return {**super().as_data(), "data_pipeline": self.data_pipeline}


def _segments(ledger: Ledger, run_id: str | None = None) -> list[tuple[str, str, int, int]]:
    return [(ref.phase, ref.iceberg_table, ref.first_segment, ref.last_segment) for ref in ledger.refs(run_id)]


def test_a_ref_comes_back_as_it_was_told(ledger: Ledger) -> None:
    run = new_run(ledger)
    ledger.add_refs([segment_ref(run.id, 3, timesteps=np.int64(4000), row_count=np.int64(1000))])
    assert ledger.refs() == [
        RefRow(
            run_id=run.id,
            phase="train",
            first_episode=0,
            last_episode=9,
            timesteps=4000,
            iceberg_namespace="rl",
            iceberg_table="trajectories",
            row_count=1000,
            checksum="00000000000000ff",
            first_segment=3,
            last_segment=3,
            first_step=0,
            last_step=99,
        )
    ]


def test_equity_curves_have_a_table_of_their_own_with_values_in_place_of_steps(ledger: Ledger) -> None:
    run = new_run(ledger)
    values = {"initial_value": 1.0, "final_value": 1.5, "max_drawdown": math.nan}
    ledger.add_refs(
        [
            segment_ref(run.id, 0, kind="equity_curves", iceberg_table="curves", **values),
            segment_ref(run.id, 0, kind="action_logs", iceberg_table="equity_curves", **values),
        ]
    )
    curve, other = ledger.refs()
    assert (curve.initial_value, curve.final_value, curve.max_drawdown) == (1.0, 1.5, None)
    assert (curve.first_step, curve.last_step) == (None, None)
    assert (other.first_step, other.last_step, other.initial_value) == (0, 99, None)
    with read(ledger.engine) as connection:
        assert [row.iceberg_table for row in connection.execute(equity_curve_refs.select())] == ["curves"]
        assert [row.iceberg_table for row in connection.execute(trajectory_refs.select())] == ["equity_curves"]


def test_refs_are_listed_by_run_phase_table_and_segment(ledger: Ledger) -> None:
    one, two = sorted([new_run(ledger).id, new_run(ledger).id])
    ledger.add_refs(
        [
            segment_ref(two, 0),
            segment_ref(one, 10),
            segment_ref(one, 9),
            segment_ref(one, 0, kind="equity_curves", iceberg_table="e"),
        ]
    )
    ledger.add_refs([segment_ref(one, 0, phase="evaluate")])
    expected = [
        ("evaluate", "trajectories", 0, 0),
        ("train", "e", 0, 0),
        ("train", "trajectories", 9, 9),
        ("train", "trajectories", 10, 10),
    ]
    assert _segments(ledger, one) == expected
    assert _segments(ledger) == [*expected, ("train", "trajectories", 0, 0)]
    assert ledger.refs("no-such-run") == []


def test_to_be_told_again_changes_nothing(ledger: Ledger) -> None:
    run = new_run(ledger)
    segments = [
        segment_ref(run.id, number, kind=kind) for number in (0, 1) for kind in ("trajectories", "equity_curves")
    ]
    ledger.add_refs(segments)
    before = ledger.refs()
    ledger.add_refs(segments)
    ledger.add_refs([])
    assert ledger.refs() == before
    assert len(before) == 4


def test_what_is_told_last_of_a_segment_counts(ledger: Ledger) -> None:
    run = new_run(ledger)
    ledger.add_refs([segment_ref(run.id, 0, row_count=5)])
    ledger.add_refs([segment_ref(run.id, 0, row_count=6)])
    assert [ref.row_count for ref in ledger.refs()] == [6]


def test_a_merged_file_takes_the_place_of_its_parts_and_of_nothing_else(ledger: Ledger) -> None:
    run, other = new_run(ledger), new_run(ledger)
    parts = [segment_ref(run.id, number) for number in range(5)]
    bystanders = [
        segment_ref(other.id, 1),
        segment_ref(run.id, 1, phase="validation"),
        segment_ref(run.id, 1, iceberg_table="actions"),
        segment_ref(run.id, 1, iceberg_namespace="elsewhere"),
        segment_ref(run.id, 1, kind="equity_curves"),
    ]
    ledger.add_refs([*parts, *bystanders])
    ledger.add_refs([segment_ref(run.id, 1, last_segment=3, row_count=30)])
    train = [ref for ref in ledger.refs(run.id) if (ref.phase, ref.iceberg_namespace) == ("train", "rl")]
    merged = [ref for ref in train if ref.iceberg_table == "trajectories" and ref.first_step is not None]
    assert [(ref.first_segment, ref.last_segment, ref.row_count) for ref in merged] == [
        (0, 0, 10),
        (1, 3, 30),
        (4, 4, 10),
    ]
    assert len(ledger.refs()) == len(merged) + len(bystanders)


@pytest.mark.parametrize("order", [1, -1])
def test_a_part_that_is_told_with_or_after_its_merged_file_adds_nothing(ledger: Ledger, order: int) -> None:
    run = new_run(ledger)
    whole, part = segment_ref(run.id, 0, last_segment=5), segment_ref(run.id, 3)
    ledger.add_refs([whole, part][::order])
    ledger.add_refs([part])
    assert _segments(ledger) == [("train", "trajectories", 0, 5)]


def test_one_bad_ref_stores_none(ledger: Ledger) -> None:
    run = new_run(ledger)
    good = segment_ref(run.id, 0)
    with pytest.raises(RunError, match=r"'no-such-run'.*Use the ledger in which the run was made"):
        ledger.add_refs([good, segment_ref("no-such-run", 0)])
    with pytest.raises(TypeError, match="no_such"):
        ledger.add_refs([good, segment_ref(run.id, 1, no_such=1)])
    with pytest.raises(TypeError, match="checksum"):
        ledger.add_refs([good, {name: value for name, value in segment_ref(run.id, 1).items() if name != "checksum"}])
    assert ledger.refs() == []


def test_eight_processes_that_are_told_of_one_file_write_one_ref(crew: Crew, ledger: Ledger, database_url: str) -> None:
    new_run(ledger)
    assert crew.together(tasks.add_one_ref_of_the_latest_run, database_url) == [None] * SIZE
    assert _segments(ledger) == [("train", "trajectories", 0, 0)]


def test_refs_of_a_run_are_dropped_all_or_by_choice(ledger: Ledger) -> None:
    run, other = new_run(ledger), new_run(ledger)
    for each in (run, other):
        ledger.add_refs(
            [
                segment_ref(each.id, number, kind=kind)
                for number in range(3)
                for kind in ("trajectories", "equity_curves")
            ]
        )
    assert ledger.drop_refs(run.id, lambda ref: ref.first_segment > 0 and ref.first_step is None) == 2
    assert [(ref.first_segment, ref.first_step) for ref in ledger.refs(run.id)] == [(0, 0), (0, None), (1, 0), (2, 0)]
    assert ledger.drop_refs(run.id, lambda _: False) == 0
    assert ledger.drop_refs(run.id) == 4
    assert ledger.drop_refs(run.id) == 0
    assert ledger.refs(run.id) == []
    assert len(ledger.refs(other.id)) == 6


def test_runs_are_found_by_their_spec_hash_without_removed_ones(ledger: Ledger) -> None:
    assert ledger.runs_by_spec_hash() == {}
    second = ledger.persist_spec(SampleSpec(number=2))
    one, removed, two = new_run(ledger), new_run(ledger), new_run(ledger, target="replay")
    other = new_run(ledger, version_id=second.id)
    ledger.finish_run(removed.id, "failed")
    ledger.mark_removed(removed.id)
    assert ledger.runs_by_spec_hash() == {one.spec_hash: [one.id, two.id], other.spec_hash: [other.id]}


def test_data_that_versions_name_is_listed_as_they_name_it(ledger: Ledger) -> None:
    assert ledger.pinned_data() == []
    pinned = {"class": "iceberg", "kwargs": {"table": "lake.prices", "snapshot_id": 2**62}}
    ledger.persist_spec(SampleSpec())
    ledger.persist_spec(SpecWithData(number=2, data_pipeline=pinned))
    ledger.persist_spec(SpecWithData(number=3, data_pipeline=None))
    ledger.persist_spec(SpecWithData(number=4, data_pipeline={"class": "synthetic"}), project_id="other")
    assert ledger.pinned_data() == [pinned, {"class": "synthetic"}]


def test_a_run_keeps_what_it_recorded_and_how(ledger: Ledger) -> None:
    run = new_run(ledger)
    assert run.recording == {}
    ledger.update_run(run.id, recording={"train": "sample:10"})
    assert ledger.run(run.id).recording == {"train": "sample:10"}

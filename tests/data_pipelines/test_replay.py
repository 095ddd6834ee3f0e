"""Recorded steps as transitions."""

import numpy as np
import pyarrow as pa
import pytest

from alphaswarm_rl.core.contracts import DataRequest
from alphaswarm_rl.core.errors import ComponentError, DataError, SpecError
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.data_pipelines.replay import ReplayRLDataPipeline  # noqa: F401  (registers)
from alphaswarm_rl.data_pipelines.transitions import EpisodeKey
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.snapshots import LakeReader
from alphaswarm_rl.lake.tables import arrow_schema
from alphaswarm_rl.settings import TrajectorySettings
from tests.lake.bars import snapshots
from tests.lake.rows import RUN, rows

OTHER = RUN.replace("1", "9")
SPEC = "a" * 64


def pipeline(**kwargs):
    return build_from_config({"class": "replay", "kwargs": kwargs}, kind="data_pipeline")


def recorded(run_id=RUN, *, cut=0, width=2, **more):
    """Whole episodes with observations (1000 environment + 10 episode + step, ...), the last `cut` rows left out."""
    table = rows("trajectories", run_id, **more)
    seen = [1000 * row["env_idx"] + 10 * row["episode"] + row["step"] for row in table.to_pylist()]
    ended = table["truncated"].to_pylist()
    sights = {
        "observation": [[number] * width for number in seen],
        "final_observation": [[number + 1] * width if end else None for number, end in zip(seen, ended, strict=True)],
    }
    for name, values in sights.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, pa.array(values, arrow_schema("trajectories").field(name).type))
    return table.slice(0, table.num_rows - cut)


@pytest.fixture
def lake(settings):
    with Lake(settings) as opened:
        yield opened


@pytest.fixture
def asked(settings):
    return DataRequest(lake=lambda: LakeReader(settings))


def keep(lake, *tables):
    lake.table("trajectories")
    for table in tables:
        lake.append_arrow(lake.identifier("trajectories"), table)


def test_each_step_leads_to_the_next_of_its_episode_and_the_last_to_the_final_sight(lake, asked):
    keep(lake, recorded(env_idx=1, episodes=2), recorded(env_idx=0, episodes=1))
    found = pipeline(runs=[RUN]).transitions(asked)
    assert found.observation[:, 0].tolist() == [0, 1, 2, 1000, 1001, 1002, 1010, 1011, 1012]
    assert found.next_observation[:, 1].tolist() == [1, 2, 3, 1001, 1002, 1003, 1011, 1012, 1013]
    assert found.truncated.tolist() == [False, False, True] * 3
    assert not found.terminated.any()
    assert found.step.tolist() == [0, 1, 2] * 3
    assert found.episodes == (
        EpisodeKey(RUN, "train", 0, 0),
        EpisodeKey(RUN, "train", 1, 0),
        EpisodeKey(RUN, "train", 1, 1),
    )
    assert found.episode.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert found.action.tolist()[:3] == [[0.0, -0.5], [0.25, -0.5], [0.5, -0.5]]
    assert found.reward.tolist() == [0.0, 0.5, 1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5]
    kinds = [getattr(found, name).dtype for name in ("observation", "action", "reward", "terminated", "episode")]
    assert kinds == [np.float32, np.float64, np.float64, np.bool_, np.int64]


def test_the_last_row_of_an_episode_that_was_cut_gives_none(lake, asked):
    keep(lake, recorded(episodes=2, cut=1))
    found = pipeline(runs=[RUN]).transitions(asked)
    assert found.observation[:, 0].tolist() == [0, 1, 2, 10]
    assert found.next_observation[:, 0].tolist() == [1, 2, 3, 11]


def test_runs_are_chosen_by_id_or_spec_and_phases_by_name(lake, asked):
    keep(lake, recorded(), recorded(OTHER), recorded(phase="evaluate"), recorded("x", spec_hash="b" * 64))
    assert len(pipeline(runs=[OTHER]).transitions(asked)) == 3
    assert len(pipeline(runs=[RUN], phases=["train", "evaluate"]).transitions(asked)) == 6
    assert {key.run_id for key in pipeline(spec_hash=SPEC).transitions(asked).episodes} == {RUN, OTHER}


def test_a_pinned_snapshot_gives_the_same_after_more_was_recorded(lake, asked):
    keep(lake, recorded())
    pin = {"runs": [RUN], "snapshot_id": snapshots(lake, "rl.trajectories")[-1].snapshot_id}
    keep(lake, recorded(first_episode=1))
    assert len(pipeline(**pin).transitions(asked)) == 3
    assert len(pipeline(runs=[RUN]).transitions(asked)) == 6


def test_the_table_is_the_one_that_the_settings_name(settings):
    named = settings.model_copy(update={"trajectory": TrajectorySettings(namespace="lab", table="steps")})
    with Lake(named) as lake:
        keep(lake, recorded())
        assert lake.find("lab.steps") is not None
    assert len(pipeline(runs=[RUN]).transitions(DataRequest(lake=lambda: LakeReader(named)))) == 3


def test_batches_hold_every_transition_once_in_order_or_shuffled_by_the_seed(lake, asked):
    keep(lake, recorded(episodes=3))
    component = pipeline(runs=[RUN])

    def seen(seed):
        batches = list(component.batches(asked, 4, seed))
        assert [len(batch) for batch in batches] == [4, 4, 1]
        for batch in batches:
            assert (batch.next_observation == batch.observation + 1).all()
        return np.concatenate([batch.observation[:, 0] for batch in batches]).tolist()

    in_order, shuffled = seen(None), seen(7)
    assert in_order == sorted(in_order)
    assert shuffled == seen(7) != seen(8)
    assert sorted(shuffled) == in_order != shuffled
    with pytest.raises(DataError, match="at least one transition"):
        list(component.batches(asked, 0))


def test_runs_without_observations_are_refused_with_how_to_record_them(lake, asked):
    keep(lake, recorded(), rows("trajectories", OTHER))
    with pytest.raises(DataError, match=rf"run {OTHER}.*'observation': it was not recorded.*--record-observations "):
        pipeline(runs=[RUN, OTHER]).transitions(asked)


def test_runs_of_different_environments_are_refused(lake, asked):
    keep(lake, recorded(), recorded(OTHER, width=3))
    with pytest.raises(DataError, match=rf"run {OTHER}.*it has 3 numbers where 2 are expected"):
        pipeline(runs=[RUN, OTHER]).transitions(asked)


def test_rows_that_are_missing_or_there_twice_are_refused(lake, asked):
    whole = recorded(steps=4)
    keep(lake, whole.slice(0, 1), whole.slice(2), recorded(OTHER), recorded(OTHER).slice(0, 1))
    with pytest.raises(DataError, match=r"episode 0, step 0: the next row is of step 2"):
        pipeline(runs=[RUN]).transitions(asked)
    with pytest.raises(DataError, match=r"episode 0, step 0: the next row is of step 0"):
        pipeline(runs=[OTHER]).transitions(asked)


def test_what_is_not_recorded_is_an_error_that_says_what_is(lake, asked):
    with pytest.raises(DataError, match=r"the table 'rl.trajectories': the catalogue has no such table"):
        pipeline(runs=[RUN]).transitions(asked)
    keep(lake, recorded(phase="evaluate"))
    with pytest.raises(DataError, match=rf"run {RUN}: .*no step of it in train; it has some of evaluate"):
        pipeline(runs=[RUN]).transitions(asked)
    with pytest.raises(DataError, match=rf"run {OTHER}: .*it has none of any phase"):
        pipeline(runs=[OTHER]).transitions(asked)
    with pytest.raises(DataError, match=r"the spec b+: .*it has none"):
        pipeline(spec_hash="b" * 64).transitions(asked)
    with pytest.raises(DataError, match="no lake was handed in"):
        pipeline(runs=[RUN]).transitions(DataRequest())


def test_dates_and_symbols_are_refused_rather_than_ignored(asked):
    for request in (DataRequest(Window("2020-01-01"), lake=asked.lake), DataRequest(symbols=("KO",), lake=asked.lake)):
        with pytest.raises(DataError, match="not cut to dates or symbols"):
            pipeline(runs=[RUN]).transitions(request)


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({}, "give one of them"),
        ({"runs": [RUN], "spec_hash": SPEC}, "give one of them"),
        ({"runs": [RUN], "phases": []}, "phases"),
        ({"runs": [RUN], "phases": ["test"]}, "phases"),
        ({"runs": [RUN], "snapshot_id": 1, "as_of": "2024-01-01"}, "give one of them"),
    ],
)
def test_parameters_that_would_not_work_are_refused(kwargs, text):
    with pytest.raises(ComponentError, match=text):
        pipeline(**kwargs)


def test_it_is_no_market_data(settings, asked):
    from alphaswarm_rl.ledger import Ledger
    from alphaswarm_rl.runtime import RLRuntime
    from tests.runtime.test_trading import trading

    with pytest.raises(DataError, match=r"'replay': it gives recorded transitions .* not bars to trade"):
        pipeline(runs=[RUN]).build(asked)
    spec = trading(data_pipeline={"class": "replay", "kwargs": {"runs": [RUN]}})
    with pytest.raises(SpecError, match=r"data_pipeline 'replay': .* not bars to trade"):
        RLRuntime(spec, settings).train()
    with Ledger.open(settings) as ledger:
        assert not ledger.runs()

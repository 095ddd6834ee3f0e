"""What the ledger is told of recorded steps."""

import math
from dataclasses import replace

from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.recording.table_refs import refs_writer
from alphaswarm_rl.settings import Settings
from tests.lake.rows import RUN, spool
from tests.ledger.samples import new_run


def test_every_segment_becomes_one_ref_however_often_it_is_told(tmp_path):
    settings = Settings(home=tmp_path / "home", trajectory={"namespace": "desk", "equity_table": "curves"})
    with Lake(settings) as lake, Ledger.open(settings) as ledger:
        new_run(ledger, id=RUN)
        segments = spool(lake, number=4, episodes=2, first_episode=7, timesteps=60)
        for _ in range(2):
            refs_writer(ledger)(segments)
        refs = {ref.iceberg_table: ref for ref in ledger.refs(RUN)}
    assert set(refs) == {"trajectories", "curves", "action_logs", "reward_decomposition", "positions", "fills"}
    steps, curve = refs["trajectories"], refs["curves"]
    assert (steps.iceberg_namespace, steps.phase, steps.timesteps) == ("desk", "train", 60)
    assert (steps.row_count, steps.first_episode, steps.last_episode) == (6, 7, 8)
    assert (steps.first_step, steps.last_step, steps.first_segment, steps.last_segment) == (0, 2, 4, 4)
    assert (curve.initial_value, curve.final_value, curve.max_drawdown) == (1000.0, 1005.0, 0.0)
    assert math.copysign(1.0, curve.max_drawdown) == 1.0
    assert steps.checksum == segments[0].facts.checksum
    assert {name: refs[name].row_count for name in ("action_logs", "positions", "fills")} == {
        "action_logs": 12,
        "positions": 12,
        "fills": 6,
    }


def test_the_deepest_fall_is_negative_as_it_is_of_runs_and_evaluations(tmp_path):
    settings = Settings(home=tmp_path / "home")
    with Lake(settings) as lake, Ledger.open(settings) as ledger:
        new_run(ledger, id=RUN)
        (curve,) = (each for each in spool(lake, number=0) if each.facts.kind == "equity_curves")
        refs_writer(ledger)([replace(curve, facts=replace(curve.facts, max_drawdown=0.25))])
        (ref,) = ledger.refs(RUN)
    assert ref.max_drawdown == -0.25

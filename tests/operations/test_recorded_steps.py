"""Why a run has no steps to show, and what a delivery writes into the run's row."""

import pytest

from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.operations.lake import commit_segments
from alphaswarm_rl.operations.operation import NamedRuns
from alphaswarm_rl.operations.run_steps import EquityQuery, equity
from tests.lake.rows import RUN, spool
from tests.ledger.samples import SampleSpec

WAITING = {"store": "iceberg", "undelivered": 4, "problem": "the catalogue did not answer"}


@pytest.fixture
def ledger(settings):
    with Ledger.open(settings) as ledger:
        version = ledger.persist_spec(SampleSpec())
        ledger.create_run(version_id=version.id, target="train", seed=1, id=RUN, recording=WAITING)
        yield ledger


@pytest.fixture
def segments(settings):
    with Lake(settings) as lake:
        return spool(lake)


@pytest.mark.parametrize("conditions", [{}, {"episode": 7}, {"phase": "train", "env_idx": 0}])
def test_a_run_without_any_rows_is_not_said_to_have_others(settings, ledger, conditions):
    assert equity(settings, EquityQuery(RUN, **conditions)).why_empty == "the run has delivered none yet"


def test_rows_that_no_condition_fits_are_others(settings, ledger, segments):
    commit_segments(settings, NamedRuns((RUN,)))
    found = equity(settings, EquityQuery(RUN, episode=7, env_idx=3))
    assert found.why_empty == "the run has others, but none of episode 7, env_idx 3"


def test_a_delivery_clears_what_an_ended_runs_row_says_is_left(settings, ledger, segments):
    ledger.finish_run(RUN, "failed")
    assert commit_segments(settings, NamedRuns((RUN,))).segments == len(segments)
    assert ledger.run(RUN).recording == {"store": "iceberg", "undelivered": 0, "problem": None}


def test_a_delivery_leaves_the_row_of_a_live_run_to_the_runs_own_process(settings, ledger, segments):
    assert commit_segments(settings, NamedRuns((RUN,))).segments == len(segments)
    assert ledger.run(RUN).recording == WAITING

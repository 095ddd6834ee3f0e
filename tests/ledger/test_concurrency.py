from __future__ import annotations

from collections.abc import Callable

import pytest

from alphaswarm_rl.ledger import Ledger
from tests.ledger import crew as tasks
from tests.ledger.crew import SIZE, Crew
from tests.ledger.samples import new_run, open_ledger

ROUNDS = 5
MANY_ROUNDS = 50


def _start_together(crew: Crew, new_database: Callable[[], str], rounds: int) -> None:
    for _ in range(rounds):
        assert crew.together(tasks.start_on_an_empty_database, new_database()) == [0] * SIZE


def _persist_together(crew: Crew, url: str, rounds: int) -> None:
    with open_ledger(url) as ledger:
        for number in range(1, rounds + 1):
            answers = crew.together(tasks.persist_the_same_new_spec, url)
            assert len(set(answers)) == 1
            assert answers[0][1] == number
        assert [version.version for version in ledger.versions("crew")] == list(range(1, rounds + 1))
        (spec,) = ledger.specs()
        assert spec.current_version == rounds


def test_eight_processes_start_at_once_on_an_empty_database(crew: Crew, new_database: Callable[[], str]) -> None:
    _start_together(crew, new_database, ROUNDS)


def test_eight_processes_that_persist_one_new_spec_make_one_version(crew: Crew, database_url: str) -> None:
    _persist_together(crew, database_url, ROUNDS)


@pytest.mark.slow
def test_eight_processes_start_at_once_many_times(crew: Crew, new_database: Callable[[], str]) -> None:
    _start_together(crew, new_database, MANY_ROUNDS)


@pytest.mark.slow
def test_eight_processes_persist_one_new_spec_many_times(crew: Crew, database_url: str) -> None:
    _persist_together(crew, database_url, MANY_ROUNDS)


def test_eight_processes_that_make_runs_get_a_number_each(crew: Crew, ledger: Ledger, database_url: str) -> None:
    new_run(ledger)
    for done in range(ROUNDS):
        first = 2 + done * SIZE
        assert sorted(crew.together(tasks.make_a_run, database_url)) == list(range(first, first + SIZE))


def test_of_eight_processes_that_claim_a_run_exactly_one_wins(crew: Crew, ledger: Ledger, database_url: str) -> None:
    for _ in range(ROUNDS):
        ledger.finish_run(new_run(ledger).id, "halted")
        assert sum(crew.together(tasks.claim_the_latest_run, database_url)) == 1
        assert ledger.run("latest").resumed == 1


def test_of_eight_processes_that_mirror_the_catalogue_one_writes(crew: Crew, ledger: Ledger, database_url: str) -> None:
    assert sum(crew.together(tasks.sync_components, database_url)) == 1
    assert len(ledger.components()) == 1

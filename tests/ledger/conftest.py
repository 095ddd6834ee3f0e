from __future__ import annotations

from collections.abc import Iterator

import pytest

from alphaswarm_rl.ledger import Ledger
from tests.ledger.crew import Crew
from tests.ledger.samples import open_ledger
from tests.postgres import database_url, new_database, new_postgres, postgres_server

__all__ = ["crew", "database_url", "ledger", "new_database", "new_postgres", "postgres_server"]


@pytest.fixture
def ledger(database_url: str) -> Iterator[Ledger]:
    with open_ledger(database_url) as ledger:
        yield ledger


@pytest.fixture(scope="session")
def crew() -> Iterator[Crew]:
    crew = Crew()
    yield crew
    crew.close()

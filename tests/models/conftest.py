from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from alphaswarm_rl.models import ModelRegistry, gates
from alphaswarm_rl.settings import Settings
from tests.models.samples import settings_at
from tests.postgres import database_url, new_database, new_postgres, postgres_server

__all__ = ["alone", "database_url", "new_database", "new_postgres", "own_gates", "postgres_server", "registry"]


@pytest.fixture
def registry(database_url: str, tmp_path: Path) -> Iterator[ModelRegistry]:
    """A registry in the ledger's database: once SQLite, once PostgreSQL."""
    with ModelRegistry.open(settings_at(database_url, tmp_path / "home")) as registry:
        yield registry


@pytest.fixture
def alone(settings: Settings) -> Iterator[ModelRegistry]:
    """A registry in a file of its own, as it is by default."""
    with ModelRegistry.open(settings) as registry:
        yield registry


@pytest.fixture
def own_gates() -> Iterator[None]:
    """Forgets gates and profiles that a test registers."""
    known, named = dict(gates._gates), dict(gates._profiles)
    yield
    gates._gates.clear()
    gates._gates.update(known)
    gates._profiles.clear()
    gates._profiles.update(named)

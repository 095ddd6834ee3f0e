from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.models import ModelRegistry
from tests.models.crowd import OWN, SIZE, Crowd
from tests.models.samples import CARTPOLE, ME, add, settings_at


@pytest.fixture(scope="module")
def crowd() -> Iterator[Crowd]:
    crowd = Crowd()
    yield crowd
    crowd.close()


@pytest.mark.timeout(180)
def test_twenty_processes_register_at_once_and_no_row_is_lost(crowd: Crowd, database_url: str, tmp_path: Path) -> None:
    crowd.register(database_url, tmp_path)
    with ModelRegistry.open(settings_at(database_url, tmp_path)) as registry:
        rows = {row.path.name: row for row in registry.list(archived=True)}
        assert set(rows) == {"shared", *(f"{number}-{step}" for number in range(SIZE) for step in range(OWN))}
        assert len(registry.list()) == SIZE * OWN + 1
        assert len(registry.evaluations(rows["shared"].id)) == SIZE
        own = [row for name, row in rows.items() if name != "shared"]
        assert all(row.validated and len(registry.validations(row.id)) == 1 for row in own)
        # The means are 100, 101 ... 319: the ten best are the last ten of the last step.
        registry.prune(keep_top_n=10, max_age_days=None)
        assert {row.path.name for row in registry.list()} == {f"{n}-{OWN - 1}" for n in range(SIZE - 10, SIZE)}


def test_of_many_threads_that_promote_one_model_is_in_production(registry: ModelRegistry, tmp_path: Path) -> None:
    rows = [add(registry, tmp_path / str(number)) for number in range(8)]
    start = threading.Barrier(len(rows))

    def promote(model_id: int) -> None:
        start.wait()
        registry.promote(model_id, **ME)

    threads = [threading.Thread(target=promote, args=(row.id,)) for row in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    live = [row for row in registry.list() if row.deployment_status == "production"]
    assert [row.id for row in live] == [registry.by_alias("champion").id]
    log = [entry for row in rows for entry in registry.promotions(row.id)]
    assert sorted(entry.action for entry in log) == ["promote"] * 8 + ["step_down"] * 7
    # And the log leads all the way back.
    for _ in range(len(rows) - 1):
        registry.rollback(CARTPOLE, **ME)
    with pytest.raises(ModelError, match="none before it"):
        registry.rollback(CARTPOLE, **ME)

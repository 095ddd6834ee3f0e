from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from alphaswarm_rl.core.errors import LedgerError
from alphaswarm_rl.db.engine import write
from alphaswarm_rl.ledger import Ledger
from tests.ledger.samples import SampleSpec, new_run


def test_a_new_spec_becomes_version_one(ledger: Ledger) -> None:
    version = ledger.persist_spec(SampleSpec(), notes="first", created_by="ann")
    (spec,) = ledger.specs()
    assert (spec.slug, spec.project_id, spec.current_version, spec.status) == ("cartpole", "default", 1, "active")
    assert spec.spec_yaml == SampleSpec().to_yaml()
    assert spec.annotations == ["demo"]
    assert (version.version, version.spec_id, version.notes, version.created_by) == (1, spec.id, "first", "ann")
    assert version.payload == SampleSpec().as_data()
    assert version.component_versions == {"agent:ppo": 1}
    assert ledger.version(version.id) == version


def test_the_same_content_is_the_same_version_and_nothing_is_written(ledger: Ledger) -> None:
    first = ledger.persist_spec(SampleSpec(), notes="first")
    before = ledger.specs()
    assert ledger.persist_spec(SampleSpec(), notes="second") == first
    assert ledger.specs() == before


def test_other_content_is_the_next_version_and_the_spec_row_follows(ledger: Ledger) -> None:
    ledger.persist_spec(SampleSpec())
    second = ledger.persist_spec(SampleSpec(number=2, name="Renamed"))
    (spec,) = ledger.specs()
    assert second.version == spec.current_version == 2
    assert (spec.name, spec.spec_yaml) == ("Renamed", SampleSpec(number=2).to_yaml())
    assert [version.version for version in ledger.versions("cartpole")] == [1, 2]
    assert ledger.persist_spec(SampleSpec()).version == 1


def test_projects_do_not_share_slugs(ledger: Ledger) -> None:
    one = ledger.persist_spec(SampleSpec())
    other = ledger.persist_spec(SampleSpec(), project_id="other")
    assert one.spec_id != other.spec_id
    assert other.version == 1
    assert len(ledger.specs()) == 2
    assert [spec.project_id for spec in ledger.specs("other")] == ["other"]
    assert ledger.versions("cartpole", project_id="other") == [other]


def test_an_unknown_slug_or_version_proposes_the_nearest(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="There are none"):
        ledger.versions("cartpole")
    version = ledger.persist_spec(SampleSpec())
    with pytest.raises(LedgerError, match="Did you mean 'cartpole'"):
        ledger.versions("cart-pole")
    with pytest.raises(LedgerError, match=f"Did you mean '{version.id}'"):
        ledger.version(version.id[:-1] + "x")
    with pytest.raises(LedgerError, match="The newest are"):
        ledger.version("nonsense")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE rl_experiment_versions SET notes = 'changed'",
        "UPDATE rl_experiment_versions SET payload = '{}' WHERE version = 1",
        "DELETE FROM rl_experiment_versions",
    ],
)
def test_the_database_itself_refuses_to_change_or_delete_a_version(ledger: Ledger, statement: str) -> None:
    version = ledger.persist_spec(SampleSpec())
    with pytest.raises(DBAPIError, match="a stored version is never changed or deleted"), write(ledger.engine) as bare:
        bare.execute(text(statement))
    assert ledger.version(version.id) == version


def test_a_version_cannot_be_replaced_or_truncated(ledger: Ledger) -> None:
    version = ledger.persist_spec(SampleSpec())
    if ledger.engine.dialect.name == "sqlite":
        attack = "INSERT OR REPLACE INTO rl_experiment_versions SELECT * FROM rl_experiment_versions"
    else:
        attack = "TRUNCATE rl_experiment_versions CASCADE"
    with pytest.raises(DBAPIError, match="a stored version is never changed or deleted"), write(ledger.engine) as bare:
        bare.execute(text(attack))
    assert ledger.version(version.id) == version


def test_a_spec_with_versions_cannot_be_deleted(ledger: Ledger) -> None:
    new_run(ledger)
    with pytest.raises(DBAPIError, match=r"(?i)foreign key|restrict"), write(ledger.engine) as bare:
        bare.execute(text("DELETE FROM rl_experiment_specs"))


def test_times_come_back_in_utc(ledger: Ledger) -> None:
    created = ledger.persist_spec(SampleSpec()).created_at
    assert created.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - created) < timedelta(minutes=1)

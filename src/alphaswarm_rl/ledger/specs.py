"""Specs and their versions. `persist_spec` is the only writer, and a version is never changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, func, select, update

from alphaswarm_rl.core.errors import LedgerError, SpecError, nearest
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.db.database import Database
from alphaswarm_rl.db.engine import read, write
from alphaswarm_rl.db.types import utc_now
from alphaswarm_rl.ledger import tables
from alphaswarm_rl.ledger.rows import SpecRow, VersionRow
from alphaswarm_rl.ledger.statements import insert_for, nearest_id, new_id

if TYPE_CHECKING:
    from alphaswarm_rl.spec import RLExperimentSpec


class SpecTables(Database):
    """Specs and their immutable versions."""

    def persist_spec(
        self, spec: RLExperimentSpec, *, project_id: str = "default", notes: str = "", created_by: str | None = None
    ) -> VersionRow:
        """The version of this content: the stored one without any write, or the next number of its slug."""
        with read(self.engine) as connection:
            known = _version_by_hash(connection, project_id, spec)
        if known is not None:
            return known
        with write(self.engine) as connection:
            return store_version(connection, spec, project_id, notes=notes, created_by=created_by)

    def specs(self, project_id: str | None = None) -> list[SpecRow]:
        """The specs of a project, or all."""
        statement = select(tables.specs).order_by(tables.specs.c.project_id, tables.specs.c.slug)
        if project_id is not None:
            statement = statement.where(tables.specs.c.project_id == project_id)
        return self._rows(SpecRow, statement)

    def versions(self, slug: str, *, project_id: str = "default") -> list[VersionRow]:
        """The versions of a spec, the oldest first; an unknown slug is a LedgerError."""
        with read(self.engine) as connection:
            ids = spec_ids(connection, slug, project_id)
            statement = (
                select(tables.versions).where(tables.versions.c.spec_id.in_(ids)).order_by(tables.versions.c.version)
            )
            return [VersionRow.of(row) for row in connection.execute(statement).mappings()]

    def version(self, version_id: str) -> VersionRow:
        """One version; an unknown id is a LedgerError."""
        return self._read(find_version, version_id)

    def pinned_data(self) -> list[JsonObject]:
        """The data pipelines that stored versions name, as they name them, the oldest version first."""
        statement = select(tables.versions.c.payload["data_pipeline"]).order_by(
            tables.versions.c.created_at, tables.versions.c.id
        )
        with read(self.engine) as connection:
            return [found for found in connection.execute(statement).scalars() if found is not None]


def store_version(
    connection: Connection,
    spec: RLExperimentSpec,
    project_id: str = "default",
    *,
    notes: str = "",
    created_by: str | None = None,
    version_id: str | None = None,
) -> VersionRow:
    """The version of this content in a transaction that writes: the stored one, or the next number of its slug."""
    spec_id = _locked_spec(connection, project_id, spec)
    # Another process may have stored the same content before the lock.
    known = _version_by_hash(connection, project_id, spec)
    if known is not None:
        return known
    return _next_version(connection, spec_id, spec, version_id or new_id(), notes=notes, created_by=created_by)


def find_version(connection: Connection, version_id: str) -> VersionRow:
    """One version by its id."""
    statement = select(tables.versions).where(tables.versions.c.id == version_id)
    found = connection.execute(statement).mappings().one_or_none()
    if found is None:
        newest = select(tables.versions.c.id).order_by(tables.versions.c.created_at.desc())
        remedy = nearest_id(version_id, connection.execute(newest).scalars().all())
        raise LedgerError(f"the version {version_id!r}", "the ledger has none with this id", remedy)
    return VersionRow.of(found)


def spec_of_version(version: VersionRow) -> RLExperimentSpec:
    """The spec that a version holds, as it was when it was stored; a SpecError where this code reads it otherwise."""
    from alphaswarm_rl.spec import RLExperimentSpec

    spec = RLExperimentSpec.from_data(version.payload, source=f"stored version {version.id}", stored=True)
    if spec.spec_hash != version.spec_hash:
        raise SpecError(
            f"stored version {version.id}",
            f"this code gives it the hash {spec.spec_hash[:12]}, not {version.spec_hash[:12]}",
            "Use the version of alphaswarm-rl that wrote it.",
        )
    return spec


def spec_ids(connection: Connection, slug: str, project_id: str | None = None) -> list[str]:
    """The ids of the specs with this slug: one in a project, at least one in all of them."""
    anywhere = select(tables.specs.c.id, tables.specs.c.slug)
    if project_id is not None:
        anywhere = anywhere.where(tables.specs.c.project_id == project_id)
    found = list(connection.execute(anywhere.where(tables.specs.c.slug == slug)).scalars())
    if not found:
        slugs = [row.slug for row in connection.execute(anywhere)]
        raise LedgerError(f"the spec {slug!r}", "the ledger has none with this slug", nearest(slug, slugs))
    return found


def _version_by_hash(connection: Connection, project_id: str, spec: RLExperimentSpec) -> VersionRow | None:
    statement = (
        select(tables.versions)
        .join(tables.specs, tables.specs.c.id == tables.versions.c.spec_id)
        .where(
            tables.specs.c.project_id == project_id,
            tables.specs.c.slug == spec.slug,
            tables.versions.c.spec_hash == spec.spec_hash,
        )
    )
    found = connection.execute(statement).mappings().one_or_none()
    return None if found is None else VersionRow.of(found)


def _locked_spec(connection: Connection, project_id: str, spec: RLExperimentSpec) -> str:
    # Insert-or-nothing, then lock: whoever comes second waits here and then sees the first one's version.
    now = utc_now()
    connection.execute(
        insert_for(connection, tables.specs)
        .values(
            id=new_id(),
            project_id=project_id,
            slug=spec.slug,
            current_version=0,
            created_at=now,
            updated_at=now,
            **_presentation(spec),
        )
        .on_conflict_do_nothing(index_elements=["project_id", "slug"])
    )
    statement = (
        select(tables.specs.c.id)
        .where(tables.specs.c.project_id == project_id, tables.specs.c.slug == spec.slug)
        .with_for_update()
    )
    spec_id: str = connection.execute(statement).scalar_one()
    return spec_id


def _next_version(
    connection: Connection,
    spec_id: str,
    spec: RLExperimentSpec,
    version_id: str,
    *,
    notes: str,
    created_by: str | None,
) -> VersionRow:
    newest = select(func.coalesce(func.max(tables.versions.c.version), 0)).where(tables.versions.c.spec_id == spec_id)
    number = connection.execute(newest).scalar_one() + 1
    now = utc_now()
    connection.execute(
        tables.versions.insert().values(
            id=version_id,
            spec_id=spec_id,
            version=number,
            spec_hash=spec.spec_hash,
            exec_hash=spec.exec_hash,
            payload=spec.as_data(),
            component_versions=dict(spec.component_versions),
            notes=notes,
            created_by=created_by,
            created_at=now,
        )
    )
    connection.execute(
        update(tables.specs)
        .where(tables.specs.c.id == spec_id)
        .values(current_version=number, updated_at=now, **_presentation(spec))
    )
    return find_version(connection, version_id)


def _presentation(spec: RLExperimentSpec) -> JsonObject:
    return {
        "name": spec.name,
        "kind": spec.kind,
        "description": spec.description,
        "spec_yaml": spec.to_yaml(),
        "annotations": list(spec.annotations),
    }

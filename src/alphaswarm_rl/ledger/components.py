"""A mirror of the catalogue, so that faces can list components without importing them."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, delete, select, update

from alphaswarm_rl.core.types import JsonMapping
from alphaswarm_rl.db.database import Database
from alphaswarm_rl.db.engine import lock_table, write
from alphaswarm_rl.db.types import utc_now
from alphaswarm_rl.ledger.rows import ComponentRow
from alphaswarm_rl.ledger.statements import checked, new_id
from alphaswarm_rl.ledger.tables import components

_OURS = ("id", "fingerprint", "created_at", "updated_at")


class ComponentTables(Database):
    """A mirror of the catalogue, so that faces can list components without importing them."""

    def sync_components(self, rows: Iterable[JsonMapping], fingerprint: str) -> bool:
        """Replaces the mirror unless it has this fingerprint; returns whether it wrote."""
        if self.components_fingerprint() == fingerprint:
            return False
        current = {(row["rl_kind"], row["alias"]): checked(components, row, fixed=_OURS) for row in rows}
        with write(self.engine) as connection:
            lock_table(connection, components.name)
            if _fingerprint(connection) == fingerprint:
                return False
            now = utc_now()
            key = (components.c.rl_kind, components.c.alias)
            known = {(row.rl_kind, row.alias): row.id for row in connection.execute(select(*key, components.c.id))}
            stale = [known[name] for name in known.keys() - current.keys()]
            connection.execute(delete(components).where(components.c.id.in_(stale)))
            added = []
            for name, row in current.items():
                values = {**row, "fingerprint": fingerprint, "updated_at": now}
                if name in known:
                    connection.execute(update(components).where(components.c.id == known[name]).values(values))
                else:
                    added.append({"id": new_id(), "created_at": now, **values})
            if added:
                connection.execute(components.insert(), added)
        return True

    def components(self, kind: str | None = None) -> list[ComponentRow]:
        """The mirrored components."""
        statement = select(components).order_by(components.c.rl_kind, components.c.alias)
        if kind is not None:
            statement = statement.where(components.c.rl_kind == kind)
        return self._rows(ComponentRow, statement)

    def components_fingerprint(self) -> str | None:
        """The fingerprint of the mirror, or None when there is none."""
        return self._read(_fingerprint)


def _fingerprint(connection: Connection) -> str | None:
    # Every row of a mirror carries the same one: they are written in one transaction.
    return connection.execute(select(components.c.fingerprint).limit(1)).scalar_one_or_none()

"""Bars in tables of the lake, for tests."""

import pyarrow as pa


def append(lake, identifier, frame):
    """Appends a pandas frame to a table; its moments in microseconds, as Iceberg keeps them."""
    rows = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()
    kept = [
        field.with_type(pa.timestamp("us", tz=field.type.tz)) if pa.types.is_timestamp(field.type) else field
        for field in rows.schema
    ]
    lake.append_arrow(identifier, rows.cast(pa.schema(kept)))


def snapshots(lake, identifier):
    """The table's snapshots, the oldest first."""
    return sorted(lake.find(identifier).snapshots(), key=lambda snapshot: snapshot.timestamp_ms)

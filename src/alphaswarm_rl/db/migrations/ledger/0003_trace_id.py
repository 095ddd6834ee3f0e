"""Telemetry: the trace that a run is told as.

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Plain ADD COLUMN: a table that SQLite builds anew would lose its triggers.
    op.add_column("rl_runs", sa.Column("trace_id", sa.String(32)))

"""The ledger's own id, and the order in which its runs were made.

Revision ID: 0004
Revises: 0003
"""

from datetime import UTC, datetime
from uuid import uuid4

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    ledger = op.create_table(
        "rl_ledger",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("runs", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_rl_ledger"),
    )
    # Plain ADD COLUMN: a table that SQLite builds anew would lose its triggers. Hence a default.
    op.add_column("rl_runs", sa.Column("number", sa.BigInteger(), nullable=False, server_default="0"))
    # What was the newest run stays the newest: by the clock, as it was until now.
    op.execute(
        "UPDATE rl_runs SET number = ordered.number FROM "
        "(SELECT id, ROW_NUMBER() OVER (ORDER BY created_at, id DESC) AS number FROM rl_runs) AS ordered "
        "WHERE ordered.id = rl_runs.id"
    )
    op.create_index("ix_rl_runs_number", "rl_runs", ["number"])
    runs = op.get_bind().execute(sa.text("SELECT COUNT(*) FROM rl_runs")).scalar_one()
    op.bulk_insert(ledger, [{"id": str(uuid4()), "runs": runs, "created_at": datetime.now(UTC)}])

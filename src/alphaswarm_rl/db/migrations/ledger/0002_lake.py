"""The lake: which segments a ref stands for and their checksum, and what a run recorded.

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    # Plain ADD COLUMN: a table that SQLite builds anew would lose its triggers. Hence a default for each.
    for table in ("rl_trajectory_refs", "rl_equity_curve_refs"):
        op.add_column(table, sa.Column("checksum", sa.Text(), nullable=False, server_default=""))
        op.add_column(table, sa.Column("first_segment", sa.BigInteger(), nullable=False, server_default="0"))
        op.add_column(table, sa.Column("last_segment", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("rl_runs", sa.Column("recording", JSON, nullable=False, server_default="{}"))

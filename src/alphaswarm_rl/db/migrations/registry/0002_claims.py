"""The newest claim of every run that was resumed or removed.

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

WHOLE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "rl_model_claims",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("number", WHOLE),
        sa.PrimaryKeyConstraint("run_id", name="pk_rl_model_claims"),
    )

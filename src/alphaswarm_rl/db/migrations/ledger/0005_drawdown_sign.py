"""The deepest fall of recorded equity curves is 0 or less, as it is of runs and evaluations.

Revision ID: 0005
Revises: 0004
"""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("UPDATE rl_equity_curve_refs SET max_drawdown = -max_drawdown WHERE max_drawdown > 0")

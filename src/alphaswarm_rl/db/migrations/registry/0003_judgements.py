"""What every score was judged on, and under which judgement it is compared.

Scores of before have no judgement. Those without dates are compared as they always were; those with dates are kept and
shown, and compared with nothing until the model is judged again.

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")

models = sa.table(
    "models",
    sa.column("id", sa.BigInteger),
    sa.column("judgement_key", sa.Text),
    *(sa.column(name, sa.Text) for name in ("eval_window_start", "eval_window_end")),
)
evaluations = sa.table(
    "rl_model_evaluations",
    sa.column("model_id", sa.BigInteger),
    *(sa.column(name, sa.Text) for name in ("window_start", "window_end")),
    sa.column("in_sample", sa.Boolean),
    sa.column("metrics", JSON),
)


def upgrade() -> None:
    op.add_column("rl_model_evaluations", sa.Column("judgement", JSON))
    op.add_column("rl_model_evaluations", sa.Column("judgement_key", sa.Text()))
    # Whoever inserts by the original columns gives scores of an environment without dates.
    op.add_column("models", sa.Column("judgement_key", sa.Text(), server_default=sa.text("'undated'")))
    connection = op.get_bind()
    dated = set(
        connection.execute(
            sa.select(models.c.id).where(
                sa.or_(models.c.eval_window_start.is_not(None), models.c.eval_window_end.is_not(None))
            )
        ).scalars()
    )
    for row in connection.execute(sa.select(evaluations)):
        # A user who added metrics may have left the dates out; whether the environment has some was kept then. Of a
        # policy that learnt nothing, in_sample is false without dates too.
        given = row.window_start is not None or row.window_end is not None
        if given or row.in_sample or (row.metrics or {}).get("dated") is True:
            dated.add(row.model_id)
    for model_id in sorted(dated):
        op.execute(models.update().where(models.c.id == model_id).values(judgement_key=None))

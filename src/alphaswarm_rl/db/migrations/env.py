"""Alembic's entry: the connection, its transaction and its lock come from `alphaswarm_rl.db.schema.Schema.upgrade`."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    version_table=context.config.attributes["version_table"],
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()

"""Alembic's entry: the connection, its transaction and its lock come from `alphaswarm_rl.db.schema.upgrade`."""

from alembic import context

from alphaswarm_rl.db.schema import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=context.config.attributes.get("metadata"),
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()

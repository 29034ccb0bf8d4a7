"""Alembic's entry: runs the migrations on the connection that `saiten_server.platform.sql.engine` hands over."""

from __future__ import annotations

from alembic import context

from saiten_server.platform.sql.tables import metadata


def run() -> None:
    """Runs inside one transaction, so that a failed migration leaves nothing behind where the database can do that."""
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=metadata,
        render_as_batch=True,
        compare_type=True,
    )
    with context.begin_transaction():
        context.run_migrations()


run()

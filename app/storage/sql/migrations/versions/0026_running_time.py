"""When a worker last signed that it was alive, and by which meaning of its rubric a batch is to be scored."""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

running_time = sa.table("running_time", sa.column("skipped_seconds", sa.Float()))
batches = sa.table("batches", sa.column("id"), sa.column("expires_at", sa.DateTime(timezone=True)))


def upgrade() -> None:
    """Adds the table and the columns. Deadlines stay as they are: all time has counted so far."""
    op.add_column("batches", sa.Column("rubric_digest", sa.String(64), nullable=True))
    op.add_column("batches", sa.Column("rubric_differs", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_table(
        "running_time",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("skipped_seconds", sa.Float(precision=53), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_running_time"),
    )


def downgrade() -> None:
    """Removes them, and puts deadlines off by the time that did not count."""
    connection = op.get_bind()
    skipped = timedelta(seconds=connection.execute(sa.select(running_time.c.skipped_seconds)).scalar() or 0.0)
    for row in connection.execute(sa.select(batches).where(batches.c.expires_at.is_not(None))).all():
        put_off = batches.update().where(batches.c.id == row.id)
        connection.execute(put_off.values(expires_at=row.expires_at + skipped))
    op.drop_table("running_time")
    op.drop_column("batches", "rubric_differs")
    op.drop_column("batches", "rubric_digest")

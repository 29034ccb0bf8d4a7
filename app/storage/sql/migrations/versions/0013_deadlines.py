"""Deadlines of batches, chunks that are set aside, and candidates that a worker may have begun."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the columns. A batch that is there has its whole running time still before it."""
    op.add_column("batches", sa.Column("expired", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("batches", sa.Column("estimated_calls", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("batches", sa.Column("left_seconds", sa.Float(precision=53), nullable=True))
    op.add_column("batches", sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("batch_chunks", sa.Column("begun", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("batch_chunks", sa.Column("set_aside", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    """Removes them. What expired is counted as failed."""
    batches = sa.table("batches", sa.column("failed"), sa.column("expired"))
    op.execute(batches.update().values(failed=batches.c.failed + batches.c.expired))
    for table, names in (
        ("batch_chunks", ("set_aside", "begun")),
        ("batches", ("expires_at", "left_seconds", "estimated_calls", "expired")),
    ):
        for name in names:
            op.drop_column(table, name)

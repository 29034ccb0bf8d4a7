"""Where the texts of adopted runs stand: the address of the files, and the key of each result in them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the tables. Runs that were adopted before have no rows in them: adopting them again adds the address."""
    op.create_table(
        "adopted_runs",
        sa.Column("batch_id", sa.String(64), nullable=False),
        sa.Column("url", sa.Text, nullable=True),
        refer("adopted_runs"),
        sa.PrimaryKeyConstraint("batch_id", name="pk_adopted_runs"),
    )
    op.create_table(
        "adopted_results",
        sa.Column("batch_id", sa.String(64), nullable=False),
        sa.Column("position", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        refer("adopted_results"),
        sa.PrimaryKeyConstraint("batch_id", "position", name="pk_adopted_results"),
        sqlite_with_rowid=False,
    )


def refer(table: str) -> sa.ForeignKeyConstraint:
    """The reference to the batch that the rows go with."""
    return sa.ForeignKeyConstraint(["batch_id"], ["batches.id"], name=f"fk_{table}_batch_id", ondelete="CASCADE")


def downgrade() -> None:
    """Removes them: texts of adopted runs are then not shown any more."""
    op.drop_table("adopted_results")
    op.drop_table("adopted_runs")

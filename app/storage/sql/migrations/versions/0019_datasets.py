"""Uploaded datasets."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the tables."""
    op.create_table(
        "datasets",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=True),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("unit", sa.String(16), nullable=False),
        sa.Column("korean", sa.Boolean(), nullable=False),
        sa.Column("items", sa.Integer(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_datasets"),
    )
    op.create_index("ix_datasets_project_created_at_id", "datasets", ["project", "created_at", "id"])
    op.create_index("ix_datasets_project_key_version", "datasets", ["project", "key", "version"], unique=True)
    op.create_table(
        "dataset_parts",
        sa.Column("dataset_id", sa.String(64), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("dataset_id", "number", name="pk_dataset_parts"),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name="fk_dataset_parts_dataset_id", ondelete="CASCADE"
        ),
    )


def downgrade() -> None:
    """Removes them."""
    op.drop_table("dataset_parts")
    op.drop_table("datasets")

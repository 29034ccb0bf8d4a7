"""An index by which batches of one name are found, however many others a project has."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

INDEX = "ix_batches_project_name"


def upgrade() -> None:
    """Creates it."""
    op.create_index(INDEX, "batches", ["project", sa.text("substr(name, 1, 64)"), "created_at", "id"])


def downgrade() -> None:
    """Removes it."""
    op.drop_index(INDEX, "batches")

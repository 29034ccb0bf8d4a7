"""A migration after the last one, for tests of the way from one revision to the next and back."""

import shutil
from pathlib import Path

import pytest

from saiten_server.platform.sql import schema

NUMBER = "9000"

NEXT = '''"""Notes of a test."""

import sqlalchemy as sa
from alembic import op

revision = "{number}"
down_revision = "{last}"
branch_labels = None
depends_on = None


def upgrade():
    op.create_table("notes", sa.Column("note", sa.Text(), nullable=False))
    op.add_column("api_keys", sa.Column("note", sa.Text(), nullable=True))


def downgrade():
    op.drop_column("api_keys", "note")
    op.drop_table("notes")
'''


def add_migration(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the test's Saiten know one revision more, `NUMBER`, which lies in a copy of the migrations."""
    last = schema.newest_revision()
    copied = shutil.copytree(schema.MIGRATIONS, folder / "migrations")
    (copied / "versions" / f"{NUMBER}_notes.py").write_text(NEXT.format(number=NUMBER, last=last))
    monkeypatch.setattr(schema, "MIGRATIONS", copied)

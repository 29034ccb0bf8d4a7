"""How many bytes each project stores."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

ROW = 500
"""What a row takes beside its texts."""

DRAWN = 100
"""What a response takes in a rating round."""

RESULT = ("record", "signature", "scores", "failure", "calls")
RATING = ("item", "system", "rater", "ratings", "comment", "earlier")


def upgrade() -> None:
    """Adds the sums, and counts what is there: each text is read once."""
    op.add_column("batches", sa.Column("stored_bytes", sa.BigInteger(), nullable=False, server_default="0"))
    op.create_table(
        "project_bytes",
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", name="pk_project_bytes"),
    )
    result, rating = f"{_size(*RESULT)} + {ROW}", f"{_size(*RATING)} + {ROW}"
    sums = (
        f"SELECT SUM(2 * {_size('request')} + {ROW}) FROM batch_items WHERE batch_id = batches.id",
        f"SELECT SUM({result}) FROM evaluations WHERE batch_id = batches.id",
        f"SELECT {DRAWN} * COUNT(*) FROM round_items JOIN rating_rounds ON rating_rounds.id = round_items.round_id "
        "WHERE rating_rounds.batch_id = batches.id",
    )
    whole = " + ".join(f"COALESCE(({each}), 0)" for each in sums)
    op.execute(f"UPDATE batches SET stored_bytes = {whole}")
    op.execute(
        "INSERT INTO project_bytes (project, bytes) SELECT project, SUM(size) FROM ("
        f"SELECT project, {result} AS size FROM evaluations WHERE batch_id IS NULL "
        f"UNION ALL SELECT project, {rating} FROM human_ratings "
        f"UNION ALL SELECT project, {_size('body')} FROM idempotency_keys"
        ") AS sized GROUP BY project HAVING SUM(size) > 0"
    )


def _size(*columns: str) -> str:
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    sizes = (f"length(CAST({name} AS BLOB))" if is_sqlite else f"octet_length({name})" for name in columns)
    return " + ".join(f"COALESCE({size}, 0)" for size in sizes)


def downgrade() -> None:
    """Removes them."""
    op.drop_table("project_bytes")
    op.drop_column("batches", "stored_bytes")

"""What people prefer, and rounds of preferences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)
COUNTER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
SIDES = ("first", "second")


def upgrade() -> None:
    """Adds the tables, and the kind of a round."""
    op.add_column("rating_rounds", sa.Column("kind", sa.String(16), nullable=True))
    op.create_table(
        "round_pairs",
        sa.Column("round_id", sa.String(64), nullable=False),
        sa.Column("position", sa.Integer, autoincrement=False, nullable=False),
        *make_sides("round_pairs"),
        refer("round_pairs", "round_id", "rating_rounds", "CASCADE"),
        sa.PrimaryKeyConstraint("round_id", "position", name="pk_round_pairs"),
    )
    texts = ("dialogue", "first_system", "second_system", "context", "first", "second")
    op.create_table(
        "human_preferences",
        sa.Column("number", COUNTER, nullable=False),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("rater", sa.Text, nullable=False),
        sa.Column("choice", sa.String(8), nullable=False),
        sa.Column("swapped", sa.Boolean, nullable=False),
        sa.Column("simulated", sa.Boolean, nullable=False),
        *(sa.Column(name, MOMENT, nullable=False) for name in ("shown_at", "created_at")),
        sa.Column("reason", sa.Text, nullable=True),
        sa.Column("round_id", sa.String(64), nullable=True),
        sa.Column("pair", sa.String(128), nullable=True),
        *make_sides("human_preferences"),
        sa.Column("item", sa.String(128), nullable=True),
        *(sa.Column(name, sa.Text, nullable=True) for name in texts),
        *(sa.Column(f"{side}_length", sa.Integer, nullable=True) for side in SIDES),
        refer("human_preferences", "round_id", "rating_rounds", "SET NULL"),
        sa.PrimaryKeyConstraint("number", name="pk_human_preferences"),
        sa.UniqueConstraint("key", name="uq_human_preferences_key"),
        sqlite_autoincrement=True,
    )
    for table, columns in INDEXES:
        op.create_index("_".join(["ix", table, *columns]), table, columns)


def downgrade() -> None:
    """Removes them, with what people preferred."""
    op.execute("DELETE FROM rating_rounds WHERE kind IS NOT NULL")
    for name in ("human_preferences", "round_pairs"):
        op.drop_table(name)
    op.drop_column("rating_rounds", "kind")


INDEXES = (
    *((table, [f"{side}_batch_id"]) for table in ("round_pairs", "human_preferences") for side in SIDES),
    ("human_preferences", ["project", "number"]),
    ("human_preferences", ["round_id"]),
)


def make_sides(table: str) -> Iterator[Any]:
    """Two results of batches, by their places."""
    for side in SIDES:
        yield sa.Column(f"{side}_batch_id", sa.String(64), nullable=True)
        yield sa.Column(f"{side}_position", sa.Integer, nullable=True)
        yield refer(table, f"{side}_batch_id", "batches", "CASCADE")


def refer(table: str, column: str, other: str, then: str) -> sa.ForeignKeyConstraint:
    """The reference to a row of the other table, and what becomes of this row when that one goes."""
    return sa.ForeignKeyConstraint([column], [f"{other}.id"], name=f"fk_{table}_{column}", ondelete=then)

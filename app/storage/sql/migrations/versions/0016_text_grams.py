"""An index of texts, and what pairs the results of runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

PAGE = 1000
ADDED = ("item_key", "context_key", "spread")

batches = sa.table("batches", sa.column("id"))
items = sa.table("batch_items", sa.column("batch_id"), sa.column("position"), sa.column("item"), sa.column("request"))
evaluations = sa.table("evaluations", sa.column("batch_id"), sa.column("position"), sa.column("scores"))
texts = sa.table("batch_texts", sa.column("batch_id"), sa.column("position"), sa.column("text"))
figures = sa.table(
    "result_figures",
    *(sa.column(name) for name in ("batch_id", "position")),
    *(sa.column(name, sa.BigInteger()) for name in ("item_key", "context_key")),
)
grams = sa.table(
    "text_grams",
    sa.column("batch_id"),
    sa.column("gram", sa.BigInteger()),
    sa.column("first"),
    sa.column("places", sa.LargeBinary()),
)


def upgrade() -> None:
    """Adds them, and fills them from the batches that are there, some rows at a time. The spread of samples stays
    unknown for these."""
    op.create_table(
        "text_grams",
        sa.Column("batch_id", sa.String(64), nullable=False),
        sa.Column("gram", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("first", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("places", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("batch_id", "gram", "first", name="pk_text_grams"),
        sa.ForeignKeyConstraint(["batch_id"], ["batches.id"], name="fk_text_grams_batch_id", ondelete="CASCADE"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "run_frames",
        sa.Column("batch_id", sa.String(64), nullable=False),
        sa.Column("state", sa.String(64), nullable=False),
        sa.Column("frame", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("batch_id", name="pk_run_frames"),
        sa.ForeignKeyConstraint(["batch_id"], ["batches.id"], name="fk_run_frames_batch_id", ondelete="CASCADE"),
    )
    for name in ADDED[:2]:
        op.add_column("result_figures", sa.Column(name, sa.BigInteger(), nullable=True))
    op.add_column("result_figures", sa.Column("spread", sa.Float(precision=53), nullable=True))
    connection = op.get_bind()
    for batch_id in connection.execute(sa.select(batches.c.id)).scalars().all():
        _fill_keys(connection, batch_id)
        _fill_grams(connection, batch_id)


def _fill_keys(connection: sa.Connection, batch_id: str) -> None:
    this = (figures.c.batch_id == batch_id) & (figures.c.position == sa.bindparam("place"))
    for table, read, column in ((items, "item", "item_key"), (evaluations, "scores", "context_key")):
        set_key = sa.update(figures).where(this).values({column: sa.bindparam("key")})
        for page in _pages(connection, table, batch_id, (read,)):
            named = [(row.position, row.item if read == "item" else json.loads(row.scores).get("x")) for row in page]
            rows = [{"place": position, "key": _key_of(name)} for position, name in named if name is not None]
            if rows:
                connection.execute(set_key, rows)


def _fill_grams(connection: sa.Connection, batch_id: str) -> None:
    # The index has its one description beside what reads it: a second one here would have to be equal for ever.
    from app.storage.sql.search import fold, list_grams

    this = (texts.c.batch_id == batch_id) & (texts.c.position == sa.bindparam("place"))
    set_text = sa.update(texts).where(this).values(text=sa.bindparam("new_text"))
    asked = sa.select(items.c.position, items.c.request).where(items.c.batch_id == batch_id)
    for page in _pages(connection, texts, batch_id, ("text",)):
        # What was redacted has no text, and is not to be found by its metadata either.
        folded = [(row.position, fold(row.text)) for row in page if row.text]
        if not folded:
            continue
        between = items.c.position.between(folded[0][0], folded[-1][0])
        requests = {row.position: json.loads(row.request) for row in connection.execute(asked.where(between))}
        entries = [(position, requests[position].get("metadata", {})) for position, _ in folded]
        changed = [
            {"place": position, "new_text": text}
            for (position, text), row in zip(folded, (row for row in page if row.text), strict=True)
            if text != row.text
        ]
        if changed:
            connection.execute(set_text, changed)
        found = [
            {"batch_id": batch_id, "gram": gram, "first": first, "places": places}
            for gram, first, places in list_grams(folded, entries)
        ]
        connection.execute(sa.insert(grams), found)


def _pages(
    connection: sa.Connection, table: sa.TableClause, batch_id: str, columns: Sequence[str]
) -> Iterator[Sequence[sa.Row[Any]]]:
    """The batch's rows in order, some at a time."""
    place, after = table.c.position, -1
    query = sa.select(place, *(table.c[name] for name in columns)).where(table.c.batch_id == batch_id)
    while page := connection.execute(query.where(place > after).order_by(place).limit(PAGE)).all():
        yield page
        after = page[-1].position


def _key_of(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) >> 1 or 1


def downgrade() -> None:
    """Removes them. Texts stay folded."""
    op.drop_table("run_frames")
    op.drop_table("text_grams")
    for name in ADDED:
        op.drop_column("result_figures", name)

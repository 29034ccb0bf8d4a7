"""What batches amount to, and their results' values and texts, in tables that can be sorted and searched."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

VALUES = tuple(f"v{number:02}" for number in range(40))
PAGE = 1000
SEPARATOR = "\x1e"

batches = sa.table("batches", sa.column("id"), sa.column("measures"))
evaluations = sa.table("evaluations", sa.column("batch_id"), sa.column("position"), sa.column("scores"))
items = sa.table("batch_items", sa.column("batch_id"), sa.column("position"), sa.column("item"), sa.column("request"))
texts = sa.table("batch_texts", sa.column("batch_id"), sa.column("position"), sa.column("text"))
figures = sa.table(
    "result_figures",
    *(sa.column(name) for name in ("batch_id", "position", "status", "system", "warnings", "unrated")),
    *(sa.column(name, sa.Float(precision=53)) for name in VALUES),
)


def upgrade() -> None:
    """Creates the tables, and fills them from the batches that are there. What those amount to stays unknown."""
    op.add_column("batches", sa.Column("tally", sa.Text(), nullable=True))
    op.add_column("batches", sa.Column("measures", sa.Text(), nullable=True))
    _create_part("batch_texts", sa.Column("text", sa.Text(), nullable=False))
    _create_part(
        "result_figures",
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("system", sa.Text(), nullable=True),
        sa.Column("warnings", sa.Text(), nullable=False),
        sa.Column("unrated", sa.Text(), nullable=False),
        *(sa.Column(name, sa.Float(precision=53), nullable=True) for name in VALUES),
    )
    connection = op.get_bind()
    for batch_id in connection.execute(sa.select(batches.c.id)).scalars().all():
        _fill_texts(connection, batch_id)
        _fill_figures(connection, batch_id)


def _create_part(name: str, *columns: sa.Column[Any]) -> None:
    """A table of what belongs to one candidate of a batch each; on SQLite in the order of its primary key."""
    op.create_table(
        name,
        sa.Column("batch_id", sa.String(64), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        *columns,
        sa.PrimaryKeyConstraint("batch_id", "position", name=f"pk_{name}"),
        sa.ForeignKeyConstraint(["batch_id"], ["batches.id"], name=f"fk_{name}_batch_id", ondelete="CASCADE"),
        sqlite_with_rowid=False,
    )


def _fill_texts(connection: sa.Connection, batch_id: str) -> None:
    for page in _pages(connection, items, batch_id, ("item", "request")):
        rows = []
        for row in page:
            asked = json.loads(row.request)
            parts = (row.item, *(one["text"] for one in asked["context"]), asked["response"])
            text = SEPARATOR.join(parts).encode().lower().decode()
            rows.append({"batch_id": batch_id, "position": row.position, "text": text})
        connection.execute(sa.insert(texts), rows)


def _fill_figures(connection: sa.Connection, batch_id: str) -> None:
    measures: tuple[str, ...] = ()
    for page in _pages(connection, evaluations, batch_id, ("scores",)):
        found = [(row.position, json.loads(row.scores)) for row in page]
        measures = _extend(measures, [scores for _, scores in found])
        rows = [{"batch_id": batch_id, "position": place, **_describe(scores, measures)} for place, scores in found]
        connection.execute(sa.insert(figures), rows)
    if measures:
        named = sa.update(batches).where(batches.c.id == batch_id).values(measures=json.dumps(measures))
        connection.execute(named)


def _pages(
    connection: sa.Connection, table: sa.TableClause, batch_id: str, columns: Sequence[str]
) -> Iterator[Sequence[sa.Row[Any]]]:
    """The batch's rows in order, some at a time."""
    place, after = table.c.position, -1
    query = sa.select(place, *(table.c[name] for name in columns)).where(table.c.batch_id == batch_id)
    while page := connection.execute(query.where(place > after).order_by(place).limit(PAGE)).all():
        yield page
        after = page[-1].position


def _extend(known: tuple[str, ...], results: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """The measures so far, then those that these results have besides."""
    aspects = dict.fromkeys(name for scores in results for name in scores.get("a", ()))
    composites = dict.fromkeys(name for scores in results for name in scores.get("c", ()))
    names = dict.fromkeys([*known, *aspects, *composites, *(f"{name}.blended" for name in aspects)])
    return tuple(names)[: len(VALUES)]


def _describe(scores: dict[str, Any], measures: tuple[str, ...]) -> dict[str, Any]:
    """A result's columns. An aspect is packed as mean, blended value, unrated reason and rating."""
    aspects = scores.get("a", {})
    values = {f"{name}.blended": one[1] for name, one in aspects.items()} | scores.get("c", {})
    values |= {name: one[0] for name, one in aspects.items()}
    unrated = [name for name, one in aspects.items() if one[0] is None]
    return {
        "status": scores["s"],
        "system": scores.get("y"),
        "warnings": "".join(f" {code}" for code in scores.get("w", ())) + " ",
        "unrated": "".join(f" {name}" for name in unrated) + " ",
        **dict.fromkeys(VALUES),
        **{column: values.get(name) for column, name in zip(VALUES, measures, strict=False)},
    }


def downgrade() -> None:
    """Removes the tables; everything in them is told elsewhere too."""
    op.drop_table("result_figures")
    op.drop_table("batch_texts")
    # Not by a batch operation: on SQLite that would drop `batches`, and with it all that goes with a batch.
    op.drop_column("batches", "measures")
    op.drop_column("batches", "tally")

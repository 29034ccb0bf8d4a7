"""One form of a result's figures: columns of `result_figures` in place of the packed `evaluations.scores`.

`batches.measures` says by kind what the columns are of. The way down packs the figures again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql, sqlite

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None

AT_ONCE = 2000
"""Results that are in memory together."""

REAL = sa.Float(precision=53)
VALUES = tuple(f"v{number:02}" for number in range(40))
LETTERS = "sacwfbyxdvu"
"""Of the packed form: status, aspects, composites, warnings, failure, b, system, context, findings, spread, build."""

NEW: dict[str, Any] = {
    "reasons": sa.Text(),
    "build": sa.Text(),
    "failure": sa.Text(),
    "context": sa.String(64),
    "candidate": sa.Integer(),
    "similarity": REAL,
    "system_turns": sa.Integer(),
    "findings": sa.Text(),
    "ratings": sa.Text(),
    "further": sa.Text(),
}
PLACE: dict[str, Any] = {"batch_id": sa.String(64), "position": sa.Integer()}
KEPT: dict[str, Any] = {
    **dict.fromkeys(("status", "system", "warnings", "unrated", "cluster"), sa.Text()),
    **dict.fromkeys(("item_key", "context_key"), sa.BigInteger()),
    **dict.fromkeys(("spread", *VALUES), REAL),
}


def shape(name: str, columns: Mapping[str, Any]) -> sa.TableClause:
    """A table with these columns."""
    return sa.table(name, *(sa.column(own, kind) for own, kind in columns.items()))


batches = shape("batches", {"id": sa.String(64), "measures": sa.Text(), "stored_bytes": sa.BigInteger()})
evaluations = shape(
    "evaluations",
    {**PLACE, "candidate": sa.Integer(), **dict.fromkeys(("item", "cluster", "scores"), sa.Text())},
)
figures = shape("result_figures", {**PLACE, **KEPT, **NEW})
result, figure = evaluations.c, figures.c

Key = tuple[str, str]
"""Kind and name of a measure."""


def upgrade() -> None:
    """Unpacks every result into columns, batch by batch."""
    for name, kind in NEW.items():
        told: dict[str, Any] = {"nullable": False, "server_default": " "} if name == "reasons" else {}
        op.add_column("result_figures", sa.Column(name, kind, **told))
    connection = op.get_bind()
    for batch_id in connection.execute(sa.select(batches.c.id)).scalars().all():
        unpack_batch(connection, batch_id)
    connection.execute(sa.text("DELETE FROM run_frames"))
    op.drop_column("evaluations", "scores")


def downgrade() -> None:
    """Packs every result's figures again."""
    op.add_column("evaluations", sa.Column("scores", sa.Text, nullable=True))
    connection = op.get_bind()
    rows = connection.execute(sa.select(batches.c.id, batches.c.measures)).all()
    for row in rows:
        pack_batch(connection, row.id, [tuple(key) for key in json.loads(row.measures or "[]")])
    connection.execute(sa.text("DELETE FROM run_frames"))
    for name in NEW:
        op.drop_column("result_figures", name)


def read_pages(connection: sa.Connection, query: sa.Select[Any], position: Any) -> Iterator[Sequence[Any]]:
    """The rows of a batch in order, some at a time."""
    after = -1
    while rows := connection.execute(query.where(position > after).order_by(position).limit(AT_ONCE)).all():
        yield rows
        after = rows[-1].position


def unpack_batch(connection: sa.Connection, batch_id: str) -> None:
    """Writes the columns of the batch's results, and what they are of."""
    insert = (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(figures)
    named = [column.name for column in figures.columns]
    write = insert.values({name: sa.bindparam(name) for name in named}).on_conflict_do_update(
        index_elements=["batch_id", "position"], set_={name: insert.excluded[name] for name in named[2:]}
    )
    columns = (result.position, result["item"], result.candidate, result.cluster, result.scores)
    query = sa.select(*columns).where(result.batch_id == batch_id, result.scores.is_not(None))
    measures: dict[Key, str] = {}
    freed = 0
    for rows in read_pages(connection, query, result.position):
        told = [unpack(row.scores) for row in rows]
        place(measures, told)
        connection.execute(write, [describe(batch_id, *each, measures) for each in zip(rows, told, strict=True)])
        freed += sum(len(row.scores.encode()) for row in rows)
    note(connection, batch_id, json.dumps([*measures]) if measures else None, -freed)


def note(connection: sa.Connection, batch_id: str, measures: str | None, more: int) -> None:
    """Notes what the batch's columns are of, and how many bytes it takes more."""
    values = {"measures": measures, "stored_bytes": batches.c.stored_bytes + more}
    connection.execute(sa.update(batches).where(batches.c.id == batch_id).values(values))


def unpack(text: str) -> dict[str, Any]:
    """A packed result, with its values by kind and name as `values`."""
    told = json.loads(text)
    aspects = told.get("a", {})
    values: dict[Key, float | None] = {("aspect", name): mean for name, (mean, *_) in aspects.items()}
    values |= {("composite", name): value for name, value in told.get("c", {}).items()}
    values |= {("blended", name): one[1] for name, one in aspects.items() if one[1] is not None}
    return {**told, "values": values}


def place(measures: dict[Key, str], told: Iterable[Mapping[str, Any]]) -> None:
    """Gives columns to measures that have none yet, as far as there are any."""
    found = dict.fromkeys(key for one in told for key in one["values"])
    for kind in ("aspect", "composite", "blended"):
        for key in found:
            if key[0] == kind and key not in measures and len(measures) < len(VALUES):
                measures[key] = VALUES[len(measures)]


def describe(batch_id: str, row: Any, told: Mapping[str, Any], measures: Mapping[Key, str]) -> dict[str, Any]:
    """A result's row of figures."""
    unrated = {name: one[2] or "-" for name, one in told.get("a", {}).items() if one[0] is None}
    ratings = {name: one[3] for name, one in told.get("a", {}).items() if one[3] is not None and one[3] != one[0]}
    values, faulty = told["values"], told.get("d")
    codes = [code for code, turns in faulty[1].items() if turns] if faulty else []
    further = [(*key, value) for key, value in values.items() if value is not None and key not in measures]
    return {
        "batch_id": batch_id,
        "position": row.position,
        "status": told["s"],
        "system": told.get("y"),
        "build": told.get("u"),
        "warnings": enclose([*told.get("w", ()), *(f"finding:{code}" for code in (["any", *codes] if codes else []))]),
        "unrated": enclose(unrated),
        "reasons": enclose(unrated.values()),
        "failure": told.get("f"),
        "cluster": row.cluster,
        "item_key": key_of(row.item),
        "candidate": row.candidate,
        "context": told.get("x"),
        "context_key": key_of(told["x"]) if told.get("x") is not None else None,
        "spread": told.get("v"),
        "similarity": told.get("b"),
        "system_turns": faulty and faulty[0],
        "findings": faulty and pack(faulty[1]),
        "ratings": pack(ratings) if ratings else None,
        "further": pack(further) if further else None,
        **dict.fromkeys(VALUES),
        **{column: values.get(key) for key, column in measures.items()},
    }


def enclose(names: Iterable[str]) -> str:
    """The names with a space before and after each."""
    return "".join(f" {name}" for name in names) + " "


def key_of(name: str) -> int:
    """A number that stands for a name."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) >> 1 or 1


def pack(value: Any) -> str:
    """Compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def pack_batch(connection: sa.Connection, batch_id: str, measures: Sequence[Key]) -> None:
    """Packs the figures of the batch's results, and names its measures."""
    this = (result.batch_id == batch_id) & (result.position == sa.bindparam("place"))
    write = sa.update(evaluations).where(this).values(scores=sa.bindparam("packed"))
    added = 0
    for rows in read_pages(connection, sa.select(figures).where(figure.batch_id == batch_id), figure.position):
        packed = [{"place": row.position, "packed": pack_row(row, measures)} for row in rows]
        connection.execute(write, packed)
        added += sum(len(one["packed"].encode()) for one in packed)
    names = [name + ".blended" if kind == "blended" else name for kind, name in measures]
    note(connection, batch_id, json.dumps(names) if names else None, added)


def pack_row(row: Any, measures: Sequence[Key]) -> str:
    """The packed form of a row of figures."""
    unrated = dict(zip(row.unrated.split(), row.reasons.split(), strict=True))
    values = {key: getattr(row, column) for key, column in zip(measures, VALUES, strict=False)}
    values |= {(kind, name): value for kind, name, value in json.loads(row.further or "[]")}
    ratings = json.loads(row.ratings or "{}")
    aspects: dict[str, list[Any]] = {}
    for kind, name in [*values, *(("aspect", name) for name in unrated)]:
        mean = values.get(("aspect", name))
        if kind == "aspect" and (mean is not None or name in unrated):
            reason = None if unrated.get(name) == "-" else unrated.get(name)
            rating = ratings.get(name, mean)
            whole = None if rating is None or rating % 1 else int(rating)
            aspects[name] = [mean, values.get(("blended", name)), reason, whole]
    told = {
        "s": row.status,
        "a": aspects,
        "c": {name: value for (kind, name), value in values.items() if kind == "composite" and value is not None},
        "w": [code for code in row.warnings.split() if not code.startswith("finding:")],
        "f": row.failure,
        "b": row.similarity,
        "y": row.system,
        "x": row.context,
        "d": None if row.findings is None else [row.system_turns, json.loads(row.findings)],
        "v": row.spread,
        "u": row.build,
    }
    return pack({letter: told[letter] for letter in LETTERS if told[letter] not in (None, {}, [])})

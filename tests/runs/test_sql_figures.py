"""The migration that unpacks figures into columns, and its way back, on each database."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import pytest
from sqlalchemy import Integer, func, insert, select
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.conversation import FaultyTurns
from saiten_server.core.model import key_of
from saiten_server.platform.sql.engine import open_engine, read, write
from saiten_server.platform.sql.schema import downgrade, migrate, migrating, upgrade
from saiten_server.platform.sql.tables import batches, result_figures, run_frames
from saiten_server.runs.store.rows import read_measures
from saiten_server.runs.summary import ResultFigures
from tests.support.figures import read_figures, select_figures

BEFORE = import_module("saiten_server.platform.sql.migrations.versions.0031_tables").schema.tables
MANY = 2001
"""More than are in memory together."""

NOW = datetime(2026, 11, 21, tzinfo=UTC)

PACKED: tuple[dict[str, Any], ...] = (
    {
        "s": "scored",
        "a": {"自然さ": [1 / 3, -0.1, None, 0], "tone": [2.0, None, None, 2]},
        "c": {"ssa": 0.5},
        "v": 0.25,
    },
    {"s": "partial", "a": {"自然さ": [1.0, None, None, 1], "tone": [None, None, "refused", None]}, "w": ["a", "b"]},
    {"s": "failed", "f": "judge-reply-invalid"},
    {"s": "scored", "b": -0.125, "y": "bot|a", "u": "b2", "x": "h:0f", "d": [4, {"judge": [0, 3], "kinds": []}]},
    {"s": "scored", "a": {f"a{number:02}": [1.0, None, None, 1] for number in range(50)}},
)
EXPECTED = (
    ResultFigures(
        "scored",
        {
            ("aspect", "自然さ"): 1 / 3,
            ("aspect", "tone"): 2.0,
            ("composite", "ssa"): 0.5,
            ("blended", "自然さ"): -0.1,
        },
        {"自然さ": 0},
        spread=0.25,
    ),
    ResultFigures(
        "partial",
        {("aspect", "自然さ"): 1.0, ("aspect", "tone"): None},
        unrated={"tone": "refused"},
        warnings=("a", "b"),
    ),
    ResultFigures("failed", {}, failure="judge-reply-invalid"),
    ResultFigures(
        "scored",
        {},
        similarity=-0.125,
        system="bot|a",
        build="b2",
        context="h:0f",
        faulty=FaultyTurns(4, {"judge": [0, 3], "kinds": []}),
    ),
    ResultFigures("scored", {("aspect", f"a{number:02}"): 1.0 for number in range(50)}),
)


def pack(told: dict[str, Any]) -> str:
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


@pytest.fixture
def sqlite_url(bare_sqlite_url: str) -> str:
    return bare_sqlite_url


@pytest.fixture
def postgres_url(bare_postgres_url: str) -> str:
    return bare_postgres_url


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    """A database of the revision before, with a batch of these results."""
    made = open_engine(database_url)
    async with migrating(made) as connection:
        await connection.run_sync(upgrade, "0031")
    counts = {one.name: 0 for one in BEFORE["batches"].columns if isinstance(one.type, Integer) and not one.nullable}
    texts = dict.fromkeys(("options", "rubric", "mode"), "")
    money = {"dearest_usd": 0.0, "rubric_differs": False, "stored_bytes": 10_000}
    batch = {"id": "ba_1", "project": "team", "created_at": NOW, "status": "completed", **counts, **texts, **money}
    common = {"project": "team", "created_at": NOW, "rubric": "r", "signature": "", "record": "", "batch_id": "ba_1"}
    results = [
        {
            **common,
            "id": f"ev_{position}",
            "position": position,
            "item": f"item-{position}",
            "candidate": position or None,
            "cluster": "0" * 16,
            "status": told["s"],
            "scores": pack(told),
        }
        for position, told in enumerate(PACKED)
    ]
    many = [
        {
            **results[0],
            "id": f"ev_m{position:04}",
            "batch_id": "ba_2",
            "position": position,
            "scores": pack({"s": "scored", "a": {"tone": [float(position % 3), None, None, position % 3]}}),
        }
        for position in range(MANY)
    ]
    # As an earlier release left it: without a key, and not all of them.
    figures = {"batch_id": "ba_1", "position": 0, "status": "scored", "warnings": " ", "unrated": " ", "v07": 9.0}
    single = {**common, "id": "ev_single", "batch_id": None, "status": "scored"}
    async with write(made) as connection:
        await connection.execute(insert(BEFORE["batches"]).values(batch | {"measures": '["tone"]'}))
        await connection.execute(insert(BEFORE["batches"]).values(batch | {"id": "ba_2"}))
        await connection.execute(insert(BEFORE["evaluations"]), results + many)
        await connection.execute(insert(BEFORE["evaluations"]).values(single))
        await connection.execute(insert(BEFORE["result_figures"]).values(figures))
        await connection.execute(insert(BEFORE["run_frames"]).values(batch_id="ba_1", state="x", frame=b"x"))
    yield made
    await made.dispose()


async def test_every_result_is_unpacked_into_columns(engine: AsyncEngine) -> None:
    await migrate(engine)
    async with read(engine) as connection:
        rows = (await connection.execute(select(batches.c.measures, batches.c.stored_bytes).order_by("id"))).all()
        measures = read_measures(rows[0].measures)
        place = [result_figures.c[name] for name in ("position", "cluster", "item_key", "candidate")]
        mine = select(*place, *select_figures(measures)).where(result_figures.c.batch_id == "ba_1")
        query = mine.order_by(result_figures.c.position)
        found = (await connection.execute(query)).all()
        assert (await connection.execute(select(run_frames.c.state))).all() == []
    assert [read_figures(row, measures) for row in found] == [*EXPECTED]
    places = [(at, "0" * 16, key_of(f"item-{at}"), at or None) for at in range(len(PACKED))]
    assert [tuple(row[:4]) for row in found] == places
    size = sum(len(pack(told).encode()) for told in PACKED)
    assert [read_measures(row.measures) for row in rows[1:]] == [(("aspect", "tone"),)]
    async with read(engine) as connection:
        many = select(func.sum(result_figures.c.v00)).where(result_figures.c.batch_id == "ba_2")
        assert (await connection.execute(many)).scalar_one() == sum(position % 3 for position in range(MANY))
    assert rows[0].stored_bytes == 10_000 - size


async def test_the_way_back_packs_the_same_again(engine: AsyncEngine) -> None:
    table = BEFORE["evaluations"].c
    await migrate(engine)
    await downgrade(engine, "0031")
    async with read(engine) as connection:
        scores = (await connection.execute(select(table.scores).order_by(table.id))).scalars().all()
        sizes = (await connection.execute(select(BEFORE["batches"].c.stored_bytes))).scalars().all()
        names = (await connection.execute(select(BEFORE["batches"].c.measures).order_by("id"))).scalars().all()
    assert [json.loads(one) for one in scores[: len(PACKED)]] == [*PACKED]
    assert {json.loads(one)["a"]["tone"][3] for one in scores[len(PACKED) : -1]} == {0, 1, 2}
    assert scores[-1] is None
    assert names == [json.dumps(["自然さ", "tone", *(f"a{n:02}" for n in range(38))]), '["tone"]']
    assert sizes == [10_000, 10_000]
    await migrate(engine)

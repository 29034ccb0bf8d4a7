"""Texts are found by words of any length, on each database, and not after they are erased."""

import numpy as np
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.batch import BatchOptions, Candidate, Entry
from saiten_server.core.dialogue import Utterance
from saiten_server.erasure.store import TextStore
from saiten_server.platform.sql.engine import fetch_value
from saiten_server.platform.sql.tables import text_grams
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.store.frames import FrameStore
from saiten_server.runs.store.search import (
    SEPARATOR,
    SORTED_CHARACTERS,
    WIDTH,
    TextSearch,
    cut_texts,
    fold_text,
    list_grams,
)
from tests.support.batches import START

RESPONSES = ("映画が好きです", "영화를 좋아해요", "ＡＢＣ Straße", "画映", "か\u3099", "a" + "\u0301" * 3000)


async def put(store: BatchStore, batch_id: str = "ba_1", *, project: str = "team") -> None:
    """An accepted batch with a candidate for each response."""
    places = [Entry(position=number, item=f"item-{number}", candidate=None) for number in range(len(RESPONSES))]
    context = (Utterance(speaker="甲", text="こんにちは"),)
    told = [
        Candidate(context=context, response=said, metadata={"user": "mine" if number in {0, 3} else "other"})
        for number, said in enumerate(RESPONSES)
    ]
    await store.begin(project, batch_id, BatchOptions(), START)
    await store.append(batch_id, list(zip(places, told, strict=True))[:4])
    await store.append(batch_id, list(zip(places, told, strict=True))[4:])
    await store.accept(project, batch_id, unit_cost_usd=None, answer=None)


def test_pairs_of_long_texts_are_found_a_part_at_a_time() -> None:
    texts = [
        (3, "あ" * SORTED_CHARACTERS + "い"),
        (4, "う"),
        (9, "いう" * SORTED_CHARACTERS),
        (10, ""),
        (11, "う" * (SORTED_CHARACTERS - 1)),
        (12, "いう"),
    ]
    assert all(sum(len(part) for _, part in group) <= SORTED_CHARACTERS + 1 for group in cut_texts(texts))
    places = {
        (chr(gram >> WIDTH), chr(gram & (1 << WIDTH) - 1)): np.frombuffer(held, dtype="<u2").tolist()
        for gram, first, held in list_grams(texts)
        if first == 3
    }
    end = SEPARATOR
    assert places == {
        ("あ", "あ"): [0],
        ("あ", "い"): [0],
        ("い", end): [0],
        ("い", "う"): [6, 9],
        ("う", "い"): [6],
        ("う", "う"): [8],
        ("う", end): [1, 6, 8, 9],
    }


FOUND = {
    "映画": [0],
    "映": [0, 3],
    "画": [0, 3],
    "き": [0],
    "영화": [1],
    "좋아해요": [1],
    "요": [1],
    "abc": [2],
    "STRASSE": [2],
    "が": [0, 4],
    "item-3": [3],
    "こんにちは": [0, 1, 2, 3, 4, 5],
    "はか": [],
    "画が映": [],
    "": [],
    "\x1e": [],
    "\x00": [],
}


async def test_words_of_any_length_are_found(engine: AsyncEngine) -> None:
    store, search = BatchStore(engine), TextSearch(engine)
    await put(store)
    await put(store, "ba_2", project="others")
    assert {text: (await search.find("team", "ba_1", text)).tolist() for text in FOUND} == FOUND
    assert (await search.find("others", "ba_1", "映画")).tolist() == []
    assert (await search.find_entry("team", "ba_1", "user", "mine")).tolist() == [0, 3]
    assert await search.list_batches("team", "映画が", limit=9) == ["ba_1"]
    assert await search.list_batches("team", "映画は", limit=9) == []
    # No candidate has a result yet.
    assert (await FrameStore(engine).read_frame("team", "ba_1")).values == {}
    assert len(fold_text("a" + "\u0301" * 100_000)) < 20


async def test_what_is_erased_is_not_found(engine: AsyncEngine) -> None:
    store, search, texts = BatchStore(engine), TextSearch(engine), TextStore(engine)
    await put(store)
    await put(store, "ba_2")
    await texts.erase_marked("team", {"user": "mine"})
    assert (await search.find("team", "ba_1", "映")).tolist() == []
    assert (await search.find("team", "ba_1", "こんにちは")).tolist() == [1, 2, 4, 5]
    assert (await search.find_entry("team", "ba_1", "user", "mine")).tolist() == []
    assert await store.erase("team", "ba_1")
    left = select(func.count()).select_from(text_grams)
    assert await fetch_value(engine, left.where(text_grams.c.batch_id == "ba_1")) == 0
    assert await fetch_value(engine, left) != 0

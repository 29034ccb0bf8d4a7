"""From a stream of bytes to a batch in the store: all of it or nothing."""

import asyncio
import errno
import hashlib
import io
import json
import tempfile
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from saiten_server.core.batch import Candidate, Entry
from saiten_server.core.dialogue import DEFAULT_LIMITS, Limits
from saiten_server.core.errors import StoreError, StoreFull, StoreUnavailable
from saiten_server.core.validation import InvalidDocument
from saiten_server.runs import intake
from saiten_server.runs.clusters import name_dialogue
from saiten_server.runs.document import BatchReader
from saiten_server.runs.intake import Intake, Spool, store_batch, take_in, translate_errors
from saiten_server.runs.store.batches import BatchStore
from tests.support.faults import words

NOW = datetime(2026, 11, 21, tzinfo=UTC)
CONTEXT = [{"speaker": "甲", "text": "おはよう"}]
ITEMS: list[dict[str, Any]] = [
    {"id": "a", "context": CONTEXT, "response": "はい"},
    {"context": CONTEXT, "responses": ["一", "二"], "reference": "三", "metadata": {"k": "v"}},
    {"context": CONTEXT, "response": "いいえ"},
]
BODY = json.dumps({"items": ITEMS, "name": "夜"}).encode()


async def stream(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def take(body: bytes, into: Spool, limits: Limits = DEFAULT_LIMITS) -> Intake:
    return await take_in(stream(body[:40], b"", body[40:]), BatchReader(limits, ndjson=False), into)


class RecordingStore:
    """The part of a store that takes in; fails in the step named `failing`."""

    def __init__(self, failing: str = "", error: BaseException | None = None) -> None:
        self.steps: list[str] = []
        self.kept: list[tuple[Entry, Candidate]] = []
        self._failing = failing
        self._error = error or StoreUnavailable(words("gone"))

    async def begin(self, *_: object, **__: object) -> None:
        self._step("begin")

    async def append(self, _: str, candidates: Sequence[tuple[Entry, Candidate]]) -> None:
        self.kept += candidates
        self._step("append")

    async def accept(self, *_: object, **__: object) -> str:
        self._step("accept")
        return "accepted"

    async def discard(self, _: str) -> None:
        self.kept.clear()
        self._step("discard")

    def _step(self, name: str) -> None:
        self.steps.append(name)
        if name == self._failing:
            raise self._error


async def store_in(store: RecordingStore) -> object:
    async with Spool() as into:
        taken = await take(BODY, into)
        return await store_batch(
            cast("BatchStore", store), "p", "ba_1", taken, now=NOW, unit_cost_usd=None, answer=None
        )


async def test_it_counts_what_it_takes() -> None:
    async with Spool() as into:
        taken = await take(BODY, into)
        assert (taken.options.name, taken.items, taken.candidates) == ("夜", 3, 4)
        assert taken.digest == hashlib.sha256(BODY).hexdigest()


async def test_candidates_come_back_as_they_went_in_and_as_often_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "BLOCK_CANDIDATES", 3)
    monkeypatch.setattr(intake, "BLOCK_BYTES", 1)
    async with Spool() as into:
        taken = await take(BODY, into)
        for _ in range(2):
            blocks = [block async for block in taken.blocks()]
            assert [len(block) for block in blocks] == [3, 1]
            places = [entry.model_dump() for block in blocks for entry, _ in block]
            assert [(place["position"], place["item"], place["candidate"]) for place in places] == [
                (0, "a", None),
                (1, "1", 0),
                (2, "1", 1),
                (3, "2", None),
            ]
            second = blocks[0][1][1]
            assert second == Candidate.model_validate(
                {"context": CONTEXT, "response": "一", "reference": "三", "metadata": {"k": "v"}}
            )


async def test_long_dialogues_make_small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "BLOCK_CHARACTERS", 8)
    async with Spool() as into:
        taken = await take(BODY, into)
        assert [len(block) async for block in taken.blocks()] == [2, 2]


async def test_what_a_higher_limit_let_in_comes_back() -> None:
    item = {"context": CONTEXT, "response": "あ" * 9000}
    async with Spool() as into:
        taken = await take(json.dumps({"items": [item]}).encode(), into, Limits(text_characters=9000))
        assert [len(block[0][1].response) async for block in taken.blocks()] == [9000]


async def test_a_batch_is_begun_filled_and_accepted() -> None:
    store = RecordingStore()
    assert await store_in(store) == "accepted"
    assert store.steps == ["begin", "append", "accept"]
    assert [entry.position for entry, _ in store.kept] == [0, 1, 2, 3]


@pytest.mark.parametrize("failing", ["begin", "append", "accept"])
@pytest.mark.parametrize("error", [StoreUnavailable(words("gone")), asyncio.CancelledError(), KeyError("a defect")])
async def test_nothing_stays_of_a_batch_that_failed(failing: str, error: BaseException) -> None:
    store = RecordingStore(failing, error)
    with pytest.raises(type(error)):
        await store_in(store)
    assert store.steps[-2:] == [failing, "discard"]
    assert store.kept == []


async def test_the_first_error_is_told_where_discarding_fails_too() -> None:
    store = RecordingStore("accept", StoreFull(words("full")))
    store.discard = RecordingStore("discard").discard  # type: ignore[method-assign]
    with pytest.raises(StoreFull):
        await store_in(store)


async def test_a_bad_item_stops_the_intake() -> None:
    async with Spool() as into:
        with pytest.raises(InvalidDocument, match="/items/1/response"):
            await take(json.dumps({"items": [ITEMS[0], {**ITEMS[0], "response": 1}]}).encode(), into)


async def test_others_have_a_turn_within_a_large_chunk() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(other())
    body = json.dumps({"items": ITEMS * 500}).encode()
    async with Spool() as into:
        await take_in(stream(body), BatchReader(DEFAULT_LIMITS, ndjson=False), into)
    beside.cancel()
    assert turns >= len(body) // intake.INTAKE_PIECE_BYTES


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_a_full_store(code: int) -> None:
    with pytest.raises(StoreFull, match="TMPDIR"), translate_errors():
        raise OSError(code, "full")


async def test_a_real_disk_that_is_full_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    into = Spool()
    # A file of Linux that is always full.
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: io.FileIO("/dev/full", "r+"))
    async with into:
        with pytest.raises(StoreFull):
            await take(BODY, into)


async def test_a_folder_that_cannot_be_written_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere/at/all")
    with pytest.raises(StoreError, match="No such file"):
        async with Spool():
            raise AssertionError


async def test_turns_of_one_dialogue_are_told_by_their_contexts_or_by_their_callers() -> None:
    first = [{"speaker": "A", "text": "海へ行った"}, {"speaker": "B", "text": "いいね"}]
    further = [*first, {"speaker": "A", "text": "寒かった"}]
    items: list[dict[str, Any]] = [
        {"context": further, "response": "冬だもの"},
        {"context": [{"speaker": "A", "text": "夏が好き"}], "response": "私も"},
        {"context": first, "response": "いいね"},
        {"context": CONTEXT, "responses": ["一", "二"]},
        {"context": further, "response": "はい", "dialogue": "d-1"},
        {"context": CONTEXT, "response": "はい", "dialogue": "d-1"},
    ]
    store = RecordingStore()
    async with Spool() as into:
        taken = await take(json.dumps({"items": items}).encode(), into)
        await store_batch(cast("BatchStore", store), "p", "ba_1", taken, now=NOW, unit_cost_usd=None, answer=None)
    clusters = [entry.cluster for entry, _ in store.kept]
    assert clusters[0] == clusters[2] is not None
    assert clusters[1] is None
    assert clusters[3] == clusters[4] is not None
    assert clusters[5] == clusters[6] == name_dialogue("d-1")
    assert len(set(clusters)) == 4
    assert [entry.dialogue for entry, _ in store.kept] == [None] * 5 + ["d-1"] * 2
    assert [candidate.dialogue for _, candidate in store.kept] == [None] * 5 + ["d-1"] * 2


@pytest.mark.parametrize("dialogue", ["", "a\nb", "x" * 129, 7])
async def test_a_dialogue_that_is_no_id_is_refused(dialogue: object) -> None:
    body = json.dumps({"items": [{**ITEMS[0], "dialogue": dialogue}]}).encode()
    async with Spool() as into:
        with pytest.raises(InvalidDocument) as refused:
            await take(body, into)
    assert [where for where, _ in refused.value.faults] == ["/items/0/dialogue"]


@pytest.mark.parametrize(
    ("own", "of_items", "expected"),
    [
        (
            {},
            [{"system": "甲", "build": "b1"}, {"system": "甲", "build": "b1", "k": "v"}],
            {"system": "甲", "build": "b1"},
        ),
        ({}, [{"system": "甲", "build": "b1"}, {"system": "甲", "build": "b2"}], {"system": "甲"}),
        ({}, [{"system": "甲"}, {}], {}),
        ({"build": "b9"}, [{"build": "b1", "name": "夜"}] * 2, {"build": "b9", "name": "夜"}),
    ],
)
async def test_what_all_items_say_of_their_run_is_the_runs(
    own: dict[str, str], of_items: list[dict[str, str]], expected: dict[str, str]
) -> None:
    items = [{"context": CONTEXT, "response": "はい", "metadata": one} for one in of_items]
    async with Spool() as into:
        taken = await take(json.dumps({"items": items, "metadata": own}).encode(), into)
    assert taken.options.metadata == expected

"""A batch that is on its way when its caller is interrupted is not left running; and where its faults stand."""

import asyncio
from typing import Any

import httpx
import pytest

from saiten import Connection, ServiceUnreachable
from saiten.commands.runs import ItemFile, name_fault, submit
from saiten.connection import see_through
from saiten.core.formats import FoundItem


async def interrupt(answer: Any, undone: list[str]) -> None:
    """Interrupts a caller whose request is on its way, and gives the answer afterwards."""
    sent, answered = asyncio.Event(), asyncio.Event()

    async def create() -> dict[str, Any]:
        sent.set()
        await answered.wait()
        if isinstance(answer, Exception):
            raise answer
        return {"id": answer}

    async def undo(found: str) -> None:
        undone.append(found)

    caller = asyncio.create_task(see_through(create(), undo=undo))
    await sent.wait()
    caller.cancel()
    await asyncio.sleep(0)
    assert not caller.done(), "the answer is waited for: without its id nothing can be cancelled"
    answered.set()
    with pytest.raises(asyncio.CancelledError):
        await caller


async def test_what_the_service_accepted_is_undone() -> None:
    undone: list[str] = []
    await interrupt("ba_1", undone)
    assert undone == ["ba_1"]


async def test_what_the_service_did_not_accept_needs_no_undoing() -> None:
    undone: list[str] = []
    await interrupt(ServiceUnreachable("it is gone"), undone)
    assert undone == []


async def test_an_answer_that_nobody_interrupts_is_given_back() -> None:
    async def create() -> dict[str, str]:
        return {"id": "ba_1"}

    async def undo(found: str) -> None:
        pytest.fail(f"{found} is wanted")

    assert await see_through(create(), undo=undo) == {"id": "ba_1"}


async def test_a_gate_that_is_interrupted_while_it_posts_leaves_nothing_running() -> None:
    asked: list[str] = []
    posted, accepted = asyncio.Event(), asyncio.Event()

    async def answer(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.method} {request.url.path}")
        if request.url.path == "/v1/batches":
            posted.set()
            await accepted.wait()
            return httpx.Response(202, json={"id": "ba_1"})
        return httpx.Response(200, json={})

    items = ItemFile("i", [FoundItem("i:1", {"context": [], "response": "r"})], {})
    async with Connection("http://h", transport=httpx.MockTransport(answer)) as service:
        caller = asyncio.create_task(submit(service, items, {}))
        await posted.wait()
        caller.cancel()
        await asyncio.sleep(0)
        accepted.set()
        with pytest.raises(asyncio.CancelledError):
            await caller
    assert asked == ["POST /v1/batches", "POST /v1/batches/ba_1/cancel"]


def test_a_fault_names_the_line_of_the_file_alone() -> None:
    items = ItemFile("f.ndjson", [FoundItem("f.ndjson:1", {})], {})
    for line in ("line 2", "2 行目", "2행"):  # as the service says it in each language
        assert ": ".join(name_fault(items, "/items/0/rubric", f"{line}: ?")) == "f.ndjson:1: /rubric: ?"

"""Ids that every record carries while something is worked on."""

import asyncio

import pytest

from saiten_server.platform.telemetry import about, working_on


def test_inner_ids_stand_beside_outer_ones_and_end_with_their_block() -> None:
    with working_on(request_id="r", batch_id="b"):
        with working_on(batch_id="c", position=3):
            assert dict(about.get()) == {"request_id": "r", "batch_id": "c", "position": 3}
        assert dict(about.get()) == {"request_id": "r", "batch_id": "b"}
    assert dict(about.get()) == {}


def test_an_error_ends_them_too() -> None:
    with pytest.raises(ValueError, match="x"), working_on(request_id="r"):
        raise ValueError("x")
    assert dict(about.get()) == {}


async def test_tasks_begun_inside_carry_them_and_others_do_not() -> None:
    async def look() -> dict[str, object]:
        await asyncio.sleep(0)
        return dict(about.get())

    outside = asyncio.create_task(look())
    with working_on(batch_id="b"):
        inside = asyncio.create_task(look())
    assert (await outside, await inside) == ({}, {"batch_id": "b"})

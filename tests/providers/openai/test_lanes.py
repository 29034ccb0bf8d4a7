"""Who waits for how long: a caller not past the deadline, a batch as long as it takes."""

import asyncio
from dataclasses import replace

import pytest

from saiten_server.core.errors import JudgeUnavailable
from saiten_server.platform.flow_state import FlowLimits
from saiten_server.providers.flow_control import open_local_flow
from saiten_server.providers.ports import Lane
from tests.support.judges import make_task, open_bench

DEADLINE_SECONDS = 0.2


async def test_a_batch_waits_for_its_turn_beyond_the_deadline_and_a_caller_does_not() -> None:
    flow = open_local_flow(FlowLimits(1))
    lanes: tuple[Lane, ...] = ("batch", "interactive")
    async with open_bench(flow=flow, deadline_seconds=DEADLINE_SECONDS) as bench:
        async with flow.passage(max_wait_seconds=1):
            asked = [
                asyncio.create_task(bench.judge.judge(replace(make_task(explain=bool(number)), lane=lane)))
                for number, lane in enumerate(lanes)
            ]
            with pytest.raises(JudgeUnavailable):
                await asked[1]
            await asyncio.sleep(DEADLINE_SECONDS)
            assert not asked[0].done()
        assert not (await asked[0]).cached
    await flow.close()


async def test_a_caller_does_not_wait_past_its_deadline_for_the_same_call_of_a_batch() -> None:
    flow = open_local_flow(FlowLimits(1))
    async with open_bench(flow=flow, deadline_seconds=DEADLINE_SECONDS) as bench:
        async with flow.passage(max_wait_seconds=1):
            batch = asyncio.create_task(bench.judge.judge(replace(make_task(), lane="batch")))
            await asyncio.sleep(0)
            with pytest.raises(JudgeUnavailable, match="for a batch"):
                await bench.judge.judge(make_task())
        await batch
        assert len(bench.fake.requests) == 1
    await flow.close()

"""What judging costs is added up where somebody has to pay for it, and nowhere else."""

from __future__ import annotations

import asyncio

from prometheus_client import CollectorRegistry

from app.adapters.metered_telemetry import MeteredTelemetry
from app.domain.evaluation import Usage
from app.metering import meter, metering


async def test_a_meter_counts_in_its_block_and_in_the_tasks_of_it() -> None:
    async def judge(cost_usd: float | None) -> None:
        await asyncio.sleep(0)
        meter(Usage(cost_usd=cost_usd))

    await judge(16.0)
    with metering() as running:
        await judge(0.25)
        await asyncio.gather(judge(0.5), judge(None), asyncio.create_task(judge(1.0)))
    await judge(8.0)
    assert running.cost_usd == 1.75


async def test_each_block_has_its_own_meter() -> None:
    async def pay(cost_usd: float) -> float:
        with metering() as running:
            await asyncio.sleep(0)
            meter(Usage(cost_usd=cost_usd))
            await asyncio.sleep(0)
        return running.cost_usd

    assert await asyncio.gather(*map(pay, (1.0, 2.0, 3.0))) == [1.0, 2.0, 3.0]


def test_telemetry_tells_the_meter_of_every_judgement_and_counts_it_as_before() -> None:
    telemetry = MeteredTelemetry(CollectorRegistry())
    with metering() as running:
        telemetry.judged("openai", Usage(judge_calls=1, cost_usd=0.5), 0.1)
        telemetry.judged("lexical", Usage(), 0.1)
    assert running.cost_usd == 0.5
    assert telemetry.registry.get_sample_value("saiten_judge_cost_usd_total", {"judge": "openai"}) == 0.5

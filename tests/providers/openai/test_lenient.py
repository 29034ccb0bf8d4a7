"""`judge.lenient` at an endpoint that ignores the schema: by request and by setting, and in the signature."""

import json

import pytest

from saiten_server.core.evaluation import JudgeOptions
from saiten_server.core.signature import describe_judge
from tests.support.fake_openai import say
from tests.support.judges import open_bench, ratings_of, reasons_of
from tests.support.small_rubrics import joint_rubric

GOOD = {aspect.id: aspect.values[0] for aspect in joint_rubric().aspects}
COVERED = f"<think>Hm.</think>\n```json\n{json.dumps(GOOD)}\n```"


@pytest.mark.parametrize(
    ("setting", "asked", "lenient"),
    [(False, None, False), (False, True, True), (True, None, True), (True, False, False)],
)
async def test_a_covered_reply_is_read_only_where_that_is_asked_for(setting: bool, asked: bool | None, lenient: bool):
    async with open_bench(say(COVERED), lenient=setting) as bench:
        judgement = await bench.rate(lenient=asked)
        assert len(bench.fake.requests) == (1 if lenient else 3)
    pieces = describe_judge(judgement.provenance, JudgeOptions(lenient=asked))
    assert pieces.get("lenient") == ("yes" if lenient else None)
    if lenient:
        assert ratings_of(judgement) == {name: (value,) for name, value in GOOD.items()}
    else:
        assert reasons_of(judgement) == {"unparseable"}


async def test_a_strict_caller_does_not_take_a_lenient_callers_reply_from_the_cache():
    async with open_bench(say(COVERED)) as bench:
        assert ratings_of(await bench.rate(lenient=True))
        assert reasons_of(await bench.rate()) == {"unparseable"}
        assert (await bench.rate(lenient=True)).cached

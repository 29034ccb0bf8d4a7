"""What every dialogue's request has in common, in bytes as they are sent: a provider's prompt cache keeps nothing else."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from saiten_server.core.dialogue import Dialogue, Utterance
from saiten_server.core.evaluation import JudgeOptions
from saiten_server.core.rubric import Rubric
from saiten_server.providers.openai.endpoint import RequestBodies, dump_json
from saiten_server.providers.openai.parameters import Question
from saiten_server.providers.ports import JudgingTask
from saiten_server.scoring.rubrics.files import RubricFiles, default_folder
from tests.support.beginnings import common_beginning
from tests.support.command import ROOT
from tests.support.judges import make_judge, open_bench

SHIPPED = RubricFiles([default_folder()]).list()
PLAIN = next(rubric for rubric in SHIPPED if rubric.id == "ja-dialogue")
WAYS = [(rubric, language) for rubric in SHIPPED for language in rubric.languages]
SHORT = Dialogue(context=(Utterance(speaker="A", text="雨ですね。"),), response="はい。")
LONG = Dialogue(
    context=tuple(Utterance(speaker="甲乙"[turn % 2], text=f'{turn} "引用" </s> 안녕') for turn in range(30)),
    response='{"naturalness": 3}',
)


async def prepare(
    rubric: Rubric, language: str, dialogue: Dialogue, base_url: str | None, *, explain: bool = False
) -> list[Question]:
    """The questions that a judge at that address would ask."""
    judge = make_judge(base_url, model="gpt-6-luna")
    try:
        return judge._prepare(JudgingTask(rubric, language, dialogue, JudgeOptions(explain=explain)))
    finally:
        await judge.close()


@pytest.mark.parametrize(("rubric", "language"), WAYS, ids=lambda part: part if isinstance(part, str) else part.id)
@pytest.mark.parametrize("explain", [False, True])
@pytest.mark.parametrize("base_url", [None, "http://127.0.0.1:9/v1"], ids=["marked", "unmarked"])
async def test_two_dialogues_share_all_but_the_dialogue(
    rubric: Rubric, language: str, explain: bool, base_url: str | None
) -> None:
    ones = await prepare(rubric, language, SHORT, base_url, explain=explain)
    others = await prepare(rubric, language, LONG, base_url, explain=explain)
    assert len(ones) == len(others) == (1 if rubric.calls == "joint" else len(rubric.aspects))
    for one, other in zip(ones, others, strict=True):
        # As two processes write them: neither has seen the other's.
        first, second = RequestBodies().write(one, ()), RequestBodies().write(other, ())
        beginning = common_beginning([first, second])
        ending = common_beginning([first[::-1], second[::-1]])[::-1]
        system, schema = one.structured.system, one.structured.schema
        assert dump_json(system) in beginning
        # And as far into the dialogue's own message as the digest of its boundary.
        opening = common_beginning([one.structured.user, other.structured.user])
        assert len(opening) > 5
        assert beginning.endswith(dump_json(opening)[:-1])
        # The schema stands in front of the system message once the provider has put the prompt together.
        assert dump_json(schema) in ending


def digest_beginnings() -> Iterator[str]:
    """One digest of each shipped rubric's fixed bytes. Run in a process of its own too."""
    for rubric, language in WAYS:
        for number in range(1 if rubric.calls == "joint" else len(rubric.aspects)):
            yield f"{rubric.id} {language} {number} {digest_bytes(rubric, language, number)}"


def digest_bytes(rubric: Rubric, language: str, number: int) -> str:
    from asyncio import run

    question = run(prepare(rubric, language, SHORT, None))[number]
    return hashlib.sha256(RequestBodies().write(question, ())).hexdigest()


def test_other_processes_send_the_same_bytes() -> None:
    """Whatever order sets and hashes have there."""
    here = list(digest_beginnings())
    module = "tests.providers.openai.test_shared_beginning"
    code = f"from {module} import digest_beginnings\nprint('\\n'.join(digest_beginnings()))"
    for seed in ("0", "4711"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        )
        assert done.stdout.splitlines() == here
    # Five rubrics ask for all aspects in one call, lfqa for each of four in its own; each in two languages.
    assert len(here) == 2 * 5 + 2 * 4


async def test_what_arrives_is_what_was_written() -> None:
    async with open_bench(model="gpt-6-luna") as bench:
        for dialogue in (SHORT, LONG):
            task = JudgingTask(PLAIN, PLAIN.source_language, dialogue, JudgeOptions())
            question = bench.judge._prepare(task)[0]
            await bench.judge.judge(task)
            # Its order too: JSON objects are read in the order in which they were sent.
            assert dump_json(bench.fake.requests[-1]) == RequestBodies().write(question, ())
    assert json.dumps(bench.fake.requests[0]["response_format"]) == json.dumps(
        bench.fake.requests[1]["response_format"]
    )

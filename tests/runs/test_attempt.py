"""One candidate: what waits, what fails, what pauses the batch, and what the log says of a defect."""

import asyncio
import io
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from saiten_server.core import errors
from saiten_server.core.batch import Failure
from saiten_server.core.errors import InvalidRequest, LimitReached, SaitenError, StoreError, UpstreamError
from saiten_server.core.evaluation import Unrated, Usage
from saiten_server.platform.telemetry import JSONFormatter
from saiten_server.providers.ports import Judgement, JudgingTask, RequestScope
from saiten_server.runs.attempt import MAX_FAILED_ROUNDS, PAUSING, TEMPORARY_ERRORS, Pause, Trial, attempt
from saiten_server.runs.commits import LeasedChunk
from saiten_server.runs.work import FinishedCandidate, Work
from tests.support.faults import words
from tests.support.worker_bench import Bench, HeldJudge, MakeBench, turns

RESPONSE = "返事 0"


def make_error(kind: type[SaitenError]) -> SaitenError:
    if issubclass(kind, UpstreamError):
        return kind(words("it said no"), said="の本文")
    if issubclass(kind, LimitReached):
        return kind(words("it said no"), retry_after_seconds=1)
    if kind is errors.ProjectFull:
        return errors.ProjectFull(used=2, more=1, most=2)
    if kind is errors.RubricRequired:
        return errors.RubricRequired(["/rubric"])
    if kind is errors.InvalidLines:
        return errors.InvalidLines([(1, words("it said no"))])
    return kind(words("it said no"))


def list_kinds(root: type[SaitenError] = SaitenError) -> list[type[SaitenError]]:
    return [one for child in root.__subclasses__() for one in (child, *list_kinds(child))]


RAISED = [kind for kind in list_kinds() if kind.__module__ == errors.__name__ and kind is not errors.RubricInvalid]
OTHERS = [kind for kind in RAISED if not issubclass(kind, PAUSING + TEMPORARY_ERRORS)]


async def begin(bench: Bench, **options: Any) -> asyncio.Task[FinishedCandidate]:
    await bench.post(1, **options)
    work, leased = await bench.lease()
    return asyncio.create_task(start(bench, work, leased))


async def start(bench: Bench, work: Work, leased: LeasedChunk) -> FinishedCandidate:
    """The attempt at the chunk's only candidate, which is the first of its batch: there is nobody to ask about."""
    [(entry, candidate)] = work.todo

    async def probe() -> None:
        return None

    @asynccontextmanager
    async def rest(_: Trial) -> AsyncIterator[None]:
        yield

    retries = bench.context.retries
    finished = await attempt(
        work,
        entry,
        candidate,
        bench.instruments,
        scope=RequestScope(),
        leased=leased,
        retries=retries,
        probe=probe,
        resting=rest,
    )
    assert finished is not None
    return finished


async def test_a_record_with_its_bill(bench: Bench) -> None:
    finished = await (await begin(bench))
    assert finished.record is not None
    assert (finished.record.evaluation.status, finished.failure) == ("scored", None)
    assert finished.usage.judge_calls == 1
    assert [task.lane for task in bench.judge.tasks] == ["batch"]


@pytest.mark.parametrize("kind", PAUSING)
async def test_what_everybody_would_meet_pauses_the_batch_after_one_call(bench: Bench, kind: type[SaitenError]) -> None:
    bench.judge.errors[RESPONSE] = error = make_error(kind)
    with pytest.raises(Pause) as raised:
        await (await begin(bench))
    assert raised.value.error is error
    assert bench.judge.judged == [RESPONSE]


@pytest.mark.parametrize("kind", [kind for kind in RAISED if issubclass(kind, TEMPORARY_ERRORS)])
async def test_what_passes_by_itself_is_waited_for(bench: Bench, kind: type[SaitenError]) -> None:
    bench.judge.errors[RESPONSE] = make_error(kind)
    work = await begin(bench)
    await bench.time.move(120)
    assert not work.done()
    # 1, 2, 4, then 8 s at most between two tries: neither a storm nor a pause of minutes.
    assert 120 / 8 <= len(bench.judge.tasks) <= 120 / 8 + 4
    del bench.judge.errors[RESPONSE]
    await bench.time.move(8.25)
    assert (await work).record is not None


async def test_who_fails_while_others_fare_well_fails_in_the_end(make_bench: MakeBench) -> None:
    class TakesOthers(HeldJudge):
        async def judge(self, task: JudgingTask) -> Judgement:
            bench.context.retries.served(Usage(judge_calls=1))
            return await super().judge(task)

    bench = await make_bench(judge=TakesOthers())
    bench.judge.errors[RESPONSE] = errors.JudgeUnavailable(words("it hangs"), said="の本文")
    work = await begin(bench)
    await bench.time.move(30)
    assert work.done()
    finished = await work
    assert len(bench.judge.tasks) == MAX_FAILED_ROUNDS
    assert finished.failure is not None
    assert finished.failure.code == "judge-unavailable"


@pytest.mark.parametrize("kind", OTHERS)
async def test_what_is_its_own_fails_the_candidate_with_code_and_detail(bench: Bench, kind: type[SaitenError]) -> None:
    bench.judge.errors[RESPONSE] = error = make_error(kind)
    finished = await (await begin(bench))
    assert finished.record is None
    assert finished.failure is not None
    assert (finished.failure.code, finished.failure.detail) == (kind.code, error.detail)
    assert finished.failure.sentence == error.message
    assert bench.judge.judged == [RESPONSE]


@pytest.mark.parametrize("more", [{}, {"message": "no-such-id", "values": {}}])
def test_the_failure_of_another_version_is_said_as_it_was_stored(more: dict[str, Any]) -> None:
    stored = Failure.model_validate_json(json.dumps({"code": "judge-unavailable", "detail": "it said no", **more}))
    assert stored.sentence.say("ja") == "it said no"


def test_every_error_has_its_place() -> None:
    assert {InvalidRequest, errors.JudgeRefusedRequest, errors.LanguageNotSupported} <= {*OTHERS}
    assert StoreError not in OTHERS
    assert not {*PAUSING} & {*TEMPORARY_ERRORS}


async def test_a_response_without_any_rating_is_a_result_in_a_batch(bench: Bench) -> None:
    bench.judge.opinion = lambda *_: Unrated(reason="missing", detail="it left it out")
    finished = await (await begin(bench))
    assert finished.failure is None
    assert finished.record is not None
    assert finished.record.evaluation.status == "failed"
    assert finished.usage.judge_calls == 1


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What the log says of batches, as it is written."""
    written, logger = io.StringIO(), logging.getLogger("saiten.batches")
    handler, level = logging.StreamHandler(written), logger.level
    handler.setFormatter(JSONFormatter())
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield written
    logger.removeHandler(handler)
    logger.setLevel(level)


async def test_a_defect_costs_the_candidate_and_is_logged_without_texts(bench: Bench, log: io.StringIO) -> None:
    bench.judge.errors[RESPONSE] = ValueError(f"unexpected: {RESPONSE} の本文")
    finished = await (await begin(bench))
    assert finished.failure is not None
    assert finished.failure.code == "internal-error"
    assert RESPONSE not in finished.failure.detail
    line = log.getvalue()
    entry = json.loads(line)
    assert (entry["batch_id"], entry["position"], entry["code"]) == ("ba_1", 0, "internal-error")
    assert "ValueError" in entry["traceback"]
    assert "worker_bench.py" in entry["traceback"]
    assert "返事" not in line
    assert "本文" not in line


@pytest.mark.parametrize("kind", [errors.JudgeUnavailable, errors.TranslatorUnavailable])
async def test_a_wait_is_logged_without_the_words_of_others(
    bench: Bench, kind: type[UpstreamError], log: io.StringIO
) -> None:
    bench.judge.errors[RESPONSE] = make_error(kind)
    work = await begin(bench)
    await turns()
    line = log.getvalue()
    assert (json.loads(line)["batch_id"], json.loads(line)["position"]) == ("ba_1", 0)
    assert "it said no" in line
    assert "本文" not in line
    work.cancel()


class NotingJudge(HeldJudge):
    """Notes a key a call, as the call cache does."""

    async def judge(self, task: JudgingTask) -> Judgement:
        task.scope.note_key(f"key of {task.dialogue.response}")
        return await super().judge(task)


@pytest.mark.parametrize("end", ["record", "failure", "pause", "cancel"])
async def test_what_its_calls_touched_is_known_however_it_ends(end: str, make_bench: MakeBench) -> None:
    bench = await make_bench(judge=NotingJudge(hold=end == "cancel"))
    await bench.post(1)
    work, leased = await bench.lease()
    kinds = {"failure": errors.JudgeRefusedRequest, "pause": errors.JudgeUnauthorized}
    if end in kinds:
        bench.judge.errors[RESPONSE] = make_error(kinds[end])
    task = asyncio.create_task(start(bench, work, leased))
    await turns()
    task.cancel()
    [outcome] = await asyncio.gather(task, return_exceptions=True)
    assert leased.touched == {f"key of {RESPONSE}"}
    if isinstance(outcome, FinishedCandidate):
        assert outcome.calls == (f"key of {RESPONSE}",)
    else:
        assert isinstance(outcome, Pause if end == "pause" else asyncio.CancelledError)

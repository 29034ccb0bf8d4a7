"""`TextStore` on each database: what redaction and erasure remove, and what stays."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete, select, text, update
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.access import ProjectPolicy, TextKeeping
from saiten_server.core.batch import BatchOptions, Candidate, Entry, Failure, KeyedAnswer
from saiten_server.core.dialogue import Utterance, digest_context
from saiten_server.core.errors import StoreFull, StoreUnavailable
from saiten_server.core.evaluation import EvaluationRequest, ExplainedRating, Explanation, Record, Translation, Unrated
from saiten_server.core.model import key_of
from saiten_server.core.redaction import DROPPED, ERASED, HASHED, Erased
from saiten_server.erasure import store as texts
from saiten_server.erasure.store import TextStore, erase_singles
from saiten_server.governance.store import PolicyStore
from saiten_server.platform.sql.engine import change, file_of, read, write
from saiten_server.platform.sql.tables import evaluations, metadata, run_frames, text_grams
from saiten_server.ratings.rounds.store import RoundStore
from saiten_server.ratings.store import RatingStore
from saiten_server.ratings.values import HumanRating, RatingFilter, RatingRound, RoundOptions
from saiten_server.runs.result import ResultQuery
from saiten_server.runs.store import frames
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.store.browsing import ResultBrowser
from saiten_server.runs.store.erasure import Erasure
from saiten_server.runs.store.frames import FrameStore
from saiten_server.runs.summary import tally_results
from saiten_server.runs.work import FinishedCandidate, Work
from saiten_server.scoring.store import EvaluationStore, answer_under
from tests.support.batches import LEASE, START, HandClock, claim, live
from tests.support.drawn import draw
from tests.support.faults import words
from tests.support.figures import read_all
from tests.support.records import make_record, make_request
from tests.support.stored_sizes import list_drift

SECRET = "秘密の海"
NAME = "山田太郎"
DAY = 86_400.0
USER = {"user": "u-42"}


@dataclass
class Bench:
    """Everything that keeps texts, on one engine and one clock."""

    engine: AsyncEngine
    clock: HandClock
    lost_evaluations: bool = False
    """Whether the test removed some beside all stores."""

    def __post_init__(self) -> None:
        self.texts = TextStore(self.engine, clock=self.clock)
        self.records = EvaluationStore(self.engine)
        self.batches = BatchStore(self.engine, clock=self.clock)
        self.ratings = RatingStore(self.engine)
        self.browser = ResultBrowser(self.engine)

    async def redact(self, texts: TextKeeping, limit: int = 500) -> int:
        """Everything older than now."""
        total = 0
        while done := await self.texts.redact("team", texts, self.clock(), limit):
            total += done
        return total

    async def dump(self) -> str:
        """Every row of every table, as text."""
        parts = []
        async with read(self.engine) as connection:
            for table in metadata.sorted_tables:
                for row in await connection.execute(select(table)):
                    parts += [one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one) for one in row]
        return "\n".join(parts)


@pytest.fixture
async def bench(engine: AsyncEngine) -> AsyncIterator[Bench]:
    made = Bench(engine, HandClock())
    yield made
    # Whatever was erased or redacted, the counted sizes are those of what is left.
    assert made.lost_evaluations or await list_drift(engine) == {}


def talk(number: int = 0) -> tuple[Utterance, ...]:
    return Utterance(speaker=NAME, text=f"{SECRET} 話 {number}"), Utterance(speaker="B", text="はい")


def full_record(evaluation_id: str, number: int = 0, own: dict[str, str] | None = None, **changes: Any) -> Record:
    """A record with a text wherever there may be one."""
    found = make_record(evaluation_id, **changes)
    aspect = found.evaluation.aspects["naturalness"]
    aspects = {
        "naturalness": aspect.model_copy(update={"reason": f"{SECRET}と言った"}),
        "depth": aspect.model_copy(
            update={"rating": None, "mean": None, "blended": None, "unrated": Unrated(reason="refused", detail=SECRET)}
        ),
    }
    translation = Translation(
        context=(SECRET, SECRET), response=SECRET, source_language="JA", target_language="EN", engine="d", characters=9
    )
    warned = found.evaluation.warnings[0].model_copy(update={"detail": SECRET})
    evaluation = found.evaluation.model_copy(
        update={
            "aspects": aspects,
            "explained": Explanation(
                aspects={"naturalness": ExplainedRating(rating=1, reason=f"{SECRET}と改めて言った")},
                usage=found.evaluation.usage,
                signature=found.evaluation.signature,
                created_at=found.evaluation.created_at,
            ),
            "translation": translation,
            "warnings": (warned,),
            "metadata": {"system": "甲", **(own or {})},
        }
    )
    request = make_request(
        context=[said.model_dump() for said in talk(number)],
        response=f"{SECRET} 返事 {number}",
        reference=[SECRET],
        metadata={"system": "甲", **(own or {})},
    )
    trace = found.trace[0].model_copy(update={"reply": SECRET, "refusal": SECRET, "prompt_digest": digest_of(number)})
    return Record(evaluation=evaluation, request=request, trace=(trace,))


def digest_of(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def finish_fully(work: Work, position: int) -> FinishedCandidate:
    entry, candidate = next(one for one in work.todo if one[0].position == position)
    record = full_record(f"ev_{work.job.batch}_{position}", position, dict(candidate.metadata))
    record = record.model_copy(update={"request": record.request.model_copy(update={"context": candidate.context})})
    usage = record.evaluation.usage
    return FinishedCandidate(work.job, entry, record, None, usage, (f"key-{work.job.batch}-{position}",))


async def make_full_batch(bench: Bench, batch_id: str = "ba_1", count: int = 6, **options: Any) -> Work:
    """A claimed batch with one chunk; every third candidate is the user's."""
    await bench.batches.begin("team", batch_id, BatchOptions(**options), bench.clock())
    candidates = [
        (
            Entry(
                position=position,
                item=f"item-{position}",
                candidate=None,
                dialogue=f"d-{position // 2}",
                cluster=f"{position // 2:016x}",
            ),
            Candidate(
                context=talk(position % 2),
                response=f"{SECRET} 返事 {position}",
                reference=(SECRET,),
                metadata=USER | {"system": "甲"} if position % 3 == 0 else {"system": "乙"},
                dialogue=f"d-{position // 2}",
            ),
        )
        for position in range(count)
    ]
    await bench.batches.append(batch_id, candidates)
    await bench.batches.accept("team", batch_id, unit_cost_usd=None, answer=None)
    return await claim(bench.batches, 0, batch_id=batch_id)


async def finish_batch(bench: Bench, batch_id: str = "ba_1", count: int = 6) -> None:
    """A completed batch with a failure in it."""
    work = await make_full_batch(bench, batch_id, count)
    finished = [finish_fully(work, position) for position in range(count - 1)]
    last = FinishedCandidate(work.job, work.todo[-1][0], None, Failure(code="judge-refused-request", detail=SECRET))
    await bench.batches.commit("w1", [*finished, last], [work.job])


# Redaction


async def test_a_frame_that_was_kept_in_another_form_is_made_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "LEAST_KEPT", 1)
    await finish_batch(bench)
    store = FrameStore(bench.engine)
    made = await store.read_frame("team", "ba_1")
    async with write(bench.engine) as connection:
        state = (await connection.execute(select(run_frames.c.state))).scalar_one()
        earlier = state.removeprefix(f"{frames.FORMAT}/")
        await connection.execute(update(run_frames).values(state=earlier, frame=b"other"))
    assert earlier != state
    again = await store.read_frame("team", "ba_1")
    assert again.items.tolist() == made.items.tolist()
    assert [str(one.tolist()) for one in again.values.values()] == [
        str(one.tolist()) for one in made.values.values()
    ]  # NaN is not equal to itself
    async with read(bench.engine) as connection:
        assert (await connection.execute(select(run_frames.c.state))).scalar_one() == state


async def test_stores_that_need_a_large_run_at_once_read_it_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "LEAST_KEPT", 1)
    await finish_batch(bench)
    read_all, asked = FrameStore._read_all, []

    async def note(store: FrameStore, *given: Any) -> Any:
        asked.append(store)
        return await read_all(store, *given)

    monkeypatch.setattr(FrameStore, "_read_all", note)
    one, other = await asyncio.gather(*(FrameStore(bench.engine).read_frame("team", "ba_1") for _ in range(2)))
    assert (len(asked), one.items.tolist()) == (1, other.items.tolist())


async def test_a_full_disk_keeps_nobody_from_a_frame(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: AsyncEngine) -> None:
        raise StoreFull(words("no space left"))

    monkeypatch.setattr(frames, "LEAST_KEPT", 1)
    await finish_batch(bench)
    with monkeypatch.context() as patched:
        patched.setattr("saiten_server.platform.sql.engine.change", refuse)
        assert len(await FrameStore(bench.engine).read_frame("team", "ba_1"))
    async with read(bench.engine) as connection:
        assert (await connection.execute(select(run_frames.c.state))).all() == []


@pytest.mark.parametrize("texts", ["hash", "drop"])
async def test_redaction_leaves_no_text_and_all_figures(
    bench: Bench, texts: TextKeeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "LEAST_KEPT", 1)
    await bench.records.save("team", full_record("ev_1"), ["key-single"])
    await finish_batch(bench)
    rating = HumanRating(item="item-0", batch="ba_1", rater="r1", ratings={"naturalness": 3}, comment=SECRET)
    await bench.ratings.keep("team", [rating], START)
    await bench.records.claim_key("team", "k", "digest")
    await bench.records.answer_key("team", "k", 200, SECRET.encode())
    read_before = await FrameStore(bench.engine).read_frame("team", "ba_1")
    async with read(bench.engine) as connection:
        packed = (await connection.execute(select(run_frames.c.frame))).scalar_one()
    assert frames.unpack_frame(packed).contexts.tolist() == read_before.contexts.tolist()
    before = await bench.batches.find("team", "ba_1")
    tallied = (await bench.batches.tallies("team", ["ba_1"]))["ba_1"]
    bench.clock.move(400 * DAY)
    assert await bench.redact(texts) > 0
    dumped = await bench.dump()
    assert SECRET not in dumped
    assert NAME not in dumped
    assert digest_of(0) not in dumped
    assert digest_context(talk(0)) not in dumped
    assert str(key_of(digest_context(talk(0)))) not in dumped
    async with read(bench.engine) as connection:
        assert (await connection.execute(select(text_grams.c.gram))).all() == []
        assert (await connection.execute(select(run_frames.c.state))).all() == []
    assert before is not None
    assert await bench.batches.find("team", "ba_1") == before.model_copy(update={"texts": texts})
    assert (await bench.batches.tallies("team", ["ba_1"]))["ba_1"] == tallied
    scores = await read_all(bench.engine)
    assert [one.values["aspect", "naturalness"] for one in scores[:5]] == [3.0] * 5
    kept = await bench.ratings.list("team", RatingFilter(), after=0, limit=9)
    assert [dict(one.ratings) for _, one in kept] == [{"naturalness": 3.0}]
    record = await bench.records.find("team", "ev_1")
    assert record is not None
    assert (record.evaluation.signature, record.request.metadata) == ("saiten:0|rubric:ja-dialogue@1", {"system": "甲"})
    assert isinstance(record.request, EvaluationRequest)
    assert [said.speaker for said in record.request.context] == ["A", "B"]
    assert {"key-single", "key-ba_1-0", "key-ba_1-4"} <= {*await bench.batches.list_erased_calls(99)}
    assert await bench.browser.find("team", "ba_1", ResultQuery(text="返事"), offset=0, limit=9) == (0, ())


async def test_hashed_texts_stay_equal_and_dropped_ones_say_nothing(bench: Bench) -> None:
    await finish_batch(bench)
    bench.clock.move(DAY)
    await bench.redact("hash")
    rows = [*(await bench.browser.read("team", "ba_1", [0, 1, 2])).values()]
    first, second, third = (row.candidate.context[0].text for row in rows)
    assert HASHED.fullmatch(first)
    assert first == third != second
    contexts = [row.entry.context_digest for row in rows]
    assert contexts[0] == contexts[2] != contexts[1]
    frame = await FrameStore(bench.engine).read_frame("team", "ba_1")
    assert frame.contexts[:3].tolist() == [key_of(one) for one in contexts if one is not None]
    await bench.redact("drop")
    rows = [*(await bench.browser.read("team", "ba_1", [0, 1])).values()]
    assert {row.candidate.response for row in rows} == {DROPPED}
    assert {row.entry.context_digest for row in rows} == {None}
    assert {*(await FrameStore(bench.engine).read_frame("team", "ba_1")).contexts.tolist()} == {0}


@pytest.mark.parametrize("texts", ["hash", "drop"])
async def test_clusters_survive_what_becomes_of_texts(bench: Bench, texts: TextKeeping) -> None:
    await finish_batch(bench)
    bench.clock.move(DAY)
    await bench.redact(texts)
    rows = [*(await bench.browser.read("team", "ba_1", [0, 1, 2])).values()]
    assert [(row.entry.dialogue, row.entry.cluster) for row in rows] == [
        ("d-0", f"{0:016x}"), ("d-0", f"{0:016x}"), ("d-1", f"{1:016x}")
    ]  # fmt: skip
    assert [row.candidate.dialogue for row in rows] == ["d-0", "d-0", "d-1"]


async def test_redaction_in_small_steps_gives_the_same_and_ends(bench: Bench) -> None:
    for number in range(7):
        await bench.records.save("team", full_record(f"ev_{number}"))
    await finish_batch(bench, count=5)
    bench.clock.move(400 * DAY)
    assert await bench.redact("hash", limit=2) == 7 + 5
    assert SECRET not in await bench.dump()
    dumped = await bench.dump()
    assert await bench.redact("hash", limit=2) == 0
    assert await bench.dump() == dumped
    assert await bench.redact("drop", limit=2) == 5


async def test_what_is_young_or_unfinished_or_anothers_stays(bench: Bench) -> None:
    await bench.records.save("team", full_record("ev_old"))
    await bench.records.save("team", full_record("ev_new", created_at=START + timedelta(days=9)))
    await bench.records.save("rivals", full_record("ev_theirs"))
    await make_full_batch(bench, "ba_open")
    await finish_batch(bench, "ba_done")
    assert await bench.texts.redact("team", "drop", START + timedelta(days=5), 500) == 0
    bench.clock.move(20 * DAY)
    assert await bench.texts.redact("team", "drop", START - timedelta(days=1), 500) == 0
    # A sweep that began under a policy ends with it.
    policies = PolicyStore(bench.engine)
    began = ProjectPolicy(texts="hash", after_days=0)
    await policies.save_policy("team", began, bench.clock())
    for now in (ProjectPolicy(texts="drop", after_days=0), ProjectPolicy(texts="hash", after_days=1)):
        await policies.save_policy("team", now, bench.clock())
        assert await bench.texts.redact("team", "hash", START + timedelta(days=5), 500, under=began) == 0
    assert await bench.texts.redact("team", "hash", START, 500, under=now) == 0
    while await bench.texts.redact("team", "drop", START + timedelta(days=5), 500):
        pass
    texts = {}
    for name, project in (("ev_new", "team"), ("ev_theirs", "rivals")):
        record = await bench.records.find(project, name)
        assert record is not None
        assert isinstance(record.request, EvaluationRequest)
        texts[name] = record.request.response
    assert all(SECRET in text for text in texts.values())
    assert SECRET in (await bench.batches.candidates("ba_open", after=-1, limit=1))[0][1].response
    assert (await bench.batches.candidates("ba_done", after=-1, limit=1))[0][1].response == DROPPED


async def test_a_policy_that_goes_further_looks_at_everything_again(bench: Bench) -> None:
    policies = PolicyStore(bench.engine)
    await policies.save_policy("team", ProjectPolicy(texts="hash"), START)
    await bench.records.save("team", full_record("ev_1"))
    bench.clock.move(DAY * 400)
    await bench.redact("hash")
    assert await bench.redact("drop") == 0
    await policies.save_policy("team", ProjectPolicy(texts="drop"), START)
    assert await bench.redact("drop") == 1
    record = await bench.records.find("team", "ev_1")
    assert record is not None
    assert isinstance(record.request, EvaluationRequest)
    assert record.request.response == DROPPED


async def test_projects_hash_the_same_text_differently(bench: Bench) -> None:
    for project in ("team", "rivals"):
        await bench.records.save(project, full_record(f"ev_{project}"))
    bench.clock.move(400 * DAY)
    hashed = set()
    for project in ("team", "rivals"):
        await bench.texts.redact(project, "hash", bench.clock(), 500)
        record = await bench.records.find(project, f"ev_{project}")
        assert record is not None
        assert isinstance(record.request, EvaluationRequest)
        hashed.add(record.request.response)
    assert len(hashed) == 2


async def test_keeping_texts_touches_nothing(bench: Bench) -> None:
    await bench.records.save("team", full_record("ev_1"))
    bench.clock.move(400 * DAY)
    assert await bench.redact("keep") == 0
    assert SECRET in await bench.dump()


LOOKS_HASHED = ("hmac-sha256:" + SECRET.ljust(64, "。"), f"hmac-sha256:{'0' * 64}\n{SECRET}", f"hmac-sha256:{'g' * 64}")


@pytest.mark.parametrize("comment", LOOKS_HASHED)
async def test_a_comment_that_only_looks_hashed_is_hashed(bench: Bench, comment: str) -> None:
    await bench.ratings.keep("team", [HumanRating(item="i", rater="r", ratings={"depth": 3}, comment=comment)], START)
    bench.clock.move(DAY)
    assert await bench.redact("hash") == 1
    [(_, kept)] = await bench.ratings.list("team", RatingFilter(), after=0, limit=9)
    assert kept.comment is not None
    assert HASHED.fullmatch(kept.comment)
    assert kept.comment != comment


@pytest.mark.parametrize("comment", ["hmac-sha256:" + "0f" * 32, DROPPED, ERASED])
async def test_comments_that_hashing_spares_take_no_place_in_a_step(bench: Bench, comment: str) -> None:
    ratings = [
        HumanRating(item=f"i{number}", rater="r", ratings={"depth": 3}, comment=one)
        for number, one in enumerate((comment, comment, SECRET))
    ]
    await bench.ratings.keep("team", ratings, START)
    bench.clock.move(DAY)
    assert await bench.texts.redact("team", "hash", bench.clock(), 2) == 1
    assert SECRET not in await bench.dump()
    assert await bench.texts.redact("team", "hash", bench.clock(), 2) == 0


# Erasure


async def test_single_evaluations_go_with_ratings_answers_and_calls(bench: Bench) -> None:
    await bench.records.save("team", full_record("ev_mine", own=USER), ["key-mine"])
    await bench.records.save("team", full_record("ev_other", own={"user": "u-43"}), ["key-other"])
    ratings = [
        HumanRating(evaluation=name, rater="r1", ratings={"naturalness": 3}, comment=name)
        for name in ("ev_mine", "ev_other")
    ]
    await bench.ratings.keep("team", ratings, START)
    for name in ("ev_mine", "ev_other"):
        await answer_with(bench, name)
    assert await bench.texts.erase_marked("team", USER) == Erased(batches=0, candidates=0, evaluations=1)
    assert await bench.records.find("team", "ev_mine") is None
    assert await bench.records.find("team", "ev_other") is not None
    kept = await bench.ratings.list("team", RatingFilter(), after=0, limit=9)
    assert [rating.evaluation for _, rating in kept] == ["ev_other"]
    assert await bench.batches.list_erased_calls(9) == ("key-mine",)
    assert await bench.records.claim_key("team", "ev_mine", "digest") is None
    assert await bench.records.claim_key("team", "ev_other", "digest") is not None
    assert await bench.texts.erase_marked("team", USER) == Erased(0, 0, 0)


async def test_a_marked_batch_goes_as_a_whole(bench: Bench) -> None:
    work = await make_full_batch(bench, metadata=USER | {"run": "1"})
    await bench.batches.commit("w1", [finish_fully(work, 0)], [])
    assert await bench.texts.erase_marked("team", {**USER, "run": "2"}) == Erased(0, 0, 0)
    assert await bench.texts.erase_marked("team", {**USER, "run": "1"}) == Erased(
        batches=1, candidates=0, evaluations=0
    )
    assert await bench.batches.find("team", "ba_1") is None
    assert await bench.batches.list_erased_calls(9) == ("key-ba_1-0",)
    assert SECRET not in await bench.dump()


async def test_candidates_of_a_finished_batch_leave_consistent_figures(bench: Bench) -> None:
    await finish_batch(bench)
    ratings = [
        HumanRating(item=f"item-{number}", batch="ba_1", rater="r1", ratings={"naturalness": 3}, comment=f"c{number}")
        for number in range(4)
    ]
    loose = HumanRating(item="item-3", system="甲", rater="r2", ratings={"naturalness": 1}, comment="引用")
    await bench.ratings.keep("team", [*ratings, loose], START)
    usage = (await found(bench)).usage
    # The positions 0 and 3 are the user's.
    assert await bench.texts.erase_marked("team", USER) == Erased(batches=0, candidates=2, evaluations=0)
    batch = await found(bench)
    assert (batch.counts.scored, batch.counts.failed, batch.counts.queued) == (3, 3, 0)
    assert batch.usage == usage
    results = await bench.batches.results("team", "ba_1", after=-1, limit=9)
    assert [one.failure.code if one.failure else None for one in results] == [
        *("erased", None, None, "erased", None),
        "judge-refused-request",
    ]
    scores = await read_all(bench.engine)
    assert [one.status for one in scores] == ["failed", "scored", "scored", "failed", "scored", "failed"]
    assert (await bench.batches.tallies("team", ["ba_1"]))["ba_1"] is None
    await bench.batches.keep_tally("team", "ba_1", tally_results(scores))
    assert (await bench.batches.tallies("team", ["ba_1"]))["ba_1"] == tally_results(scores)
    assert {*await bench.batches.list_erased_calls(9)} == {"key-ba_1-0", "key-ba_1-3"}
    kept = await bench.ratings.list("team", RatingFilter(), after=0, limit=9)
    assert [(one.item, one.comment) for _, one in kept] == [("item-1", "c1"), ("item-2", "c2"), ("item-3", None)]
    assert (await bench.browser.find("team", "ba_1", ResultQuery(text="返事"), offset=0, limit=9))[0] == 4
    assert (await bench.browser.find("team", "ba_1", ResultQuery(status="failed"), offset=0, limit=9))[0] == 3
    candidates = await bench.batches.candidates("ba_1", after=-1, limit=9)
    assert [one.response == ERASED for _, one in candidates] == [True, False, False, True, False, False]
    assert "u-42" not in await bench.dump()
    assert await bench.texts.erase_marked("team", USER) == Erased(0, 0, 0)


async def test_what_expired_before_it_was_erased_is_counted_once(bench: Bench) -> None:
    await make_full_batch(bench, deadline_hours=1.0)
    await live(bench.engine, bench.clock, 3600)
    await bench.batches.expire()
    assert (await found(bench)).counts.expired == 6
    assert await bench.texts.erase_marked("team", USER) == Erased(batches=0, candidates=2, evaluations=0)
    counts = (await found(bench)).counts
    assert (counts.failed, counts.expired, counts.queued) == (2, 4, 0)


async def found(bench: Bench, batch_id: str = "ba_1") -> Any:
    batch = await bench.batches.find("team", batch_id)
    assert batch is not None
    return batch


async def test_a_late_result_finds_its_place_taken_and_its_calls_are_owed(bench: Bench) -> None:
    work = await make_full_batch(bench)
    await bench.batches.commit("w1", [finish_fully(work, 1)], [])
    assert await bench.texts.erase_marked("team", USER) == Erased(batches=0, candidates=2, evaluations=0)
    assert (await found(bench)).counts.failed == 2
    late = [finish_fully(work, position) for position in (0, 2, 3, 4, 5)]
    told = await bench.batches.commit("w1", late, [work.job])
    assert told.erased == {work.job}
    assert not told.lost
    batch = await found(bench)
    assert (batch.status, batch.counts.scored, batch.counts.failed) == ("completed", 4, 2)
    assert {*await bench.batches.list_erased_calls(9)} == {"key-ba_1-0", "key-ba_1-3"}
    assert (await bench.batches.tallies("team", ["ba_1"]))["ba_1"] == tally_results(await read_all(bench.engine))
    assert "ev_ba_1_0" not in await bench.dump()


async def test_a_batch_with_nothing_left_to_do_ends(bench: Bench) -> None:
    work = await make_full_batch(bench, count=1)
    await bench.texts.erase_marked("team", USER)
    bench.clock.move(2 * LEASE)
    assert await bench.batches.claim(work.job, "w2", LEASE) is None
    assert (await found(bench)).status == "completed"


async def test_no_rater_is_given_an_erased_response(bench: Bench) -> None:
    await finish_batch(bench)
    rounds = RoundStore(bench.engine)
    options = RoundOptions(name="人", raters_per_item=1)
    opened = RatingRound(id="rr_1", batch="ba_1", options=options, drawn=2, created_at=START, closed_at=None)
    await rounds.open_round("team", opened, draw([0, 1]))
    first = await rounds.take("team", "rr_1", "r1", START)
    assert first is not None
    await bench.texts.erase_marked("team", USER)
    taken = {first.position}
    while task := await rounds.take("team", "rr_1", "r1", START):
        taken.add(task.position)
        await rounds.finish("team", "rr_1", "r1", task.position, START)
    progress = (await rounds.progress("team", ["rr_1"]))["rr_1"]
    assert (progress.wanted, progress.ratings, progress.complete) == (1, 1, 1)
    assert taken - {0} == {1}


async def test_another_projects_and_unmarked_ones_stay(bench: Bench) -> None:
    await finish_batch(bench)
    assert await bench.texts.erase_marked("rivals", USER) == Erased(0, 0, 0)
    assert await bench.texts.erase_marked("team", {}) == Erased(0, 0, 0)
    assert await bench.texts.erase_marked("team", {"user": "u-4"}) == Erased(0, 0, 0)
    assert await bench.texts.erase_marked("team", {"user": "u-42", "nul": "\0"}) == Erased(0, 0, 0)
    assert (await found(bench)).counts.scored == 5


async def test_a_text_that_only_looks_like_an_entry_is_no_mark(bench: Bench) -> None:
    record = full_record("ev_1")
    said = record.request.model_copy(update={"response": 'He wrote {"user":"u-42"} there'})
    await bench.records.save("team", record.model_copy(update={"request": said}))
    assert await bench.texts.erase_marked("team", USER) == Erased(0, 0, 0)


@pytest.mark.parametrize("value", ['he said "no"', "日本語 \\ 한국어", "tab\there"])
async def test_values_are_found_whatever_they_hold(bench: Bench, value: str) -> None:
    own = {"note": value}
    found_ = full_record("ev_1").model_copy()
    evaluation = found_.evaluation.model_copy(update={"metadata": own})
    await bench.records.save("team", found_.model_copy(update={"evaluation": evaluation}))
    assert (await bench.texts.erase_marked("team", own)).evaluations == 1


# Kept answers


async def answer_with(bench: Bench, name: str) -> None:
    """Claims the evaluation's name as a key, and keeps under it what the service answers."""
    await bench.records.claim_key("team", name, "digest")
    await bench.records.answer_key("team", name, 200, await answer_of(bench, name))


async def answer_of(bench: Bench, name: str) -> bytes:
    record = await bench.records.find("team", name)
    assert record is not None
    return record.evaluation.model_dump_json().encode()


async def is_free(bench: Bench, key: str) -> bool:
    return await bench.records.claim_key("team", key, "other") is None


async def cut_off(*_: object) -> None:
    raise StoreUnavailable(words("cut off"))


@pytest.mark.parametrize("step", ["forget_answers_of", "forget_marked_answers"])
async def test_an_erasure_cut_off_at_the_answers_is_made_good_by_the_next(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    await bench.records.save("team", full_record("ev_1", own=USER))
    await answer_with(bench, "ev_1")
    # Bears the mark as well, but its evaluation is gone: so the second step has something to do.
    await bench.records.save("team", full_record("ev_2", own=USER))
    await answer_with(bench, "ev_2")
    bench.lost_evaluations = True
    async with write(bench.engine) as connection:
        await connection.execute(delete(evaluations).where(evaluations.c.id == "ev_2"))
    with monkeypatch.context() as patched:
        patched.setattr(texts, step, cut_off)
        with pytest.raises(StoreUnavailable):
            await bench.texts.erase_marked("team", USER)
    await bench.texts.erase_marked("team", USER)
    assert await bench.records.find("team", "ev_1") is None
    dumped = await bench.dump()
    assert "u-42" not in dumped
    assert SECRET not in dumped
    assert await is_free(bench, "ev_1")
    assert await is_free(bench, "ev_2")


async def test_an_evaluation_is_never_gone_without_its_answer(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await bench.records.save("team", full_record("ev_1", own=USER))
    await answer_with(bench, "ev_1")
    monkeypatch.setattr(texts, "forget_answers_of", cut_off)
    with pytest.raises(StoreUnavailable):
        await bench.texts.erase_marked("team", USER)
    assert await bench.records.find("team", "ev_1") is not None


async def test_answers_go_by_what_they_bear_alone(bench: Bench) -> None:
    """Of evaluations that are gone already, and those alone: others' marks, projects and texts are no such thing."""
    for name, own in (("ev_1", USER), ("ev_2", {"user": "u-43"}), ("ev_3", {"note": '"user":"u-42"'})):
        await bench.records.save("team", full_record(name, own=own))
        await answer_with(bench, name)
    bench.lost_evaluations = True
    async with write(bench.engine) as connection:
        await connection.execute(delete(evaluations))
    for name, body in (("broken", b'{"metadata":{"user":"u-42"}'), ("list", b'["user","u-42",{"user":"u-42"}]')):
        await bench.records.claim_key("team", name, "digest")
        await bench.records.answer_key("team", name, 200, body)
    assert await bench.texts.erase_marked("rivals", USER) == Erased(0, 0, 0)
    assert await bench.texts.erase_marked("team", {**USER, "run": "1"}) == Erased(0, 0, 0)
    assert "ev_1" in await bench.dump()
    assert await bench.texts.erase_marked("team", USER) == Erased(0, 0, 0)
    assert await is_free(bench, "ev_1")
    for name in ("ev_2", "ev_3", "broken", "list"):
        assert not await is_free(bench, name)


@pytest.mark.parametrize("value", ['he said "no"', "日本語 \\ 한국어"])
async def test_answers_are_found_whatever_their_metadata_hold(bench: Bench, value: str) -> None:
    await bench.records.save("team", full_record("ev_1", own={"note": value}))
    await answer_with(bench, "ev_1")
    bench.lost_evaluations = True
    async with write(bench.engine) as connection:
        await connection.execute(delete(evaluations))
    await bench.texts.erase_marked("team", {"note": value})
    assert await is_free(bench, "ev_1")


async def accept_marked(bench: Bench) -> None:
    """A batch that bears the mark, accepted under the key `k`."""
    await bench.records.claim_key("team", "k", "digest")
    await bench.batches.begin("team", "ba_1", BatchOptions(metadata=USER), START)
    one = Candidate(context=talk(), response=SECRET)
    await bench.batches.append("ba_1", [(Entry(position=0, item="i", candidate=None), one)])
    await bench.batches.accept(
        "team",
        "ba_1",
        unit_cost_usd=None,
        answer=KeyedAnswer("k", 202, b'{"id":"ba_1","name":null,"metadata":{"user":"u-42"}}'),
    )


async def test_a_batchs_answer_goes_whenever_the_erasure_is_cut_off(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await accept_marked(bench)
    with monkeypatch.context() as patched:
        patched.setattr(Erasure, "erase", cut_off)
        with pytest.raises(StoreUnavailable):
            await bench.texts.erase_marked("team", USER)
    assert await bench.texts.erase_marked("team", USER) == Erased(batches=1, candidates=0, evaluations=0)
    assert "u-42" not in await bench.dump()
    assert await is_free(bench, "k")


async def test_the_answer_of_a_batch_that_was_removed_before_goes_by_its_mark(bench: Bench) -> None:
    await accept_marked(bench)
    await bench.batches.erase("team", "ba_1")
    assert not await is_free(bench, "k")
    assert await bench.texts.erase_marked("team", USER) == Erased(0, 0, 0)
    assert await is_free(bench, "k")


async def test_an_answer_that_comes_after_the_erasure_is_not_kept(bench: Bench) -> None:
    for name in ("ev_1", "ev_2"):
        await bench.records.save("team", full_record(name, own=USER if name == "ev_1" else None))
        await bench.records.claim_key("team", name, "digest")
    late = {name: await answer_of(bench, name) for name in ("ev_1", "ev_2")}
    await bench.texts.erase_marked("team", USER)
    for name, body in late.items():
        await bench.records.answer_key("team", name, 200, body)
    assert "u-42" not in await bench.dump()
    assert await is_free(bench, "ev_1")
    assert not await is_free(bench, "ev_2")


async def test_an_answer_is_not_kept_for_anothers_evaluation(bench: Bench) -> None:
    await bench.records.save("rivals", full_record("ev_1"))
    await bench.records.claim_key("team", "k", "digest")
    await bench.records.answer_key("team", "k", 200, b'{"id":"ev_1"}')
    assert await is_free(bench, "k")


async def wait_for_lock(bench: Bench, task: asyncio.Task[Any]) -> None:
    """Until the task waits for a row's lock. On SQLite, whose only writer is somebody else, it does from the start."""
    waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    while not task.done() and file_of(bench.engine) is None:
        async with read(bench.engine) as connection:
            if (await connection.execute(waiting)).scalar_one():
                return
        await asyncio.sleep(0.01)


async def test_an_answer_waits_for_an_erasure_under_way_and_is_not_kept(bench: Bench) -> None:
    await bench.records.save("team", full_record("ev_1", own=USER))
    await bench.records.claim_key("team", "k", "digest")
    body = await answer_of(bench, "ev_1")
    async with change(bench.engine) as connection:
        await erase_singles(connection, "team", ["ev_1"], USER)
        late = asyncio.create_task(bench.records.answer_key("team", "k", 200, body))
        await wait_for_lock(bench, late)
    await late
    assert "u-42" not in await bench.dump()
    assert await is_free(bench, "k")


async def test_an_erasure_waits_for_an_answer_under_way_and_removes_it(bench: Bench) -> None:
    await bench.records.save("team", full_record("ev_1", own=USER))
    await bench.records.claim_key("team", "k", "digest")
    body = await answer_of(bench, "ev_1")

    async def erase() -> int:
        async with change(bench.engine) as connection:
            return await erase_singles(connection, "team", ["ev_1"], USER)

    async with change(bench.engine) as connection:
        await answer_under(connection, "team", "k", 200, body)
        erased = asyncio.create_task(erase())
        await wait_for_lock(bench, erased)
    assert await erased == 1
    assert "u-42" not in await bench.dump()
    assert await is_free(bench, "k")

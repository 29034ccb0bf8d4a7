"""A completed batch with one of everything that the pages of items have to show, put into a database."""

from datetime import UTC, datetime
from typing import Any

from saiten_server.core.batch import BatchOptions, Candidate, Entry, Failure
from saiten_server.core.dialogue import Utterance
from saiten_server.core.evaluation import (
    AspectResult,
    CallTrace,
    PathResult,
    Paths,
    Record,
    RelevanceResult,
    RubricReference,
    Translation,
    Unrated,
    Warned,
)
from saiten_server.core.rubric import Aspect, Rubric
from saiten_server.platform.sql.engine import open_engine
from saiten_server.platform.sql.schema import migrate
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.work import CHUNK_SIZE, ChunkJob, FinishedCandidate
from saiten_server.scoring.rubrics.files import RubricFiles, default_folder
from tests.support.batches import LEASE, date_back
from tests.support.records import make_record

BATCH = "ba_shown"
HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'
RELEVANCE = RelevanceResult(
    score=0.7312, baseline=0.6904, baseline_source="calibration", weight=10.0, encoder="bert-base@12"
)

BLENDED, SENSITIVE, FAILED, PARTIAL, HOSTILE_ITEM = range(5)
"""Positions of the results that are not like the others."""


def load_rubric(name: str = "ja-dialogue") -> Rubric:
    """A rubric as it is shipped."""
    return RubricFiles([default_folder()]).get(name)


def rate(aspect: Aspect, rating: int | None, **changes: Any) -> AspectResult:
    """The aspect's verdict."""
    missing = Unrated(reason="refused", detail="it would not") if rating is None else None
    given: dict[str, Any] = {
        "rating": rating,
        "scale": aspect.scale,
        "label": None if rating is None else next(iter(aspect.level(rating).label.values())),
        "samples": (rating,),
        "mean": None if rating is None else float(rating),
        "sd": None if rating is None else 0.0,
        "unrated": missing,
    }
    return AspectResult(**{**given, **changes})


def rate_all(rubric: Rubric, step: int = 0) -> dict[str, AspectResult]:
    """Every aspect, each `step` levels above its lowest or as far as its scale goes."""
    return {aspect.id: rate(aspect, aspect.values[min(step, len(aspect.values) - 1)]) for aspect in rubric.aspects}


def make_shown(position: int, rubric: Rubric) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the record at a position has otherwise than `make_record`, and what its candidate has."""
    aspects = rate_all(rubric, position % 3)
    changes: dict[str, Any] = {
        "composites": {},
        "warnings": (),
        "metadata": {"system": "bot-b" if position % 2 else "bot-a"},
    }
    asked: dict[str, Any] = {}
    if position == BLENDED:
        overall = rubric.aspect("overall")
        aspects["overall"] = rate(
            overall,
            3,
            samples=(3, 3, None),
            blended=3 + 10 * (0.7312 - 0.6904),
            reason="話題に沿っている。",
            expected=3.2,
        )
        changes |= {"relevance": RELEVANCE}
    if position == SENSITIVE:
        english = {**aspects, "coherence": rate(rubric.aspect("coherence"), 0)}
        aspects["coherence"] = rate(rubric.aspect("coherence"), 1)
        both = [PathResult(aspects=each, composites={}, relevance=None, signature="s") for each in (aspects, english)]
        difference: dict[str, float | None] = {
            name: (english[name].mean or 0.0) - (found.mean or 0.0) for name, found in aspects.items()
        }
        changes |= {
            "path": "both",
            "paths": Paths(source=both[0], english=both[1], difference=difference, translation_sensitive=True),
            "translation": Translation(
                context=("Good morning.", "Did you sleep?"),
                response="Yes, I slept well.",
                source_language="ja",
                target_language="en",
                engine="deepl",
                characters=20,
            ),
        }
    if position == PARTIAL:
        aspects["naturalness"] = rate(rubric.aspect("naturalness"), None)
        changes |= {"status": "partial"}
    if position == HOSTILE_ITEM:
        changes |= {
            "warnings": (Warned(code="suspected-injection", where="context/1/text", detail=HOSTILE),),
            "metadata": {"system": HOSTILE, "note": HOSTILE},
        }
        asked = {"response": HOSTILE, "reference": (HOSTILE,), "metadata": changes["metadata"]}
    return {"aspects": aspects, **changes}, asked


def make_candidate(position: int, **changes: Any) -> Candidate:
    """Two utterances and a response."""
    context = (Utterance(speaker="甲", text="おはよう。"), Utterance(speaker="乙", text=f"眠れた？（{position}）"))
    return Candidate(**{"context": context, "response": f"はい、よく眠れました。（{position}）", **changes})


def write_record(position: int, rubric: Rubric, changes: dict[str, Any]) -> Record:
    """The record of a position, with the judge's reply."""
    reference = RubricReference(id=rubric.id, version=rubric.version, digest=rubric.digest)
    record = make_record(f"ev_shown_{position}", rubric=reference, **changes)
    reply = HOSTILE if position == HOSTILE_ITEM else '{"overall": 3}'
    call = CallTrace(
        prompt_digest="p" * 64, sample=0, attempt=0, aspects=("overall",), reply=reply, finish_reason="stop"
    )
    return record.model_copy(update={"trace": (call,)})


async def keep_shown(
    url: str,
    count: int = 5,
    *,
    project: str = "default",
    rated: int | None = None,
    failure: str = "judge-refused-request",
    **options: Any,
) -> None:
    """Keeps the batch in the database at `url`, which is made ready; `rated` of its candidates have a result, and the
    one at `FAILED` has failed with the code `failure`."""
    rubric, engine = load_rubric(), open_engine(url)
    await migrate(engine)
    store = BatchStore(engine)
    shown = [make_shown(position, rubric) for position in range(count)]
    entries = [Entry(position=position, item=f"item-{position}", candidate=None) for position in range(count)]
    candidates = [(entry, make_candidate(entry.position, **shown[entry.position][1])) for entry in entries]
    # Now, because a service that runs beside discards what was begun long ago and is not accepted.
    asked = BatchOptions(**{"name": "夜間", "relevance": None, **options})
    await store.begin(project, BATCH, asked, datetime.now(UTC))
    await store.append(BATCH, candidates)
    await store.accept(project, BATCH, unit_cost_usd=None, answer=None)
    await date_back(engine, BATCH)
    for chunk in range(-(-count // CHUNK_SIZE)):
        work = await store.claim(ChunkJob(BATCH, chunk), "w1", LEASE)
        if work is None:
            raise RuntimeError("somebody else works on the batch")
        done = [
            FinishedCandidate(
                work.job,
                entry,
                None if entry.position == FAILED else write_record(entry.position, rubric, shown[entry.position][0]),
                Failure(code=failure, detail=HOSTILE) if entry.position == FAILED else None,
            )
            for entry, _ in work.todo
            if rated is None or entry.position < rated
        ]
        await store.commit("w1", done, [work.job] if rated is None else [])
    await engine.dispose()

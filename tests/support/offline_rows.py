"""Results of runs of several kinds, as a scorer would make them, without any judge."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from saiten_server.core.batch import Entry, Failure
from saiten_server.core.conversation import Finding
from saiten_server.core.evaluation import (
    AspectResult,
    ConversationRequest,
    Record,
    RelevanceResult,
    RubricReference,
    Unrated,
    Usage,
    Warned,
)
from saiten_server.core.model import digest
from saiten_server.core.rubric import Aspect, Rubric, compose
from saiten_server.offline.frame_files import ScoredRow, make_table
from saiten_server.runs.summary import measure_failure, measure_record
from saiten_server.scoring.rubrics.files import open_rubrics
from tests.support.records import make_record, make_request

RUBRICS = open_rubrics(None)
KINDS = ("responses", "samples", "blended", "clusters", "candidates", "conversations", "composites")


def rubric_of(kind: str) -> Rubric:
    return RUBRICS.get({"conversations": "ja-conversation", "composites": "ko-dialogue"}.get(kind, "ja-dialogue"))


def make_rows(kind: str, count: int = 60, *, seed: int = 0, drop: float = 0.0) -> list[ScoredRow]:
    """A run of that kind: some results failed, and some aspects are unrated. `drop` is the share of ratings that are a
    level lower. Runs of different seeds hold the same items."""
    rubric, draw = rubric_of(kind), random.Random(seed)
    return [make_row(kind, rubric, number, draw, drop) for number in range(count)]


def make_row(kind: str, rubric: Rubric, number: int, draw: random.Random, drop: float) -> ScoredRow:
    item, candidate = (number // 3, number % 3) if kind == "candidates" else (number, None)
    cluster = digest(["talk", number // 4])[:16] if kind == "clusters" and number % 10 else None
    cluster = digest(["item", item])[:16] if kind == "candidates" else cluster
    entry = Entry(position=number, item=f"item-{item}", candidate=candidate, cluster=cluster)
    key = digest([kind, number, rubric.digest])
    if number % 17 == 5:
        return ScoredRow(key, entry, None, Failure(code="judge-refused-request", detail="no"), Usage(judge_calls=1))
    samples = 3 if kind == "samples" else 1
    blended = {"relevance": 0.25} if kind == "blended" else {}
    aspects = {
        aspect.id: rate(aspect, draw, drop, samples, blended.get(aspect.id), missing=number % 13 == 7 and place == 0)
        for place, aspect in enumerate(rubric.aspects)
    }
    return ScoredRow(key, entry, wrap(kind, rubric, aspects, f"item-{item}", draw))


def rate(
    aspect: Aspect, draw: random.Random, drop: float, samples: int, blend: float | None, *, missing: bool
) -> AspectResult:
    """A verdict on the aspect."""
    low, high = aspect.scale
    if missing:
        unrated = Unrated(reason="missing", detail="")
        return AspectResult(
            rating=None, scale=aspect.scale, label=None, samples=(None,), mean=None, sd=None, unrated=unrated
        )
    own = [max(low, draw.randint(low, high) - (draw.random() < drop)) for _ in range(samples)]
    mean = sum(own) / len(own)
    sd = (sum((one - mean) ** 2 for one in own) / len(own)) ** 0.5
    rating = sorted(own)[len(own) // 2]
    blended = None if blend is None else mean + blend
    return AspectResult(
        rating=rating, scale=aspect.scale, label="…", samples=tuple(own), mean=mean, sd=sd, blended=blended, reason="…"
    )


def wrap(kind: str, rubric: Rubric, aspects: dict[str, AspectResult], item: str, draw: random.Random) -> Record:
    """The record with these verdicts."""
    means = {name: one.mean for name, one in aspects.items() if one.mean is not None}
    unrated = any(one.unrated for one in aspects.values())
    changes: dict[str, Any] = {
        "status": "partial" if unrated else "scored",
        "rubric": RubricReference(id=rubric.id, version=rubric.version, digest=rubric.digest),
        "aspects": aspects,
        "composites": compose(rubric, means),
        "signature": f"saiten:1|rubric:{rubric.name}|digest:{rubric.digest[:12]}|judge:lexical|model:lexical-1",
        "metadata": {"system": "甲", "build": f"b{draw.randint(1, 2)}"},
        "warnings": (Warned(code="baseline-judge", where="judge", detail="…"),) if draw.random() < 0.5 else (),
    }
    if kind == "blended":
        similarity = draw.random()
        changes["relevance"] = RelevanceResult(
            score=similarity, baseline=0.5, baseline_source="number", weight=1, encoder="e"
        )
    if kind != "conversations":
        request = make_request(context=[{"speaker": "ユーザー", "text": f"{item} について教えて"}])
        return make_record("ev_1", **changes).model_copy(update={"request": request})
    turns = [
        {"speaker": speaker, "role": role, "text": f"{item}の{number}番目の発話です。"}
        for number in range(3)
        for speaker, role in (("客", "user"), ("受付", "system"))
    ]
    findings = tuple(find(turn, draw) for turn in (1, 3, 5) if draw.random() < 0.4)
    changes |= {"findings": findings, "kinds": {one.kind: 1 for one in findings if one.kind}}
    record = make_record("ev_1", **changes)
    return record.model_copy(update={"request": ConversationRequest.model_validate({"turns": turns})})


def find(turn: int, draw: random.Random) -> Finding:
    """A fault of that turn."""
    if draw.random() < 0.5:
        return Finding(turn=turn, aspect="overall", code=None, by="judge", detail="…", kind="repetition")
    return Finding(turn=turn, aspect="consistency", code="repetition", by="rule", detail="…", kind="repetition")


def entries_of(rows: Sequence[ScoredRow]) -> list[Entry]:
    return [row.entry for row in rows]


def figures_of(rows: list[ScoredRow]) -> list[Any]:
    return [measure_record(row.record) if row.record else measure_failure(row.failure) for row in rows]  # type: ignore[arg-type]


def store(rows: list[ScoredRow], kind: str, folder: Path, *, files: int = 3, group: int = 10, **more: Any) -> Path:
    """The rows as files below the folder, as an engine leaves them."""
    import pyarrow.parquet as pq

    for number in range(files):
        some = rows[number * len(rows) // files : (number + 1) * len(rows) // files]
        path = folder / f"key={number:02}" / f"part-{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(make_table(some, rubric_of(kind), **more), path, row_group_size=group)
    (folder / "_SUCCESS").touch()
    return folder

"""Results as the benchmark of the dashboard needs them: made out of one, by the hundred thousand."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.gate import SHARES, cut
from saiten_server.core.batch import Candidate, Entry, Failure
from saiten_server.core.dialogue import Utterance
from saiten_server.core.evaluation import (
    AspectResult,
    Evaluation,
    EvaluationRequest,
    Record,
    RelevanceResult,
    Unrated,
    Warned,
)
from saiten_server.core.rubric import Aspect, Rubric, compose
from saiten_server.runs.work import ChunkJob, FinishedCandidate
from saiten_server.scoring.record import blend_aspect

NEEDLE = "温泉"
"""In one context in 700."""

UNRATED_SHARE, FAILED_SHARE = 0.004, 0.003
WARNING_SHARES: Mapping[str, float] = {
    "suspected-injection": 0.01,
    "register-shift": 0.05,
    "similarity-unknown-tokens": 0.02,
}
FAILURE = Failure(code="judge-refused-request", detail="the judge refused the request")

SPEAKERS = ("ユーザー", "ボット", "ユーザー")
OPENINGS = (
    "週末は",
    "昨日の夜は",
    "来月の連休には",
    "仕事が終わってから",
    "朝早く起きて",
    "久しぶりに",
    "友だちと一緒に",
)
PLACES = ("海沿いの町", "山の小さな宿", "駅前の喫茶店", "祖母の家", "新しい図書館", "近所の公園", "商店街の映画館")
DEEDS = ("のんびり過ごしました", "写真をたくさん撮りました", "おいしいコーヒーを飲みました", "本を一冊読み終えました")
FEELINGS = (
    "とても楽しかったです。",
    "少し疲れましたが満足しています。",
    "また行きたいと思っています。",
    "天気が良くて助かりました。",
)
REPLIES = (
    "それはよかったですね。",
    "うらやましいです。",
    "なるほど、そうだったんですね。",
    "ええと、よく分かりません。",
)
QUESTIONS = (
    "次はどこへ行く予定ですか？",
    "何が一番心に残りましたか？",
    "だれと出かけたのですか？",
    "そこは混んでいましたか？",
)


class Maker:
    """Makes results out of one that the lexical judge has given: other ratings, blended, some unrated or failed."""

    def __init__(self, rubric: Rubric, like: Record) -> None:
        self.rubric = rubric
        self._like = like
        self._aspects = {
            aspect.id: list_results(aspect, like.evaluation.aspects[aspect.id]) for aspect in rubric.aspects
        }
        self._warned = [Warned(code=code, where="response", detail="…") for code in WARNING_SHARES]
        self._relevance = RelevanceResult(
            score=0.0, baseline=0.69, baseline_source="calibration", weight=10.0, encoder="bert-base@12"
        )

    def finish(self, job: ChunkJob, place: Entry, posed: Candidate, drawn: Drawn, at: datetime) -> FinishedCandidate:
        """The candidate's result, or the failure in its place."""
        if drawn.failed[place.position]:
            return FinishedCandidate(job, place, None, FAILURE)
        asked = EvaluationRequest.model_construct(
            rubric=self.rubric.id, context=posed.context, response=posed.response, metadata={}
        )
        return FinishedCandidate(job, place, self._make(asked, drawn, place.position, at))

    def _make(self, request: EvaluationRequest, drawn: Drawn, row: int, at: datetime) -> Record:
        relevance = self._relevance.model_copy(update={"score": float(drawn.similarity[row])})
        aspects = {name: self._aspects[name][int(column[row])] for name, column in drawn.ratings.items()}
        if drawn.unrated[row]:
            aspects["relevance"] = self._aspects["relevance"][None]
        aspects["relevance"] = blend_aspect(aspects["relevance"], relevance)
        warnings = [one for one, column in zip(self._warned, drawn.warned, strict=True) if column[row]]
        changes: dict[str, Any] = {
            "id": "ev_" + secrets.token_hex(12),
            "status": "partial" if drawn.unrated[row] else "scored",
            "aspects": aspects,
            "composites": compose(self.rubric, {name: result.mean for name, result in aspects.items()}),
            "relevance": relevance,
            "warnings": (*self._like.evaluation.warnings, *warnings),
            "created_at": at,
            "metadata": request.metadata,
        }
        evaluation: Evaluation = self._like.evaluation.model_copy(update=changes)
        return Record.model_construct(evaluation=evaluation, request=request, trace=self._like.trace)


def list_results(aspect: Aspect, like: AspectResult) -> dict[int | None, AspectResult]:
    """The aspect's result on each level, and unrated under None."""
    found: dict[int | None, AspectResult] = {}
    for level in aspect.levels:
        changes = {
            "rating": level.value,
            "label": level.label["ja"],
            "samples": (level.value,),
            "mean": float(level.value),
        }
        found[level.value] = like.model_copy(update={**changes, "sd": 0.0, "unrated": None})
    missing = Unrated(reason="missing", detail="the reply has no such key")
    nothing = {"rating": None, "label": None, "samples": (None,), "mean": None, "sd": None, "unrated": missing}
    found[None] = like.model_copy(update=nothing)
    return found


@dataclass(frozen=True)
class Drawn:
    """Columns of a run's results."""

    ratings: Mapping[str, NDArray[np.int64]]
    similarity: NDArray[np.float64]
    unrated: NDArray[np.bool_]
    failed: NDArray[np.bool_]
    warned: Sequence[NDArray[np.bool_]]


def draw(count: int, seed_number: int, drop: float) -> Drawn:
    """Ratings that lean on the context, which runs share, and lie `drop` standard deviations lower."""
    shared, own = np.random.default_rng(0), np.random.default_rng(seed_number)
    context = shared.standard_normal(count)
    ratings = {
        name: cut(0.7 * context + 0.714 * own.standard_normal(count) - drop, shares) for name, shares in SHARES.items()
    }
    return Drawn(
        ratings=ratings,
        similarity=0.69 + 0.04 * own.standard_normal(count),
        unrated=own.random(count) < UNRATED_SHARE,
        failed=own.random(count) < FAILED_SHARE,
        warned=[own.random(count) < share for share in WARNING_SHARES.values()],
    )


def pose(number: int, variant: int) -> Candidate:
    """Dialogue `number`: its context is that of every run, its response this run's."""
    place, reply = pick(PLACES, number // 7), pick(REPLIES, number // 5)
    where = NEEDLE if number % 700 == 0 else pick(PLACES, number // 13)
    texts = (
        f"{pick(OPENINGS, number)}{place}で{pick(DEEDS, number // 49)}。{pick(FEELINGS, number // 3)}",
        f"{reply}{pick(PLACES, number // 11)}には私も行ったことがあります。{pick(QUESTIONS, number)}",
        f"次は{where}へ行くつもりです。{pick(FEELINGS, number // 17)}{number}番目の予定です。",
    )
    own = number + variant
    return Candidate.model_construct(
        context=tuple(
            Utterance.model_construct(speaker=speaker, text=text) for speaker, text in zip(SPEAKERS, texts, strict=True)
        ),
        response=f"{pick(REPLIES, own)}{pick(PLACES, own // 13)}ですね。{pick(QUESTIONS, own // 2)}",
    )


def pick(texts: Sequence[str], number: int) -> str:
    return texts[number % len(texts)]

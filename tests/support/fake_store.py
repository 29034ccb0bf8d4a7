"""A `Store` in memory."""

from __future__ import annotations

from collections.abc import Sequence

from app.adapters.sql.evaluations import StoredAnswer
from app.domain.evaluation import Record


class FakeStore:
    def __init__(self) -> None:
        self.records: dict[tuple[str, str], Record] = {}
        self.calls: dict[tuple[str, str], tuple[str, ...]] = {}
        self.baselines: dict[tuple[str, str, str], float] = {}
        self.answers: dict[tuple[str, str], StoredAnswer] = {}

    async def save(
        self, project: str, record: Record, calls: Sequence[str] = (), *, written: str | None = None
    ) -> None:
        self.calls[project, record.evaluation.id] = tuple(calls)
        self.records[project, record.evaluation.id] = record

    async def find(self, project: str, evaluation_id: str) -> Record | None:
        return self.records.get((project, evaluation_id))

    async def ping(self) -> None:
        return None

    async def find_baseline(self, encoder: str, language: str, calibration: str) -> float | None:
        return self.baselines.get((encoder, language, calibration))

    async def save_baseline(self, encoder: str, language: str, calibration: str, value: float) -> None:
        self.baselines.setdefault((encoder, language, calibration), value)

    async def claim_key(self, project: str, key: str, body_digest: str) -> StoredAnswer | None:
        if held := self.answers.get((project, key)):
            return held
        self.answers[project, key] = StoredAnswer(body_digest, None, None)
        return None

    async def renew_key(self, project: str, key: str) -> None:
        """Claims in memory do not grow old."""

    async def answer_key(self, project: str, key: str, status: int, body: bytes) -> None:
        self.answers[project, key] = StoredAnswer(self.answers[project, key].body_digest, status, body)

    async def release_key(self, project: str, key: str) -> None:
        held = self.answers.get((project, key))
        if held is not None and held.status is None:
            del self.answers[project, key]

"""The fixed parts of a judge's prompts, built once and kept."""

from __future__ import annotations

from dataclasses import dataclass

from app.domain.prompt import Prefix, build_prefix
from app.domain.rubric import Aspect
from app.ports import JudgingTask

PREFIXES = 256
"""Kept at most. One is some tens of kilobytes; a rubric of ten aspects asked independently has ten a language."""

Way = tuple[str, str, tuple[str, ...], bool, bool, bool]


@dataclass(frozen=True)
class Formats:
    """One fixed part in both reply formats."""

    structured: Prefix
    text: Prefix


class Prefixes:
    """Finds the fixed parts of a task's prompts. Keeps the last `limit` that were built, and forgets the oldest."""

    def __init__(self, limit: int = PREFIXES) -> None:
        self._limit = limit
        self._kept: dict[Way, Formats] = {}

    def find(self, task: JudgingTask, aspects: tuple[Aspect, ...]) -> Formats:
        """The fixed parts that ask for these aspects of the task's rubric. Raises LanguageNotSupported."""
        ids = tuple(aspect.id for aspect in aspects)
        way = (task.rubric.digest, task.language, ids, task.options.explain, bool(task.references), task.screen)
        found = self._kept.get(way)
        if found is None:
            found = Formats(write(task, aspects, structured=True), write(task, aspects, structured=False))
            if len(self._kept) >= self._limit:
                del self._kept[next(iter(self._kept))]
            self._kept[way] = found
        return found


def write(task: JudgingTask, aspects: tuple[Aspect, ...], *, structured: bool) -> Prefix:
    """One fixed part, built anew."""
    return build_prefix(
        task.rubric,
        task.language,
        aspects,
        explain=task.options.explain,
        structured=structured,
        references=bool(task.references),
        screen=task.screen,
    )

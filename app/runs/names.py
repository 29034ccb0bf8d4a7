"""What pages call a run, its system and build, its judges and its measures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, cast

from saiten_server.core.batch import Batch
from saiten_server.core.conversation import FAULTY_TURNS
from saiten_server.core.evaluation import EXPECTED
from saiten_server.core.rubric import Rubric
from saiten_server.core.signature import read_signature
from saiten_server.platform.web.language import Speech, mark
from saiten_server.providers.registry import is_baseline
from saiten_server.runs.summary import BLENDED, BUILD, SYSTEM, Summary

if TYPE_CHECKING:
    from saiten_server.container import Container

RunSequence = tuple[str, str | None, str]
"""Name, system and rubric of runs that follow each other, so that each can be compared with the one before it."""


class JudgeName(NamedTuple):
    kind: str
    model: str

    @property
    def is_baseline(self) -> bool:
        return is_baseline(self.kind)


def system_of(batch: Batch) -> str | None:
    """What the run's metadata name as the system."""
    return batch.metadata.get(SYSTEM)


def build_of(batch: Batch) -> str | None:
    """The build that the run's metadata name."""
    return batch.metadata.get(BUILD)


def line_of(batch: Batch) -> RunSequence | None:
    """Which runs it follows; None for a run without a name."""
    return None if batch.name is None else (batch.name, system_of(batch), batch.rubric_name)


def signatures_of(batch: Batch) -> tuple[str, ...]:
    """The signatures of its results, the most frequent first; none before the first result."""
    ranked = sorted(batch.signatures, key=lambda signature: (-batch.signatures[signature], signature))
    return tuple(ranked) or ((batch.signature,) if batch.signature else ())


def judges_of(container: Container, batch: Batch) -> tuple[JudgeName, ...]:
    """The judges according to the signatures; before the first result, the judge that will be used."""
    signed = [read_signature(signature) for signature in signatures_of(batch)]
    found = [JudgeName(part.get("judge", "").partition("/")[0], part.get("model", "")) for part in signed]
    if not found:
        judge = container.scoring.context.judge
        found = [JudgeName(judge.kind, batch.judge.model or judge.default_model)]
    return tuple(dict.fromkeys(found))


def name_measures(rubric: Rubric, speech: Speech, *, marked: bool = False) -> dict[str, str]:
    """What the visitor calls each measure that the rubric can have; `marked`: faulty turns of conversations too."""
    aspects = {aspect.id: speech.pick(cast(Mapping[str, str], aspect.name)) for aspect in rubric.aspects}
    _ = speech.say
    blended = {f"{name}{BLENDED}": _("%(aspect)s, blended", aspect=shown) for name, shown in aspects.items()}
    faulty = {FAULTY_TURNS: name_faulty(speech)} if marked and rubric.unit == "conversation" else {}
    return {**faulty, **aspects, **{composite.id: composite.id for composite in rubric.composites}, **blended}


def has_only_rules(summary: Summary) -> bool:
    """Whether the run is of conversations, which its judge cannot rate, so that only rules found something."""
    aspects = summary.aspects.values()
    return summary.findings is not None and all(
        not one.n and one.unrated_reasons and EXPECTED.issuperset(one.unrated_reasons) for one in aspects
    )


def name_faulty(speech: Speech) -> str:
    """What the visitor calls the rate of faulty turns."""
    return speech.say(mark("Faulty turns per 100 system turns"))

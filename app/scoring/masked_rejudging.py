"""Masked re-judging: a suspicious dialogue is judged a second time without the spans that look like an attack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from saiten_server.core.dialogue import Dialogue
from saiten_server.core.evaluation import MaskedSpan, Path
from saiten_server.platform.helpers import Checkpoint
from saiten_server.providers.ports import Judgement, JudgingTask
from saiten_server.scoring.subject import Subject, find_suspicions, look_at
from saiten_server.text.injection import InspectionBudget, TextSpan, find_spans, inspect_text, without

# Replaces a speaker's name that looks like an attack, by language; otherwise in English
NEUTRAL: Mapping[str, str] = {"ja": "話者", "ko": "화자"}


MaskedTask = tuple[Path, JudgingTask, tuple[MaskedSpan, ...]]
"""A path, the judge's second task on it, without the suspicious spans, and these."""


@dataclass(frozen=True)
class MaskedJudgement:
    """The judgement on one path of a dialogue or conversation without its suspicious spans."""

    path: Path
    spans: tuple[MaskedSpan, ...]
    judgement: Judgement


@dataclass
class Masking:
    """Removes suspicious spans from texts, and records them. Equal speakers stay equal. `budget` limits the search in
    all texts together; a text that exceeds it is removed as a whole."""

    aspects: Sequence[str]
    language: str
    budget: InspectionBudget
    spans: list[MaskedSpan] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    known: dict[str, tuple[TextSpan, ...]] = field(default_factory=dict)

    def find(self, text: str) -> tuple[TextSpan, ...]:
        """The spans to remove from a text; equal texts are searched once."""
        if text not in self.known:
            self.known[text] = find_spans(text, aspects=self.aspects, budget=self.budget)
        return self.known[text]

    def text(self, where: str, text: str) -> str:
        """The text without its suspicious spans."""
        found = self.find(text)
        self.spans += (MaskedSpan(where=where, start=start, end=end) for start, end in found)
        return without(text, found)

    def speaker(self, where: str, name: str) -> str:
        """The name, or a neutral name if it is suspicious: what remained of it would be of no use."""
        if not inspect_text(name, aspects=self.aspects):
            return name
        self.spans.append(MaskedSpan(where=where, start=0, end=len(name)))
        plain = NEUTRAL.get(self.language, "Speaker")
        number = len(self.renamed) + 1
        return self.renamed.setdefault(name, plain if number == 1 else f"{plain} {number}")


async def find_masked(subject: Subject) -> MaskedTask | None:
    """The result of `mask_suspicious`, which runs in a thread because its trials take long even for short texts."""
    if not await look_at(subject, partial(find_suspicions, subject)):
        return None
    return await look_at(subject, partial(mask_suspicious, subject), at_once=0)


def mask_suspicious(subject: Subject, checkpoint: Checkpoint = lambda: None) -> MaskedTask | None:
    """The task of the second judging; None if no text that the judge is shown looks like an attack. It is on one
    path: the source path, or the English one if only the translation is suspicious. `checkpoint` is called before each
    text and trial, and may raise to end the work."""
    budget = InspectionBudget(checkpoint=checkpoint)
    looks = (mask(subject, path, budget) for path in subject.dialogues)
    return next((look for look in looks if look[2]), None)


def mask(subject: Subject, path: Path, budget: InspectionBudget) -> MaskedTask:
    """The task on a path's dialogue and references without their suspicious spans, of which there may be none."""
    masking = Masking(subject.rubric.aspect_names, subject.language(path), budget)
    shown, given = subject.dialogues[path], subject.request.turn
    # The response is what is rated, so it is searched before the context can exhaust the budget.
    masking.find(shown.response)
    context = []
    for number, (utterance, original) in enumerate(zip(shown.context, given.context, strict=True)):
        place = f"context/{number}"
        speaker = masking.speaker(f"{place}/speaker", utterance.speaker)
        text = masking.text(prefix(utterance.text, original.text) + f"{place}/text", utterance.text)
        context.append(utterance.model_copy(update={"speaker": speaker, "text": text}))
    response = masking.text(prefix(shown.response, given.response) + "response", shown.response)
    references = tuple(masking.text(f"reference/{number}", text) for number, text in enumerate(subject.references))
    dialogue = Dialogue.model_construct(context=tuple(context), response=response)
    task = replace(subject.task(path), dialogue=dialogue, references=references)
    return path, task, tuple(masking.spans)


def prefix(shown: str, given: str) -> str:
    """`translation/` if the text was changed by the translator, so that an unchanged text is reported once."""
    return "" if shown == given else "translation/"

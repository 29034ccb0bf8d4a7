"""A suspicious dialogue as the judge is to see it the second time: without what looks like an attack on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from app.domain.dialogue import Dialogue
from app.domain.evaluation import MaskedSpan, Path
from app.providers.ports import Judgement, JudgingTask, Lane
from app.runtime.threads import Checkpoint
from app.scoring.case import Case, find_suspicions, look_at
from app.text.injection import InspectionBudget, TextSpan, find_spans, inspect_text, without

NEUTRAL: Mapping[str, str] = {"ja": "話者", "ko": "화자"}
"""What a speaker is called whose name was an attack; in English elsewhere."""


@dataclass(frozen=True)
class MaskedDialogue:
    """A path's dialogue and references without the suspicious `spans`."""

    path: Path
    dialogue: Dialogue
    references: tuple[str, ...]
    spans: tuple[MaskedSpan, ...]

    def task(self, case: Case, lane: Lane) -> JudgingTask:
        """What the judge is asked the second time."""
        language = case.language(self.path)
        return JudgingTask(case.rubric, language, self.dialogue, case.request.judge, self.references, lane, case.scope)


@dataclass(frozen=True)
class MaskedJudgement:
    """What the judge said of a masked dialogue."""

    masked: MaskedDialogue
    judgement: Judgement


@dataclass
class Masking:
    """Leaves suspicious spans out of texts, and remembers which. Equal speakers stay equal.

    `budget` bounds the search in all texts together: what it does not suffice for is left out whole.
    """

    aspects: Sequence[str]
    language: str
    budget: InspectionBudget
    spans: list[MaskedSpan] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    known: dict[str, tuple[TextSpan, ...]] = field(default_factory=dict)

    def find(self, text: str) -> tuple[TextSpan, ...]:
        """What of a text is to be left out; searched once for equal texts."""
        if text not in self.known:
            self.known[text] = find_spans(text, aspects=self.aspects, budget=self.budget)
        return self.known[text]

    def text(self, where: str, text: str) -> str:
        """The text without its suspicious spans."""
        found = self.find(text)
        self.spans += (MaskedSpan(where=where, start=start, end=end) for start, end in found)
        return without(text, found)

    def speaker(self, where: str, name: str) -> str:
        """The name, or a neutral one in place of a suspicious one: the rest of such a name is of no use."""
        if not inspect_text(name, aspects=self.aspects):
            return name
        self.spans.append(MaskedSpan(where=where, start=0, end=len(name)))
        plain = NEUTRAL.get(self.language, "Speaker")
        number = len(self.renamed) + 1
        return self.renamed.setdefault(name, plain if number == 1 else f"{plain} {number}")


async def find_masked(case: Case) -> MaskedDialogue | None:
    """What `mask_suspicious` finds. Trials take long for short texts too, so they are made in a thread, if at all."""
    if not await look_at(case, partial(find_suspicions, case)):
        return None
    return await look_at(case, partial(mask_suspicious, case), at_once=0)


def mask_suspicious(case: Case, checkpoint: Checkpoint = lambda: None) -> MaskedDialogue | None:
    """What to ask the second time; None where nothing that the judge is shown looks like an attack.

    It is on one path: the source path, unless only the English one shows the judge anything suspicious. What a
    translation has lost of an attack, the judge of the translation never saw. `checkpoint` is called before each text
    and trial, and may raise to end the work.
    """
    budget = InspectionBudget(checkpoint=checkpoint)
    looks = (mask(case, path, budget) for path in case.dialogues)
    return next((look for look in looks if look.spans), None)


def mask(case: Case, path: Path, budget: InspectionBudget) -> MaskedDialogue:
    """A path's dialogue and the references, less what is suspicious of them; perhaps nothing."""
    masking = Masking(case.aspect_names, case.language(path), budget)
    shown, given = case.dialogues[path], case.request.turn
    # Before the context has spent the budget: the response is what is rated.
    masking.find(shown.response)
    context = []
    for number, (utterance, original) in enumerate(zip(shown.context, given.context, strict=True)):
        place = f"context/{number}"
        speaker = masking.speaker(f"{place}/speaker", utterance.speaker)
        text = masking.text(prefix(utterance.text, original.text) + f"{place}/text", utterance.text)
        context.append(utterance.model_copy(update={"speaker": speaker, "text": text}))
    response = masking.text(prefix(shown.response, given.response) + "response", shown.response)
    references = tuple(masking.text(f"reference/{number}", text) for number, text in enumerate(case.references))
    dialogue = Dialogue.model_construct(context=tuple(context), response=response)
    return MaskedDialogue(path, dialogue, references, tuple(masking.spans))


def prefix(shown: str, given: str) -> str:
    """`translation/` where the text is not as it was given: what a translator left alone is told of once."""
    return "" if shown == given else "translation/"

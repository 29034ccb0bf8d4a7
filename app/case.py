"""One request made ready to be judged: its rubric found, its options checked, its dialogue in each language in use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from app.domain.dialogue import Dialogue
from app.domain.errors import BaselineNotSupported, LanguageNotSupported, TranslatorNotConfigured, UnknownAspect
from app.domain.evaluation import EvaluationRequest, Path, RelevanceOptions, Warned
from app.domain.rubric import Rubric
from app.domain.untrusted import inspect_dialogue, inspect_text
from app.ports import Translated, Translator

ENGLISH = "en"


@dataclass(frozen=True)
class Case:
    """What is to be judged. `translated` is None on the source path."""

    request: EvaluationRequest
    rubric: Rubric
    translated: Translated | None

    @cached_property
    def dialogues(self) -> dict[Path, Dialogue]:
        """The dialogue of each language path in use, the source path first."""
        found: dict[Path, Dialogue] = {}
        if self.request.path != "english":
            found["source"] = self.request.dialogue
        if self.translated is not None:
            found["english"] = in_english(self.request.dialogue, self.translated)
        return found

    @property
    def characters(self) -> int:
        """Of all texts in all languages in use."""
        return sum(
            len(dialogue.response) + sum(len(utterance.text) for utterance in dialogue.context)
            for dialogue in self.dialogues.values()
        )

    def language(self, path: Path) -> str:
        """The language that is judged on a path."""
        return self.rubric.source_language if path == "source" else ENGLISH

    @property
    def blended(self) -> tuple[str, ...]:
        """The aspects that get a blended value."""
        return blended_aspects(self.rubric, self.request.relevance)

    @property
    def references(self) -> tuple[str, ...]:
        """The references that the judge is shown: none unless the rubric says so."""
        return self.request.references if self.rubric.references else ()

    @property
    def relevance(self) -> RelevanceOptions | None:
        """How relevance is to be measured; None where no aspect is blended, so that no encoder runs for nothing."""
        return self.request.relevance if self.blended else None


def blended_aspects(rubric: Rubric, options: RelevanceOptions | None) -> tuple[str, ...]:
    """The aspects to blend: those asked for, else those that the rubric blends."""
    if options is None:
        return ()
    if options.aspects is None:
        return rubric.blended_aspects
    # In the rubric's order and once each, so that the same blend has the same signature.
    return tuple(aspect.id for aspect in rubric.aspects if aspect.id in options.aspects)


async def open_case(
    request: EvaluationRequest, rubric: Rubric, translator: Translator | None, *, batch: bool = False
) -> Case:
    """Checks the request against its rubric and translates where its path needs it; `batch`: it is one of a batch.

    Raises LanguageNotSupported, BaselineNotSupported, UnknownAspect, and the `Translator…` errors.
    """
    check(request, rubric, batch=batch)
    if request.path == "source":
        return Case(request, rubric, None)
    if translator is None:
        detail = f"the path {request.path!r} translates to English: set DEEPL_API_KEY, or ask for 'source'"
        raise TranslatorNotConfigured(detail)
    return Case(request, rubric, await translator.translate(request.dialogue, rubric.source_language))


def check(request: EvaluationRequest, rubric: Rubric, *, batch: bool = False) -> None:
    """Raises InvalidRequest where the request asks for what this rubric, or an evaluation outside a batch, has not."""
    if request.path != "source" and ENGLISH not in rubric.languages:
        raise LanguageNotSupported(f"the rubric {rubric.id} does not exist in English", pointer="/path")
    if request.path != "source" and rubric.references and request.references:
        detail = f"the judge of {rubric.id} is shown references, and they are not translated; ask for the path 'source'"
        raise LanguageNotSupported(detail, pointer="/reference")
    if request.relevance is None:
        return
    if request.relevance.baseline == "batch" and not batch:
        detail = "the baseline 'batch' is the mean of a batch; use 'calibration' or a number"
        raise BaselineNotSupported(detail, pointer="/relevance/baseline")
    known = [aspect.id for aspect in rubric.aspects]
    for position, name in enumerate(request.relevance.aspects or ()):
        if name not in known:
            detail = f"the rubric {rubric.id} has the aspects {', '.join(known)}"
            raise UnknownAspect(detail, pointer=f"/relevance/aspects/{position}")


def find_suspicions(case: Case) -> tuple[Warned, ...]:
    """What in the texts that the judge is shown looks like an attack on it, in every language in use."""
    names = [name for aspect in case.rubric.aspects for name in aspect.name.values()]
    english = case.dialogues.get("english")
    found = inspect_dialogue(case.request.dialogue, translation=english, aspects=names)
    of_references = (
        Warned(code="suspected-injection", where=f"reference/{position}", detail=finding.detail)
        for position, text in enumerate(case.references)
        for finding in inspect_text(text, aspects=names)
    )
    return (*found, *of_references)


def in_english(dialogue: Dialogue, translated: Translated) -> Dialogue:
    """The translated dialogue with its own speakers. Not validated again: a translation may pass the length limit."""
    translation = translated.translation
    spoken = zip(dialogue.context, translation.context, strict=True)
    context = tuple(utterance.model_copy(update={"text": text}) for utterance, text in spoken)
    return Dialogue.model_construct(context=context, response=translation.response)

"""Prepares a request for judging: checks its options against the rubric and translates the dialogue where needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Protocol

from saiten.core.messages import Message
from saiten_server.core import errors
from saiten_server.core.dialogue import Dialogue
from saiten_server.core.evaluation import EvaluationRequest, Path, PathChoice, RelevanceOptions, Translation, Warned
from saiten_server.core.rubric import Rubric, Unit, name_version
from saiten_server.platform.helpers import Checkpoint, Seen, inspection_threads
from saiten_server.providers.ports import JudgingTask, Lane, RequestScope, Translated, Translator
from saiten_server.text.injection import inspect_texts, list_places, locate_warnings

ENGLISH_PATH_LANGUAGE = "en"

# Characters that are inspected on the event loop: it takes about a millisecond, less than a thread would cost, and of
# the dearest texts (NFKC makes four characters of each, or each could begin an attack) ten
INSPECTED_AT_ONCE = 1_500
SUSPECTED = "suspected-injection"
MOST_PLACES = 5  # Places that an error names at most


@dataclass(frozen=True)
class Subject:
    """What is to be judged. `translated` is None on the source path."""

    request: EvaluationRequest
    rubric: Rubric
    translated: Translated | None
    scope: RequestScope = field(default_factory=RequestScope, compare=False)

    @cached_property
    def given(self) -> Dialogue:
        """The dialogue as the request holds it."""
        return self.request.turn

    @cached_property
    def dialogues(self) -> dict[Path, Dialogue]:
        """The dialogue of each language path in use, the source path first."""
        found: dict[Path, Dialogue] = {}
        if self.request.path != "english":
            found["source"] = self.given
        if self.translated is not None:
            # With the original speakers. Not validated: a translation may exceed the length limit.
            translation = self.translated.translation
            spoken = zip(self.given.context, translation.context, strict=True)
            context = tuple(utterance.model_copy(update={"text": text}) for utterance, text in spoken)
            found["english"] = Dialogue.model_construct(context=context, response=translation.response)
        return found

    @property
    def translation(self) -> Translation | None:
        """The translation as the result shows it."""
        return self.translated.translation if self.translated else None

    @cached_property
    def looking(self) -> asyncio.Lock:
        """Held while a thread inspects the texts, so that each text is inspected once."""
        return asyncio.Lock()

    @cached_property
    def characters(self) -> int:
        """The characters of all texts in all languages in use, references included."""
        texts = [*self.references]
        for dialogue in self.dialogues.values() or [self.given]:
            texts += [dialogue.response, *(utterance.text for utterance in dialogue.context)]
        return sum(map(len, texts))

    def language(self, path: Path) -> str:
        """The language that is judged on a path."""
        return self.rubric.source_language if path == "source" else ENGLISH_PATH_LANGUAGE

    @property
    def blended(self) -> tuple[str, ...]:
        """The aspects that get a blended value."""
        return blended_aspects(self.rubric, self.request.relevance)

    @property
    def references(self) -> tuple[str, ...]:
        """The references that the judge is shown; empty unless the rubric uses references."""
        return self.request.references if self.rubric.references else ()

    def task(self, path: Path, lane: Lane = "interactive") -> JudgingTask:
        """The judge's task on a path."""
        dialogue = self.dialogues[path]
        return JudgingTask(
            self.rubric, self.language(path), dialogue, self.request.judge, self.references, lane, self.scope
        )

    @property
    def relevance(self) -> RelevanceOptions | None:
        """The options for measuring relevance; None if no aspect is blended, so that no encoder runs in vain."""
        return self.request.relevance if self.blended else None


def blended_aspects(rubric: Rubric, options: RelevanceOptions | None) -> tuple[str, ...]:
    """The aspects to blend: those that the request names, by default those that the rubric blends."""
    if options is None:
        return ()
    if options.aspects is None:
        return rubric.blended_aspects
    # In the rubric's order and once each, so that the same blend has the same signature.
    return tuple(aspect.id for aspect in rubric.aspects if aspect.id in options.aspects)


async def open_subject(
    request: EvaluationRequest,
    rubric: Rubric,
    translator: Translator | None,
    scope: RequestScope,
    *,
    batch: bool = False,
) -> Subject:
    """Checks the request against its rubric and translates the dialogue if its path needs English.

    `batch` states whether the request is part of a batch. With the policy `refuse`, the texts are also inspected for
    attacks on the judge: first the original, before paying for its translation, then the translation.

    Raises LanguageNotSupported, BaselineNotSupported, UnknownAspect, SuspectedInjection and the `Translator…` errors.
    """
    check_support(request, rubric, batch=batch)
    given = Subject(request, rubric, None, scope)
    translator = require_translator(request.path, translator)
    await screen(given)
    if translator is None:
        return given
    subject = Subject(request, rubric, await translator.translate(request.turn, rubric.source_language, scope), scope)
    await screen(subject)
    return subject


def require_translator(path: PathChoice, translator: Translator | None) -> Translator | None:
    """The translator that the path needs; None on the source path. Raises TranslatorNotConfigured."""
    if path == "source":
        return None
    if translator is None:
        detail = Message("path-needs-translator", path=repr(path))
        raise errors.TranslatorNotConfigured(detail)
    return translator


async def screen(subject: Subject) -> None:
    """Raises SuspectedInjection if the policy is `refuse` and a text looks like an attack on the judge. The error names
    places and quotes no text."""
    if subject.request.integrity == "refuse":
        refuse_suspicious(await look_at(subject, partial(find_suspicions, subject)))


def refuse_suspicious(suspicions: tuple[Warned, ...]) -> None:
    """Raises SuspectedInjection if there are any."""
    if not suspicions:
        return
    where = tuple(dict.fromkeys(warned.where for warned in suspicions))
    # The request does not hold the translation, so errors point at the original.
    faults = dict.fromkeys((f"/{one.where.removeprefix('translation/')}", one.sentence) for one in suspicions)
    places = ", ".join(where[:MOST_PLACES]) + (", …" if len(where) > MOST_PLACES else "")
    raise errors.SuspectedInjection(
        Message("attack-suspected", places=places),
        where=where,
        pointer=next(iter(faults))[0],
        faults=tuple(faults),
    )


class Inspected(Protocol):
    """What has texts to inspect."""

    @property
    def characters(self) -> int: ...
    @property
    def looking(self) -> asyncio.Lock: ...


async def look_at(subject: Inspected, look: Callable[[Checkpoint], Seen], at_once: int = INSPECTED_AT_ONCE) -> Seen:
    """Calls `look`, in a thread if the subject has more than `at_once` characters, and returns its result. In a
    thread, the work ends at its next checkpoint once this task is cancelled. A subject is inspected by one thread at a
    time: the next inspection then finds the results of the last one cached, and other subjects find a free thread."""
    if subject.characters <= at_once:
        return look(lambda: None)
    async with subject.looking:
        return await inspection_threads().run(look)


def check_support(request: EvaluationRequest, rubric: Rubric, *, batch: bool = False) -> None:
    """Raises InvalidRequest if this rubric, or an evaluation outside a batch, does not support what is requested."""
    check_unit(rubric, "item")
    check_path(rubric, request.path)
    if request.path != "source" and rubric.references and request.references:
        detail = Message("references-not-translated", rubric=rubric.id)
        raise errors.LanguageNotSupported(detail, pointer="/reference")
    if request.relevance is None:
        return
    if request.relevance.baseline == "batch" and not batch:
        detail = Message("baseline-needs-batch")
        raise errors.BaselineNotSupported(detail, pointer="/relevance/baseline")
    known = [aspect.id for aspect in rubric.aspects]
    for position, name in enumerate(request.relevance.aspects or ()):
        if name not in known:
            detail = Message("rubric-has-aspects", rubric=rubric.id, names=", ".join(known))
            raise errors.UnknownAspect(detail, pointer=f"/relevance/aspects/{position}")


def check_path(rubric: Rubric, path: PathChoice, *, pointer: str = "/path") -> None:
    """Raises LanguageNotSupported if the path needs a rubric in English and this one has no English texts."""
    if path != "source" and ENGLISH_PATH_LANGUAGE not in rubric.languages:
        name = name_version(rubric.id, rubric.version)
        raise errors.LanguageNotSupported(Message("rubric-without-english", rubric=name), pointer=pointer)


def check_unit(rubric: Rubric, unit: Unit, *, pointer: str = "/rubric") -> None:
    """Raises RubricUnitMismatch if the rubric rates the other unit. `pointer` is where the request names it."""
    if rubric.unit == unit:
        return
    if rubric.unit == "conversation":
        detail = Message("rubric-rates-conversations", rubric=rubric.id)
    else:
        detail = Message("rubric-rates-responses", rubric=rubric.id)
    raise errors.RubricUnitMismatch(detail, pointer=pointer)


def find_suspicions(subject: Subject, checkpoint: Checkpoint = lambda: None) -> tuple[Warned, ...]:
    """Warnings for texts shown to the judge that look like an attack on it, in every language in use."""
    names = subject.rubric.aspect_names  # which a forged verdict may use
    english = subject.dialogues.get("english")
    places = list_places(subject.given, english)
    places |= {f"reference/{position}": text for position, text in enumerate(subject.references)}
    found = inspect_texts(places, aspects=names, checkpoint=checkpoint)
    return locate_warnings(found, places, aspects=names, checkpoint=checkpoint)

"""Whole prompts, for tests of what the judge is shown."""

from saiten_server.core.dialogue import Dialogue
from saiten_server.core.rubric import Aspect, Rubric
from saiten_server.judging.prompt import Prompt, build_prefix, enclose


def build_prompt(
    rubric: Rubric,
    language: str,
    dialogue: Dialogue,
    aspects: tuple[Aspect, ...],
    *,
    explain: bool,
    structured: bool,
    references: tuple[str, ...] = (),
    screen: bool = False,
) -> Prompt:
    """The prompt that asks for `aspects` in one reply. Raises LanguageNotSupported."""
    form = {"explain": explain, "structured": structured, "screen": screen}
    prefix = build_prefix(rubric, language, aspects, **form, references=bool(references))
    return prefix.before(enclose(dialogue, references, language))

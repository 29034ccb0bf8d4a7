"""What results are scored with, as far as it is known before the judge is asked, and its digest.

The signature of a result has more: the model as the endpoint names it, and parameters that it refused.
"""

from __future__ import annotations

from typing import Any

from saiten.core.messages import Message
from saiten_server.core.batch import BatchOptions
from saiten_server.core.errors import BaselineNotSupported
from saiten_server.core.model import digest
from saiten_server.core.rubric import Rubric
from saiten_server.judging.conversation_prompt import build_conversation_prefix
from saiten_server.judging.prompt import build_prefix, group_aspects
from saiten_server.platform.settings import Settings
from saiten_server.providers import registry
from saiten_server.scoring.admission import languages_of
from saiten_server.scoring.subject import blended_aspects, check_path

SETTINGS_DIGITS = 12


def describe_settings(options: BatchOptions, rubric: Rubric, settings: Settings) -> dict[str, Any]:
    """Everything that can change a score, as JSON. The address of the judge is not in it: a server that moves gives the
    same scores. Raises BaselineNotSupported and LanguageNotSupported."""
    check_path(rubric, options.path)
    relevance = options.relevance if blended_aspects(rubric, options.relevance) else None
    if relevance is not None and relevance.baseline == "batch":
        raise BaselineNotSupported(Message("offline-baseline"), pointer="/relevance/baseline")
    judge = registry.find_judge(settings)
    encoder = registry.find_encoder(settings) if relevance is not None else None
    return {
        "rubric": rubric.name,
        "digest": rubric.digest,
        "prompts": [] if judge.baseline else list_prompts(options, rubric),
        "judge": judge.name,
        "model": None if judge.baseline else judge.identify(settings) or options.judge.model or settings.judge_model,
        "options": options.judge.model_dump(mode="json", exclude={"model"}),
        "lenient": settings.judge_lenient,
        "extra": settings.judge_extra,
        "path": options.path,
        "integrity": options.integrity,
        "relevance": None if relevance is None else relevance.model_dump(mode="json"),
        "encoder": encoder.describe(settings) if encoder else None,
        "layer": settings.encoder_layer if encoder else None,
        "window": settings.judge_window_tokens if rubric.unit == "conversation" else None,
    }


def list_prompts(options: BatchOptions, rubric: Rubric) -> list[str]:
    """The digests of the prompts' fixed parts: another version of Saiten may word them in another way."""
    screen = options.judge.screens(rubric.version)
    found = []
    for language in languages_of(rubric, options.path):
        for aspects in group_aspects(rubric):
            if rubric.unit == "conversation":
                prefix = build_conversation_prefix(rubric, language, aspects, structured=True, screen=screen)
            else:
                explain = options.judge.explain
                prefix = build_prefix(rubric, language, aspects, explain=explain, structured=True, screen=screen)
            found.append(prefix.digest)
    return found


def digest_settings(described: dict[str, Any]) -> str:
    """The name of what `describe_settings` gives: 12 hexadecimal digits."""
    return digest(described)[:SETTINGS_DIGITS]

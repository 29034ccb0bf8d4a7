"""The same work for everybody: dialogues, and the questions of ja-dialogue as a user of any tool would put them."""

from __future__ import annotations

from typing import Any

from benchmarks.dashboard_results import pose
from saiten_server.core.rubric import Aspect
from saiten_server.scoring.rubrics.files import RubricFiles, default_folder

RUBRIC = "ja-dialogue"
WARM = 10


def write_work(items: int, seed: int, warm: int = WARM) -> dict[str, Any]:
    """`Task` of meter.py as JSON: so many dialogues that no other seed has, and some more to warm up on."""
    rubric = RubricFiles([default_folder()]).get(RUBRIC)
    language = rubric.source_language
    dialogues = [pose_dialogue(number, seed) for number in range(items + warm)]
    return {
        "instructions": rubric.task[language],
        "aspects": [
            {
                "id": aspect.id,
                "name": aspect.name[language],
                "criterion": write_criterion(aspect, language),
                "values": list(aspect.values),
            }
            for aspect in rubric.aspects
        ],
        "items": dialogues[:items],
        "warm": dialogues[items:],
    }


def write_criterion(aspect: Aspect, language: Any) -> str:
    """The question, and what each level means, a line each."""
    levels = (f"{one.value}: {one.label[language]}。{one.description[language]}" for one in aspect.levels)
    return "\n".join([aspect.question[language], *levels])


def pose_dialogue(number: int, seed: int) -> dict[str, str]:
    """Three utterances and a response; the seed stands in the response."""
    posed = pose(number, seed)
    context = "\n".join(f"{one.speaker}: {one.text}" for one in posed.context)
    return {"id": f"dialogue-{number}", "context": context, "response": f"{posed.response}（{seed}-{number}）"}


def write_batch(work: dict[str, Any], part: str) -> list[dict[str, Any]]:
    """The dialogues as items of a batch of ours."""
    return [
        {
            "id": one["id"],
            "context": [
                {"speaker": speaker, "text": text}
                for speaker, text in (line.split(": ", 1) for line in one["context"].splitlines())
            ],
            "response": one["response"],
        }
        for one in work[part]
    ]

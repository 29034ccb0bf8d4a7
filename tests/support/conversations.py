"""Conversations for tests, and a judge that finds the faults that their texts plant."""

import json
import re
from typing import Any

from tests.support.fake_openai import Answer, Request, complete, verdict_of

TURN = re.compile(r"^(\d+) ([US]) (.*)$", re.MULTILINE)
PLANTED = re.compile(r"\[fault:([a-z]+)\]")


def make_turns(*system: str, user: str = "はい、お願いします。") -> list[dict[str, str]]:
    """Turns of a user and of the system, whose texts are given, in alternation."""
    return [
        {"speaker": speaker, "role": role, "text": text}
        for answer in system
        for speaker, role, text in (("客", "user", user), ("受付", "system", answer))
    ]


def find_planted(request: Request) -> Answer:
    """Names, for each aspect, the turns whose text says `[fault:ASPECT]`; such an aspect has its lowest rating. Where
    the reply has a list of faults, their kind is `unclear-intention`."""
    verdict: dict[str, Any] = json.loads(verdict_of(request))
    schema = request["response_format"]["json_schema"]["schema"]["properties"]
    for number, _, text in TURN.findall(request["messages"][1]["content"]):
        found = [aspect for aspect in PLANTED.findall(text) if aspect in verdict]
        if found and "faults" in verdict:
            reason = f"{'、'.join(found)} の評価を下げる。"
            verdict["faults"].append(
                {"turn": int(number), "reason": reason, "kind": "unclear-intention", "aspects": found}
            )
        for aspect in found:
            part = verdict[aspect]
            if "turns" in part:
                part["turns"].append(int(number))
            part["rating"] = min(schema[aspect]["properties"]["rating"]["enum"])
            part["reason"] = f"{aspect} の評価を下げる発話がある。"
    return complete(request, json.dumps(verdict, ensure_ascii=False))

"""Behaviours of a chat server that is asked which of two is better."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.support.fake_openai import Answer, Behaviour, Request, complete, tell_tokens, valid

NAMES = (("R", "K"), ("M", "T"))
TIE = "tie"

Pick = Callable[[Request, tuple[str, str], dict[str, str]], str]
"""Chooses the word of a verdict, given what the two are called and their texts by these names."""


def find_names(request: Request) -> tuple[str, str]:
    """What the two are called in this order."""
    text = request["messages"][-1]["content"]
    last = text.rsplit("\n", 1)[1]
    return next(names for names in NAMES if all(name in last for name in names))


def is_of_pair(request: Request) -> bool:
    """Whether the judge is asked about two, and not for ratings."""
    last = request["messages"][-1]["content"].rsplit("\n", 1)[1]
    return any(all(name in last for name in names) for names in NAMES)


def texts_of(request: Request) -> dict[str, str]:
    """The two by their names: responses, or the turns of each conversation joined."""
    names = find_names(request)
    lines = request["messages"][-1]["content"].split("\n")[1:-2]
    if lines[0] == "{":
        data = json.loads("\n".join(lines))
        return {name: data[name] for name in names}
    return {name: "\n".join(line for line in lines[1:] if line.startswith(f"{name} ")) for name in names}


def answer_with(pick: Pick) -> Behaviour:
    """Answers every aspect of two with the picked word (all else with the highest ratings), and with a token's probabilities where they are asked for."""

    def answer(request: Request) -> Answer:
        if not is_of_pair(request):
            return valid(request)
        word = pick(request, find_names(request), texts_of(request))
        wanted = request.get("response_format")
        if wanted:
            properties = wanted["json_schema"]["schema"]["properties"]
            content = json.dumps(
                {name: False if part["type"] == "boolean" else word for name, part in properties.items()}
            )
        else:
            content = "\n".join(f"{name}: 「{word}」" for name in request_names(request))
        return complete(request, content, logprobs=tell_words(content, word) if request.get("logprobs") else None)

    return answer


def request_names(request: Request) -> list[str]:
    """The names of the aspects in the text format."""
    lines = request["messages"][0]["content"].split("\n")
    return [line.split(": 「")[0] for line in lines if ": 「" in line]


def tell_words(content: str, word: str) -> list[dict[str, Any]]:
    """The tokens of a verdict; the word has three alternatives, itself with probability .75."""
    before, _, after = content.partition(f'"{word}"')
    others = [one for one in (*NAMES[0], TIE) if word in NAMES[0]] or [*NAMES[1], TIE]
    choices = [(word, -0.2877), *((one, -2.0794) for one in others if one != word)]
    told = [{"token": text, "logprob": value, "bytes": list(text.encode())} for text, value in choices]
    return [*tell_tokens(before + '"'), {**told[0], "top_logprobs": told}, *tell_tokens('"' + after)]


def prefer_longer(_: Request, names: tuple[str, str], texts: dict[str, str]) -> str:
    """The longer text, whatever the order."""
    first, second = (len(texts[name]) for name in names)
    return TIE if first == second else names[first < second]


def prefer_shown_first(_: Request, names: tuple[str, str], texts: dict[str, str]) -> str:
    """Whatever is shown first."""
    return names[0]


def always_tie(_: Request, names: tuple[str, str], texts: dict[str, str]) -> str:
    """Neither."""
    return TIE


def use_other_words(_: Request, names: tuple[str, str], texts: dict[str, str]) -> str:
    """The words of the other order."""
    return NAMES[names == NAMES[0]][0]


def fail_one_order(_: Request, names: tuple[str, str], texts: dict[str, str]) -> str:
    """A verdict in one order, and none in the other."""
    return names[0] if names == NAMES[0] else "both are fine"

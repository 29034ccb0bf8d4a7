"""Reads a verdict on two as strictly as `verdict` reads ratings: the whole message is the verdict, or there is none.

A word of the other order, a letter in another case, a number: each is no verdict. Nothing becomes a tie but `tie`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from saiten.core.messages import Message
from saiten_server.core.evaluation import Unrated
from saiten_server.core.rubric import Aspect
from saiten_server.core.sentences import in_english
from saiten_server.judging.prompt import leaks
from saiten_server.judging.verdict import (
    COLON,
    LEAKED,
    SPACE_OR_END,
    TOKEN,
    VERDICT_SPACE,
    Malformed,
    SampleRating,
    VerdictReading,
    fail,
    match_end,
    off_scale,
    rate_nothing,
    read_members,
    uncover,
)

QUOTED_WORD = r"「[ \t\u3000]*+(?P<value>[A-Za-z]{1,8})[ \t\u3000]*+」"
WrittenWords = Mapping[str, tuple[str, tuple[int, int]]]
"""By aspect the word as it is written, and its span in the verdict."""


def read_pair_verdict(
    reply: str | None,
    *,
    aspects: tuple[Aspect, ...],
    values: Mapping[str, int],
    language: str,
    structured: bool,
    finish_reason: str | None = "stop",
    refusal: str | None = None,
    canary: str | None = None,
    screen: bool = False,
    lenient: bool = False,
) -> VerdictReading:
    """The reply's choice in each aspect, as `values` writes it down; every aspect is in the result. The other arguments
    are those of `read_verdict`."""
    if canary is not None and any(leaks(text, canary) for text in (reply, refusal) if text):
        return replace(rate_nothing(aspects, "unparseable", LEAKED), leaked=True)
    failing = fail(reply, finish_reason, refusal)
    if failing is not None:
        return rate_nothing(aspects, *failing)
    start, end = uncover(reply or "") if lenient else (0, None)
    verdict = (reply or "")[start:end]
    try:
        words, addressed = (
            read_json_words(verdict, aspects, screen=screen)
            if structured
            else (read_text_words(verdict, aspects, language), False)
        )
    except Malformed as fault:
        return rate_nothing(aspects, "unparseable", Message("reply-no-verdict", fault=fault.message))
    ratings: dict[str, SampleRating] = {aspect.id: read_choice(aspect, words, values) for aspect in aspects}
    spans = {name: span for name, (_, span) in words.items() if isinstance(ratings[name], int)}
    return VerdictReading(MappingProxyType(ratings), spans=MappingProxyType(spans), addressed=addressed).moved(start)


def read_choice(aspect: Aspect, words: WrittenWords, values: Mapping[str, int]) -> SampleRating:
    """The choice in one aspect, or why there is none."""
    if aspect.id not in words:
        return Unrated(reason="missing", **in_english(Message("verdict-without-value", aspect=aspect.id)))
    found = values.get(words[aspect.id][0])
    return off_scale(Message("pair-verdict-word", words=", ".join(values))) if found is None else found


def read_json_words(verdict: str, aspects: tuple[Aspect, ...], *, screen: bool) -> tuple[WrittenWords, bool]:
    """The words of a JSON object, and whether it says that a text addresses its evaluator. Raises Malformed."""
    members, addressed = read_members(verdict, screen=screen)
    if set(members) - {aspect.id for aspect in aspects}:
        raise Malformed(Message("verdict-member-unknown"))
    if not all(isinstance(word, str) for word in members.values()):
        raise Malformed(Message("pair-verdict-not-word"))
    spans = locate_words(verdict)
    return {name: (word, spans.get(name, (0, 0))) for name, word in members.items()}, addressed


def locate_words(verdict: str) -> Mapping[str, tuple[int, int]]:
    """The span of each string of a valid, flat JSON object, without its quotes, by its member's name."""
    spans: dict[str, tuple[int, int]] = {}
    name: str | None = None
    before = ""
    for token in TOKEN.finditer(verdict):
        if token[0][0] == '"':
            if before == ":" and name is not None:
                spans[name] = (token.start() + 1, token.end() - 1)
            name = token[0][1:-1]
        before = token[0]
    return spans


def read_text_words(verdict: str, aspects: tuple[Aspect, ...], language: str) -> WrittenWords:
    """The words of a reply in the text format, one aspect after the other, each once. Raises Malformed."""
    # Longest first: a name may begin with another.
    names = sorted((re.escape(aspect.name[language]) for aspect in aspects), key=len, reverse=True)
    entry = re.compile(f"(?P<name>{'|'.join(names)}){COLON}{QUOTED_WORD}")
    ids = {aspect.name[language]: aspect.id for aspect in aspects}
    words: dict[str, tuple[str, tuple[int, int]]] = {}
    place = match_end(VERDICT_SPACE, verdict, 0)
    while place < len(verdict):
        found = entry.match(verdict, place)
        if found is None:
            raise Malformed(Message("verdict-lines-unknown"))
        if (aspect := ids[found["name"]]) in words:
            raise Malformed(Message("verdict-aspect-twice"))
        words[aspect] = found["value"], found.span("value")
        place = match_end(SPACE_OR_END, verdict, found.end())
    return words

"""Comparisons of two systems: read from what other tools write, and written as records of a ranking, as preferences,
and as those tools read them.

A comparison is one look: `a` was shown before `b`. A pair that was judged in both orders makes two. What has no verdict
is left out and counted, never a tie.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import IO, Any, Literal

from saiten.core.formats.errors import UnreadableInput
from saiten.core.formats.reading import open_input, read_records
from saiten.core.formats.records import Record, list_objects, parse_cell, write_text
from saiten.core.formats.report import Report
from saiten.core.language import mark, tell

Winner = Literal["a", "b", "tie"]

MOST_RATER = 128
MOST_REASON_CHARACTERS = 2000

NO_VERDICT = mark("the judge gave no verdict that could be read")
NO_NAMES = mark("has no item, or does not name both systems")
SAME_SYSTEM = mark("compares a system with itself")
SAME_TEXT = mark("both have the same text, so that neither can be better")
NO_TEXTS = mark("has no texts of both responses")
STRENGTH = mark("how much better is not kept: a win is a win")
NO_ORDER = mark("the order in which the judge saw them is not known; a is the first in the file")
ONE_VERDICT = mark("one verdict stands for both orders, from two scores; it is taken once")


@dataclass(frozen=True)
class ComparedResponses:
    """One look at two systems' responses to an item. `first` and `second` are their texts, or the turns of two whole
    conversations; None where the file has none. `rater` is who said so, a person where `by_person`."""

    item: str
    a: str
    b: str
    winner: Winner
    dialogue: str | None = None
    context: Sequence[dict[str, str]] = ()
    first: str | Sequence[dict[str, str]] | None = None
    second: str | Sequence[dict[str, str]] | None = None
    rater: str = ""
    by_person: bool = False
    reason: str = ""

    @property
    def turned(self) -> ComparedResponses:
        """The same with the sides exchanged."""
        winner: Mapping[Winner, Winner] = {"a": "b", "b": "a", "tie": "tie"}
        return replace(self, a=self.b, b=self.a, winner=winner[self.winner], first=self.second, second=self.first)


FoundLooks = Iterator[ComparedResponses | str]
"""The looks of a record; a text says why one has none."""


@dataclass(frozen=True)
class PairSource:
    """A tool's file: the keys by which its records are known, and how they are read."""

    keys: frozenset[str]
    read: Callable[[Record], FoundLooks]


def shown_name(value: Any) -> str:
    """A name, without white space around it; empty for what is none."""
    return (write_text(value) or "").strip()


def digest_value(value: Any) -> str:
    """A short name for a prompt that has none."""
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


# arena-hard

ARENA_HARD: Mapping[str, Winner] = {
    **dict.fromkeys(("A>>B", "A>B", "B<<A", "B<A"), "a"),
    **dict.fromkeys(("B>>A", "B>A", "A<<B", "A<B"), "b"),
    **dict.fromkeys(("A=B", "B=A"), "tie"),
}


def read_arena_hard(record: Record) -> FoundLooks:
    """`question_id` or `uid`, `model`, `games`: in the first game the baseline is A, in the second the model is. Older
    files do not name the baseline."""
    item, model = shown_name(record.get("uid") or record.get("question_id")), shown_name(record.get("model"))
    baseline = shown_name(record.get("baseline")) or "baseline"
    move(record, item="uid" if "uid" in record.value else "question_id", a="model", b="baseline", winner="games")
    games = record.parse("games")
    for number, game in enumerate(games if isinstance(games, list) else []):
        label = shown_name(game.get("score")) if isinstance(game, dict) else ""
        winner = ARENA_HARD.get(label.strip("[]"))
        if winner is None:
            yield tell(NO_VERDICT)
            continue
        if ">>" in label or "<<" in label:
            record.leave("games[].score", tell(STRENGTH))
        a, b = (baseline, model) if number % 2 == 0 else (model, baseline)
        yield ComparedResponses(item, a, b, winner, rater=shown_name(record.get("judge")), reason=reason_of(game))


def reason_of(game: Mapping[str, Any]) -> str:
    """What the judge said in a game."""
    said = game.get("judgment")
    return shown_name(said.get("answer") if isinstance(said, dict) else said)


def write_arena_hard(looks: Iterable[ComparedResponses]) -> Iterator[dict[str, Any]]:
    """A line for each item and model, with the game in which the baseline is A before the other. The baseline is what
    the most comparisons have."""
    known = list(looks)
    baseline = most_common(known)
    labels: Mapping[Winner, str] = {"a": "A>B", "b": "B>A", "tie": "A=B"}
    games: dict[tuple[str, str, str], list[Any]] = {}
    for look in known:
        if baseline not in {look.a, look.b}:
            continue
        model = look.b if look.a == baseline else look.a
        both = games.setdefault((look.item, model, look.rater), [None, None])
        both[0 if look.a == baseline else 1] = {"score": labels[look.winner], "judgment": {"answer": look.reason}}
    for (item, model, rater), both in games.items():
        yield {"uid": item, "judge": rater or "judge", "model": model, "baseline": baseline, "games": both}


def most_common(looks: Sequence[ComparedResponses]) -> str:
    """The system that most of the looks have."""
    counts: dict[str, int] = {}
    for look in looks:
        for name in (look.a, look.b):
            counts[name] = counts.get(name, 0) + 1
    return max(counts, key=lambda name: counts[name], default="")


# AlpacaEval


def read_alpaca_eval(record: Record) -> FoundLooks:
    """`instruction`, `output_1`, `output_2`, `generator_1`, `generator_2` and `preference` from 1.0 (the first) to 2.0;
    1.5, and 0 in older files, is a tie."""
    move(record, item="instruction", a="generator_1", b="generator_2", winner="preference")
    move(record, first="output_1", second="output_2", rater="annotator")
    value = record.get("preference")
    if isinstance(value, bool) or not isinstance(value, int | float) or not (value == 0 or 1 <= value <= 2):
        yield tell(NO_VERDICT)
        return
    if value not in {0, 1, 1.5, 2}:
        record.leave("preference", tell(STRENGTH))
    prompt = shown_name(record.get("instruction"))
    record.leave("output_1", tell(NO_ORDER))
    yield ComparedResponses(
        digest_value(prompt),
        shown_name(record.get("generator_1")),
        shown_name(record.get("generator_2")),
        "tie" if value in {0, 1.5} else "a" if value < 1.5 else "b",
        context=[{"speaker": "user", "text": prompt}],
        first=write_text(record.get("output_1")),
        second=write_text(record.get("output_2")),
        rater=shown_name(record.get("annotator")),
    )


def write_alpaca_eval(looks: Iterable[ComparedResponses]) -> Iterator[dict[str, Any]]:
    """An annotation for each look."""
    values: Mapping[Winner, float] = {"a": 1.0, "tie": 1.5, "b": 2.0}
    for look in looks:
        yield {
            "instruction": look.context[-1]["text"] if look.context else look.item,
            "output_1": look.first or "",
            "generator_1": look.a,
            "output_2": look.second or "",
            "generator_2": look.b,
            "annotator": look.rater or "judge",
            "preference": values[look.winner],
        }


# LMArena, and the human judgments of MT-Bench

LMARENA: Mapping[str, Winner] = {
    "model_a": "a",
    "model_b": "b",
    **dict.fromkeys(("tie", "tie (bothbad)", "both_bad", "bothbad"), "tie"),
}


def read_lmarena(record: Record) -> FoundLooks:
    """`model_a`, `model_b`, `winner` and, in most files, `conversation_a` and `conversation_b`. `judge` and the like is
    who voted."""
    identity = next((name for name in ("question_id", "id", "conversation_id") if record.get(name)), "")
    move(record, item=identity or "conversation_a", a="model_a", b="model_b", winner="winner")
    winner = LMARENA.get(shown_name(record.get("winner")))
    if winner is None:
        yield tell(NO_VERDICT)
        return
    texts = [read_talk(record.parse(name)) for name in ("conversation_a", "conversation_b")]
    move(record, first="conversation_a", second="conversation_b")
    voter = next((name for name in ("judge", "judge_hash", "evaluation_session_id") if record.get(name)), "")
    if voter:
        move(record, rater=voter)
    item, turn = shown_name(record.get(identity)) if identity else digest_value(texts), shown_name(record.get("turn"))
    said = record.parse(voter) if voter else ""
    rater = shown_name(said[-1] if isinstance(said, list) and said else said)
    yield take_talks(
        ComparedResponses(
            f"{item}-{turn}" if turn and voter == "judge" else item,
            shown_name(record.get("model_a")),
            shown_name(record.get("model_b")),
            winner,
            dialogue=item if turn and voter == "judge" else None,
            rater=rater,
            by_person=not rater.startswith("gpt"),
        ),
        *texts,
    )


def read_talk(value: Any) -> list[dict[str, str]]:
    """The turns of a list of chat messages, with their roles; what is no text is passed over."""
    turns = []
    for message in list_objects(value):
        content = message.get("content")
        if isinstance(content, list):
            parts = [part.get("text") for part in list_objects(content) if part.get("type", "text") == "text"]
            content = "\n".join(part for part in parts if isinstance(part, str))
        role = "system" if message.get("role") == "assistant" else "user"
        if isinstance(content, str) and message.get("role") in {"user", "assistant"}:
            turns.append({"speaker": message["role"], "role": role, "text": content})
    return turns


def take_talks(look: ComparedResponses, first: list[dict[str, str]], second: list[dict[str, str]]) -> ComparedResponses:
    """The look with its texts: two responses where all before them is equal, else two conversations."""
    if not first or not second:
        return look
    if first[:-1] == second[:-1] and first[-1]["role"] == second[-1]["role"] == "system":
        context = [{"speaker": said["speaker"], "text": said["text"]} for said in first[:-1]]
        return replace(look, context=context, first=first[-1]["text"], second=second[-1]["text"])
    return replace(look, first=first, second=second)


def write_lmarena(looks: Iterable[ComparedResponses]) -> Iterator[dict[str, Any]]:
    """A battle for each look, with its conversations where there are texts."""
    winners: Mapping[Winner, str] = {"a": "model_a", "b": "model_b", "tie": "tie"}
    for look in looks:
        told = {"question_id": look.item, "model_a": look.a, "model_b": look.b, "winner": winners[look.winner]}
        if look.rater:
            told["judge_hash"] = look.rater
        yield told | {
            name: write_talk(look.context, text)
            for name, text in (("conversation_a", look.first), ("conversation_b", look.second))
            if text is not None
        }


def write_talk(context: Sequence[dict[str, str]], text: str | Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """The chat messages of a response after its context, or of a conversation."""
    if not isinstance(text, str):
        roles = {"system": "assistant", "user": "user"}
        return [{"role": roles[turn["role"]], "content": turn["text"]} for turn in text]
    user = context[-1]["speaker"] if context else ""
    before = [{"role": "user" if one["speaker"] == user else "assistant", "content": one["text"]} for one in context]
    return [*before, {"role": "assistant", "content": text}]


# flexeval

FLEXEVAL: Mapping[str, Winner] = {"model1": "a", "model2": "b", "draw": "tie"}
UNREAD = ("Parsing failure:", "Invalid judge '")
"""How the rationale of a draw begins that flexeval wrote because it could not read the judge's reply."""


def read_flexeval_pairs(record: Record) -> FoundLooks:
    """`model1`, `model1_item`, `model2`, `model2_item`, `winner` and `rationale`. A draw by a reply that could not be
    read is none."""
    move(record, a="model1", b="model2", winner="winner", reason="rationale", first="model1_item", second="model2_item")
    rationale = write_text(record.get("rationale")) or ""
    winner = FLEXEVAL.get(shown_name(record.get("winner")))
    if winner is None or rationale.startswith(UNREAD):
        yield tell(NO_VERDICT)
        return
    sides = [one if isinstance(one := record.parse(f"model{number}_item"), dict) else {} for number in (1, 2)]
    inputs = [side.get("extra_info") or side.get("task_inputs") or {} for side in sides]
    context = read_prompt(inputs[0])
    texts = [read_output(side) for side in sides]
    known = inputs[0].get("id") or inputs[0].get("question_id") if isinstance(inputs[0], dict) else None
    yield ComparedResponses(
        shown_name(known) or digest_value(context or inputs[0]),
        shown_name(record.get("model1")),
        shown_name(record.get("model2")),
        winner,
        context=context,
        first=texts[0],
        second=texts[1],
        reason=rationale,
    )


def read_prompt(given: Any) -> list[dict[str, str]]:
    """The chat messages, or the question, of what a task was given."""
    if not isinstance(given, dict):
        return []
    if messages := read_talk(given.get("messages")):
        return [{"speaker": said["speaker"], "text": said["text"]} for said in messages if said["text"]]
    text = next((given[name] for name in ("question", "input", "instruction", "text") if given.get(name)), None)
    return [{"speaker": "user", "text": text}] if isinstance(text, str) else []


def read_output(side: Mapping[str, Any]) -> str | None:
    """What the model wrote."""
    output = side.get("lm_output") or side.get("output")
    output = output.get("text") if isinstance(output, dict) else output
    return output if isinstance(output, str) else None


def write_flexeval_pairs(looks: Iterable[ComparedResponses]) -> Iterator[dict[str, Any]]:
    """A match for each look."""
    winners: Mapping[Winner, str] = {"a": "model1", "b": "model2", "tie": "draw"}
    for look in looks:
        messages = [] if not look.context else write_talk(look.context, "")[:-1]
        given = {"id": look.item, **({"messages": messages} if messages else {})}
        sides = [{"extra_info": given, "lm_output": text, "references": []} for text in (look.first, look.second)]
        yield {
            "model1": look.a,
            "model1_item": sides[0],
            "model2": look.b,
            "model2_item": sides[1],
            "winner": winners[look.winner],
            "rationale": look.reason,
        }


# MT-Bench


def read_mt_bench_pairs(record: Record) -> FoundLooks:
    """`question_id`, `model_1`, `model_2`, `g1_winner` (the first is A), `g2_winner` (the second is A), `turn`."""
    move(record, item="question_id", a="model_1", b="model_2", winner="g1_winner", dialogue="turn", rater="judge")
    question, turn = shown_name(record.get("question_id")), shown_name(record.get("turn"))
    said = record.parse("judge")
    rater = shown_name(said[0] if isinstance(said, list) and said else said)
    look = ComparedResponses(
        f"{question}-{turn}" if question and turn else question,
        shown_name(record.get("model_1")),
        shown_name(record.get("model_2")),
        "tie",
        dialogue=question if turn else None,
        rater=rater,
    )
    games = [("g1_winner", "g1_judgment"), ("g2_winner", "g2_judgment")]
    if "m1_score" in record.value:
        record.leave("g2_winner", tell(ONE_VERDICT))
        games = games[:1]
    for number, (name, judgment) in enumerate(games):
        winners: Mapping[str, Winner] = {"model_1": "a", "model_2": "b", "tie": "tie"}
        winner = winners.get(shown_name(record.get(name)))
        move(record, winner=name, reason=judgment)
        if winner is None:
            yield tell(NO_VERDICT)
            continue
        shown = replace(look, winner=winner, reason=shown_name(record.get(judgment)))
        yield shown.turned if number else shown


def write_mt_bench_pairs(looks: Iterable[ComparedResponses]) -> Iterator[dict[str, Any]]:
    """A line for each item and two systems; an order without a look is an error there, as MT-Bench has it."""
    games: dict[tuple[str, str, str, str], dict[str, Any]] = {}
    for look in looks:
        first, second = sorted((look.a, look.b))
        question, _, turn = look.item.rpartition("-") if look.dialogue else (look.item, "", "")
        line = games.setdefault(
            (look.item, first, second, look.rater),
            {
                "question_id": int(question) if question.isdecimal() and len(question) < 16 else question,
                "model_1": first,
                "model_2": second,
                **dict.fromkeys(("g1_winner", "g2_winner"), "error"),
                "judge": [look.rater or "judge", "saiten"],
                **({"turn": int(turn)} if turn.isdecimal() and len(turn) < 16 else {}),
            },
        )
        winners = {"a": look.a, "b": look.b}
        named = {first: "model_1", second: "model_2"}
        game = "g1" if look.a == first else "g2"
        line[f"{game}_winner"] = "tie" if look.winner == "tie" else named[winners[look.winner]]
        line[f"{game}_judgment"] = look.reason
    yield from games.values()


# Saiten's own


def read_ranking(record: Record) -> FoundLooks:
    """Records of `POST /v1/analyses/ranking`."""
    move(record, item="item", dialogue="dialogue", a="a", b="b", winner="winner", rater="rater")
    winner = shown_name(record.get("winner"))
    if winner not in {"a", "b", "tie"}:
        yield tell(NO_VERDICT)
        return
    yield ComparedResponses(
        shown_name(record.get("item")),
        shown_name(record.get("a")),
        shown_name(record.get("b")),
        "a" if winner == "a" else "b" if winner == "b" else "tie",
        dialogue=shown_name(record.get("dialogue")) or None,
        rater=shown_name(record.get("rater")),
        by_person=bool(record.get("rater")),
    )


def write_ranking(looks: Iterable[ComparedResponses]) -> Iterator[dict[str, Any]]:
    """Records of `POST /v1/analyses/ranking`."""
    for look in looks:
        told: dict[str, Any] = {"item": look.item}
        if look.dialogue is not None:
            told["dialogue"] = look.dialogue
        told |= {"a": look.a, "b": look.b, "winner": look.winner}
        if look.by_person and look.rater:
            told["rater"] = look.rater
        if look.first is not None and look.second is not None:
            told |= {"length_a": count_said(look.first), "length_b": count_said(look.second)}
        yield told


def count_said(text: str | Sequence[dict[str, str]]) -> int:
    """Characters that the system said."""
    return len(text) if isinstance(text, str) else sum(len(one["text"]) for one in text if one["role"] == "system")


def read_preferences(record: Record) -> FoundLooks:
    """Records of `POST /v1/preferences/human` with texts and the names of both systems."""
    move(record, first="first", second="second", context="context", dialogue="dialogue", rater="rater")
    move(record, winner="preference", reason="reason", shown="shown", simulated="simulated")
    winners: Mapping[str, Winner] = {"first": "a", "second": "b", "tie": "tie"}
    winner = winners.get(shown_name(record.get("preference")))
    if winner is None:
        yield tell(NO_VERDICT)
        return
    context = [
        {"speaker": one["speaker"], "text": one["text"]} if isinstance(one, dict) else {"speaker": "", "text": str(one)}
        for one in (parse_cell(record.get("context")) or [])
    ]
    sides = [one if isinstance(one := record.parse(name), dict) else {} for name in ("first", "second")]
    texts = [side.get("turns") or side.get("response") for side in sides]
    look = ComparedResponses(
        digest_value(context or (texts[0][:1] if isinstance(texts[0], list) else texts)),
        shown_name(sides[0].get("id")),
        shown_name(sides[1].get("id")),
        winner,
        dialogue=shown_name(record.get("dialogue")) or None,
        context=context,
        first=texts[0],
        second=texts[1],
        rater=shown_name(record.get("rater")),
        by_person=record.get("simulated") is not True,
        reason=shown_name(record.get("reason")),
    )
    yield look.turned if record.get("shown") == ["second", "first"] else look


def write_preferences(looks: Iterable[ComparedResponses]) -> Iterator[dict[str, Any] | str]:
    """Records of `POST /v1/preferences/human`; those of a judge are marked as simulated."""
    for look in looks:
        if look.first is None or look.second is None or (isinstance(look.first, str) and not look.context):
            yield tell(NO_TEXTS)
            continue
        if look.first == look.second:
            yield tell(SAME_TEXT)
            continue
        told: dict[str, Any] = {} if not look.context else {"context": list(look.context)}
        for name, text, system in (("first", look.first, look.a), ("second", look.second, look.b)):
            told[name] = {"response" if isinstance(text, str) else "turns": text, "id": system}
        preferences: Mapping[Winner, str] = {"a": "first", "b": "second", "tie": "tie"}
        told |= {"rater": look.rater[:MOST_RATER] or "unnamed", "preference": preferences[look.winner]}
        if look.dialogue is not None:
            told["dialogue"] = look.dialogue
        if look.reason:
            told["reason"] = look.reason[:MOST_REASON_CHARACTERS]
        yield told if look.by_person else {**told, "simulated": True}


def move(record: Record, **targets: str) -> None:
    """Notes which field of the record becomes what."""
    for target, path in targets.items():
        if path in record.value:
            record.move(path, target)


PAIR_SOURCES: Mapping[str, PairSource] = {
    "ranking": PairSource(frozenset({"item", "a", "b", "winner"}), read_ranking),
    "preferences": PairSource(frozenset({"first", "second", "rater", "preference"}), read_preferences),
    "arena-hard": PairSource(frozenset({"model", "games"}), read_arena_hard),
    "alpaca-eval": PairSource(frozenset({"instruction", "generator_1", "generator_2", "preference"}), read_alpaca_eval),
    "lmarena": PairSource(frozenset({"model_a", "model_b", "winner"}), read_lmarena),
    "flexeval-pairs": PairSource(frozenset({"model1", "model2", "winner"}), read_flexeval_pairs),
    "mt-bench-pairs": PairSource(frozenset({"question_id", "model_1", "model_2", "g1_winner"}), read_mt_bench_pairs),
}
"""What `--from` may name for comparisons, with the keys by which each is detected."""

PAIR_TARGETS: Mapping[str, Callable[[Iterable[ComparedResponses]], Iterator[dict[str, Any] | str]]] = {
    "ranking": write_ranking,
    "preferences": write_preferences,
    "arena-hard": write_arena_hard,
    "alpaca-eval": write_alpaca_eval,
    "lmarena": write_lmarena,
    "flexeval-pairs": write_flexeval_pairs,
    "mt-bench-pairs": write_mt_bench_pairs,
}
"""What `--to` may name for comparisons."""


def detect_pairs(record: Record) -> str | None:
    """The source whose keys the record has."""
    return next((name for name, source in PAIR_SOURCES.items() if source.keys <= record.value.keys()), None)


def read_pairs(
    source_file: str | Path | IO[bytes], report: Report, source: str | None = None, *, input_encoding: str | None = None
) -> Iterator[ComparedResponses]:
    """The comparisons of a file; `source` is one of `PAIR_SOURCES`, detected where it is None. What has no verdict or
    no names is named in the report. Raises UnreadableInput, while iterating."""
    with open_input(source_file) as (file, name):
        report.name = name
        records = read_records(file, name, input_encoding=input_encoding, mapping={}, report=report)
        first = next(records, None)
        found = source or (None if first is None else detect_pairs(first))
        if first is None or found is None:
            names = ", ".join(PAIR_SOURCES)
            raise UnreadableInput(
                tell("{name}: holds no comparisons of two systems; there are {names}", name=name, names=names)
            )
        report.source = found
        for record in chain([first], records):
            report.rows += 1
            for look in PAIR_SOURCES[found].read(record):
                why = look if isinstance(look, str) else find_fault(look)
                if why is not None:
                    report.skip(record.where, why)
                elif not isinstance(look, str):
                    report.comparisons += 1
                    yield look
            record.close(report)


def find_fault(look: ComparedResponses) -> str | None:
    """Why a look compares nothing; None where it does."""
    if not (look.item and look.a and look.b):
        return tell(NO_NAMES)
    return tell(SAME_SYSTEM) if look.a == look.b else None


def write_pairs(looks: Iterable[ComparedResponses], target: str, report: Report) -> Iterator[dict[str, Any]]:
    """The looks as the target takes them; what it cannot take is counted in the report."""
    for written in PAIR_TARGETS[target](looks):
        if isinstance(written, str):
            report.leave(target, written)
        else:
            yield written

"""How many tokens the prompts of the shipped rubrics take, counted with a real tokenizer and kept in a file.

The counts are by `o200k_base`, the vocabulary of OpenAI's models since GPT-4o; that a later family cuts texts likewise
is taken for granted. They lie in `token_counts.json` with digests of what was counted, so that the cost table can be
written, and seen to be stale, where no tokenizer is installed.
"""

from __future__ import annotations

import json
import statistics
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from itertools import cycle, islice, product
from pathlib import Path
from typing import Any

from saiten_server.cli.demo import load_conversations, load_demo, load_runs
from saiten_server.core.conversation import Conversation, TurnWindow
from saiten_server.core.dialogue import Context, Dialogue
from saiten_server.core.evaluation import JudgeOptions
from saiten_server.core.model import Value, digest
from saiten_server.core.rubric import FAULTS_MEMBER, Aspect, Rubric
from saiten_server.judging.conversation_prompt import build_conversation_prefix, enclose_conversation
from saiten_server.judging.prompt import SCREEN, Prefix, build_prefix, enclose, group_aspects
from saiten_server.platform.bundled import bundled_folder, read_objects
from saiten_server.providers.openai.prices import CHAT_TOKENS, REASON_TOKENS, TURNS_TOKENS
from saiten_server.scoring.rubrics.files import RubricFiles, default_folder

FILE = Path(__file__).parent / "token_counts.json"
PACKAGE = "bpe-openai"
"""Ships the vocabulary in its wheel: nothing is downloaded when it is used."""
VOCABULARY = "o200k_base"
TURNS = 20
"""Of a conversation that is counted: those that ship are shorter, and go on from their beginning."""

Count = Callable[[str], int]


class NoTokenizer(Exception):
    """The tokenizer is not installed: it comes with `pip install -e '.[bench]'`."""


@dataclass(frozen=True)
class Way:
    """One way to ask: a rubric in a language, in one call or in one an aspect, with and without each part."""

    rubric: str
    language: str
    calls: str
    examples: bool
    explain: bool
    structured: bool


@dataclass(frozen=True)
class Asked:
    """What a way takes for one dialogue, a value a call, in order: `prefixes` are the tokens of schema, system message
    and chat format, `replies` those of the verdict. `digest` is of all that was counted."""

    prefixes: tuple[int, ...]
    replies: tuple[int, ...]
    digest: str


@dataclass(frozen=True)
class Spread:
    """Tokens over some texts."""

    median: int
    p95: int


@dataclass(frozen=True)
class Texts:
    """The dialogues that ship for a rubric, as its user messages enclose them: `context` and `response` are of the bare
    texts, `message` of the whole user message, `characters` the bare texts' mean. `digest` is of all of them."""

    dialogues: int
    context: Spread
    response: Spread
    message: Spread
    characters: int
    digest: str


@dataclass(frozen=True)
class Counts:
    """All counts, with the tokenizer that made them."""

    tokenizer: str
    ways: dict[Way, Asked]
    texts: dict[str, Texts]

    def find(self, rubric: str, language: str, calls: str = "joint", **parts: bool) -> Asked:
        """One way's; with examples, without reasons, structured, unless `parts` says otherwise."""
        return self.ways[
            Way(rubric, language, calls, **{"examples": True, "explain": False, "structured": True, **parts})
        ]


class Shown(Value):
    """A dialogue as the files that ship have it; what else stands on the line is left out before."""

    context: Context
    response: str


def find_rubrics() -> list[Rubric]:
    """The shipped rubrics for single responses, by id."""
    return [rubric for rubric in RubricFiles([default_folder()]).list() if rubric.unit == "item"]


def find_conversation_rubrics() -> list[Rubric]:
    """The shipped rubrics for whole conversations, by id."""
    return [rubric for rubric in RubricFiles([default_folder()]).list() if rubric.unit == "conversation"]


def list_ways(rubrics: Sequence[Rubric]) -> Iterator[tuple[Way, Rubric]]:
    """Every way to ask, with the rubric as it is then. About a conversation there is one, with or without examples."""
    for rubric in rubrics:
        if rubric.unit == "conversation":
            for language, examples in product(rubric.languages, (True, False)):
                asked = rubric if examples else without_examples(rubric)
                yield Way(rubric.id, language, "joint", examples, explain=True, structured=True), asked
            continue
        for language, calls, examples in product(rubric.languages, ("joint", "independent"), (True, False)):
            changed = change(rubric, calls=calls)
            asked = changed if examples else without_examples(changed)
            for explain, structured in product((False, True), (True, False)):
                yield Way(rubric.id, language, calls, examples, explain, structured), asked


def change(rubric: Rubric, **update: Any) -> Rubric:
    """The rubric with other fields. Not by `model_copy`, which would keep the digest that the rubric had."""
    return Rubric.model_validate({**rubric.model_dump(), **update})


def without_examples(rubric: Rubric) -> Rubric:
    """The rubric with neither the levels' examples nor the worked ones."""

    def strip(aspect: Aspect) -> Aspect:
        levels = tuple(level.model_copy(update={"example": None}) for level in aspect.levels)
        return aspect.model_copy(update={"levels": levels, "one_shot": None})

    return change(rubric, aspects=tuple(strip(aspect).model_dump() for aspect in rubric.aspects), worked=None)


def list_questions(way: Way, rubric: Rubric) -> list[tuple[Prefix, str]]:
    """Fixed part and a reply of each call. In the reply a reason is left blank, and no turn is faulty."""
    screen = JudgeOptions().screens(rubric.version)
    if rubric.unit == "conversation":
        asked = rubric.aspects
        prefix = build_conversation_prefix(rubric, way.language, asked, structured=way.structured, screen=screen)
        return [(prefix, write_reply(way, asked, screen=screen, faults=True))]
    found = []
    for aspects in group_aspects(rubric):
        prefix = build_prefix(
            rubric,
            way.language,
            aspects,
            explain=way.explain,
            structured=way.structured,
            screen=screen,
        )
        found.append((prefix, write_reply(way, aspects, screen=prefix.screen)))
    return found


def write_reply(way: Way, aspects: tuple[Aspect, ...], *, screen: bool = False, faults: bool = False) -> str:
    """A verdict on the aspects in the way's format, each with its highest value."""
    if way.structured:
        screened: dict[str, Any] = ({SCREEN: False} if screen else {}) | ({FAULTS_MEMBER: []} if faults else {})
        values = {aspect.id: aspect.values[-1] for aspect in aspects}
        reasoned = {name: {"reason": "", "rating": value} for name, value in values.items()}
        return json.dumps(screened | (reasoned if way.explain else values), separators=(",", ":"))
    return "\n".join(f"{aspect.name[way.language]}: 「{aspect.values[-1]}」" for aspect in aspects)


def digest_questions(questions: Sequence[tuple[Prefix, str]]) -> str:
    """Of everything that a way's count rests on."""
    return digest([[prefix.system, prefix.schema, reply] for prefix, reply in questions])[:16]


def find_dialogues(rubric_id: str) -> list[Dialogue]:
    """The dialogues that the package ships for a rubric: those of the demo, else its anchors."""
    shown = [body for body in load_demo() if body["rubric"] == rubric_id]
    for run in load_runs(rated=False):
        if run.options.rubric == rubric_id:
            shown += [item.model_dump(mode="json", include={"context", "response"}) for item in run.items]
    shown = shown or read_objects(bundled_folder("comparison/judge_checks/anchors").joinpath(f"{rubric_id}.jsonl"))
    parsed = (Shown.model_validate_json(json.dumps({k: one[k] for k in ("context", "response")})) for one in shown)
    return list(dict.fromkeys(Dialogue(context=one.context, response=one.response) for one in parsed))


def find_conversations(rubric_id: str) -> list[TurnWindow]:
    """The conversations that the package ships for a rubric, of TURNS turns each."""
    talks = [talk for run in load_conversations() if run.options.rubric == rubric_id for talk in run.items]
    return [
        TurnWindow(
            Conversation(turns=tuple(islice(cycle(one.turns), TURNS)), persona=one.persona, goal=one.goal), 0, TURNS
        )
        for one in talks
    ]


def digest_texts(rubric: Rubric) -> str:
    """Of the dialogues or conversations that ship for a rubric."""
    if rubric.unit == "item":
        return digest_dialogues(find_dialogues(rubric.id))
    return digest([one.conversation.model_dump(mode="json") for one in find_conversations(rubric.id)])[:16]


def digest_dialogues(dialogues: Sequence[Dialogue]) -> str:
    return digest([one.model_dump(mode="json") for one in dialogues])[:16]


def open_tokenizer() -> tuple[str, Count]:
    """The tokenizer's name, and how it counts. Raises NoTokenizer."""
    with warnings.catch_warnings():
        # It opens its vocabularies by a function that Python deprecated in 3.11, and brought back in 3.13.
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            import bpe_openai
        except ImportError as error:
            raise NoTokenizer(f"{PACKAGE} is not installed: pip install -e '.[bench]'") from error
        encoding = bpe_openai.get_encoding(VOCABULARY)
    return f"{VOCABULARY} ({PACKAGE} {metadata.version(PACKAGE)})", lambda text: len(encoding.encode_ordinary(text))


def count_all() -> Counts:
    """Counts everything anew. Raises NoTokenizer."""
    name, count = open_tokenizer()
    rubrics = [*find_rubrics(), *find_conversation_rubrics()]
    ways = {way: count_way(way, rubric, count) for way, rubric in list_ways(rubrics)}
    return Counts(name, ways, {rubric.id: count_texts(rubric, count) for rubric in rubrics})


def count_way(way: Way, rubric: Rubric, count: Count) -> Asked:
    questions = list_questions(way, rubric)
    # As an estimate has it: a sentence an aspect, and some tokens for faulty turns.
    more = (REASON_TOKENS if way.explain else 0) + (TURNS_TOKENS if rubric.unit == "conversation" else 0)
    reasons = [more * len(aspects) for aspects in group_aspects(rubric)]
    return Asked(
        prefixes=tuple(count_prefix(prefix, count) for prefix, _ in questions),
        replies=tuple(count(reply) + reason for (_, reply), reason in zip(questions, reasons, strict=True)),
        digest=digest_questions(questions),
    )


def count_prefix(prefix: Prefix, count: Count) -> int:
    """Tokens of the schema as it is sent, of the system message and of the chat format."""
    schema = json.dumps(prefix.schema, ensure_ascii=False, separators=(",", ":")) if prefix.schema else ""
    return CHAT_TOKENS + count(prefix.system) + count(schema)


def count_texts(rubric: Rubric, count: Count) -> Texts:
    language = rubric.source_language
    if rubric.unit == "conversation":
        windows = find_conversations(rubric.id)
        dialogues = [window.dialogue for window in windows]
        messages = [count(enclose_conversation(window, language)) for window in windows]
    else:
        dialogues = find_dialogues(rubric.id)
        messages = [count(enclose(one, (), language)) for one in dialogues]
    contexts = [sum(count(said.speaker) + count(said.text) for said in one.context) for one in dialogues]
    return Texts(
        dialogues=len(dialogues),
        context=spread(contexts),
        response=spread([count(one.response) for one in dialogues]),
        message=spread(messages),
        characters=round(statistics.mean(map(count_characters, dialogues))),
        digest=digest_texts(rubric),
    )


def count_characters(dialogue: Dialogue) -> int:
    """What a translator would bill for it."""
    return len(dialogue.response) + sum(len(said.text) for said in dialogue.context)


def spread(values: Sequence[int]) -> Spread:
    """Median and 95th percentile, the latter the smallest value that so many do not pass."""
    ordered = sorted(values)
    return Spread(median=round(statistics.median(ordered)), p95=ordered[-(-95 * len(ordered) // 100) - 1])


def list_stale(counts: Counts) -> list[str]:
    """What is counted no longer as it is now, or not at all. Needs no tokenizer."""
    rubrics = [*find_rubrics(), *find_conversation_rubrics()]
    found: dict[Any, str] = {way: digest_questions(list_questions(way, one)) for way, one in list_ways(rubrics)}
    found |= {rubric.id: digest_texts(rubric) for rubric in rubrics}
    kept: dict[Any, str] = {way: one.digest for way, one in counts.ways.items()}
    kept |= {rubric: one.digest for rubric, one in counts.texts.items()}
    return sorted(str(key) for key in found.keys() | kept.keys() if found.get(key) != kept.get(key))


def dump_counts(counts: Counts) -> str:
    """The file's text: one way a line."""
    ways = [json.dumps({**asdict(way), **asdict(asked)}) for way, asked in counts.ways.items()]
    texts = [json.dumps({"rubric": rubric, **asdict(one)}) for rubric, one in counts.texts.items()]
    lists = [f'"{name}": [\n  ' + ",\n  ".join(rows) + "\n ]" for name, rows in (("ways", ways), ("texts", texts))]
    return "{\n " + ",\n ".join([f'"tokenizer": {json.dumps(counts.tokenizer)}', *lists]) + "\n}\n"


def load_counts(text: str | None = None) -> Counts:
    """The counts of such a text, by default of the file."""
    found = json.loads(FILE.read_text(encoding="utf-8") if text is None else text)
    ways = {}
    for row in found["ways"]:
        asked = Asked(tuple(row.pop("prefixes")), tuple(row.pop("replies")), row.pop("digest"))
        ways[Way(**row)] = asked
    texts = {row.pop("rubric"): load_texts(row) for row in found["texts"]}
    return Counts(found["tokenizer"], ways, texts)


def load_texts(row: dict[str, Any]) -> Texts:
    spreads = {name: Spread(**row[name]) for name in ("context", "response", "message")}
    return Texts(**{**row, **spreads})

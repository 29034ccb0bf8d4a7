"""The texts of adopted runs, which the service does not keep: read from their files where someone opens a case."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from cachetools import LRUCache
from pydantic import TypeAdapter, ValidationError

from saiten.core.messages import Message
from saiten_server.core.batch import AnyRequest, Batch, Candidate, candidate_of, parts_of
from saiten_server.core.conversation import FAULT_KINDS, RULE_CODES, Conversation, Finding, Persona, Turn
from saiten_server.core.dialogue import Utterance
from saiten_server.core.errors import InvalidRequest
from saiten_server.core.evaluation import ConversationRequest, Evaluation, EvaluationRequest, PreferenceRequest, Record
from saiten_server.core.redaction import DROPPED
from saiten_server.offline.columns import REASON
from saiten_server.offline.places import find_place
from saiten_server.offline.store import AdoptionStore
from saiten_server.runs.result import Result
from saiten_server.scoring.store import STORED

Texts = Mapping[str, str]

MOST_SECONDS = 10.0
READERS_AT_ONCE = 2
"""Processes that read for visitors side by side."""

MOST_LINE_BYTES = 64 << 20
"""Of a line of such a process: its texts as JSON, in which a byte may take four."""

KEPT_CHARACTERS = 16_000_000
"""Of texts that were read a moment ago, for the next page of the same visitor."""

UPLOADED = Message("adopted-texts-uploaded")
TEXTS_REFUSED = Message("adopted-texts-refused")
TEXTS_GONE = Message("adopted-texts-gone")
CHANGED = Message("adopted-texts-changed")
WITHOUT = Message("adopted-texts-without")
TEXTS_LARGE = Message("adopted-texts-large")
SLOW = Message("adopted-texts-slow")
UNREADABLE = Message("adopted-texts-unreadable")
TOLD: Mapping[str, Message] = {"gone": TEXTS_GONE, "large": TEXTS_LARGE, "unreadable": UNREADABLE}
"""What becomes of a look, by `PROBLEMS` of `opening`: which is not imported, since it loads numpy."""


def count_characters(texts: Texts) -> int:
    """What texts take in the memory of the service, about."""
    return 100 + sum(map(len, texts.values()))


@dataclass(kw_only=True, eq=False)
class AdoptedTexts:
    """Puts the texts of adopted results back where they are shown. `allowed` are the addresses below which files may be
    read. Nothing that is told names a file: callers of a project need not know where its files stand."""

    store: AdoptionStore
    allowed: Sequence[str]
    seconds: float = MOST_SECONDS
    _kept: LRUCache[tuple[str, str], Texts] = field(
        default_factory=lambda: LRUCache(KEPT_CHARACTERS, getsizeof=count_characters)
    )
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(READERS_AT_ONCE))

    async def fill(self, project: str, batch: Batch, results: Mapping[int, Result]) -> Mapping[int, Result]:
        """The results by position with their texts, or with why these are not there. Those that were erased, and those
        of other runs, stay as they are. The caller has made sure that the batch is the project's."""
        dropped = [at for at, one in results.items() if one.asked is not None and one.asked.response == DROPPED]
        wanted = dropped if batch.texts == "drop" else []
        place = await self.store.find_place(project, batch.id) if wanted else None
        if place is None:
            return results
        found, problem = await self._find(project, place[0], await self.store.find_keys(batch.id, wanted))
        # Parsing a long conversation takes milliseconds: beside the event loop.
        return await asyncio.to_thread(
            lambda: {at: tell(one, found.get(at), problem) if at in wanted else one for at, one in results.items()}
        )

    async def fill_record(self, project: str, record: Record) -> tuple[Record, Message | None]:
        """The project's record with its texts, or why these are not there. Any other than an adopted one stays as it
        is."""
        asked = record.request
        if isinstance(asked, PreferenceRequest) or (known := candidate_of(asked)).response != DROPPED:
            return record, None
        place = await self.store.find_result(project, record.evaluation.id)
        if place is None:
            return record, None
        url, key = place
        found, problem = await self._find(project, url, {} if key is None else {0: key})
        told = await asyncio.to_thread(put_back, known, record.evaluation, found.get(0), problem)
        update = {"evaluation": told.evaluation, "request": ask_again(asked, told.candidate)}
        return record.model_copy(update=update), told.untold

    async def _find(
        self, project: str, url: str | None, keys: Mapping[int, str]
    ) -> tuple[Mapping[int, Texts], Message]:
        """The texts by position, and what is to be told of those that are not there."""
        if url is None:
            return {}, UPLOADED
        try:
            address = await asyncio.to_thread(find_place, url, self.allowed, project)
        except InvalidRequest:
            return {}, TEXTS_REFUSED
        found = {at: kept for at, key in keys.items() if (kept := self._kept.get((address, key))) is not None}
        missing = {key: at for at, key in keys.items() if at not in found}
        problem = CHANGED
        if missing:
            async with self._turns:
                read, problem = await read_texts(address, [*missing], self.seconds)
            for key, texts in read.items():
                if key in missing:
                    found[missing[key]] = texts
                    with suppress(ValueError):  # larger than all that is kept
                        self._kept[address, key] = texts
        return found, problem


async def read_texts(address: str, keys: Sequence[str], seconds: float) -> tuple[dict[str, Texts], Message]:
    """The texts by key, from a process that ends after so many seconds, and what is to be told of those that are not
    there."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-m", "saiten_server.offline.opening", address),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=MOST_LINE_BYTES,
    )
    try:
        async with asyncio.timeout(seconds):
            said, _ = await process.communicate(json.dumps(keys).encode())
    except TimeoutError:
        return {}, SLOW
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return await asyncio.to_thread(read_told, said)


def read_told(said: bytes) -> tuple[dict[str, Texts], Message]:
    """What the process told. Of one that broke off nothing counts: the library aborts for damaged files."""
    try:
        *lines, last = [json.loads(line) for line in said.splitlines()]
        found = {line["key"]: line["texts"] for line in lines}
        problem = last["problem"]
    except (ValueError, KeyError, TypeError):
        return {}, UNREADABLE
    return found, CHANGED if problem is None else TOLD.get(problem, UNREADABLE)


class Told(NamedTuple):
    """What was scored and how, with its texts, or as it is and why they are not there."""

    candidate: Candidate
    evaluation: Evaluation | None
    untold: Message | None = None


def put_back(known: Candidate, evaluation: Evaluation | None, texts: Texts | None, problem: Message) -> Told:
    """A result with its texts, or with why they are not there: the problem where there are none."""
    if texts is None:
        return Told(known, evaluation, problem)
    if not texts:
        return Told(known, evaluation, WITHOUT)
    try:
        candidate = read_candidate(known, texts)
        said = evaluation and read_said(evaluation, candidate, texts)
    except (ValidationError, ValueError, TypeError, RecursionError):
        return Told(known, evaluation, UNREADABLE)
    return Told(known, evaluation, CHANGED) if candidate is None else Told(candidate, said)


def tell(result: Result, texts: Texts | None, problem: Message) -> Result:
    """The result as `put_back` tells it."""
    told = put_back(result.candidate, result.evaluation, texts, problem)
    return replace(result, asked=told.candidate, evaluation=told.evaluation, untold=told.untold)


def ask_again(asked: EvaluationRequest | ConversationRequest, candidate: Candidate) -> AnyRequest:
    """The request with what was said."""
    whole = candidate.conversation
    if whole is None:
        return asked.model_copy(update={"context": candidate.context, "response": candidate.response})
    return asked.model_copy(update={"turns": whole.turns, "persona": whole.persona, "goal": whole.goal})


CONTEXT: TypeAdapter[tuple[Utterance, ...]] = TypeAdapter(tuple[Utterance, ...])
TURNS: TypeAdapter[tuple[Turn, ...]] = TypeAdapter(tuple[Turn, ...])
FINDINGS: TypeAdapter[tuple[Finding, ...]] = TypeAdapter(tuple[Finding, ...])
PERSONA: TypeAdapter[Persona] = TypeAdapter(Persona)


def read_candidate(known: Candidate, texts: Texts) -> Candidate | None:
    """What was scored, with its texts; None where it is not what the run has there. Raises ValueError for texts that no
    result has."""
    if known.roles is None:
        if "response" not in texts:
            return None
        context = CONTEXT.validate_json(texts.get("context", "[]"), context=STORED)
        return known.model_copy(update={"context": context, "response": texts["response"]})
    if "turns" not in texts:
        return None
    turns = TURNS.validate_json(texts["turns"], context=STORED)
    if [one.role for one in turns].count("system") != known.roles.count("system"):
        return None
    persona = PERSONA.validate_json(texts["persona"], context=STORED) if "persona" in texts else None
    whole = Conversation.model_construct(turns=turns, persona=persona, goal=texts.get("goal"))
    return known.model_copy(update=parts_of(whole))


def read_said(evaluation: Evaluation, candidate: Candidate | None, texts: Texts) -> Evaluation:
    """The evaluation with the judge's reasons and the details of findings."""
    aspects = {
        name: one.model_copy(update={"reason": texts[f"{REASON.name}.{name}"]})
        if f"{REASON.name}.{name}" in texts
        else one
        for name, one in evaluation.aspects.items()
    }
    changes: dict[str, Any] = {"aspects": aspects}
    if candidate is not None and candidate.roles is not None:
        changes["findings"] = read_findings(evaluation, candidate.roles, texts)
    return evaluation.model_copy(update=changes)


def read_findings(evaluation: Evaluation, roles: Sequence[str], texts: Texts) -> tuple[Finding, ...]:
    """The findings with their details, where the file has them; else those that are known, at the turns that they are
    of: without texts every second turn stood for the system's."""
    system = [number for number, role in enumerate(roles) if role == "system"]
    if "findings" not in texts:
        known = evaluation.findings or ()
        return tuple(one.model_copy(update={"turn": system[one.turn // 2]}) for one in known)
    listed = json.loads(texts["findings"])
    absent = {"aspect": None, "code": None}  # files leave out what is null
    found = FINDINGS.validate_python([{**absent, **one} for one in listed], context=STORED)
    return tuple(map(plain_finding, filter(fits(system), found)))


def fits(system: Sequence[int]) -> Callable[[Finding], bool]:
    """Whether a finding is one that a result can have."""
    return lambda one: (
        one.turn in system and one.code in {None, *RULE_CODES} and (one.kind is None or one.kind in FAULT_KINDS)
    )


def plain_finding(finding: Finding) -> Finding:
    """The finding with its detail as it is where this version cannot tell its message."""
    try:
        finding.sentence.say("ja")
    except (KeyError, ValueError, TypeError, AttributeError, IndexError):
        return finding.model_copy(update={"message": None, "values": None})
    return finding

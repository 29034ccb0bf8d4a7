"""What a batch would take, computed from its candidates, and whether it can be scored as it asks to be."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace

from saiten.core.messages import Message
from saiten_server.core.batch import (
    BatchOptions,
    Candidate,
    Entry,
    EstimateReport,
    any_request_of,
    plan_of,
)
from saiten_server.core.dialogue import Dialogue, Utterance
from saiten_server.core.errors import InvalidRequest
from saiten_server.core.evaluation import ConversationRequest, PreferenceRequest, RelevanceOptions
from saiten_server.core.model import canonical_json
from saiten_server.core.rubric import Rubric, Unit
from saiten_server.providers.ports import PROVIDER_BATCH_SHARE
from saiten_server.runs.intake import BatchSource, Intake
from saiten_server.runs.work import BOUGHT_SHARE
from saiten_server.scoring.admission import Bill, plan_evaluation, plan_whole
from saiten_server.scoring.conversation import write_as_dialogue
from saiten_server.scoring.evaluate import ScoringContext
from saiten_server.scoring.preferring import as_dialogue, open_pair
from saiten_server.scoring.subject import check_path, check_support, check_unit, require_translator

DIGEST_BYTES = 16
BLOCK_UTTERANCES = 10  # utterances that the DeepL translator sends with one and the same context


class BatchEstimate:
    """Adds up a batch, candidate by candidate; `report` may be asked at any time. Memory: some 100 bytes a distinct
    candidate, twice that where texts are translated. Raises UnknownRubric, TranslatorNotConfigured and
    InvalidRequest."""

    def __init__(self, options: BatchOptions, instruments: ScoringContext) -> None:
        require_translator(options.path, instruments.translator)
        self._options = options
        self._rubric = instruments.rubrics.get(options.rubric)
        self._window_tokens = instruments.window_tokens
        self._bill = Bill(instruments.judge)
        self._context: tuple[Utterance, ...] = ()
        self._context_digest = b""
        self._candidates = 0
        self._judged: set[bytes] = set()
        self._translations = Translations()

    def add(self, candidate: Candidate) -> None:
        """Takes one candidate in. Raises InvalidRequest where the batch asks for what the rubric or judge has not."""
        request = any_request_of(self._options, candidate)
        if isinstance(request, PreferenceRequest):
            self._add_pair(request)
            return
        if isinstance(request, ConversationRequest):
            self._add_conversation(request)
            return
        check_support(request, self._rubric, batch=True)
        self._candidates += 1
        references = request.references if self._rubric.references else ()
        if candidate.context is not self._context:  # the candidates of one item follow each other and share theirs
            self._context = candidate.context
            parts = (part.encode() for one in candidate.context for part in (one.speaker, one.text))
            self._context_digest = digest_texts(parts)
        judged = digest_texts([self._context_digest, *(text.encode() for text in (candidate.response, *references))])
        if judged in self._judged:
            return
        self._judged.add(judged)
        self._bill.add(plan_evaluation(request, self._rubric))
        if self._options.path != "source":
            self._translations.add(request.turn)

    def _add_conversation(self, request: ConversationRequest) -> None:
        check_path(self._rubric, request.path)
        self._candidates += 1
        conversation = request.conversation
        judged = digest_texts([canonical_json(conversation.model_dump()).encode()])
        if judged in self._judged:
            return
        self._judged.add(judged)
        self._bill.add(plan_whole(request, self._rubric, self._window_tokens))
        if request.path != "source":
            self._translations.add(write_as_dialogue(conversation))

    def _add_pair(self, request: PreferenceRequest) -> None:
        case = open_pair(request, self._rubric, self._window_tokens)
        self._candidates += 1
        context = [part.encode() for one in request.context or () for part in (one.speaker, one.text)]
        shared = canonical_json([request.persona, request.goal]).encode()
        judged = digest_texts([shared, *context, *(digest.encode() for digest in sorted(case.digests.values()))])
        if judged not in self._judged:
            self._judged.add(judged)
            self._bill.add(case.tasks("batch"))
            if request.path != "source":
                for given in case.given.values():
                    self._translations.add(as_dialogue(given))

    def report(self) -> EstimateReport:
        """What all candidates together would take."""
        bill, cost = self._bill, self._bill.cost_usd
        twice = self._options.integrity == "judge-twice"
        live = (
            self._rubric.unit == "conversation" and plan_of(self._options) is None
        )  # which the provider's batch mode does not take
        return EstimateReport(
            candidates=self._candidates,
            distinct_candidates=len(self._judged),
            calls=bill.calls,
            prompt_tokens=bill.prompt_tokens,
            prefix_tokens=bill.prefix_tokens,
            completion_tokens=bill.completion_tokens,
            translated_characters=self._translations.characters,
            cost_usd=cost,
            cost_usd_prefix_cached=bill.cost_usd_prefix_cached,
            cost_usd_provider_batch=None if cost is None or live else cost * PROVIDER_BATCH_SHARE,
            second_look_calls=bill.second_calls if twice else 0,
            second_look_cost_usd=bill.second_cost_usd if twice else 0.0,
            unit_cost_usd=bill.unit_cost_usd,
            assumptions=tuple(list_assumptions(self._options, bill)),
        )


class Translations:
    """Counts the characters that DeepL would bill. It translates a text once for each context that the text is sent
    with: an utterance's is the dialogue up to the end of its block, a response's is the whole dialogue context."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self.characters = 0

    def add(self, dialogue: Dialogue) -> None:
        """Counts what of the dialogue has not been counted."""
        texts = [utterance.text for utterance in dialogue.context]
        block: frozenset[str] = frozenset()
        so_far = b""
        for start in range(0, len(texts), BLOCK_UTTERANCES):
            block = frozenset(texts[start : start + BLOCK_UTTERANCES])
            so_far = digest_texts([so_far, *(text.encode() for text in texts[start : start + BLOCK_UTTERANCES])])
            self._count(so_far, block)
        self._count(digest_texts([so_far, b"", dialogue.response.encode()]), {dialogue.response} - block)

    def _count(self, key: bytes, texts: Iterable[str]) -> None:
        if key not in self._seen:
            self._seen.add(key)
            self.characters += sum(map(len, texts))


def digest_texts(parts: Iterable[bytes]) -> bytes:
    """One digest of several parts, in order; each is preceded by its length, so that none runs into the next."""
    found = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        found.update(len(part).to_bytes(8, "big"))
        found.update(part)
    return found.digest()


def list_assumptions(options: BatchOptions, bill: Bill) -> Iterator[Message]:
    """What the figures take for granted."""
    yield Message("assumed-empty-cache")
    if not bill.calls:
        yield Message("assumed-no-calls")
    else:
        yield Message("assumed-tokens")
        yield Message("assumed-valid-replies")
        if bill.cost_usd is None:
            yield Message("assumed-no-price")
    if options.integrity == "judge-twice" and bill.calls:
        yield Message("assumed-second-looks")
    if options.path != "source":
        yield Message("assumed-translations")


def settle_unit(intake: Intake, rubric: Rubric) -> Intake:
    """The batch with options that fit what it holds: conversations have no relevance. Raises RubricUnitMismatch with
    the place of the first item that the rubric does not rate, and InvalidRequest for options that conversations do not
    have."""
    other: Unit = "item" if rubric.unit == "conversation" else "conversation"
    if other in intake.firsts:
        check_unit(rubric, other, pointer=f"/items/{intake.firsts[other]}")
    options = intake.options
    if rubric.unit == "item":
        return intake
    for name, taken, default in (
        ("relevance", None, RelevanceOptions()),
        ("mode", "live", "live"),
    ):
        if getattr(options, name) not in (taken, default):
            detail = Message("estimate-conversations-live", name=name)
            raise InvalidRequest(detail, pointer=f"/{name}")
    return replace(intake, options=options.model_copy(update={"relevance": None}))


OF_AN_ITEM = "/reference"  # what of a request lies in the item; whatever else can be wrong by now lies in the options


async def estimate(source: BatchSource, instruments: ScoringContext) -> EstimateReport:
    """What the batch would take. Raises InvalidRequest with a pointer into the batch, UnknownRubric and
    TranslatorNotConfigured."""
    found, items = BatchEstimate(source.options, instruments), -1

    def add(block: list[tuple[Entry, Candidate]]) -> None:
        nonlocal items
        for entry, candidate in block:
            items += not entry.candidate
            try:
                found.add(candidate)
            except InvalidRequest as error:
                if error.pointer == OF_AN_ITEM:
                    error.pointer = f"/items/{items}{OF_AN_ITEM}"
                raise

    async for block in source.blocks():
        # Milliseconds a candidate where prompts are long: in a thread, so that others are answered meanwhile.
        await asyncio.to_thread(add, block)
    return found.report()


async def admit(source: BatchSource, instruments: ScoringContext, *, is_limited: bool = False) -> float | None:
    """What one candidate may cost (USD) under the batch's budget, or, with `is_limited`, is expected to cost under the
    limit of its key; None without either. Raises InvalidRequest, UnknownRubric and TranslatorNotConfigured where the
    batch cannot be scored."""
    options = source.options
    if options.budget_usd is not None:
        report = await estimate(source, instruments)
        if report.unit_cost_usd is None:
            detail = Message("budget-price-unknown")
            raise InvalidRequest(detail, pointer="/budget_usd")
        # Whatever looks like an attack is judged a second time, and which candidates those are is not known yet.
        looks = 2 if options.integrity == "judge-twice" else 1
        # A malformed reply is asked for again, and a budget must bear that; of the provider's own batch mode it bears
        # what is bought there, which `price_candidate` takes as its share of this.
        bought = options.mode == "provider-batch"
        tries = BOUGHT_SHARE * PROVIDER_BATCH_SHARE if bought else instruments.tries
        return looks * tries * report.unit_cost_usd
    if is_limited and options.mode == "live":
        # Without it all candidates of the first chunks would begin before any has shown what it costs.
        return (await estimate(source, instruments)).unit_cost_usd
    if options.path != "source" and instruments.rubrics.get(options.rubric).references:
        # A single item may ask for what the rubric has not: that its references are translated.
        await estimate(source, instruments)
        return None
    # What can be wrong now is wrong with the options, and shows at any candidate.
    async for block in source.blocks():
        # In a thread: it may be as long as a whole body.
        await asyncio.to_thread(BatchEstimate(options, instruments).add, block[0][1])
        break
    return None

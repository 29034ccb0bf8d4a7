"""Relevance: the BERTScore similarity b of last utterance and response, and its baseline b̄.

By default b̄ is the mean similarity of a fixed set of pairs that ships per language (`relevance.baseline: calibration`).
"""

from __future__ import annotations

import asyncio
import json
import re
import statistics
from functools import cached_property
from importlib.resources.abc import Traversable
from typing import Annotated, Literal, Protocol

from saiten.core.messages import Message
from saiten_server.core.dialogue import Dialogue, Text
from saiten_server.core.evaluation import RelevanceOptions, RelevanceResult
from saiten_server.core.model import Id, Value, digest, listed
from saiten_server.core.rubric import Language
from saiten_server.platform.bundled import broken_line, bundled_folder, read_objects, validate_objects
from saiten_server.platform.telemetry import Telemetry
from saiten_server.providers.call_cache import CachedCalls
from saiten_server.providers.ports import Encoder, EncoderUnavailable, RequestScope, Similarity


class CalibrationPair(Value):
    """The last utterance of a dialogue context with a response that a dialogue system might give."""

    id: Id
    kind: Literal["specific", "generic", "off-topic"]
    last_utterance: Text
    response: Text


class CalibrationSet(Value):
    """All pairs of one language. b̄ is the mean BERTScore F1 over `texts`, which is constant for a given encoder."""

    language: Language
    pairs: Annotated[tuple[CalibrationPair, ...], listed(minimum=1)]

    @property
    def texts(self) -> list[tuple[str, str]]:
        """(last utterance, response) per pair, in the file's order."""
        return [(pair.last_utterance, pair.response) for pair in self.pairs]

    @cached_property
    def digest(self) -> str:
        """SHA-256 over language and texts, on which b̄ depends; ids, kinds, order and spacing do not count."""
        return digest({"language": self.language, "texts": sorted(self.texts)})


def load_calibration(language: str, folder: Traversable | None = None) -> CalibrationSet | None:
    """The set for `language` (ISO 639-1), or None if none ships. `folder` holds one `<language>.jsonl` per language; by
    default the package's own. Raises ValueError with file and line if the data are broken, or an id or a pair
    repeats."""
    if re.fullmatch(r"[a-z]{2}", language) is None:  # it becomes a file name
        return None
    file = (folder or bundled_folder("scoring/calibration")).joinpath(f"{language}.jsonl")
    if not file.is_file():
        return None
    pairs = validate_objects(file, read_objects(file), CalibrationPair)
    ids: set[str] = set()
    texts: set[tuple[str, str]] = set()
    for number, pair in enumerate(pairs, start=1):
        if pair.id in ids:
            raise broken_line(file, number, f"the id {pair.id} is also on an earlier line")
        if (pair.last_utterance, pair.response) in texts:
            raise broken_line(file, number, "the same pair is also on an earlier line")
        ids.add(pair.id)
        texts.add((pair.last_utterance, pair.response))
    return CalibrationSet(language=language, pairs=tuple(pairs))


class BaselineSource(Protocol):
    """Where computed baselines are kept, by encoder, language and digest of the calibration set."""

    async def find_baseline(self, encoder: str, language: str, calibration: str) -> float | None: ...
    async def save_baseline(self, encoder: str, language: str, calibration: str, value: float) -> None: ...


class Relevance:
    """Measures similarity with an encoder. It never fails an evaluation: if the encoder is unavailable, the result says
    why, and `telemetry` counts it."""

    def __init__(
        self,
        encoder: Encoder | None,
        store: BaselineSource,
        calls: CachedCalls,
        *,
        telemetry: Telemetry | None = None,
        timeout_seconds: float = 30.0,
    ) -> None:
        self._encoder = encoder
        self._store = store
        self._calls = calls
        self._telemetry = telemetry
        self._timeout_seconds = timeout_seconds
        self._baselines: dict[tuple[str, str], asyncio.Task[float]] = {}
        self._slow = False
        self._probing = False

    async def measure(
        self, language: str, dialogue: Dialogue, options: RelevanceOptions, scope: RequestScope
    ) -> RelevanceResult:
        """b between the last utterance and the response, and b̄ by `options`; `unavailable` says why b is missing."""
        found = await self._measure_in_time(language, dialogue, options, scope)
        if found.unavailable is not None and self._encoder is not None and self._telemetry is not None:
            self._telemetry.encoder_failed()
        return found

    async def _measure_in_time(
        self, language: str, dialogue: Dialogue, options: RelevanceOptions, scope: RequestScope
    ) -> RelevanceResult:
        late = Message("encoder-late", seconds=self._timeout_seconds)
        if self._slow and self._probing:
            # While one caller waits to see whether the encoder answers again, the others go on without it.
            return nothing(options, late)
        probe, self._probing = self._slow, self._probing or self._slow
        try:
            # The encoder may take minutes to load; the rating must not wait for it.
            async with asyncio.timeout(self._timeout_seconds):
                found = await self._measure(language, dialogue, options, scope)
                self._slow = False
                return found
        except EncoderUnavailable as error:
            self._slow = False
            return nothing(options, error.message)
        except TimeoutError:
            self._slow = True
            return nothing(options, late)
        finally:
            if probe:
                self._probing = False

    async def close(self) -> None:
        """Cancels pending baselines and closes the encoder."""
        for task in self._baselines.values():
            task.cancel()
        await asyncio.gather(*self._baselines.values(), return_exceptions=True)
        if self._encoder is not None:
            await self._encoder.close()

    async def _measure(
        self, language: str, dialogue: Dialogue, options: RelevanceOptions, scope: RequestScope
    ) -> RelevanceResult:
        encoder = await self._require().identify(language)
        baseline = given_baseline(options)
        if options.baseline == "calibration":
            baseline = await self.baseline(language, encoder)
        similarity = await self._compare(encoder, language, dialogue, scope)
        return RelevanceResult(
            score=similarity.f1,
            baseline=baseline,
            baseline_source=source_of(options),
            weight=options.weight,
            encoder=encoder,
            truncated=similarity.truncated,
            unknown_token_share=similarity.unknown_token_share,
        )

    async def _compare(self, encoder: str, language: str, dialogue: Dialogue, scope: RequestScope) -> Similarity:
        pair = (dialogue.last_utterance, dialogue.response)

        async def encode() -> bytes:
            [found] = await self._require().compare(language, [pair])
            return json.dumps([found.f1, found.truncated, found.unknown_token_share]).encode()

        key = digest(["similarity", encoder, *pair])
        reply, _ = await self._calls.fetch("encoder", key, encode, is_similarity, scope)
        return Similarity(*json.loads(reply))

    async def baseline(self, language: str, encoder: str) -> float:
        """b̄ of the shipped calibration set: computed once per encoder and language, then kept in the store."""
        task = self._baselines.get((encoder, language))
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._baselines[encoder, language] = asyncio.create_task(self._find_baseline(language, encoder))
        # Shielded: a request that stops waiting must not cancel the work for the next one.
        return await asyncio.shield(task)

    async def _find_baseline(self, language: str, encoder: str) -> float:
        calibration = load_calibration(language)
        if calibration is None:
            raise EncoderUnavailable(Message("calibration-missing", language=language))
        known = await self._store.find_baseline(encoder, language, calibration.digest)
        if known is not None:
            return known
        found = await self._require().compare(language, calibration.texts)
        mean = statistics.fmean(similarity.f1 for similarity in found)
        await self._store.save_baseline(encoder, language, calibration.digest, mean)
        return mean

    def _require(self) -> Encoder:
        if self._encoder is None:
            raise EncoderUnavailable(Message("encoder-off"))
        return self._encoder


def source_of(options: RelevanceOptions) -> Literal["calibration", "batch", "number"]:
    """Where b̄ comes from. The baseline of a batch is filled in once all its responses have been measured."""
    return options.baseline if isinstance(options.baseline, str) else "number"


def given_baseline(options: RelevanceOptions) -> float | None:
    """b̄ if the request gives it as a number."""
    return float(options.baseline) if isinstance(options.baseline, float | int) else None


def nothing(options: RelevanceOptions, reason: Message) -> RelevanceResult:
    """The result if b cannot be measured."""
    return RelevanceResult(
        score=None,
        baseline=given_baseline(options),
        baseline_source=source_of(options),
        weight=options.weight,
        encoder=None,
        unavailable=str(reason),
        message=reason.id,
        values=reason.as_json(),
    )


def is_similarity(reply: bytes) -> bool:
    """Whether a cached entry is one that `_compare` wrote."""
    try:
        f1, truncated, share = json.loads(reply)
    except (ValueError, TypeError):
        return False
    return isinstance(f1, float | int) and isinstance(truncated, bool) and isinstance(share, float | int)

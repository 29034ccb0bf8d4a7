"""All errors of Saiten in one tree, and the faults of documents that are read line by line.

SaitenError
├── InvalidRequest                    the caller can fix it
│   ├── UnknownRubric · RubricRequired · UnknownAspect · RubricNotSupported · LanguageNotSupported
│   ├── RubricUnitMismatch
│   └── BaselineNotSupported · PriceUnknown · SuspectedInjection · TooMuchWork
├── NotFound · IdempotencyKeyReused · IdempotencyKeyInUse · BatchFinished
├── LimitReached                      temporary; carries when to ask again
│   └── RequestLimitReached · CostLimitReached · QueueLimitReached · Overloaded
├── SignatureMismatch                 two runs were scored in different ways; carries the differing pieces
├── RubricInvalid                     a rubric file is broken; carries line and field
├── SettingsInvalid                   the operator can fix it
├── UpstreamError                     a service that Saiten calls failed
│   ├── JudgeUnavailable · JudgeQuotaExhausted · JudgeUnauthorized · JudgeRefusedRequest · JudgeReplyInvalid
│   ├── ProviderBatchUnanswered
│   ├── TranslatorUnavailable · TranslatorQuotaExhausted · TranslatorUnauthorized
│   └── TranslatorRefusedRequest · TranslatorNotConfigured
└── StoreError
    └── StoreUnavailable · StoreFull · ProjectFull

Each class has a stable `code`; `app/platform/web/problems.py` maps each to its
HTTP status; a test checks that it maps all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from saiten.core.messages import Message
from saiten.core.plain_text import clean


class SaitenError(Exception):
    """Root of the tree. `message` says in one sentence what to do and never quotes long caller text; `detail` is that
    sentence in English."""

    code = "internal-error"

    def __init_subclass__(cls, *, code: str | None = None) -> None:
        cls.code = code or cls.code

    def __init__(self, message: Message, *, pointer: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.pointer = pointer

    @property
    def detail(self) -> str:
        return str(self.message)

    @property
    def loggable(self) -> str:
        """The detail as it may be logged: without the words of another service."""
        return self.detail


class InvalidRequest(SaitenError, code="invalid-request"): ...


class UnknownRubric(InvalidRequest, code="unknown-rubric"): ...


class RubricRequired(InvalidRequest, code="rubric-required"):
    """No rubric is named, and the text is not in the default rubric's language. `faults` names each place that needs a
    rubric: (JSON pointer, what is wrong), never empty. `other` and, for items, `comments` are rubrics that would do."""

    def __init__(
        self,
        places: Sequence[str],
        *,
        default: str = "ja-dialogue",
        other: str = "ko-dialogue",
        comments: str | None = "ko-comment",
    ) -> None:
        if comments is None:
            what = Message("rubric-required", default=default, other=other)
        else:
            what = Message("rubric-required-of-comments", default=default, other=other, comments=comments)
        super().__init__(count_faults(places[0], what, len(places)), pointer=places[0])
        self.faults = tuple((place, what) for place in places)


class UnknownAspect(InvalidRequest, code="unknown-aspect"): ...


class RubricUnitMismatch(InvalidRequest, code="rubric-unit-mismatch"): ...


class RubricNotSupported(InvalidRequest, code="rubric-not-supported"): ...


class LanguageNotSupported(InvalidRequest, code="language-not-supported"): ...


class BaselineNotSupported(InvalidRequest, code="baseline-not-supported"): ...


class PriceUnknown(InvalidRequest, code="price-unknown"):
    """The key has a cost limit, and the cost is not known."""


class TooMuchWork(InvalidRequest, code="too-much-work"):
    """The request takes more calls or tokens of the judge than a limit allows, which the detail names."""


class SuspectedInjection(InvalidRequest, code="suspected-injection"):
    """`where` are the places that look like an attack on the judge, as in a result's warnings. `faults` are (JSON
    pointer into the request, what it looks like). Neither holds any of the text."""

    def __init__(
        self,
        message: Message,
        *,
        where: Sequence[str] = (),
        pointer: str | None = None,
        faults: Sequence[tuple[str, Message]] = (),
    ) -> None:
        super().__init__(message, pointer=pointer)
        self.where = tuple(where)
        self.faults = tuple(faults)


class TextsErased(InvalidRequest, code="texts-erased"):
    """A text that was to be judged was erased, or is not kept any more."""


class RunsUnfit(InvalidRequest, code="runs-unfit"):
    """Runs that cannot be compared in pairs: of two rubrics or units, without a common item, or not ended."""


class NotFound(SaitenError, code="not-found"): ...


class IdempotencyKeyReused(SaitenError, code="idempotency-key-reused"): ...


class IdempotencyKeyInUse(SaitenError, code="idempotency-key-in-use"): ...


class BatchFinished(SaitenError, code="batch-finished"):
    """Completed or cancelled: it cannot be changed any more."""


class LimitReached(SaitenError, code="limit-reached"):
    """The request exceeds a limit of the caller or the service. `retry_after_seconds` is when to ask again."""

    def __init__(self, message: Message, *, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class RequestLimitReached(LimitReached, code="request-limit-reached"): ...


class CostLimitReached(LimitReached, code="cost-limit-reached"): ...


class QueueLimitReached(LimitReached, code="queue-limit-reached"): ...


class StreamLimitReached(LimitReached, code="stream-limit-reached"): ...


class Overloaded(LimitReached, code="overloaded"):
    """Not caused by the caller."""


class SignatureMismatch(SaitenError, code="signature-mismatch"):
    """Two runs whose scores cannot be compared. `pieces` holds the baseline's and the candidate's value by name of the
    signature piece; several values within a run are joined by a comma."""

    def __init__(self, message: Message, *, pieces: Mapping[str, tuple[str, str]] | None = None) -> None:
        super().__init__(message)
        self.pieces = dict(pieces or {})


class RubricInvalid(SaitenError, code="rubric-invalid"):
    """A rubric file that cannot be used. `line` is 1-based, or None if the file could not be read at all; `field` is a
    JSON pointer."""

    def __init__(self, message: Message, *, path: str, line: int | None = None, field: str | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.line = line
        self.field = field


class SettingsInvalid(SaitenError, code="settings-invalid"): ...


class UpstreamError(SaitenError, code="upstream-error"):
    """A failure of another service. `retry_after_seconds` is the time that it asked for, if any. `said` is its own
    message. It is for the caller only and is never logged, since a service may echo the dialogue: `fault` is what is
    said without it."""

    def __init__(self, message: Message, *, retry_after_seconds: float | None = None, said: str = "") -> None:
        # A gateway may cut an echoed text in the middle of a character, and the message is stored in a batch's results.
        super().__init__(Message("fault-with-words", fault=message, words=clean(said)) if said else message)
        self.retry_after_seconds = retry_after_seconds
        self.fault = message

    @property
    def loggable(self) -> str:
        return str(self.fault)


class JudgeUnavailable(UpstreamError, code="judge-unavailable"): ...


class JudgeQuotaExhausted(UpstreamError, code="judge-quota-exhausted"): ...


class JudgeUnauthorized(UpstreamError, code="judge-unauthorized"): ...


class JudgeRefusedRequest(UpstreamError, code="judge-refused-request"): ...


class JudgeReplyInvalid(UpstreamError, code="judge-reply-invalid"): ...


class ProviderBatchUnanswered(UpstreamError, code="provider-batch-unanswered"):
    """The provider's batch left a call out, and the options forbid a live one."""


class TranslatorUnavailable(UpstreamError, code="translator-unavailable"): ...


class TranslatorQuotaExhausted(UpstreamError, code="translator-quota-exhausted"): ...


class TranslatorUnauthorized(UpstreamError, code="translator-unauthorized"): ...


class TranslatorRefusedRequest(UpstreamError, code="translator-refused-request"): ...


class TranslatorNotConfigured(UpstreamError, code="translator-not-configured"): ...


class StoreError(SaitenError, code="store-error"): ...


class StoreUnavailable(StoreError, code="store-unavailable"): ...


class StoreFull(StoreError, code="store-full"): ...


class ProjectFull(StoreError, code="project-full"):
    """The project has `used` bytes of the `most` that it may store, and `more` do not fit."""

    def __init__(self, *, used: int, more: int, most: int) -> None:
        if more:
            message = Message("project-full-of-more", used=used, most=most, more=more)
        else:
            message = Message("project-full", used=used, most=most)
        super().__init__(message)
        self.used, self.more, self.most = used, more, most


MOST_FAULTS = 20
"""Faults that an error lists, and after which a batch's document is not read any further."""

MOST_REFUSED = 1_000
"""Faults after which reading stops."""


PLACES: Mapping[str, Callable[[int], Message]] = {
    "line": lambda number: Message("line", number=number),
    "record": lambda number: Message("record", number=number),
    "element": lambda number: Message("element", number=number),
    "result": lambda number: Message("result", number=number),
    "rating": lambda number: Message("rating", number=number),
}
"""What names a numbered place of a document, by its noun."""


NOUNS: Mapping[str, Message] = {
    "line": Message("noun-line"),
    "record": Message("noun-record"),
    "element": Message("noun-element"),
    "result": Message("noun-result"),
    "rating": Message("noun-rating"),
}


class InvalidLines(InvalidRequest):
    """Lines that are not valid. `faults` are (number from 1, what is wrong) in order, never empty, at most MOST_FAULTS;
    `total` also counts those that are not listed. `noun` of PLACES is what is numbered, such as a line or an element of
    an array. If reading `stopped` early, `total` is a lower bound."""

    def __init__(
        self,
        faults: Sequence[tuple[int, Message]],
        total: int | None = None,
        noun: str = "line",
        *,
        stopped: bool = False,
    ) -> None:
        self.faults = sorted(faults, key=lambda fault: (fault[0], fault[1].id))[:MOST_FAULTS]
        self.total = len(faults) if total is None else total
        self.noun = noun
        self.stopped = stopped
        number, what = self.faults[0]
        where = PLACES[noun](number)
        if stopped:
            message = Message("fault-and-at-least", where=where, fault=what, more=self.total - 1)
        else:
            message = count_faults(where, what, self.total)
        super().__init__(message)


def at_place(noun: str, number: int, what: Message) -> Message:
    """What is wrong, with the numbered place where it is."""
    return Message("fault-at", where=PLACES[noun](number), fault=what)


def count_faults(where: Message | str, what: Message, total: int) -> Message:
    """The first of `total` faults with its place, and how many more there are."""
    if total > 1:
        return Message("fault-and-more", where=where, fault=what, more=total - 1)
    return Message("fault-at", where=where, fault=what)

"""Every way in which Saiten says no, in one tree.

SaitenError
├── InvalidRequest                    the caller can mend it
│   ├── UnknownRubric
│   ├── RubricRequired                no rubric is named, and the default one's language is evidently not the text's
│   ├── UnknownAspect
│   ├── RubricNotSupported            this judge cannot rate this rubric
│   ├── LanguageNotSupported
│   ├── BaselineNotSupported
│   ├── PriceUnknown                  the key's money is limited, and what this would cost cannot be told
│   └── SuspectedInjection            the project refuses what looks like an attack on the judge
├── NotFound
├── IdempotencyKeyReused
├── IdempotencyKeyInUse
├── BatchFinished                     completed or cancelled: it cannot be steered any more
├── LimitReached                      it may pass by itself; carries when to ask again
│   ├── RequestLimitReached · CostLimitReached · QueueLimitReached
│   └── Overloaded                    not the caller's doing
├── SignatureMismatch                 two runs that were not scored the same way; carries the differing pieces
├── RubricInvalid                     a rubric file is broken; carries line and field
├── SettingsInvalid                   the operator can mend it
├── UpstreamError                     somebody else's service
│   ├── JudgeUnavailable · JudgeQuotaExhausted · JudgeUnauthorized
│   ├── JudgeRefusedRequest · JudgeReplyInvalid
│   ├── ProviderBatchUnanswered       the provider's batch left a call out, and it is not to be made live
│   ├── TranslatorUnavailable · TranslatorQuotaExhausted · TranslatorUnauthorized
│   └── TranslatorRefusedRequest · TranslatorNotConfigured
└── StoreError
    ├── StoreUnavailable
    └── StoreFull

Each class has a stable `code`; `app/web/problems.py` maps each to its HTTP status, and a test holds that it maps all.

Faults in what is read line by line, each with its line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.domain.plain_text import clean


class SaitenError(Exception):
    """Root of the tree. `detail` is one sentence that says what to do and never carries caller text at length."""

    code = "internal-error"
    title = "Something went wrong inside Saiten"

    def __init__(self, detail: str, *, pointer: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.pointer = pointer

    @property
    def loggable(self) -> str:
        """What may stand in a log: the detail without anybody else's words."""
        return self.detail


class InvalidRequest(SaitenError):
    code = "invalid-request"
    title = "The request is not valid"


class UnknownRubric(InvalidRequest):
    code = "unknown-rubric"
    title = "No such rubric"


class RubricRequired(InvalidRequest):
    """`faults` names each place that needs a rubric: (JSON pointer, what is wrong), never empty."""

    code = "rubric-required"
    title = "The request must name a rubric"

    def __init__(self, places: Sequence[str]) -> None:
        what = (
            "most letters are Hangul, and the default rubric, ja-dialogue, rates Japanese: name a rubric, such as"
            " ko-comment"
        )
        more = f" (and {len(places) - 1} more)" if len(places) > 1 else ""
        super().__init__(f"{places[0]}: {what}{more}", pointer=places[0])
        self.faults = tuple((place, what) for place in places)


class UnknownAspect(InvalidRequest):
    code = "unknown-aspect"
    title = "The rubric has no such aspect"


class RubricNotSupported(InvalidRequest):
    code = "rubric-not-supported"
    title = "The judge in use cannot rate this rubric"


class LanguageNotSupported(InvalidRequest):
    code = "language-not-supported"
    title = "The rubric does not exist in this language"


class BaselineNotSupported(InvalidRequest):
    code = "baseline-not-supported"
    title = "This similarity baseline needs a batch"


class PriceUnknown(InvalidRequest):
    code = "price-unknown"
    title = "The price of the judge's model is not known"


class SuspectedInjection(InvalidRequest):
    """`where` are the places that look like an attack on the judge, as in a result's warnings; `faults` say of each,
    by its pointer into the request, what it looks like. Neither holds any of the text."""

    code = "suspected-injection"
    title = "The text looks like an attack on the judge"

    def __init__(
        self,
        detail: str,
        *,
        where: Sequence[str] = (),
        pointer: str | None = None,
        faults: Sequence[tuple[str, str]] = (),
    ) -> None:
        super().__init__(detail, pointer=pointer)
        self.where = tuple(where)
        self.faults = tuple(faults)


class NotFound(SaitenError):
    code = "not-found"
    title = "Not found"


class IdempotencyKeyReused(SaitenError):
    code = "idempotency-key-reused"
    title = "This Idempotency-Key was used with another body"


class IdempotencyKeyInUse(SaitenError):
    code = "idempotency-key-in-use"
    title = "A request with this Idempotency-Key is still running"


class BatchFinished(SaitenError):
    code = "batch-finished"
    title = "The batch is finished"


class LimitReached(SaitenError):
    """More than the caller or the service may do now. `retry_after_seconds` is when to ask again."""

    code = "limit-reached"
    title = "A limit is reached"

    def __init__(self, detail: str, *, retry_after_seconds: float) -> None:
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds


class RequestLimitReached(LimitReached):
    code = "request-limit-reached"
    title = "The key's requests for this minute are used up"


class CostLimitReached(LimitReached):
    code = "cost-limit-reached"
    title = "The key's money for today is used up"


class QueueLimitReached(LimitReached):
    code = "queue-limit-reached"
    title = "The project has too many candidates waiting"


class Overloaded(LimitReached):
    code = "overloaded"
    title = "The service has as much to do as it takes on"


class SignatureMismatch(SaitenError):
    """Two runs whose scores cannot be compared.

    `pieces` holds, by the signature piece's name, the baseline's value and the candidate's; where one run itself has
    several, they are joined by a comma.
    """

    code = "signature-mismatch"
    title = "The runs were not scored the same way"

    def __init__(self, detail: str, *, pieces: Mapping[str, tuple[str, str]] | None = None) -> None:
        super().__init__(detail)
        self.pieces = dict(pieces or {})


class RubricInvalid(SaitenError):
    """A rubric file that cannot be used.

    `line` is 1-based, or None where the file could not be read at all; `field` is a JSON pointer.
    """

    code = "rubric-invalid"
    title = "The rubric file is not valid"

    def __init__(self, detail: str, *, path: str, line: int | None = None, field: str | None = None) -> None:
        super().__init__(detail)
        self.path = path
        self.line = line
        self.field = field


class SettingsInvalid(SaitenError):
    code = "settings-invalid"
    title = "A setting is not valid"


class UpstreamError(SaitenError):
    """Somebody else's service. `retry_after_seconds` is what it asked for, where it asked.

    `said` are its own words: for the caller alone, since a service may echo the dialogue that it was sent.
    """

    code = "upstream-error"
    title = "A service that Saiten calls failed"

    def __init__(self, detail: str, *, retry_after_seconds: float | None = None, said: str = "") -> None:
        # A gateway may cut an echoed text in the middle of a character; the words go into a batch's results.
        super().__init__(clean(f"{detail}: {said}" if said else detail))
        self.retry_after_seconds = retry_after_seconds
        self._loggable = detail

    @property
    def loggable(self) -> str:
        return self._loggable


class JudgeUnavailable(UpstreamError):
    code = "judge-unavailable"
    title = "The judge cannot be reached"


class JudgeQuotaExhausted(UpstreamError):
    code = "judge-quota-exhausted"
    title = "The judge's quota is used up"


class JudgeUnauthorized(UpstreamError):
    code = "judge-unauthorized"
    title = "The judge refused the key"


class JudgeRefusedRequest(UpstreamError):
    code = "judge-refused-request"
    title = "The judge refused the request"


class JudgeReplyInvalid(UpstreamError):
    code = "judge-reply-invalid"
    title = "The judge gave no valid rating for any aspect"


class ProviderBatchUnanswered(UpstreamError):
    code = "provider-batch-unanswered"
    title = "The provider's batch did not answer"


class TranslatorUnavailable(UpstreamError):
    code = "translator-unavailable"
    title = "The translator cannot be reached"


class TranslatorQuotaExhausted(UpstreamError):
    code = "translator-quota-exhausted"
    title = "The translator's quota is used up"


class TranslatorUnauthorized(UpstreamError):
    code = "translator-unauthorized"
    title = "The translator refused the key"


class TranslatorRefusedRequest(UpstreamError):
    code = "translator-refused-request"
    title = "The translator refused the request"


class TranslatorNotConfigured(UpstreamError):
    code = "translator-not-configured"
    title = "The English path needs a translator"


class StoreError(SaitenError):
    code = "store-error"
    title = "The store failed"


class StoreUnavailable(StoreError):
    code = "store-unavailable"
    title = "The store cannot be reached"


class StoreFull(StoreError):
    code = "store-full"
    title = "The store is full"


MOST_FAULTS = 20
"""How many faults an answer lists, and after how many a document of a batch is not read on: so many have one cause,
which can be seen from them."""

MOST_REFUSED = 1_000
"""Faults after which nothing more is read."""


class InvalidLines(InvalidRequest):
    """Lines that were read and do not fit.

    `faults` are (number from 1, what is wrong) in order, never empty, at most MOST_FAULTS; `total` counts those too
    that are not listed. `noun` is what is numbered: a line, or an element of an array. Where reading `stopped` at so
    many faults, `total` is how many there are at least.
    """

    def __init__(
        self, faults: Sequence[tuple[int, str]], total: int | None = None, noun: str = "line", *, stopped: bool = False
    ) -> None:
        self.faults = sorted(faults)[:MOST_FAULTS]
        self.total = len(faults) if total is None else total
        self.noun = noun
        self.stopped = stopped
        number, what = self.faults[0]
        more = f" (and {self.total - 1} more)" if self.total > 1 else ""
        if stopped:
            more = f" (and at least {self.total - 1:,} more: the rest was not read)"
        super().__init__(f"{noun} {number}: {what}{more}")

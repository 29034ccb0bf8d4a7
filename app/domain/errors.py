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

Each class has a stable `code`; `app/web/problems.py` maps each to its
HTTP status; a test checks that it maps all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from saiten.core.plain_text import clean


class SaitenError(Exception):
    """Root of the tree. `detail` is one sentence that says what to do and never quotes long caller text."""

    code = "internal-error"
    title = "Something went wrong inside Saiten"

    def __init_subclass__(cls, *, code: str | None = None, title: str | None = None) -> None:
        cls.code, cls.title = code or cls.code, title or cls.title

    def __init__(self, detail: str, *, pointer: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.pointer = pointer

    @property
    def loggable(self) -> str:
        """The detail as it may be logged: without the words of another service."""
        return self.detail


class InvalidRequest(SaitenError, code="invalid-request", title="The request is not valid"): ...


class UnknownRubric(InvalidRequest, code="unknown-rubric", title="No such rubric"): ...


class RubricRequired(InvalidRequest, code="rubric-required", title="The request must name a rubric"):
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
            what = (
                f"most letters are Hangul, and the default rubric, {default}, rates Japanese: name a rubric, such as "
                f"{other}"
            )
        else:
            what = (
                f"most letters are Hangul, and the default rubric, {default}, rates Japanese: name one, such as "
                f"{other} for chat or {comments} for comments on a text"
            )
        more = f" (and {len(places) - 1} more)" if len(places) > 1 else ""
        super().__init__(f"{places[0]}: {what}{more}", pointer=places[0])
        self.faults = tuple((place, what) for place in places)


class UnknownAspect(InvalidRequest, code="unknown-aspect", title="The rubric has no such aspect"): ...


class RubricUnitMismatch(
    InvalidRequest, code="rubric-unit-mismatch", title="The rubric rates something else than what was sent"
): ...


class RubricNotSupported(
    InvalidRequest, code="rubric-not-supported", title="The judge in use cannot rate this rubric"
): ...


class LanguageNotSupported(
    InvalidRequest, code="language-not-supported", title="The rubric does not exist in this language"
): ...


class BaselineNotSupported(
    InvalidRequest, code="baseline-not-supported", title="This similarity baseline needs a batch"
): ...


class PriceUnknown(InvalidRequest, code="price-unknown", title="The price of the judge's model is not known"):
    """The key has a cost limit, and the cost is not known."""


class TooMuchWork(InvalidRequest, code="too-much-work", title="The request asks for too much work at once"):
    """The request takes more calls or tokens of the judge than a limit allows, which the detail names."""


class SuspectedInjection(
    InvalidRequest, code="suspected-injection", title="The text looks like an attack on the judge"
):
    """`where` are the places that look like an attack on the judge, as in a result's warnings. `faults` are (JSON
    pointer into the request, what it looks like). Neither holds any of the text."""

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


class NotFound(SaitenError, code="not-found", title="Not found"): ...


class IdempotencyKeyReused(
    SaitenError, code="idempotency-key-reused", title="This Idempotency-Key was used with another body"
): ...


class IdempotencyKeyInUse(
    SaitenError, code="idempotency-key-in-use", title="A request with this Idempotency-Key is still running"
): ...


class BatchFinished(SaitenError, code="batch-finished", title="The batch is finished"):
    """Completed or cancelled: it cannot be changed any more."""


class LimitReached(SaitenError, code="limit-reached", title="A limit is reached"):
    """The request exceeds a limit of the caller or the service. `retry_after_seconds` is when to ask again."""

    def __init__(self, detail: str, *, retry_after_seconds: float) -> None:
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds


class RequestLimitReached(
    LimitReached, code="request-limit-reached", title="The key's requests for this minute are used up"
): ...


class CostLimitReached(LimitReached, code="cost-limit-reached", title="The key's money for today is used up"): ...


class QueueLimitReached(
    LimitReached, code="queue-limit-reached", title="The project has too many candidates waiting"
): ...


class StreamLimitReached(
    LimitReached, code="stream-limit-reached", title="The project has too many event streams open"
): ...


class Overloaded(LimitReached, code="overloaded", title="The service has as much to do as it takes on"):
    """Not caused by the caller."""


class SignatureMismatch(SaitenError, code="signature-mismatch", title="The runs were not scored the same way"):
    """Two runs whose scores cannot be compared. `pieces` holds the baseline's and the candidate's value by name of the
    signature piece; several values within a run are joined by a comma."""

    def __init__(self, detail: str, *, pieces: Mapping[str, tuple[str, str]] | None = None) -> None:
        super().__init__(detail)
        self.pieces = dict(pieces or {})


class RubricInvalid(SaitenError, code="rubric-invalid", title="The rubric file is not valid"):
    """A rubric file that cannot be used. `line` is 1-based, or None if the file could not be read at all; `field` is a
    JSON pointer."""

    def __init__(self, detail: str, *, path: str, line: int | None = None, field: str | None = None) -> None:
        super().__init__(detail)
        self.path = path
        self.line = line
        self.field = field


class SettingsInvalid(SaitenError, code="settings-invalid", title="A setting is not valid"): ...


class UpstreamError(SaitenError, code="upstream-error", title="A service that Saiten calls failed"):
    """A failure of another service. `retry_after_seconds` is the time that it asked for, if any. `said` is its own
    message. It is for the caller only and is never logged, since a service may echo the dialogue."""

    def __init__(self, detail: str, *, retry_after_seconds: float | None = None, said: str = "") -> None:
        # A gateway may cut an echoed text in the middle of a character, and the message is stored in a batch's results.
        super().__init__(clean(f"{detail}: {said}" if said else detail))
        self.retry_after_seconds = retry_after_seconds
        self._loggable = detail

    @property
    def loggable(self) -> str:
        return self._loggable


class JudgeUnavailable(UpstreamError, code="judge-unavailable", title="The judge cannot be reached"): ...


class JudgeQuotaExhausted(UpstreamError, code="judge-quota-exhausted", title="The judge's quota is used up"): ...


class JudgeUnauthorized(UpstreamError, code="judge-unauthorized", title="The judge refused the key"): ...


class JudgeRefusedRequest(UpstreamError, code="judge-refused-request", title="The judge refused the request"): ...


class JudgeReplyInvalid(
    UpstreamError, code="judge-reply-invalid", title="The judge gave no valid rating for any aspect"
): ...


class ProviderBatchUnanswered(
    UpstreamError, code="provider-batch-unanswered", title="The provider's batch did not answer"
):
    """The provider's batch left a call out, and the options forbid a live one."""


class TranslatorUnavailable(UpstreamError, code="translator-unavailable", title="The translator cannot be reached"): ...


class TranslatorQuotaExhausted(
    UpstreamError, code="translator-quota-exhausted", title="The translator's quota is used up"
): ...


class TranslatorUnauthorized(UpstreamError, code="translator-unauthorized", title="The translator refused the key"): ...


class TranslatorRefusedRequest(
    UpstreamError, code="translator-refused-request", title="The translator refused the request"
): ...


class TranslatorNotConfigured(
    UpstreamError, code="translator-not-configured", title="The English path needs a translator"
): ...


class StoreError(SaitenError, code="store-error", title="The store failed"): ...


class StoreUnavailable(StoreError, code="store-unavailable", title="The store cannot be reached"): ...


class StoreFull(StoreError, code="store-full", title="The store is full"): ...


class ProjectFull(StoreError, code="project-full", title="The project may not store any more"):
    """The project has `used` bytes of the `most` that it may store, and `more` do not fit."""

    def __init__(self, *, used: int, more: int, most: int) -> None:
        asked = f", and this needs {more:,} more" if more else ""
        super().__init__(
            f"the project stores {used:,} of {most:,} bytes{asked}; erase what is not needed, or have its quota raised "
            "(SAITEN_PROJECT_BYTES)"
        )
        self.used, self.more, self.most = used, more, most


MOST_FAULTS = 20
"""Faults that an error lists, and after which a batch's document is not read any further."""

MOST_REFUSED = 1_000
"""Faults after which reading stops."""


class InvalidLines(InvalidRequest):
    """Lines that are not valid. `faults` are (number from 1, what is wrong) in order, never empty, at most MOST_FAULTS;
    `total` also counts those that are not listed. `noun` is what is numbered, such as a line or an element of an array.
    If reading `stopped` early, `total` is a lower bound."""

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

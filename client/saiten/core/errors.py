"""What can go wrong between a caller and a service.

SaitenError
├── ServiceUnreachable       no answer, or no Saiten service at the address
├── PrivateServiceFailed     a private service did not start
├── ServerMissing            what was asked for needs the server, which is not installed
├── AnswerInvalid            the answer is not one of this version of Saiten
├── InputUnusable            a file cannot be read
├── BatchStopped             a run paused or was cancelled before it was complete
├── BatchesRequired          files were named where only a service's batches will do
├── JudgeUnfit               the service's judge is not one that the caller allows
├── TimeLimitReached         the caller's own limit of time is over
└── ServiceRefused           a problem document, with its `code`
    └── SignatureMismatch    two runs that were scored differently
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class SaitenError(Exception):
    """`detail` is one sentence for the caller; `code` is stable, and each subclass has its own."""

    code = "saiten-error"

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class ServiceUnreachable(SaitenError):
    code = "service-unavailable"


class PrivateServiceFailed(SaitenError):
    code = "private-service-failed"


class ServerMissing(SaitenError):
    code = "server-missing"


class AnswerInvalid(SaitenError):
    code = "service-reply-invalid"


class InputUnusable(SaitenError):
    code = "input-unusable"


class BatchesRequired(SaitenError):
    code = "batches-required"


class JudgeUnfit(SaitenError):
    code = "judge-unfit"


class TimeLimitReached(SaitenError):
    code = "time-limit-reached"


class BatchStopped(SaitenError):
    """A run that paused or was cancelled; `batch` names it, so that it can be resumed and waited for again."""

    code = "batch-stopped"

    def __init__(self, detail: str, batch: str) -> None:
        super().__init__(detail)
        self.batch = batch


class ServiceRefused(SaitenError):
    """A request that the service answered with an error.

    `answer` is the problem document, empty where the answer held none; `status` is the HTTP status.
    """

    def __init__(self, detail: str, answer: Mapping[str, Any], status: int) -> None:
        super().__init__(detail)
        self.answer = answer
        self.status = status
        code = answer.get("code")
        self.code = code if isinstance(code, str) else f"http-{status}"

    @property
    def faults(self) -> list[tuple[str, str]]:
        """(JSON pointer, what is wrong) of each fault of the request that the problem document lists."""
        errors = self.answer.get("errors")
        listed = [error for error in errors if isinstance(error, dict)] if isinstance(errors, list) else []
        return [(str(error.get("pointer", "")), str(error.get("detail", ""))) for error in listed]

    @property
    def total(self) -> int:
        """All faults of the request, also those that the problem document does not list."""
        stated = self.answer.get("total")
        return stated if isinstance(stated, int) else len(self.faults)


class SignatureMismatch(ServiceRefused):
    """Two runs cannot be compared: `pieces` holds what differs as (baseline, candidate) per piece of the signature."""

    @property
    def pieces(self) -> dict[str, tuple[str, str]]:
        found = self.answer.get("pieces")
        pairs = found.items() if isinstance(found, dict) else ()
        return {name: (str(p[0]), str(p[1])) for name, p in pairs if isinstance(p, list) and len(p) == 2}

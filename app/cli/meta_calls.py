"""What the commands ask of batches: of the configured database in this process, or of a running service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from app import __version__
from app.cli.patience import is_final, open_transport
from app.cli.scoring import READ_SECONDS, greet, read_answer
from app.container import Container, open_container
from app.domain.analysis_request import AnalysisRequest
from app.domain.errors import SaitenError, SettingsInvalid, SignatureMismatch
from app.domain.model import Value
from app.domain.reports import (
    AgreementReport,
    BlendFit,
    CompositeFit,
    CorrelationReport,
    HierarchyReport,
    WinReport,
)
from app.settings import is_http_url, read_settings

PROJECT = "default"
"""The project of what is scored without a key."""

REPORTS: dict[str, type[Value]] = {
    "agreement": AgreementReport,
    "correlation": CorrelationReport,
    "hierarchy": HierarchyReport,
    "composite-fit": CompositeFit,
    "blend-fit": BlendFit,
    "win-rates": WinReport,
}

PASSING = frozenset({429, 502, 503, 504})
"""Statuses of what may go by itself: a limit, a proxy whose service starts anew."""

ATTEMPTS = 6
PAUSE_SECONDS = 0.5
"""After the first attempt; each further pause is twice as long, which makes a quarter of a minute in all."""

MOST_PAUSE_SECONDS = 60.0

Model = TypeVar("Model", bound=BaseModel)
Sleep = Callable[[float], Awaitable[None]]


class ServiceRefused(SaitenError):
    """What a service said no to, in its own words; `answer` is the whole problem document."""

    code = "service-refused"
    title = "The service refused"

    def __init__(self, detail: str, answer: dict[str, Any]) -> None:
        super().__init__(detail)
        self.answer = answer


@asynccontextmanager
async def calling(url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the service at `url`. Raises SettingsInvalid where no Saiten that takes the key answers."""
    if not is_http_url(url):
        raise SettingsInvalid(f"--url {url!r} is not the URL of a service; write it like http://127.0.0.1:8000")
    settings = read_settings()
    key = settings.api_key.get_secret_value() if settings.api_key else None
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    timeout, transport = httpx.Timeout(10.0, read=READ_SECONDS), open_transport()
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=timeout, transport=transport) as client:
        await greet(client, str(client.base_url.copy_with(userinfo=b"")).rstrip("/"))
        yield client


async def post(client: httpx.AsyncClient, path: str, body: BaseModel, *, again: bool = True) -> bytes:
    """The answer's JSON; raises what `ask` raises."""
    sent = body.model_dump(mode="json", exclude_unset=True)
    return (await ask(client, "POST", path, again=again, json=sent)).content


async def ask(
    client: httpx.AsyncClient, method: str, path: str, *, again: bool = True, sleep: Sleep = asyncio.sleep, **what: Any
) -> httpx.Response:
    """The answer. `again`: asking twice does no harm, so that what may pass by itself is waited out.

    Raises SettingsInvalid where nobody answers, SignatureMismatch, and ServiceRefused for any other no.
    """
    pause = PAUSE_SECONDS
    for attempt in range(1, ATTEMPTS + 1):
        last = not again or attempt == ATTEMPTS
        try:
            response = await client.request(method, path, **what)
        except httpx.HTTPError as error:
            if last:
                raise SettingsInvalid(f"the service gave no answer ({type(error).__name__}); is it still up?") from None
        else:
            if response.is_success:
                return response
            if last or response.status_code not in PASSING or is_final(response):
                raise refusal(response)
            pause = max(pause, wished_pause(response))
        await sleep(pause)
        pause *= 2
    raise SettingsInvalid("the service gave no answer")


def wished_pause(response: httpx.Response) -> float:
    """Seconds that the service asked for in `Retry-After`, a minute at most; 0 where it named none."""
    said = response.headers.get("retry-after", "")
    return min(float(said), MOST_PAUSE_SECONDS) if said.isascii() and said.isdigit() else 0.0


def refusal(response: httpx.Response) -> SaitenError:
    """The error that a problem document tells of."""
    answer = read_answer(response)
    detail, pieces = answer.get("detail"), answer.get("pieces")
    said = detail if isinstance(detail, str) else f"the service answered {response.status_code} without a reason"
    if answer.get("code") == SignatureMismatch.code and isinstance(pieces, dict):
        pairs = {name: pair for name, pair in pieces.items() if isinstance(pair, list) and len(pair) == 2}
        return SignatureMismatch(said, pieces={name: (str(left), str(right)) for name, (left, right) in pairs.items()})
    return ServiceRefused(said, answer)


def understand(model: type[Model], content: bytes) -> Model:
    """The answer as a value; raises SettingsInvalid where a service of another version meant something else."""
    try:
        return model.model_validate_json(content)
    except ValidationError:
        raise SettingsInvalid(
            f"the service's answer is not understood; is it of this command's version, {__version__}?"
        ) from None


async def analyse_batches(name: str, request: AnalysisRequest, url: str | None) -> Value:
    """The analysis of batches, here or there."""
    if url is None:
        async with opened() as service:
            return await service.comparison.analyse(PROJECT, request)
    async with calling(url) as client:
        return understand(REPORTS[name], await post(client, f"/v1/analyses/{name}", request))


@asynccontextmanager
async def opened() -> AsyncIterator[Container]:
    """The service in this process, over the configured database; it judges nothing."""
    async with open_container(read_settings().without_judge()) as service:
        yield service

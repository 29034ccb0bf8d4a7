"""Where human ratings are kept: a running service, or the configured database in this process."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

import httpx

from app.cli.actor import cli_actor
from app.cli.meta_calls import PROJECT, ServiceRefused, ask, calling, opened, understand
from app.cli.places import read_faults
from app.container import Container
from app.domain.audit import AuditEvent
from app.domain.dialogue import DEFAULT_LIMITS
from app.domain.errors import InvalidRequest, SettingsInvalid
from app.domain.human_rating import Exclusion, HumanRating, RatingFilter, tell_rating
from app.domain.lines import InvalidLines
from app.domain.model import Value
from app.domain.strict_json import StrictJSONError, parse_strict_json
from app.meta.rating_service import MOST_BATCHES
from app.meta_ports import RatingsKept

PAGE = 1000
NDJSON = "application/x-ndjson"
EXCLUSIONS = "/v1/ratings/exclusions"
REFUSED = frozenset({400, 404, 422})
"""Statuses of ratings that will not be taken however often they are sent."""


class Place(Protocol):
    """Where ratings are kept.

    Raises NotFound and InvalidRequest, the faults of single ratings as InvalidLines numbered from 1 or by a pointer
    that is their number from 0; and other SaitenErrors.
    """

    async def most_bytes(self) -> float:
        """How much may be kept at a time, as NDJSON."""
        ...

    async def keep(self, ratings: Sequence[HumanRating]) -> RatingsKept:
        """All or none."""
        ...

    async def settle(self) -> None:
        """Returns when what follows from the ratings will be done, whether or not this process lives on."""
        ...

    def pages(self, wanted: RatingFilter) -> AsyncIterator[list[dict[str, Any]]]:
        """The ratings in the order in which they came in."""
        ...

    async def exclude(self, exclusion: Exclusion) -> bool:
        """Whether the rater or round counted until now."""
        ...

    async def include(self, exclusion: Exclusion) -> bool:
        """Whether the rater or round did not count until now."""
        ...


@dataclass(frozen=True)
class Here:
    """This process, over the configured database."""

    service: Container

    async def most_bytes(self) -> float:
        return float("inf")

    async def keep(self, ratings: Sequence[HumanRating]) -> RatingsKept:
        return await self.service.ratings.service.keep_ratings(PROJECT, ratings)

    async def settle(self) -> None:
        await self.service.ratings.service.settle()

    async def pages(self, wanted: RatingFilter) -> AsyncIterator[list[dict[str, Any]]]:
        after = -1
        while page := await self.service.ratings.service.list_ratings(PROJECT, wanted, after=after, limit=PAGE):
            after = page[-1][0]
            yield [tell_rating(rating) for _, rating in page]

    async def exclude(self, exclusion: Exclusion) -> bool:
        return await self._note(
            "ratings.excluded", exclusion, await self.service.ratings.service.exclude(PROJECT, exclusion)
        )

    async def include(self, exclusion: Exclusion) -> bool:
        return await self._note(
            "ratings.included", exclusion, await self.service.ratings.service.include(PROJECT, exclusion)
        )

    async def _note(self, action: str, exclusion: Exclusion, done: bool) -> bool:
        if done:
            now, target = datetime.now(UTC), exclusion.round or "a rater"
            event = AuditEvent(at=now, project=PROJECT, actor=cli_actor(), action=action, target=target, detail={})
            await self.service.governance.audit.note(event)
        return done


class Kept(Value):
    """The service's answer."""

    added: int
    replaced: int


class Added(Value):
    """The service's answer to an exclusion."""

    added: int


class Removed(Value):
    """The service's answer where one is taken back."""

    removed: int


@dataclass(frozen=True)
class There:
    """A running service."""

    client: httpx.AsyncClient

    async def most_bytes(self) -> float:
        limits = (await ask(self.client, "GET", "/v1/info")).json().get("limits", {})
        told = limits.get("body_bytes") if isinstance(limits, dict) else None
        return told if isinstance(told, int) else DEFAULT_LIMITS.body_bytes

    async def keep(self, ratings: Sequence[HumanRating]) -> RatingsKept:
        body = b"".join(map(write_line, ratings))
        # With a key of its own a piece counts once, however often it is sent.
        headers = {"Content-Type": NDJSON, "Idempotency-Key": secrets.token_hex(16)}
        try:
            response = await ask(self.client, "POST", "/v1/ratings", content=body, headers=headers)
        except ServiceRefused as error:
            raise read_refusal(error) from None
        kept = understand(Kept, response.content)
        return RatingsKept(kept.added, kept.replaced)

    async def settle(self) -> None:
        """The service does so by itself."""

    async def pages(self, wanted: RatingFilter) -> AsyncIterator[list[dict[str, Any]]]:
        query = {**wanted.model_dump(exclude_none=True), "limit": str(PAGE)}
        while True:
            response = await ask(self.client, "GET", "/v1/ratings", params=query)
            yield list(read_lines(response.content))
            cursor = response.headers.get("x-next-cursor")
            if cursor is None:
                return
            query["cursor"] = cursor

    async def exclude(self, exclusion: Exclusion) -> bool:
        body = exclusion.model_dump_json(exclude_none=True).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": secrets.token_hex(16)}
        response = await ask(self.client, "POST", EXCLUSIONS, content=body, headers=headers)
        return understand(Added, response.content).added > 0

    async def include(self, exclusion: Exclusion) -> bool:
        response = await ask(self.client, "DELETE", EXCLUSIONS, params=exclusion.model_dump(exclude_none=True))
        return understand(Removed, response.content).removed > 0


def write_line(rating: HumanRating) -> bytes:
    """The rating as it is sent."""
    return (json.dumps(tell_rating(rating), ensure_ascii=False, separators=(",", ":")) + "\n").encode()


def read_lines(content: bytes) -> Iterator[dict[str, Any]]:
    """The ratings of an answer; raises SettingsInvalid where it holds something else."""
    for line in content.split(b"\n"):
        if not line.strip():
            continue
        try:
            found = parse_strict_json(line)
        except StrictJSONError:
            found = None
        if not isinstance(found, dict) or not isinstance(found.get("ratings"), dict):
            raise SettingsInvalid("the service's answer holds no ratings; is it of this command's version?")
        yield found


def read_refusal(error: ServiceRefused) -> Exception:
    """What the service said no to, as keeping ratings here would say it; the error itself where it is none of them."""
    if error.answer.get("status") not in REFUSED:
        return error
    faults = [
        (int(number) + 1, what.removeprefix(f"line {int(number) + 1}: "))
        for where, what in read_faults(error.answer)
        if (number := where.removeprefix("/")).isascii() and number.isdigit()
    ]
    if not faults:
        return InvalidRequest(error.detail)
    more = error.answer.get("total")
    return InvalidLines(faults, more if isinstance(more, int) else None)


def cut(ratings: Sequence[HumanRating], most_bytes: float) -> Iterator[Sequence[HumanRating]]:
    """The ratings in pieces that may be kept at a time."""
    start, held, batches = 0, 0, set[str]()
    for number, rating in enumerate(ratings):
        size = len(write_line(rating))
        named = {rating.batch} if rating.batch is not None else set[str]()
        if number > start and (held + size > most_bytes or len(batches) + len(named - batches) > MOST_BATCHES):
            yield ratings[start:number]
            start, held, batches = number, 0, set[str]()
        held += size
        batches |= named
    yield ratings[start:]


@asynccontextmanager
async def open_place(url: str | None) -> AsyncIterator[Place]:
    """A service, or this process."""
    if url is None:
        async with opened() as service:
            yield Here(service)
        return
    async with calling(url) as client:
        yield There(client)

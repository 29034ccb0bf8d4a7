"""Batches as they answer a request: one that was accepted, and pages of a list."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Depends, Query, Request

from saiten_server.core.batch import Batch, BatchFilter, BatchStatus, KeyedAnswer
from saiten_server.platform.web.dependencies import (
    METADATA,
    Whole,
    cut_page,
    read_cursor,
    read_metadata_query,
    refuse_other_queries,
    tell_value,
)
from saiten_server.runs.service import BatchService

ACCEPTED = 202


def keep_under(request: Request, key: str, batch: Batch) -> KeyedAnswer:
    """What a replay of the acceptance answers."""
    return KeyedAnswer(key, ACCEPTED, bytes(tell_value(request, batch, ACCEPTED).body))


@dataclass(frozen=True)
class BatchListing:
    """A page of batches that is asked for: at most `limit`, after the last one of the page before."""

    wanted: BatchFilter
    after: tuple[datetime, str] | None
    limit: int

    async def read(self, service: BatchService, project: str) -> tuple[list[Batch], str | None]:
        """The batches, newest first, and the cursor of the next page where there is one."""
        found = await service.list(project, self.wanted, after=self.after, limit=self.limit + 1)
        shown, following = cut_page(found, self.limit, lambda batch: (batch.created_at, batch.id))
        return [*shown], following


async def read_listing(
    request: Request,
    *,
    name: str | None = None,
    rubric: str | None = None,
    status: BatchStatus | None = None,
    limit: Annotated[Whole, Query(ge=1, le=200)] = 50,
    cursor: str | None = None,
) -> BatchListing:
    """What the query asks for; `metadata.KEY=VALUE` is a filter too. Raises InvalidRequest."""
    refuse_other_queries(request, "name", "rubric", "status", "limit", "cursor", beginning=METADATA)
    wanted = BatchFilter(name=name, rubric=rubric, status=status, metadata=read_metadata_query(request))
    return BatchListing(wanted, read_cursor(cursor), limit)


Listing = Annotated[BatchListing, Depends(read_listing)]

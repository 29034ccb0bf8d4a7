"""Links between judges: made of two batches of the same responses, stored, and used where a caller asks for one."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from saiten.core.messages import Message
from saiten_server.comparison.links.store import LinkStore
from saiten_server.comparison.links.values import (
    AspectLink,
    Link,
    LinkMark,
    LinkMethod,
    LinkRequest,
    RunRole,
    StoredLink,
)
from saiten_server.comparison.runs import RunReader, find_batch
from saiten_server.comparison.values import ComparedRun
from saiten_server.core.batch import Batch
from saiten_server.core.errors import InvalidRequest, NotFound
from saiten_server.core.rubric import Rubric
from saiten_server.core.signature import read_comparable, read_signature, sign
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.summary import SYSTEM
from saiten_server.scoring.rubrics.files import RubricSource

if TYPE_CHECKING:
    from saiten_server.comparison.links.rules import LinkUse
    from saiten_server.runs.frame import RunFrame

LINK_RESULTS_PAGE = 500
MOST_RESPONSES = 200_000
"""Of a batch: what both judges rated is in memory at a time."""

BLEND = frozenset({"encoder", "baseline", "weight", "blended"})
"""Pieces of a signature that are not the judge's: each run keeps its own."""


@dataclass(kw_only=True, eq=False)
class LinkService:
    """Links within the caller's project. Methods raise NotFound for a batch or a link that is not in the project,
    InvalidRequest, UnknownRubric and StoreError."""

    batches: BatchStore
    runs: RunReader
    links: LinkStore
    rubrics: RubricSource
    now: Callable[[], datetime]
    new_id: Callable[[], str]

    def __post_init__(self) -> None:
        self._gate = asyncio.Semaphore(1)

    async def make(self, project: str, request: LinkRequest) -> Link:
        """Links the judges of two batches, aspect by aspect, and stores the link, which says why where an aspect is
        refused."""
        both = [await find_batch(self.batches, project, one) for one in (request.old, request.new)]
        signatures = [sign_batch(batch, f"/{role}") for batch, role in zip(both, ("old", "new"), strict=True)]
        if read_comparable(signatures[0]) == read_comparable(signatures[1]):
            raise InvalidRequest(Message("link-same-judge"), pointer="/new")
        rubrics = [self.rubrics.nearest(batch.rubric_name) for batch in both]
        async with self._gate:
            old, new = [await self._read(project, *each) for each in zip(both, rubrics, strict=True)]
            made = await asyncio.to_thread(link_ratings, old, new, rubrics, request.method)
        link = Link(
            id=self.new_id(),
            created_at=self.now(),
            old=both[0].id,
            new=both[1].id,
            old_signature=signatures[0],
            new_signature=signatures[1],
            unpaired=made.unpaired,
            aspects=made.aspects,
        )
        await self.links.keep(project, StoredLink(link, made.draws))
        return link

    async def find(self, project: str, link_id: str) -> Link:
        """The link."""
        return (await self.find_stored(project, link_id)).link

    async def find_stored(self, project: str, link_id: str, *, pointer: str | None = None) -> StoredLink:
        """The link with its resamples."""
        found = await self.links.find(project, link_id)
        if found is None:
            raise NotFound(Message("link-not-found", id=link_id[:64]), pointer=pointer)
        return found

    async def remove(self, project: str, link_id: str) -> None:
        """Removes it."""
        if not await self.links.remove(project, link_id):
            raise NotFound(Message("link-not-found", id=link_id[:64]))

    async def _read(self, project: str, batch: Batch, rubric: Rubric) -> RunFrame:
        """The batch with what pairs its responses with those of another, and with the noise of their ratings."""
        if batch.counts.total > MOST_RESPONSES:
            raise InvalidRequest(Message("link-responses-most", id=batch.id, most=MOST_RESPONSES))
        frame = await self.runs.read_frame(project, batch, rubric)
        if batch.texts == "keep":
            frame = await self.runs.read_texts(batch, frame)
        noise = await self._read_noise(project, batch)

        def work() -> RunFrame:
            import numpy as np

            places = frame.positions.tolist()
            default = batch.metadata.get(SYSTEM)
            return replace(
                frame,
                labels=tuple(label._replace(system=label.system or default) for label in frame.labels),
                noise={name: np.array([own.get(place, np.nan) for place in places]) for name, own in noise.items()},
            )

        return await asyncio.to_thread(work)

    async def _read_noise(self, project: str, batch: Batch) -> dict[str, dict[int, float]]:
        """The variance of the mean over samples, by aspect and position; empty for a judge that gave one sample."""
        found: dict[str, dict[int, float]] = {}
        after = -1
        while batch.judge.samples > 1:
            page = await self.batches.results(project, batch.id, after=after, limit=LINK_RESULTS_PAGE)
            if not page:
                break
            for result in page:
                for name, aspect in (result.evaluation.aspects if result.evaluation else {}).items():
                    valid = sum(sample is not None for sample in aspect.samples)
                    if valid > 1 and aspect.sd is not None:
                        found.setdefault(name, {})[result.entry.position] = aspect.sd**2 / (valid - 1)
            after = page[-1].entry.position
        return found

    # Last, for its name hides the type's from whatever stands below

    async def list(self, project: str) -> Sequence[Link]:
        """The project's links, newest first."""
        return await self.links.list(project)


class LinksMade(NamedTuple):
    """The links of all aspects, with the tables of their resamples."""

    aspects: dict[str, AspectLink]
    draws: dict[str, builtins.list[builtins.list[float]]]
    unpaired: int


def sign_batch(batch: Batch, pointer: str) -> str:
    """The one way in which the batch was scored; raises InvalidRequest where there is none, or several."""
    lines = {tuple(read_comparable(line).items()): line for line in batch.signature_lines}
    if len(lines) != 1:
        several = "several ways" if lines else "no way yet"
        raise InvalidRequest(Message("link-one-judge", how=several), pointer=pointer)
    return next(iter(lines.values()))


def link_ratings(old: RunFrame, new: RunFrame, rubrics: Sequence[Rubric], method: LinkMethod | None) -> LinksMade:
    """Links each aspect that either judge rated."""
    from saiten_server.comparison.links.rules import link_judges, pair_judges, pair_responses

    rows, unpaired = pair_responses(old, new)
    scales = [{aspect.id: aspect.values for aspect in rubric.aspects} for rubric in rubrics]
    aspects, draws = dict[str, AspectLink](), dict[str, builtins.list[builtins.list[float]]]()
    for name in dict.fromkeys([*scales[0], *scales[1]]):
        left, right = (own.get(name) for own in scales)
        if left is None or right is None or left != right:
            reason = (
                "old-rubric-lacks-it"
                if left is None
                else "new-rubric-lacks-it"
                if right is None
                else "judges-scales-differ"
            )
            aspects[name] = AspectLink(state="refused", reason=Message(reason), n=0, correlation=None)
            continue
        aspects[name], tables = link_judges(pair_judges(name, old, new, rows, left), method=method)
        if tables is not None:
            draws[name] = tables.tolist()
    return LinksMade(aspects, draws, unpaired)


def use_link(
    stored: StoredLink, runs: Mapping[RunRole, ComparedRun], rubrics: Mapping[RunRole, Rubric]
) -> tuple[dict[RunRole, ComparedRun], LinkUse]:
    """The runs, those of the old judge on the new judge's scale. Raises InvalidRequest where neither is the old
    judge's. It loads numpy, so run it in a thread."""
    from saiten_server.comparison.links.rules import LinkUse, link_run

    link = stored.link
    shown, values = dict(runs), {}
    for role, run in runs.items():
        signatures = [translate_signature(line, link) for line in run.signatures]
        if signatures and all(signatures):
            counted = {line: count for line, count in zip(signatures, run.signatures.values(), strict=True) if line}
            shown[role], values[role] = link_run(run, stored, rubrics[role], counted)
    if not values:
        raise InvalidRequest(Message("link-no-old-run"), pointer="/link")
    mark = LinkMark(
        id=link.id,
        old_signature=link.old_signature,
        new_signature=link.new_signature,
        runs=tuple(values),
        refused={name: one.reason for name, one in link.aspects.items() if one.reason is not None},
    )
    return shown, LinkUse(mark, values.get("baseline"), values.get("candidate"))


def choose_link(links: Sequence[Link], lines: Sequence[str], targets: Sequence[str]) -> Link | None:
    """The first of the links under which ratings with the signatures `lines` count as made like `targets`, and of those
    with a linked aspect if there is one; None where there is none, or they were made alike already."""
    wanted = [read_comparable(target) for target in targets]
    if not lines or not wanted or all(read_comparable(line) in wanted for line in lines):
        return None
    for link in sorted(links, key=lambda one: all(aspect.state == "refused" for aspect in one.aspects.values())):
        moved = [translate_signature(line, link) for line in lines]
        if all(line is not None and read_comparable(line) in wanted for line in moved):
            return link
    return None


def translate_signature(line: str, link: Link) -> str | None:
    """The signature with the new judge's pieces in the place of the old judge's; None where it is not the old judge's.
    What belongs to the blend stays as it is."""
    own, old, new = (read_signature(one) for one in (line, link.old_signature, link.new_signature))
    known = read_comparable(link.old_signature)
    judged = {key for key in {*read_comparable(line), *known} if key not in BLEND}
    if any(own.get(key) != old.get(key) for key in judged):
        return None
    kept = {key: value for key, value in own.items() if key not in judged}
    return sign({**{key: value for key, value in new.items() if key not in BLEND}, **kept})

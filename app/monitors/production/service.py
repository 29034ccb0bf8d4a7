"""Live conversations become items of a dataset, and a window is found for a rating round or as a baseline."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row

from saiten.core.messages import Message
from saiten_server.core.batch import BatchConversation
from saiten_server.core.conversation import Conversation
from saiten_server.core.dialogue import Limits
from saiten_server.core.errors import InvalidRequest, NotFound
from saiten_server.core.model import pointer
from saiten_server.governance.store import PolicyStore
from saiten_server.monitors.production.store import ChosenConversation, ProductionStore
from saiten_server.monitors.production.values import DatasetGrowth, DatasetRequest
from saiten_server.monitors.reading import read_conversation
from saiten_server.monitors.store.entering import begin_window
from saiten_server.monitors.traces.store import LiveStore
from saiten_server.monitors.values import Monitor
from saiten_server.platform.capability import Ground
from saiten_server.runs.datasets.service import DatasetService
from saiten_server.runs.datasets.service import open_service as open_datasets
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.summary import MONITOR, PROBABILITY

MOST_ADDED_BYTES = 32_000_000
"""Of the conversations that are added at a time, as JSON."""

WINDOW, CONVERSATION = "window", "conversation"
"""Metadata of an item: when its window began, and the caller's name of the conversation."""


@dataclass(kw_only=True, eq=False)
class ProductionService:
    """What a monitor saw, put to further use, within the caller's project. `Monitor`s are the project's own. Methods
    raise InvalidRequest, NotFound and the `Store…` errors."""

    store: ProductionStore
    datasets: DatasetService
    batches: BatchStore
    live: LiveStore
    policies: PolicyStore
    limits: Limits

    async def add_to_dataset(self, project: str, monitor: Monitor, asked: DatasetRequest) -> DatasetGrowth:
        """Adds the conversations, whole and as they were redacted, to the dataset's next version. Each is there once,
        by its id, however often it is added. Raises InvalidRequest where none can be added, for more than a dataset
        holds, and where the project's policy lets no text stay."""
        if (await self.policies.find_policy(project)).texts != "keep":
            raise InvalidRequest(Message("dataset-texts-go"))
        chosen, items = list[ChosenConversation](), list[BatchConversation]()

        async def read() -> Sequence[BatchConversation]:
            chosen[:] = await self._choose(project, monitor.id, asked)
            items[:] = await self._read_all(project, monitor, chosen)
            return items

        dataset, added = await self.datasets.add(project, asked.dataset, read)
        return DatasetGrowth(
            id=dataset.id,
            name=dataset.name,
            version=dataset.version,
            items=dataset.items,
            added=added,
            known=len(items) - added,
            unavailable=len(chosen) - len(items),
        )

    async def _choose(self, project: str, monitor_id: str, asked: DatasetRequest) -> list[ChosenConversation]:
        if asked.filter is not None:
            found = await self.store.search(monitor_id, asked.filter, asked.limit)
            if not found:
                raise InvalidRequest(Message("no-conversation-fits"), pointer="/filter")
            return found
        names = [*dict.fromkeys(asked.conversations or ())]
        known = await self.store.find_named(project, monitor_id, names)
        for number, name in enumerate(asked.conversations or ()):
            if name not in known:
                raise InvalidRequest(
                    Message("conversation-not-seen", name=name[:64]), pointer=pointer(("conversations", str(number)))
                )
        return [known[name] for name in names]

    async def _read_all(
        self, project: str, monitor: Monitor, chosen: Sequence[ChosenConversation]
    ) -> list[BatchConversation]:
        """Those whose texts are there. One is read after another, so that they are refused before they are too much."""
        found, size, texts = list[BatchConversation](), 0, dict[str, bool]()
        for one in chosen:
            item = await self._read(project, monitor, one, texts)
            if item is None:
                continue
            found.append(item)
            size += len(await asyncio.to_thread(item.model_dump_json))
            if size > MOST_ADDED_BYTES:
                raise InvalidRequest(Message("conversations-too-large", maximum=MOST_ADDED_BYTES))
        if not found:
            raise InvalidRequest(Message("conversations-without-texts"))
        return found

    async def _read(
        self, project: str, monitor: Monitor, one: ChosenConversation, texts: dict[str, bool]
    ) -> BatchConversation | None:
        """The conversation as the judge saw it, else as its trace has it; None where its texts are gone. `texts` says
        of runs whether they have theirs."""
        run, position = one.result.run, one.result.position
        if run is not None and position is not None:
            if run not in texts:
                batch = await self.batches.find(project, run)
                texts[run] = batch is not None and batch.texts == "keep"
            page = await self.batches.candidates(run, after=position - 1, limit=1) if texts[run] else []
            for entry, candidate in page:
                said = candidate.conversation
                if entry.position == position and said is not None and candidate.metadata.get(MONITOR) == monitor.id:
                    return self._keep(monitor, one, said, candidate.metadata)
        live = await self.live.find(project, one.id)
        item = None if live is None else await asyncio.to_thread(read_conversation, live, monitor.id, self.limits)
        return None if item is None else self._keep(monitor, one, item, item.metadata)

    def _keep(
        self, monitor: Monitor, one: ChosenConversation, said: Conversation, metadata: Mapping[str, str]
    ) -> BatchConversation:
        """The item: with the probability only where that is how it came into the sample, since one that was not drawn
        is here because someone chose it."""
        own = {
            MONITOR: monitor.id,
            WINDOW: begin_window(monitor.options.window, one.result.closed_at).isoformat(),
            CONVERSATION: metadata.get(CONVERSATION, ""),
        }
        if one.result.outcome == "sampled":
            own[PROBABILITY] = f"{one.result.probability:.6g}"
        own = {name: value for name, value in own.items() if value}
        others = [(name, value) for name, value in metadata.items() if name not in {*own, PROBABILITY}]
        room = max(0, self.limits.metadata_entries - len(own))
        return BatchConversation.model_construct(
            id=one.id,
            turns=said.turns,
            persona=said.persona,
            goal=said.goal,
            metadata={**own, **dict(others[:room])},
            dialogue=one.id,
        )

    async def find_window(self, project: str, monitor_id: str, run: str | None, *, complete: bool = True) -> Row[Any]:
        """The window of the run, or the last one that is complete. Raises NotFound where the monitor has none, and
        InvalidRequest for one that goes on where it has to be `complete`: what is still to come is not in it."""
        found = await self.store.find_window(project, monitor_id, run)
        if found is None:
            name = "no-complete-window" if run is None else "window-not-found"
            raise NotFound(Message(name, **({} if run is None else {"run": run[:64]})), pointer="/run")
        if complete and not (found.sealed and found.status == "completed"):
            raise InvalidRequest(Message("window-not-complete"), pointer="/run")
        return found


def open_service(ground: Ground) -> ProductionService:
    """The service on what all capabilities stand on."""
    return ProductionService(
        store=ProductionStore(ground.engine),
        datasets=open_datasets(ground),
        batches=BatchStore(ground.engine),
        live=LiveStore(ground.engine),
        policies=PolicyStore(ground.engine),
        limits=ground.settings.limits,
    )

"""The work of monitors beside that of batches: closed conversations enter their monitors, results come back, alarms are
judged, and windows end. Several processes may do it at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from saiten_server.core.batch import BatchOptions, any_request_of, list_candidates
from saiten_server.core.dialogue import Limits
from saiten_server.core.errors import InvalidRequest, SaitenError, StoreError, UnknownRubric
from saiten_server.core.evaluation import Metadata
from saiten_server.core.rubric import Rubric
from saiten_server.governance.policies import apply_policy
from saiten_server.governance.store import PolicyStore
from saiten_server.monitors.reading import find_live_faults, read_conversation
from saiten_server.monitors.sampling import attributes_of, fits
from saiten_server.monitors.store.alarms import Scales
from saiten_server.monitors.store.entering import SPANS, ClosedConversation, WindowPlace, enter_conversations
from saiten_server.monitors.store.folding import fold_results, forget_skipped
from saiten_server.monitors.store.monitors import MonitorStore
from saiten_server.monitors.traces.store import LiveStore
from saiten_server.monitors.traces.values import ConversationClaim, LiveConversation
from saiten_server.monitors.values import MonitorOptions, StoredMonitor
from saiten_server.platform.tasks import surviving
from saiten_server.runs.commits import enqueue
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.store.growing import GrowingBatch
from saiten_server.runs.work import JobQueue
from saiten_server.scoring.admission import quote
from saiten_server.scoring.evaluate import ScoringContext

logger = logging.getLogger("saiten.monitors")

ROUND_SECONDS = 1.0
CLAIMED = 50
CLAIM_SECONDS = 30.0

LEFT_TO_OTHERS = timedelta(hours=1)
"""How long the conversations of a monitor whose rubric a worker lacks wait for one that has it."""
SETTLING = timedelta(minutes=10)
"""How long after its end a window waits for conversations that are still on their way."""

SPARE_HOURS = 48.0
"""The running time that a window's run has beyond its own length."""

TIDY_ROUNDS = 600
KEPT = timedelta(days=30)
"""How long single conversations that were not sampled are listed."""


@dataclass(kw_only=True, eq=False)
class MonitorWork:
    """Works on the monitors of all projects as `owner`, until cancelled. `instruments` price conversations and know the
    rubrics; `window` is how many chunks of a run are queued at once."""

    store: MonitorStore
    conversations: LiveStore
    batches: BatchStore
    queue: JobQueue
    instruments: ScoringContext
    policies: PolicyStore
    limits: Limits
    new_id: Callable[[str], str]
    owner: str
    window: int
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def run(self) -> None:
        """Does a round a second. What a failure leaves undone, the next round finds."""
        rounds = 0
        while True:
            more = False
            with surviving(logger, "monitors"):
                more = await self.do_round()
                if rounds % TIDY_ROUNDS == 0:
                    await forget_skipped(self.store.engine, self.instruments.now() - KEPT)
                rounds += 1
            await self.sleep(0 if more else ROUND_SECONDS)

    async def do_round(self) -> bool:
        """One round; whether there is more to do at once."""
        now = self.instruments.now()
        monitors = await self.store.list_all(now)
        if not monitors:
            # The alarms of the last one, which is gone, must not stay on.
            self.instruments.telemetry.monitors(0, {}, {})
            return False
        claims = await self.conversations.claim(self.owner, now, limit=CLAIMED, lease_seconds=CLAIM_SECONDS)
        entered = await self._enter(claims, monitors, now)
        more = len(claims) == CLAIMED
        for stored in monitors:
            if stored.monitor.waiting or stored.monitor.id in entered:
                more |= await self._fold(stored)
        await self.store.seal_ended(now - SETTLING, now)
        await self._report(monitors)
        return more

    async def _report(self, monitors: Sequence[StoredMonitor]) -> None:
        """Tells the operator what waits, which alarms are on, and what is thinned."""
        alarms = await self.store.count_alarms()
        self.instruments.telemetry.monitors(
            sum(one.monitor.waiting for one in monitors),
            {one.monitor.id: alarms.get(one.monitor.id, 0) for one in monitors},
            {one.monitor.id: one.monitor.thinning for one in monitors},
        )

    async def _enter(
        self, claims: Sequence[ConversationClaim], monitors: Sequence[StoredMonitor], now: datetime
    ) -> set[str]:
        """Takes the conversations into their monitors, and returns those; then they are done with. What was entered
        and then reopened stays as it was scored: its later spans are late ones."""
        entered: set[str] = set()
        left: set[str] = set()
        for stored in monitors:
            mine = [claim.conversation for claim in claims if concerns(stored, claim.conversation)]
            if not mine:
                continue
            if (rubric := self._find_rubric(stored)) is not None:
                await self._enter_one(stored, rubric, mine)
                entered.add(stored.monitor.id)
            else:
                left |= {one.id for one in mine if now - (one.closed_at or one.last_at) < LEFT_TO_OTHERS}
        await self.conversations.finish([claim for claim in claims if claim.conversation.id not in left])
        return entered

    def _find_rubric(self, stored: StoredMonitor) -> Rubric | None:
        """The monitor's rubric. While workers are brought up to date some lack a new one."""
        try:
            return self.instruments.rubrics.get(stored.options.rubric)
        except UnknownRubric as error:
            about = {"target": stored.monitor.id, "code": error.code}
            logger.warning("a monitor's rubric is not here; its conversations are left to other workers", extra=about)
            self.instruments.telemetry.left_to_others()
            return None

    async def _enter_one(self, stored: StoredMonitor, rubric: Rubric, mine: Sequence[LiveConversation]) -> None:
        try:
            await self._take_in(stored, rubric, mine)
        except StoreError:
            raise
        except Exception:
            # One that cannot be read must not keep the others waiting for ever, nor be tried for ever itself.
            logger.exception("conversations cannot be taken in", extra={"code": SaitenError.code})
            for one in mine if len(mine) > 1 else ():
                await self._enter_one(stored, rubric, [one])

    async def _take_in(self, stored: StoredMonitor, rubric: Rubric, mine: Sequence[LiveConversation]) -> None:
        closed = await asyncio.to_thread(lambda: [self._read(stored, rubric, one) for one in mine])
        policy = await self.policies.find_policy(stored.project)

        def make_batch(found: StoredMonitor, place: WindowPlace) -> GrowingBatch:
            options = apply_policy(describe_run(found.options, found.monitor.id, rubric, place), policy)
            return GrowingBatch(self.new_id("ba_"), found.project, options, rubric.digest, None, found.api_key)

        entered = await enter_conversations(
            self.store.engine, stored.monitor.id, closed, make_batch, self.instruments.now()
        )
        for outcome in entered.outcomes:
            self.instruments.telemetry.monitored(outcome)
        for batch_id in entered.grown:
            await enqueue(self.queue, await self.batches.next_jobs(batch_id, self.window))

    def _read(self, stored: StoredMonitor, rubric: Rubric, live: LiveConversation) -> ClosedConversation:
        """The conversation with what code sees in it, and with its price where it may be sampled."""
        item = read_conversation(live, stored.monitor.id, self.limits)
        expected: float | None = 0.0
        if item is not None and stored.options.budget_usd_per_day is not None:
            ((_, candidate),) = list_candidates(item, 0, 0)
            options = BatchOptions(rubric=rubric.name, judge=stored.options.judge, relevance=None)
            try:
                expected = quote([any_request_of(options, candidate)], self.instruments).cost_usd
            except InvalidRequest:
                item = None
        found = find_live_faults(live, rubric.source_language)
        return ClosedConversation(live, live.closed_at or live.last_at, found, item, expected)

    async def _fold(self, stored: StoredMonitor) -> bool:
        """Takes in what is scored, and judges the alarms; whether more waits."""
        scales = read_scales(self.instruments, stored.options)
        try:
            return (await fold_results(self.store.engine, stored.monitor.id, scales, self.instruments.now())).more
        except StoreError:
            raise
        except Exception:
            # Other monitors go on.
            logger.exception(
                "results cannot be taken in", extra={"target": stored.monitor.id, "code": SaitenError.code}
            )
            return False


def concerns(stored: StoredMonitor, live: LiveConversation) -> bool:
    """Whether the conversation is the monitor's: of its project, with the attributes that it filters by, and not over
    before there was the monitor."""
    mine = live.project == stored.project and live.last_at >= stored.monitor.created_at
    return mine and fits(stored.options.filter, attributes_of(live))


def describe_run(options: MonitorOptions, monitor_id: str, rubric: Rubric, place: WindowPlace) -> BatchOptions:
    """The options of the run of a window."""
    named = {"monitor": monitor_id, "window": place.starts_at.isoformat(), "system": place.system, "build": place.build}
    metadata: Metadata = {key: value[:256] for key, value in named.items() if value is not None and value.strip()}
    hours = SPANS[options.window].total_seconds() / 3600 + SPARE_HOURS
    return BatchOptions.model_construct(
        **BatchOptions(relevance=None, deadline_hours=hours).__dict__
        | {"name": options.name, "rubric": rubric.name, "judge": options.judge, "metadata": metadata}
    )


def read_scales(instruments: ScoringContext, options: MonitorOptions) -> Scales:
    """The ends of the scales of the rubric's aspects, and their names; none where the rubric is gone."""
    try:
        rubric = instruments.rubrics.get(options.rubric)
    except UnknownRubric:
        return Scales()
    ends = {one.id: (float(min(one.values)), float(max(one.values))) for one in rubric.aspects}
    return Scales(ends, {one.id: {**one.name} for one in rubric.aspects})

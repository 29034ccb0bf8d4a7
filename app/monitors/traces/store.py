"""Spans and the conversations that they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from saiten_server.monitors.traces.values import Claim, LiveConversation, State, TraceRules


class LiveConversations(Protocol):
    """What monitors need of the conversations. Methods raise the `Store…` errors. (A protocol only until the store
    itself stands here under this name, with these methods.)"""

    async def set_rules(self, project: str, rules: TraceRules) -> None:
        """Replaces the project's rules, which hold for spans that arrive, and conversations that close, from now on."""

    async def close_due(self, now: datetime) -> int:
        """Closes conversations that are idle or have `max_turns`, of all projects; returns how many."""

    async def claim(self, owner: str, now: datetime, *, limit: int, lease_seconds: float) -> Sequence[Claim]:
        """Closed conversations that are not done and that no other worker has, oldest first. Each comes to one worker,
        and to another one only after `lease_until`."""

    async def finish(self, claim: Claim, now: datetime) -> bool:
        """Marks the conversation done, for good. False if it was reopened, erased, or given to another worker."""

    async def release(self, claim: Claim) -> None:
        """Gives the conversation back, to be claimed again."""

    async def find(self, project: str, conversation_id: str) -> LiveConversation | None:
        """The conversation as it is now."""

    async def list(
        self, project: str, *, state: State | None = None, before: tuple[datetime, str] | None = None, limit: int = 50
    ) -> Sequence[LiveConversation]:
        """The project's conversations, the newest (`first_at`, `id`) first."""

    async def erase(self, project: str, conversation_id: str) -> bool:
        """Removes the conversation with all its spans and texts; returns whether there was one."""

    async def erase_marked(self, project: str, attribute: str, value: str) -> int:
        """Removes all conversations with this attribute; returns how many."""

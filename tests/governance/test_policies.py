"""The policies' service: what is set is noted, and what cannot be noted is not set."""

from datetime import UTC, datetime

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.access import DEFAULT_POLICY, AuditEvent, ProjectPolicy
from saiten_server.core.errors import StoreUnavailable
from saiten_server.governance.policies import PolicyService, RecentPolicies
from saiten_server.governance.store import AuditLog, PolicyStore
from tests.support.faults import words

NOW = datetime(2026, 11, 21, tzinfo=UTC)


class FailingLog(AuditLog):
    async def note(self, event: AuditEvent) -> None:
        raise StoreUnavailable(words("away"))


@pytest.fixture
def policies(sqlite_engine: AsyncEngine) -> RecentPolicies:
    return RecentPolicies(PolicyStore(sqlite_engine))


async def test_a_change_is_noted_with_what_was_before(sqlite_engine: AsyncEngine, policies: RecentPolicies) -> None:
    audit = AuditLog(sqlite_engine)
    service = PolicyService(policies=policies, audit=audit, now=lambda: NOW)
    await service.change("team", ProjectPolicy(texts="drop"), actor="key_1")
    [event] = await audit.events("team", before=None, limit=9)
    assert (event.project, event.actor, event.action, event.at) == ("team", "key_1", "policy.changed", NOW)
    assert (event.detail["before"]["texts"], event.detail["after"]["texts"]) == ("keep", "drop")
    assert (await service.show("team")).texts == "drop"


async def test_what_cannot_be_noted_is_not_set(sqlite_engine: AsyncEngine, policies: RecentPolicies) -> None:
    service = PolicyService(policies=policies, audit=FailingLog(sqlite_engine), now=lambda: NOW)
    with pytest.raises(StoreUnavailable):
        await service.change("team", ProjectPolicy(texts="drop"), actor="key_1")
    assert await service.show("team") == DEFAULT_POLICY

"""The policies' service: what is set is noted, and what cannot be noted is not set."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from app.domain.errors import StoreUnavailable
from app.domain.policy import DEFAULT_POLICY, ProjectPolicy
from app.governance.policies import PolicyService
from tests.support.fake_audit_log import FakeAuditLog
from tests.support.fake_policy_store import FakePolicyStore

NOW = datetime(2026, 11, 21, tzinfo=UTC)


async def test_a_change_is_noted_with_what_was_before() -> None:
    audit, policies = FakeAuditLog(), FakePolicyStore()
    service = PolicyService(policies=policies, audit=audit, now=lambda: NOW)
    await service.change("team", ProjectPolicy(texts="drop"), actor="key_1")
    [event] = audit.noted
    assert (event.project, event.actor, event.action, event.at) == ("team", "key_1", "policy.changed", NOW)
    assert (event.detail["before"]["texts"], event.detail["after"]["texts"]) == ("keep", "drop")
    assert (await service.show("team")).texts == "drop"


async def test_what_cannot_be_noted_is_not_set() -> None:
    policies = FakePolicyStore()
    service = PolicyService(policies=policies, audit=FakeAuditLog(failing=StoreUnavailable("away")), now=lambda: NOW)
    with pytest.raises(StoreUnavailable):
        await service.change("team", ProjectPolicy(texts="drop"), actor="key_1")
    assert await service.show("team") == DEFAULT_POLICY

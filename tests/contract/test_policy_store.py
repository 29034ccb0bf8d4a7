"""Projects' policies, on each database and as a process remembers them."""

import asyncio
from datetime import UTC, datetime

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.access import DEFAULT_POLICY, ProjectPolicy
from saiten_server.governance.policies import RecentPolicies
from saiten_server.governance.store import PolicyStore

NOW = datetime(2026, 11, 21, 1, 0, tzinfo=UTC)
HASHED = ProjectPolicy(integrity="refuse", texts="hash", after_days=0.5)


@pytest.fixture
def kept(engine: AsyncEngine) -> PolicyStore:
    return PolicyStore(engine)


@pytest.fixture(params=["stored", "recent"])
def store(kept: PolicyStore, request: pytest.FixtureRequest) -> PolicyStore | RecentPolicies:
    return kept if request.param == "stored" else RecentPolicies(kept)


async def test_without_one_the_default_holds(store: PolicyStore | RecentPolicies, kept: PolicyStore) -> None:
    assert await store.find_policy("team") == DEFAULT_POLICY
    assert await kept.policies() == {}


async def test_a_policy_is_its_projects_own(store: PolicyStore | RecentPolicies, kept: PolicyStore) -> None:
    await store.save_policy("team", HASHED, NOW)
    assert await store.find_policy("team") == HASHED
    assert await store.find_policy("rivals") == DEFAULT_POLICY
    assert await kept.policies() == {"team": HASHED}


async def test_the_last_one_holds(store: PolicyStore | RecentPolicies, kept: PolicyStore) -> None:
    await store.save_policy("team", HASHED, NOW)
    await store.save_policy("team", DEFAULT_POLICY, NOW)
    assert await store.find_policy("team") == DEFAULT_POLICY
    await store.save_policy("b", HASHED, NOW)
    assert await kept.policies() == {"b": HASHED, "team": DEFAULT_POLICY}


async def test_two_who_set_it_at_once_do_not_collide(store: PolicyStore | RecentPolicies, kept: PolicyStore) -> None:
    wanted = [ProjectPolicy(after_days=float(days)) for days in range(8)]
    await asyncio.gather(*(store.save_policy("team", policy, NOW) for policy in wanted))
    assert await store.find_policy("team") in wanted


async def test_a_name_that_no_column_holds_has_the_default(
    store: PolicyStore | RecentPolicies, kept: PolicyStore
) -> None:
    assert await store.find_policy("te\0am") == DEFAULT_POLICY

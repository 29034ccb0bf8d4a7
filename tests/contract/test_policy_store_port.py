"""One suite for every `PolicyStore`: the fake that other tests use, and SQL on each database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from app.adapters.sql.engine import open_engine
from app.adapters.sql.governance import PolicyStore
from app.adapters.sql.schema import migrate
from app.domain.policy import DEFAULT_POLICY, ProjectPolicy
from app.governance.integrity import RecentPolicies
from app.governance_ports import PolicyStore
from tests.support.fake_policy_store import FakePolicyStore

NOW = datetime(2026, 11, 21, 1, 0, tzinfo=UTC)
HASHED = ProjectPolicy(integrity="refuse", texts="hash", after_days=0.5)


@pytest.fixture(params=["fake", "recent", "sqlite", "postgres"])
def backend(request: pytest.FixtureRequest) -> str | None:
    """The database's URL; None for the fake."""
    if request.param == "recent":
        return "recent"
    return None if request.param == "fake" else request.getfixturevalue(f"{request.param}_url")


@pytest.fixture
async def store(backend: str | None) -> AsyncIterator[PolicyStore]:
    if backend is None:
        yield FakePolicyStore()
        return
    if backend == "recent":
        yield RecentPolicies(FakePolicyStore())
        return
    engine = open_engine(backend)
    await migrate(engine)
    yield PolicyStore(engine)
    await engine.dispose()


async def test_without_one_the_default_holds(store: PolicyStore) -> None:
    assert await store.find_policy("team") == DEFAULT_POLICY
    assert await store.policies() == {}


async def test_a_policy_is_its_projects_own(store: PolicyStore) -> None:
    await store.save_policy("team", HASHED, NOW)
    assert await store.find_policy("team") == HASHED
    assert await store.find_policy("rivals") == DEFAULT_POLICY
    assert await store.policies() == {"team": HASHED}


async def test_the_last_one_holds(store: PolicyStore) -> None:
    await store.save_policy("team", HASHED, NOW)
    await store.save_policy("team", DEFAULT_POLICY, NOW)
    assert await store.find_policy("team") == DEFAULT_POLICY
    await store.save_policy("b", HASHED, NOW)
    assert await store.policies() == {"b": HASHED, "team": DEFAULT_POLICY}


async def test_two_who_set_it_at_once_do_not_collide(store: PolicyStore) -> None:
    wanted = [ProjectPolicy(after_days=float(days)) for days in range(8)]
    await asyncio.gather(*(store.save_policy("team", policy, NOW) for policy in wanted))
    assert await store.find_policy("team") in wanted


async def test_a_name_that_no_column_holds_has_the_default(store: PolicyStore) -> None:
    assert await store.find_policy("te\0am") == DEFAULT_POLICY

"""The caller's word comes first, then the project's policy."""

import asyncio
from datetime import UTC, datetime
from typing import get_args

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.access import DEFAULT_POLICY, Integrity, ProjectPolicy
from saiten_server.core.batch import BatchOptions
from saiten_server.core.errors import StoreUnavailable
from saiten_server.governance.policies import RecentPolicies, apply_policy, settle_for
from saiten_server.governance.store import PolicyStore
from tests.support.dict_cache import FakeTime
from tests.support.faults import words
from tests.support.records import make_request

NOW = datetime(2026, 11, 21, tzinfo=UTC)


@pytest.mark.parametrize("policy", get_args(Integrity))
def test_what_is_left_open_is_the_projects(policy: Integrity) -> None:
    request = make_request()
    assert apply_policy(request, ProjectPolicy(integrity=policy)) == request.model_copy(update={"integrity": policy})
    assert apply_policy(BatchOptions(name="夜間"), ProjectPolicy(integrity=policy)).integrity == policy


def test_what_the_caller_asks_for_stays() -> None:
    asked = make_request(integrity="flag")
    assert apply_policy(asked, ProjectPolicy(integrity="refuse")) is asked


def test_without_a_policy_it_is_flagged() -> None:
    assert apply_policy(make_request(), DEFAULT_POLICY).integrity == "flag"


async def test_the_policy_is_the_one_of_the_project(sqlite_engine: AsyncEngine) -> None:
    policies = RecentPolicies(PolicyStore(sqlite_engine))
    await policies.save_policy("strict", ProjectPolicy(integrity="refuse"), NOW)
    assert (await settle_for("strict", make_request(), policies)).integrity == "refuse"
    assert (await settle_for("other", make_request(), policies)).integrity == "flag"
    assert (await settle_for("strict", BatchOptions(integrity="judge-twice"), policies)).integrity == "judge-twice"


class CountingStore(PolicyStore):
    """Counts look-ups; `held` holds them up, after they have looked."""

    def __init__(self, engine: AsyncEngine) -> None:
        super().__init__(engine)
        self.looked = 0
        self.reading = asyncio.Event()
        self.held = asyncio.Event()
        self.held.set()

    async def find_policy(self, project: str) -> ProjectPolicy:
        self.looked += 1
        found = await super().find_policy(project)
        self.reading.set()
        await self.held.wait()
        return found


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def store(sqlite_engine: AsyncEngine) -> CountingStore:
    return CountingStore(sqlite_engine)


@pytest.fixture
def policies(store: CountingStore, time: FakeTime) -> RecentPolicies:
    return RecentPolicies(store, seconds=2.0, clock=time.clock)


async def test_a_policy_is_read_once_in_two_seconds(
    policies: RecentPolicies, store: CountingStore, time: FakeTime
) -> None:
    for _ in range(3):
        assert await policies.recent("team") == DEFAULT_POLICY
    assert store.looked == 1
    # Another process changes it.
    await store.save_policy("team", ProjectPolicy(integrity="refuse"), NOW)
    time.now += 1.7
    assert (await policies.recent("team")).integrity == "flag"
    time.now += 0.3
    assert (await policies.recent("team")).integrity == "refuse"
    assert store.looked == 2


async def test_who_asks_for_the_policy_itself_is_told_what_holds_now(
    policies: RecentPolicies, store: CountingStore
) -> None:
    await policies.recent("team")
    await store.save_policy("team", ProjectPolicy(integrity="refuse"), NOW)
    assert (await policies.find_policy("team")).integrity == "refuse"
    assert (await policies.recent("team")).integrity == "refuse"


async def test_what_this_process_changes_holds_at_once(policies: RecentPolicies) -> None:
    await policies.recent("team")
    await policies.save_policy("team", ProjectPolicy(integrity="refuse"), NOW)
    assert (await policies.recent("team")).integrity == "refuse"


async def test_what_was_being_read_during_a_change_is_not_remembered(
    policies: RecentPolicies, store: CountingStore
) -> None:
    store.held.clear()
    reading = asyncio.create_task(policies.recent("team"))
    await store.reading.wait()
    await policies.save_policy("team", ProjectPolicy(integrity="refuse"), NOW)
    store.held.set()
    assert (await reading).integrity == "flag"
    assert (await policies.recent("team")).integrity == "refuse"


async def test_a_change_that_failed_is_looked_at_anew(policies: RecentPolicies, store: CountingStore) -> None:
    await policies.recent("team")
    # Committed, but the answer of the database was lost.
    await store.save_policy("team", ProjectPolicy(integrity="refuse"), NOW)

    async def fail(project: str, wanted: ProjectPolicy, now: datetime) -> None:
        raise StoreUnavailable(words("gone"))

    store.save_policy = fail  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        await policies.save_policy("team", ProjectPolicy(integrity="refuse"), NOW)
    assert (await policies.recent("team")).integrity == "refuse"

"""Links in both databases: kept in a project, and gone with either of their batches."""

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.comparison.links.store import LinkStore
from saiten_server.comparison.links.values import AspectLink, Link, StoredLink
from saiten_server.core.errors import NotFound
from saiten_server.runs.store.batches import BatchStore
from tests.support.batches import START
from tests.support.scored_batches import score_batch


def make_link(number: int, old: str, new: str) -> StoredLink:
    refused = AspectLink(state="refused", reason="few", n=3, correlation=None)
    made = Link(
        id=f"ln_{number}",
        created_at=START,
        old=old,
        new=new,
        old_signature="judge:a",
        new_signature="judge:b",
        aspects={"warmth": refused},
    )
    return StoredLink(made, {"clarity": [[1.0, 2.5, 3.0]]})


async def test_a_link_is_the_projects_and_goes_with_either_batch(engine: AsyncEngine) -> None:
    batches, links = BatchStore(engine), LinkStore(engine)
    for name in ("ba_1", "ba_2", "ba_3"):
        await score_batch(batches, name, {"warmth": [0, 1]})
    made = [make_link(1, "ba_1", "ba_2"), make_link(2, "ba_3", "ba_1"), make_link(3, "ba_2", "ba_3")]
    for one in made:
        await links.keep("team", one)
    assert await links.list("team") == [one.link for one in reversed(made)]
    assert await links.find("team", "ln_1") == made[0]
    assert (await links.list("rivals"), await links.find("rivals", "ln_1")) == ([], None)
    assert (await links.remove("rivals", "ln_1"), await links.find("team", "ln_\0")) == (False, None)
    await batches.erase("team", "ba_1")
    assert await links.list("team") == [made[2].link]
    with pytest.raises(NotFound):
        await links.keep("team", make_link(4, "ba_1", "ba_2"))
    assert (await links.remove("team", "ln_3"), await links.remove("team", "ln_3")) == (True, False)

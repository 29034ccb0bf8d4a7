"""Pages of what another project has: there are none, whichever page it is, so that a new one cannot be forgotten."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx

from saiten_server.application import create_application
from saiten_server.platform.web.page import PageRoute
from tests.support.keyed import Header, make_keys
from tests.support.serving import Given

SAID = {"context": [{"speaker": "A", "text": "おはよう"}], "response": "おはよう、よく眠れた？"}
BODY = {"rubric": "ja-dialogue", "relevance": None, **SAID}
BATCH = {"rubric": "ja-dialogue", "relevance": None, "items": [{"id": "1", **SAID}]}

ID = re.compile("ds_[0-9a-f]+")

GENERAL = {"version": "0", "name": "none"}
"""Parameters of paths that name nothing of any project."""


def routes() -> Iterator[tuple[str, str]]:
    """Method and template of every page."""
    for route in create_application(Given(judge="lexical", encoder="off")).routes:
        if isinstance(route, PageRoute):
            yield from ((method, route.path) for method in sorted(route.methods or ()))


PAGES = sorted(set(routes()))
WITH_IDS = [page for page in PAGES if "{" in page[1] and not any(f"{{{name}}}" in page[1] for name in GENERAL)]


async def make_theirs(client: httpx.AsyncClient, key: Header) -> dict[str, str]:
    """Ids of what the key's project has, by the names that paths give them."""
    evaluation = (await client.post("/v1/evaluations", json=BODY, headers=key)).json()["id"]
    run = (await client.post("/v1/batches", json=BATCH, headers=key)).json()["id"]
    async with client.stream("GET", f"/v1/batches/{run}/events", headers=key) as events:
        await events.aread()  # to the end of the run
    started = await client.post("/rate", data={"run": run, "name": "一回目"}, headers=key)
    round_id = started.headers["location"].rpartition("/")[2]
    await client.post(f"/rate/{round_id}/invitations", data={"rater": "a", "days": "7"}, headers=key)
    page = (await client.get(f"/rate/{round_id}", headers=key)).text
    (invitation,) = re.findall(r"/invitations/([^/]+)/revoke", page)
    watched = await client.post("/v1/monitors", json={"name": "a", "rubric": "ja-conversation"}, headers=key)
    kept = await upload(client, key)
    await client.post(kept, data={"name": "t", "action": "keep"}, headers=key)
    datasets = (await client.get("/datasets", headers=key)).text
    ids = {"evaluation_id": evaluation, "run_id": run, "batch_id": run, "position": "0", "round_id": round_id}
    ids |= {"attempt_id": evaluation, "invitation_id": invitation, "monitor_id": watched.json()["id"]}
    uploads = {"dataset_id": ID.findall(datasets)[0], "upload_id": ID.findall(await upload(client, key))[0]}
    return {**ids, **uploads}


async def upload(client: httpx.AsyncClient, key: Header) -> str:
    """The page of a file that was uploaded with the key."""
    sent = await client.post("/datasets/new", files={"file": ("t.csv", b"question,answer\na,b\n")}, headers=key)
    return str(sent.headers["location"])


def test_there_are_pages_with_ids() -> None:
    assert {path for _, path in WITH_IDS} >= {"/runs/{run_id}", "/evaluations/{evaluation_id}", "/rate/{round_id}"}


async def test_what_another_project_has_has_no_page(client: httpx.AsyncClient, tmp_path: Path) -> None:
    owner, rival = await make_keys(tmp_path, ("team", "admin"), ("rivals", "admin"))
    theirs = await make_theirs(client, owner)
    for method, template in WITH_IDS:
        query = {"rater": "a", "number": "0"} if template.endswith("/sheet") else {}
        path, form = template.format_map(theirs), {"rater": "a", "days": "7"} if method == "POST" else None
        # What leads on from a former address is refused there.
        follows = method == "GET"
        refused = await client.request(method, path, params=query, data=form, headers=rival, follow_redirects=follows)
        assert refused.status_code == 404, (method, template)
        if method == "GET":  # there is such a page, and it is its owner's
            assert (await client.get(path, params=query, headers=owner, follow_redirects=True)).status_code != 404, (
                template
            )
    assert (await client.get(f"/v1/batches/{theirs['run_id']}", headers=owner)).json()["status"] == "completed"

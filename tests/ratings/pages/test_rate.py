"""Rounds of human ratings as pages: starting, watching, joining and closing them."""

import re
from typing import Any
from urllib.parse import unquote

import httpx
import pytest

from tests.support.cases import in_turn
from tests.support.keyed import make_keys
from tests.support.posted import post_batch, wait_for

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(1)>'
NOTHING = {"_": ""}
"""A form without fields: httpx leaves out the type of an empty one."""


async def score(client: httpx.AsyncClient, count: int = 3, **options: Any) -> str:
    """A completed run's id."""
    batch = await post_batch(client, count, **options)
    await wait_for(client, batch["id"])
    found: str = batch["id"]
    return found


async def start(client: httpx.AsyncClient, run: str, **fields: Any) -> str:
    """A new round's address."""
    response = await client.post("/rate", data={"run": run, "name": "一回目", **fields})
    assert response.status_code == 303, response.text
    address: str = response.headers["location"]
    return address


async def rate(client: httpx.AsyncClient, address: str, rater: str, *, level: int = 1) -> httpx.Response:
    """Rates the rater's next response: every aspect on the same level."""
    page = await client.get(f"{address}/sheet", params={"rater": rater})
    names = dict.fromkeys(re.findall(r'name="(rating\.[^"]+)"', page.text))
    (action,) = re.findall(r'action="(/rate/[^"]+/sheet[^"]*)"', page.text)
    return await client.post(action.replace("&amp;", "&"), data=dict.fromkeys(names, str(level)))


def fault_at(page: str, name: str) -> bool:
    """Whether the field is shown with a fault, and says so to a screen reader."""
    field = re.search(rf'<(?:input|select) id="{name}"[^>]*>', page)
    assert field is not None
    return (
        'aria-invalid="true"' in field[0]
        and f'aria-describedby="{name}-fault' in field[0]
        and f'id="{name}-fault"' in page
    )


async def test_without_rounds_and_runs_the_page_says_what_to_do(client):
    page = (await client.get("/rate")).text
    assert "There are no rating rounds yet." in page
    assert "There is no completed run yet." in page
    await score(client)
    page = (await client.get("/rate")).text
    assert "There is no completed run yet." not in page
    assert '<select id="run"' in page


async def test_a_run_is_chosen_beforehand(client):
    runs = [await score(client, name=name, metadata={"system": "bot-a", "build": "7"}) for name in ("夜間", "朝")]
    page = (await client.get("/rate", params={"run": runs[0]})).text
    assert re.findall(r'<option value="([^"]+)" selected', page) == [runs[0]]
    assert "夜間 · bot-a · 7 (ja-dialogue, " in page
    for strange in ("ba_none", "x" * 3000, "\0", HOSTILE):
        response = await client.get("/rate", params={"run": strange})
        assert response.status_code == 200
        assert " selected" not in response.text


async def test_a_round_is_started_and_listed(client):
    run = await score(client, 3, name="夜間")
    address = await start(client, run, items="2", raters_per_item="2", items_per_rater="1", seed="7")
    page = (await client.get(address)).text
    assert "一回目" in page
    assert "0 of 4 ratings" in page
    listed = (await client.get("/rate")).text
    assert f'href="{address}"' in listed
    assert f'href="/runs/{run}"' in listed
    assert "0 of 4" in listed
    assert "0 of 2" in listed


async def test_faults_stand_at_their_fields_and_what_was_typed_stays(client):
    run = await score(client)
    given = {"run": run, "name": " ", "items": "0", "raters_per_item": "two", "items_per_rater": "2001", "seed": "-1"}
    response = await client.post("/rate", data=given)
    assert response.status_code == 422
    for name in ("name", "items", "raters_per_item", "items_per_rater", "seed"):
        assert fault_at(response.text, name), name
    assert not fault_at(response.text, "run")
    assert 'value="two"' in response.text
    assert f'value="{run}" selected' in response.text
    assert "Enter a whole number from 1 to 2000." in response.text
    assert "There are no rating rounds yet." in response.text


@pytest.mark.parametrize("run", ["", "ba_none", "\ud7ff\0"])
async def test_a_round_needs_a_run(client, run):
    await score(client)
    response = await client.post("/rate", data={"run": run, "name": "一回目"})
    assert response.status_code == 422
    assert fault_at(response.text, "run")


async def test_a_run_without_scores_has_no_round(client):
    batch = await post_batch(client, 1)
    await wait_for(client, batch["id"])
    await client.post(f"/v1/batches/{batch['id']}/cancel")
    await client.delete(f"/v1/batches/{batch['id']}")
    response = await client.post("/rate", data={"run": batch["id"], "name": "一回目"})
    assert "There is no such run in this project." in response.text


async def test_empty_numbers_are_the_defaults(client):
    address = await start(client, await score(client, 3), items="", raters_per_item="", items_per_rater="", seed="")
    assert "0 of 9 ratings" in (await client.get(address)).text


async def test_a_rater_joins_and_is_remembered_for_this_round_alone(client):
    run = await score(client)
    address, other = await start(client, run), await start(client, run)
    response = await client.post(f"{address}/join", data={"rater": "  山田 & co "})
    assert response.status_code == 303
    assert unquote(response.headers["location"]) == f"{address}/sheet?rater=山田+%26+co".replace("%26", "&")
    cookie = response.headers["set-cookie"]
    assert f"Path={address}" in cookie
    assert "HttpOnly" in cookie
    assert 'value="山田 &amp; co"' in (await client.get(address)).text
    assert "山田" not in (await client.get(other)).text


@in_turn("name", ["", "   ", "名" * 129, "a\nb", "\u200b"])
async def test_what_is_no_name_is_refused_at_its_field(client, name):
    address = await start(client, await score(client))
    response = await client.post(f"{address}/join", data={"rater": name})
    assert response.status_code == 422
    assert fault_at(response.text, "rater")
    assert "set-cookie" not in response.headers


async def test_progress_is_told_by_rater(client):
    address = await start(client, await score(client, 3), raters_per_item="1")
    for rater in ("甲", "甲", "乙"):
        assert (await rate(client, address, rater)).status_code == 303
    page = (await client.get(address)).text
    assert "3 of 3 ratings" in page
    assert "3 of 3 responses have been rated by all their raters." in page
    rows = re.findall(r'<th scope="row"><bdi[^>]*>([^<]+)</bdi></th><td>.*?(\d of \d)</span>', page)
    assert sorted(rows) == [("乙", "1 of 3"), ("甲", "2 of 3")]
    assert re.search(r'class="num" data-label="Raters">2<', (await client.get("/rate")).text)


async def test_a_rater_who_has_begun_goes_on(client):
    address = await start(client, await score(client, 3))
    await client.post(f"{address}/join", data={"rater": "甲"})
    assert "Begin" in (await client.get(address)).text
    await rate(client, address, "甲")
    page = (await client.get(address)).text
    assert "Continue rating" in page
    assert "1 of 3" in page


async def test_a_round_is_closed(client):
    address = await start(client, await score(client))
    response = await client.post(f"{address}/close", data=NOTHING)
    assert (response.status_code, response.headers["location"]) == (303, address)
    page = (await client.get(address)).text
    assert "This round is closed" in page
    assert f'action="{address}/close"' not in page
    assert 'name="rater"' not in page
    again = await client.post(f"{address}/close", data=NOTHING)
    assert again.status_code == 303


async def test_the_round_leads_to_agreement_and_download(client):
    run = await score(client)
    address = await start(client, run)
    await rate(client, address, "甲")
    page = (await client.get(address)).text
    assert f'href="/explore/aspects?run={run}"' in page
    (download,) = re.findall(r'href="(/v1/ratings[^"]+)"', page)
    assert (await client.get(download.replace("&amp;", "&"))).json()["rater"] == "甲"


async def test_a_read_key_sees_and_changes_nothing(client, tmp_path):
    address = await start(client, await score(client))
    (reader,) = await make_keys(tmp_path, ("default", "read"))
    page = await client.get("/rate", headers=reader)
    assert page.status_code == 200
    assert "Your key is read-only" in page.text
    assert 'action="/rate"' not in page.text
    page = await client.get(address, headers=reader)
    assert "so you cannot rate" in page.text
    assert f'action="{address}/' not in page.text
    for path in ("/rate", f"{address}/join", f"{address}/close", f"{address}/sheet?rater=a&number=0"):
        assert (await client.post(path, data={"rater": "a"}, headers=reader)).status_code == 403, path
    assert (await client.get(f"{address}/sheet?rater=a", headers=reader)).status_code == 403
    assert "No one has started yet." in (await client.get(address, headers=reader)).text


async def test_a_round_of_another_project_is_not_there(client, tmp_path):
    run = await score(client)
    address = await start(client, run)
    (rival,) = await make_keys(tmp_path, ("rivals", "write"))
    assert "一回目" not in (await client.get("/rate", headers=rival)).text
    assert (await client.get(address, headers=rival)).status_code == 404
    assert (await client.get(f"{address}/sheet?rater=a", headers=rival)).status_code == 404
    for path in (f"{address}/join", f"{address}/close", f"{address}/sheet?rater=a&number=0"):
        assert (await client.post(path, data={"rater": "a"}, headers=rival)).status_code == 404, path
    response = await client.post("/rate", data={"run": run, "name": "a"}, headers=rival)
    assert "There is no such run in this project." in response.text


async def test_forms_of_other_sites_are_refused(client):
    address = await start(client, await score(client))
    foreign = {"Sec-Fetch-Site": "cross-site"}
    for path in ("/rate", f"{address}/join", f"{address}/close", f"{address}/sheet?rater=a&number=0"):
        assert (await client.post(path, data={"rater": "a"}, headers=foreign)).status_code == 403, path


async def test_names_are_shown_as_text(client):
    run = await score(client, name=HOSTILE[:100], metadata={"system": HOSTILE})
    address = await start(client, run, name=HOSTILE)
    await client.post(f"{address}/join", data={"rater": HOSTILE})
    await rate(client, address, HOSTILE)
    for path in ("/rate", address):
        page = (await client.get(path)).text
        assert "alert(1)" in page
        assert "<script>" not in page
        assert "<img" not in page
        assert " style=" not in page


async def test_a_strange_cookie_does_no_harm(client):
    address = await start(client, await score(client))
    for value in ("%ff%fe", "%00", "%22%3E%3Cimg%3E", "%E5%B1"):
        response = await client.get(address, headers={"Cookie": f"saiten_rater={value}"})
        assert response.status_code == 200
        assert "<img" not in response.text


@in_turn("language", ["en", "ja", "ko"])
async def test_every_language_renders(client, language):
    address = await start(client, await score(client))
    await rate(client, address, "甲")
    titles = {"en": "Start a round", "ja": "ラウンドを始める", "ko": "라운드 시작하기"}
    for path in ("/rate", address):
        page = await client.get(path, headers={"Accept-Language": language})
        assert page.status_code == 200
        assert f'<html lang="{language}"' in page.text
    assert titles[language] in (await client.get("/rate", headers={"Accept-Language": language})).text


async def test_the_form_takes_the_aspect_and_the_judges_that_the_api_takes(client):
    run, other = await score(client), await score(client)
    given: dict[str, Any] = {"run": run, "choose": "informative", "aspect": "overall", "judges": [other]}
    address = await start(client, **given)
    (kept,) = (await client.get("/v1/ratings/rounds")).json()["items"]
    assert kept["address"] == address
    assert (kept["options"]["aspect"], kept["options"]["judges"]) == ("overall", [other])
    for changes, field in (
        ({"aspect": "none"}, "aspect"),
        ({"aspect": "overall", "choose": "random", "judges": []}, "aspect"),
        ({"judges": ["ba_none"]}, "judges"),
        ({"judges": [other] * 9}, "judges"),
        ({"choose": "stratified"}, "judges"),
    ):
        page = await client.post("/rate", data={"name": "一回目", **given, **changes})
        assert page.status_code == 422, changes
        assert f'id="{field}-fault"' in page.text, changes
        assert "<details open>" in page.text

"""Links by which raters rate: what they open, what they do not, and how they end."""

import json
import logging
import re
from pathlib import Path

import httpx

from saiten_server.platform.web.admission import INVITED_COOKIE
from saiten_server.ratings.rounds import service as stored
from saiten_server.ratings.values import MOST_INVITATIONS, Invitation
from tests.ratings.pages.test_sheet import action_of, items, lowest, start
from tests.support.keyed import Header, make_keys
from tests.support.serving import serving
from tests.support.waiting import read_computed

NOTHING = {"_": ""}


async def invite(
    client: httpx.AsyncClient, address: str, rater: str = "花子", days: int = 7, key: Header | None = None
) -> str:
    """A link for the rater."""
    page = await client.post(f"{address}/invitations", data={"rater": rater, "days": str(days)}, headers=key)
    assert page.status_code == 200, page.text
    link: str
    (link,) = re.findall(r"<code>(http://[^<]+/invited#rate_[^<]+)</code>", page.text)
    return link


def as_browser(client: httpx.AsyncClient, **headers: str) -> httpx.AsyncClient:
    """Another browser, without the client's cookies."""
    return httpx.AsyncClient(transport=client._transport, base_url=client.base_url, headers=headers)


async def test_an_invited_rater_rates_and_sees_nothing_else(client, tmp_path: Path, caplog):
    caplog.set_level(logging.INFO)  # below, the test's own client tells its headers
    (owner, reader) = await make_keys(tmp_path, ("default", "admin"), ("default", "read"))
    client.headers.update(owner)
    address, other = await start(client, items()), await start(client, items(1))
    link = await invite(client, address)
    del client.headers["Authorization"]
    async with as_browser(client) as rater:
        for path in ("/", address, f"{address}/sheet"):
            assert (await rater.get(path)).headers["location"].startswith("/login"), path
        entered = await rater.post("/invited", data={"link": link})
        assert entered.headers["location"] == address
        cookie = entered.headers["set-cookie"].lower()
        assert cookie.startswith(f"{INVITED_COOKIE}=rate_")
        assert "httponly" in cookie
        assert "samesite=lax" in cookie
        welcome = await rater.get(address)
        assert "You are signed in as 花子." in welcome.text
        assert "0 of 3" in welcome.text
        sheet = await rater.get(f"{address}/sheet", params={"rater": "someone else"})
        assert "Rater: " in sheet.text
        assert "花子" in sheet.text
        assert "someone else" not in sheet.text
        assert "rater=" not in action_of(sheet.text)
        saved = await rater.post(action_of(sheet.text), data={**lowest(sheet.text), "comment": "よい"})
        assert saved.headers["location"] == f"{address}/sheet"
        pages = [welcome, sheet, await rater.get(address), await rater.get("/invited")]
        for _ in range(3):
            sheet = await rater.get(f"{address}/sheet")
            pages.append(sheet)
            if "rating." in sheet.text:
                await rater.post(action_of(sheet.text), data=lowest(sheet.text))
        assert "Thank you" in pages[-1].text
        for page in pages:
            assert page.headers["referrer-policy"] == "same-origin"
            assert page.headers["cache-control"] == "no-store"
            for secret in ("SECRET", "bot-", "/runs", "/v1/", 'href="/rate"', "default", "Invited raters"):
                assert secret not in page.text, secret
        for path in ("/", "/explore", "/explore/aspects", "/try", "/rate", "/rubrics", "/leaderboard"):
            refused = await rater.get(path)
            assert refused.status_code in {403, 404}, path
            assert "SECRET" not in refused.text
            assert 'href="/invited"' in refused.text
        for method, path in (
            ("GET", "/v1/ratings"),
            ("GET", "/v1/info"),
            ("GET", "/v1/ratings/rounds"),
            ("POST", "/v1/ratings"),
            ("POST", "/rate"),
            ("POST", f"{address}/close"),
            ("POST", f"{address}/join"),
            ("POST", f"{address}/invitations"),
        ):
            data = {"rater": "x"} if method == "POST" else None
            assert (await rater.request(method, path, data=data)).status_code == 403, (method, path)
        for path in (other, f"{other}/sheet"):
            assert (await rater.get(path)).status_code == 404
    kept = (await client.get("/v1/ratings?rater=%E8%8A%B1%E5%AD%90", headers=owner)).text
    assert len(kept.splitlines()) == 3
    assert "よい" in kept
    secret = link.rpartition("#")[2]
    assert secret not in caplog.text
    audit = (await client.get("/v1/audit", headers=owner)).text
    assert "invitation.created" in audit
    assert secret not in audit
    assert "花子" not in audit
    page = (await client.get(address, headers=owner)).text
    assert "花子" in page
    assert secret not in page
    assert "Invited raters" not in (await client.get(address, headers=reader)).text
    assert (await client.post(f"{address}/invitations", data={"rater": "x"}, headers=reader)).status_code == 403


async def test_a_link_ends_by_revocation_time_and_the_round(client, tmp_path: Path, monkeypatch):
    (owner,) = await make_keys(tmp_path, ("default", "admin"))
    client.headers.update(owner)
    address = await start(client, items())

    async def enter(link: str) -> httpx.AsyncClient:
        browser = as_browser(client)
        assert (await browser.post("/invited", data={"link": link})).status_code == 303
        assert (await browser.get(f"{address}/sheet")).status_code == 200
        return browser

    async def check_ended(browser: httpx.AsyncClient, link: str) -> None:
        for path in (address, f"{address}/sheet"):
            assert (await browser.get(path)).headers["location"] == "/invited", path
        ended = await browser.get("/invited")
        assert "Your link has ended" in ended.text
        assert f'{INVITED_COOKIE}=""' in ended.headers["set-cookie"]
        again = await browser.post("/invited", data={"link": link})
        assert again.status_code == 401
        assert "Ask for another" in again.text
        await browser.aclose()

    link = await invite(client, address)
    browser = await enter(link)
    page = (await client.get(address)).text
    (revoke,) = re.findall(rf'action="({address}/invitations/[^"]+/revoke)"', page)
    for _ in range(2):
        assert (await client.post(revoke, data=NOTHING)).status_code == 303
    assert (await client.post(f"{address}/invitations/ri_none/revoke", data=NOTHING)).status_code == 404
    await check_ended(browser, link)
    audit = (await client.get("/v1/audit")).text
    assert audit.count("invitation.revoked") == 1

    link = await invite(client, address, days=1)
    browser = await enter(link)
    holds = Invitation.holds
    monkeypatch.setattr(Invitation, "holds", lambda self, now: holds(self, self.expires_at))
    await check_ended(browser, link)
    monkeypatch.undo()

    link = await invite(client, address)
    browser = await enter(link)
    await client.post(f"{address}/close", data=NOTHING)
    await check_ended(browser, link)
    assert (await client.post(f"{address}/invitations", data={"rater": "x", "days": "1"})).status_code == 422


async def test_what_is_no_link_opens_nothing(client):
    address = await start(client, items())
    link = await invite(client, address)
    wrong = ("", "x", "#", link[:-1], link + "x", "rate_" + "a" * 43, "\0", "花子", "x" * 60_000, "../" + link.upper())
    for given in wrong:
        answer = await client.post("/invited", data={"link": given})
        assert answer.status_code == 401, given
        assert "set-cookie" not in answer.headers
    assert (
        await client.post("/invited", data={"link": link}, headers={"Origin": "http://evil.example"})
    ).status_code == 403
    # Whoever shows an invitation may do nothing else, where others need no key either.
    async with as_browser(client) as rater:
        rater.cookies.set(INVITED_COOKIE, "rate_wrong")
        assert (await rater.get("/")).status_code == (await rater.get("/v1/info")).status_code == 403
        assert (await rater.get(address)).headers["location"] == "/invited"
        left = await rater.post("/logout", data=NOTHING)
        assert left.headers["location"] == "/invited"


async def test_a_manager_in_the_same_browser_is_told_to_sign_out(client, tmp_path: Path):
    (owner,) = await make_keys(tmp_path, ("default", "admin"))
    link = await invite(client, await start_with(client, owner), key=owner)
    await client.post("/login", data={"key": owner["Authorization"].removeprefix("Bearer ")})
    answer = await client.post("/invited", data={"link": link})
    assert answer.status_code == 409
    assert "signed in with a key" in answer.text
    await client.post("/logout", data=NOTHING)
    assert (await client.post("/invited", data={"link": link})).status_code == 303


async def start_with(client: httpx.AsyncClient, key: Header) -> str:
    """A round of the key's project."""
    client.headers.update(key)
    address = await start(client, items())
    del client.headers["Authorization"]
    return address


async def test_the_form_says_what_is_wrong_and_a_round_has_so_many_links(client, monkeypatch):
    address = await start(client, items())
    for given, faults in (
        ({"rater": "", "days": "7"}, ["rater"]),
        ({"rater": "花子", "days": "0"}, ["days"]),
        ({"rater": "a\nb", "days": "x"}, ["rater", "days"]),
        ({"rater": "花子", "days": "9" * 400}, ["days"]),
    ):
        page = await client.post(f"{address}/invitations", data=given)
        assert page.status_code == 422
        assert re.findall(r'id="invite-(\w+)-fault"', page.text) == faults, given
    assert MOST_INVITATIONS == 200
    monkeypatch.setattr(stored, "MOST_INVITATIONS", 2)
    for _ in range(2):
        await invite(client, address)
    assert (await client.post(f"{address}/invitations", data={"rater": "x", "days": "1"})).status_code == 422


async def test_requests_of_a_link_are_counted_as_those_of_a_key(tmp_path: Path):
    async with serving(tmp_path, judge="lexical", key_requests_per_minute=3) as client:
        address = await start(client, items())
        await client.post("/invited", data={"link": await invite(client, address)})
        statuses = [await client.get(address) for _ in range(4)]
        assert [one.status_code for one in statuses] == [200, 200, 200, 429]
        assert statuses[0].headers["ratelimit-policy"] == '"requests";q=3;w=60'


async def test_the_round_shows_agreement_stars_and_what_was_corrected(client):
    address = await start(client, items(4), raters_per_item="2")
    page = (await client.get(address)).text
    assert "There is no rating yet." in page
    for rater, star in (("花子", "yes"), ("太郎", "")):
        for number in range(4):
            sheet = (await client.get(f"{address}/sheet", params={"rater": rater})).text
            chosen = lowest(sheet)
            if number % 2:
                chosen |= {"rating.naturalness": "3"}
            form = {**chosen, "starred": star, "comment": "<b>なるほど" if star and not number else ""}
            assert (await client.post(action_of(sheet), data=form)).status_code == 303
    first = (await client.get(f"{address}/sheet", params={"rater": "花子", "number": "0"})).text
    assert 'name="starred" value="yes" checked' in first
    for _ in range(2):  # sending the same again corrects nothing
        await client.post(action_of(first), data={**lowest(first), "rating.naturalness": "2"})
    page = await read_computed(client, address)
    assert "2 raters · 4 responses" in page
    row = re.search(r'<th scope="row">Naturalness</th>((?:<td class="num">[^<]*</td>)+)', page)
    assert row is not None
    count, raters, mean, alpha, *_ = re.findall(r">([^<]*)</td>", row[1])
    assert (count, raters) == ("4", "2")
    assert 1 < float(mean) < 3
    assert -1 <= float(alpha.replace("−", "-")) <= 1
    notes = page[page.index("Marked, commented and corrected") : page.index('id="invite"')]
    assert notes.count('aria-label="marked as interesting"') == 3
    assert "<div>Naturalness: 1 → 2</div>" in notes
    assert "SECRET-item-" in notes
    (kept,) = [one for one in (await client.get("/v1/ratings")).text.splitlines() if "earlier" in one]
    rating = json.loads(kept)
    assert "starred" not in rating
    assert [one["ratings"]["naturalness"] for one in rating["earlier"]] == [1]
    assert (
        await client.post("/v1/ratings", json={"item": "x", "rater": "r", "ratings": {"a": 1}, "starred": True})
    ).status_code == 200
    assert '"starred": true' in (await client.get("/v1/ratings?item=x")).text

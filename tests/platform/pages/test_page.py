"""What holds for every page."""

import gzip
import threading

from starlette.datastructures import Headers
from starlette.types import Message

from saiten_server.platform.web.language import lang_of, pick, query
from saiten_server.platform.web.page import Page, asset_address, read_assets

HTML = {"Accept": "text/html"}


async def test_pages_allow_no_script_but_the_services_own(client):
    response = await client.get("/login")
    policy = response.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-content-type-options"] == "nosniff"


async def test_what_is_not_there_is_a_page_for_people_and_a_problem_for_programs(client):
    page = await client.get("/nowhere", headers={**HTML, "Accept-Language": "ja"})
    assert page.status_code == 404
    assert "ページが見つかりません" in page.text
    for path, headers in (("/nowhere", {}), ("/v1/nowhere", HTML)):
        problem = await client.get(path, headers=headers)
        assert problem.status_code == 404
        assert problem.headers["content-type"] == "application/problem+json"


async def test_a_wrong_method_is_still_405(client):
    assert (await client.post("/livez")).status_code == 405
    assert (await client.put("/login")).status_code == 405


async def test_pages_are_compressed_where_the_browser_takes_it(client):
    async with client.stream("GET", "/login", headers={"Accept-Encoding": "gzip"}) as response:
        raw = b"".join([chunk async for chunk in response.aiter_raw()])
    assert response.headers["content-encoding"] == "gzip"
    assert b"<!doctype html>" in gzip.decompress(raw)
    plain = await client.get("/login", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers


async def test_a_page_is_written_beside_the_event_loop():
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    page = Page(200, lambda: threading.current_thread().name, compressed=False)
    page.headers["Connection"] = "close"
    await page({"type": "http"}, receive, send)
    headers = Headers(raw=sent[0]["headers"])
    assert sent[1]["body"].decode() != threading.main_thread().name
    assert (headers["connection"], headers["content-length"]) == ("close", str(len(sent[1]["body"])))


async def receive() -> Message:
    return {"type": "http.disconnect"}


async def test_assets_are_kept_for_ever_under_the_address_of_their_content(client):
    for name in read_assets():
        response = await client.get(asset_address(name))
        assert response.status_code == 200
        assert "immutable" in response.headers["cache-control"]
        old = await client.get(f"/assets/000000000000/{name}")
        assert old.headers["cache-control"] == "no-cache"
    assert (await client.get("/assets/0/..%2Fpage.py")).status_code == 404
    assert (await client.get("/assets/0/nothing.js")).status_code == 404


def test_texts_get_the_glyphs_of_their_own_language():
    assert lang_of("오늘은 날씨가 좋네요", "ja") == "ko"
    assert lang_of("今日はいい天気ですね", "ko") == "ja"
    assert lang_of("東京", "ko") == "ko"
    assert lang_of("How are you?", "ja") == "en"
    assert lang_of("123!", "ja") == "ja"


def test_rubric_texts_come_in_the_best_language_that_there_is():
    assert pick({"ja": "持ち味", "en": "Charm"}, "ja") == ("持ち味", "ja")
    assert pick({"ja": "持ち味", "en": "Charm"}, "ko") == ("Charm", "en")
    assert pick({"ja": "持ち味"}, "ko") == ("持ち味", "ja")
    assert pick({"ja": "自然さ"}, "ko") == ("자연스러움", "ko"), "a shipped rubric's word"


def test_addresses_leave_out_what_is_empty():
    assert query("/runs", text=None, status="", system="bot a") == "/runs?system=bot+a"
    assert query("/aspects", run=["ba_1", "ba_2"]) == "/aspects?run=ba_1&run=ba_2"
    assert query("/runs") == "/runs"

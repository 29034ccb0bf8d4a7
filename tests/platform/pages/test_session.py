"""Signing in, and what a page refuses to whom."""

from pathlib import Path

import httpx
import pytest

from saiten_server.core.access import Scope
from saiten_server.platform.web.admission import SESSION_COOKIE
from saiten_server.platform.web.page import own_address
from tests.support.keyed import make_keys
from tests.support.serving import serving

HTML = {"Accept": "text/html"}


async def make_key(folder: Path, scope: Scope) -> str:
    """A key's text."""
    (header,) = await make_keys(folder, ("default", scope))
    return header["Authorization"].removeprefix("Bearer ")


async def sign_in(client: httpx.AsyncClient, key: str, **more: str) -> httpx.Response:
    return await client.post("/login", data={"key": key, **more})


async def test_without_keys_pages_are_open_on_loopback(client):
    response = await client.get("/")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"


async def test_a_name_that_leads_here_is_no_way_in(client):
    for host, status in (
        ("evil.example", 403),
        ("evil.example:8000", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost:80", 200),
        ("saiten.localhost", 200),
        ("[::1]:8000", 200),
        ("saiten", 200),  # a name in a file of this machine: nobody can register one
    ):
        for path in ("/", "/v1/info"):
            assert (await client.get(path, headers={"Host": host})).status_code == status, (host, path)


@pytest.mark.parametrize("secure", [True, False])
async def test_behind_a_proxy_the_service_is_told_that_cookies_are_for_https_alone(tmp_path: Path, secure: bool):
    async with serving(tmp_path, judge="lexical", secure_cookies=secure) as client:
        signed = await sign_in(client, await make_key(tmp_path, "read"))
    assert signed.status_code == 303
    assert ("secure" in signed.headers["set-cookie"].lower()) is secure


async def test_with_keys_a_page_leads_to_the_login_and_back(client, tmp_path):
    key = await make_key(tmp_path, "read")
    response = await client.get("/explore?run=ba_1")
    assert response.status_code == 303
    assert response.headers["location"] == "/login?next=%2Fexplore%3Frun%3Dba_1"
    assert (await client.get(response.headers["location"])).status_code == 200
    signed = await sign_in(client, key, next="/explore?run=ba_1")
    assert signed.status_code == 303
    assert signed.headers["location"] == "/explore?run=ba_1"
    cookie = signed.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert (await client.get("/")).status_code == 200


async def test_a_wrong_key_is_asked_for_again(client, tmp_path):
    await make_key(tmp_path, "read")
    for wrong in ("sk_nothing", "鍵", ""):
        response = await sign_in(client, wrong)
        assert response.status_code == 401
        assert 'role="alert"' in response.text
        assert SESSION_COOKIE not in response.headers.get("set-cookie", "")


async def test_the_cookie_is_not_the_key_and_is_of_no_use_after_signing_out(client, tmp_path):
    key = await make_key(tmp_path, "admin")
    signed = await sign_in(client, key)
    assert key not in str(signed.headers)
    assert key.removeprefix("saiten_") not in str(signed.headers)
    token = client.cookies[SESSION_COOKIE]
    copied = {"Cookie": f"{SESSION_COOKIE}={token}"}
    assert (await client.get("/", headers=copied)).status_code == 200
    assert (await client.get("/v1/batches", headers={"Authorization": f"Bearer {token}"})).status_code == 401
    await client.post("/logout", data={"next": "/"})
    client.cookies.clear()
    assert (await client.get("/", headers=copied)).status_code == 303
    assert (await client.get("/v1/batches", headers=copied)).status_code == 401


async def test_the_key_itself_is_no_session(client, tmp_path):
    key = await make_key(tmp_path, "admin")
    for name in (SESSION_COOKIE, "saiten_key"):
        assert (await client.get("/", headers={"Cookie": f"{name}={key}"})).status_code == 303


async def test_the_cookie_reads_the_api_and_never_writes_it(client, tmp_path):
    await sign_in(client, await make_key(tmp_path, "admin"))
    assert (await client.get("/v1/batches")).status_code == 200
    body = {"context": [{"speaker": "A", "text": "元気？"}], "response": "元気です。"}
    assert (await client.post("/v1/evaluations", json=body)).status_code == 401


async def test_a_form_from_another_site_is_refused(client):
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://localhost:9"},
        {"Origin": "null"},
        {"Origin": "http://["},
    ):
        response = await client.post("/preferences", data={"theme": "dark"}, headers=headers)
        assert response.status_code == 403, headers


async def test_forms_in_another_form_are_refused(client):
    assert (await client.post("/preferences", json={"theme": "dark"})).status_code == 415
    content = {"Content-Type": "application/x-www-form-urlencoded"}
    assert (await client.post("/preferences", content=b"a=%ff", headers=content)).status_code == 422
    assert (await client.post("/preferences", content="a=é".encode(), headers=content)).status_code == 422
    many = "&".join(["a=1"] * 3000)
    assert (await client.post("/preferences", content=many, headers=content)).status_code == 422
    for open_to_all in ("/preferences", "/login", "/invited"):
        large = "a=" + "x" * 64 * 1024
        assert (await client.post(open_to_all, content=large, headers=content)).status_code == 413


async def test_language_and_theme_are_kept(client):
    response = await client.post("/preferences", data={"language": "ko", "theme": "dark", "next": "/try"})
    assert response.headers["location"] == "/try"
    page = (await client.get("/login")).text
    assert '<html lang="ko" data-theme="dark">' in page
    await client.post("/preferences", data={"theme": "system"})
    assert '<html lang="ko">' in (await client.get("/login")).text


@pytest.mark.parametrize(
    "address",
    ["https://evil.example", "//evil.example", "/\\evil.example", "/a\\b", "javascript:alert(1)", "/a\nb", ""],
)
def test_no_login_leads_elsewhere(address):
    assert own_address(address) == "/"


def test_a_login_leads_to_a_page_of_this_service():
    assert own_address("/runs/ba_1?sort=overall") == "/runs/ba_1?sort=overall"


async def test_a_long_address_is_not_sent_back(client, tmp_path):
    await make_key(tmp_path, "read")
    response = await client.get("/?" + "a=1&" * 5000)
    assert response.status_code == 303
    assert response.headers["location"] == "/login"

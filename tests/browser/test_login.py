"""A private service: nobody reads it without a key, and a key does what its scope allows."""

from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.chromium import find_barriers, visit
from tests.support.command import saiten, served
from tests.support.site import make_item


@dataclass(frozen=True)
class Private:
    """A service that asks for a key, and three of its keys."""

    url: str
    write: str
    read: str
    other: str
    """May write, in another project."""


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Private]:
    """A service with a completed run of its first project."""
    folder = tmp_path_factory.mktemp("private")
    keys = [
        saiten("keys", "create", "--scope", scope, "--project", project, folder=folder).stdout.strip()
        for scope, project in (("write", "talk"), ("read", "talk"), ("write", "elsewhere"))
    ]
    with served(folder, SAITEN_JUDGE="lexical", SAITEN_LOG_LEVEL="error") as (url, _):
        body = {"name": "ours", "items": [make_item("ours", number) for number in range(3)]}
        headers = {"Authorization": f"Bearer {keys[0]}"}
        httpx.post(f"{url}/v1/batches", json=body, headers=headers, trust_env=False, verify=False).raise_for_status()
        yield Private(url, *keys)


def sign_in(page: Page, key: str) -> None:
    """Fills the login page."""
    page.get_by_label("Key").fill(key)
    page.get_by_role("button", name="Sign in").click()


def test_signing_in_leads_to_the_page_that_was_asked_for(private: Private, browser: Browser):
    with visit(browser, private.url) as seen:
        page = seen.page
        page.goto("/try?example=ja")
        expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
        expect(page.get_by_label("Key")).to_be_focused()
        expect(page.get_by_role("navigation", name="Pages")).to_have_count(0)
        sign_in(page, "saiten_this-is-no-key")
        expect(page.get_by_role("alert")).to_have_text("This key is unknown or has been revoked.")
        expect(page.get_by_label("Key")).to_have_attribute("aria-invalid", "true")
        assert find_barriers(page) == []
        sign_in(page, private.write)
        expect(page.get_by_role("heading", level=1)).to_have_text("Try it")
        assert page.url == f"{private.url}/try?example=ja"
        page.get_by_role("button", name="Score").click()
        expect(page.get_by_role("region", name="Ratings")).to_be_visible()
        scored = page.url
        assert all(cookie["httpOnly"] for cookie in seen.context.cookies())
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
        page.goto(scored)
        expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
        # What one project scored, another one's key does not show.
        sign_in(page, private.other)
        expect(page.get_by_role("heading", level=1)).not_to_have_text("Sign in")
        expect(page.get_by_role("region", name="Ratings")).to_have_count(0)
        page.goto("/")
        expect(page.get_by_text("There are no runs yet.")).to_be_visible()
        seen.forget(404)
        seen.complaints[:] = [told for told in seen.complaints if "status of 401" not in told]
        assert seen.complaints == []


def test_a_key_that_may_only_read_changes_nothing(private: Private, browser: Browser):
    with visit(browser, private.url) as seen:
        page = seen.page
        page.goto("/login")
        sign_in(page, private.read)
        expect(page.get_by_role("heading", level=1)).to_have_text("Runs")
        expect(page.get_by_role("banner")).to_contain_text("talk")
        page.get_by_role("link", name="ours").first.click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("ours")
        expect(page.get_by_role("link", name="Delete …")).to_have_count(0)
        with page.expect_download() as waiting:
            page.get_by_role("link", name="NDJSON").click()
        assert len(waiting.value.path().read_text(encoding="utf-8").splitlines()) == 3

        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Try it").click()
        expect(page.get_by_text("Your key is read-only")).to_be_visible()
        expect(page.get_by_label("Response", exact=True)).to_be_disabled()
        expect(page.get_by_role("button", name="Score")).to_be_disabled()
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Rate").click()
        expect(page.get_by_text("Your key is read-only")).to_be_visible()
        expect(page.get_by_role("button", name="Start the round")).to_have_count(0)
        assert seen.complaints == []

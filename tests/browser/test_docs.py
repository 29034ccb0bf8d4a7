"""`/docs` starts under its Content-Security-Policy, and keeps no key."""

from playwright.sync_api import expect

from tests.support.chromium import PHONE, Visit


def test_the_api_stands_in_the_frame_of_the_other_pages_without_an_inline_script_and_keeps_no_key(guest: Visit) -> None:
    """One visit: to draw the whole document takes the browser three seconds of CPU each time."""
    page = guest.goto("/docs")
    assert page.locator("script:not([src])").count() == 0
    page.get_by_role("button", name="日本語").click()
    expect(page.locator("html")).to_have_attribute("lang", "ja")
    page.get_by_text("/v1/evaluations", exact=True).first.click()
    expect(page.get_by_role("button", name="Execute").first).to_be_visible()
    page.get_by_role("button", name="Authorize").first.click()
    page.locator(".auth-container input").first.fill("sk-secret")
    page.get_by_role("button", name="Apply credentials").first.click()
    assert "sk-secret" not in page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})")
    page.get_by_role("button", name="Close").first.click()
    page.get_by_role("button", name="ダーク").click()
    page.get_by_text("/v1/evaluations", exact=True).first.wait_for()
    expect(page.locator("html")).to_have_class("dark-mode")
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    assert guest.overflow() <= 0
    page.get_by_role("navigation").get_by_role("link", name="実行").click()
    expect(page).not_to_have_url("/docs")

"""Texts that would do harm: every page that shows them shows them as text."""

from typing import Any

import pytest
from playwright.sync_api import Browser, Dialog, expect

from tests.browser.conftest import finish_run
from tests.support.chromium import DESK, PHONE, Visit, visit

SCRIPT = "<script>alert(1)</script>"
IMAGE = '"><img src=x onerror=alert(2)>'
TEMPLATE = "{{7*7}}{%raw%}${7*7}"
REVERSED = "\u202egnol\u202e"
LONG = "長" * 2500 + "x" * 2500
HARM = f"{SCRIPT} {IMAGE} {TEMPLATE} {REVERSED}"
PAGES = ("/", "/runs/{run}", "/explore?run={run}", "/runs/{run}/items/0", "/explore?run={before}&run={run}")
MORE_PAGES = ("/explore/aspects?run={run}&run={before}", "/explore", "/rate?run={run}")
SHORTEST = {"/runs/{run}/items/0": 2 * len(LONG)}
"""Pages that hold the whole of what is long."""


@pytest.fixture(scope="session")
def runs(workshop: str) -> dict[str, str]:
    """Two builds of it, `before` and `run`."""
    return {name: finish_run(workshop, make_items(), **describe(name)) for name in ("before", "run")}


def make_items() -> list[dict[str, Any]]:
    """Items that hold it in every text of theirs."""
    context = [{"speaker": HARM[:64], "text": HARM}, {"speaker": "x" * 64, "text": LONG}]
    items = [{"id": (HARM * 2)[:120] + str(number), "context": context} for number in range(3)]
    items[2]["id"] = "y" * 128
    return [
        {**item, "response": f"{HARM} {LONG} {number}", "metadata": {"note": HARM}} for number, item in enumerate(items)
    ]


def describe(build: str) -> dict[str, Any]:
    """A run of a name, system and build that hold it."""
    return {"name": HARM[:100], "metadata": {"system": HARM, "build": f"{HARM} {build}", HARM[:90]: "z" * 256}}


def watch(seen: Visit) -> list[str]:
    """A list that fills with whatever ran."""
    shown: list[str] = []

    def dismiss(dialog: Dialog) -> None:
        shown.append(dialog.message)
        dialog.dismiss()

    seen.page.on("dialog", dismiss)
    return shown


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_hostile_texts_are_shown_as_text(workshop: str, runs: dict[str, str], browser: Browser, size: tuple[int, int]):
    with visit(browser, workshop, size=size) as seen:
        dialogs = watch(seen)
        for address in PAGES + MORE_PAGES:
            page = seen.goto(address.format(**runs))
            page.wait_for_function("() => !document.querySelector('.computing')")
            shown = page.locator("main").inner_text()
            assert SCRIPT in shown, address
            assert TEMPLATE in shown, address
            assert len(shown) >= SHORTEST.get(address, 0)
            assert page.locator("main script, main img, main [onerror]").count() == 0, address
            assert "49" not in page.title()
            assert seen.overflow() <= 0, f"{address}: {seen.overflow()} px wider than the window"
            assert dialogs == [], address
            assert seen.complaints == [], address


def test_what_is_long_breaks_on_korean_pages_too(workshop: str, runs: dict[str, str], browser: Browser):
    with visit(browser, workshop, size=PHONE, locale="ko") as seen:
        for address in (*PAGES, "/runs/{run}/items/2"):
            page = seen.goto(address.format(**runs))
            page.wait_for_function("() => !document.querySelector('.computing')")
            assert seen.overflow() <= 0, f"{address}: {seen.overflow()} px wider than the window"


def test_hostile_texts_are_found_and_typed_in(guest: Visit, runs: dict[str, str]):
    page = guest.goto("/")
    dialogs = watch(guest)
    page.get_by_role("searchbox", name="Search").fill(SCRIPT)
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_role("searchbox", name="Search")).to_have_value(SCRIPT)
    expect(page.get_by_role("row").filter(has=page.get_by_role("rowheader"))).to_have_count(2)

    page.goto(f"/explore?run={runs['run']}")
    page.get_by_label("Text", exact=True).fill(IMAGE)
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_role("list", name="Active filters")).to_contain_text(IMAGE)
    assert page.locator(".case").count() == 3

    page.goto("/try")
    page.get_by_label("Speaker 1").fill(HARM[:64])
    page.get_by_label("Text 1").fill(HARM)
    page.get_by_label("Response", exact=True).fill(f"</textarea>{HARM}")
    page.get_by_role("button", name="Add an utterance").click()
    expect(page.get_by_label("Text 4")).to_be_focused()
    expect(page.get_by_label("Response", exact=True)).to_have_value(f"</textarea>{HARM}")
    page.get_by_role("button", name="Score").click()
    expect(page.get_by_role("region", name="Dialogue")).to_contain_text(f"</textarea>{SCRIPT}")
    assert guest.overflow() <= 0
    assert dialogs == []


def test_hostile_names_of_rounds_and_raters_are_shown_as_text(workshop: str, runs: dict[str, str], browser: Browser):
    with visit(browser, workshop, size=PHONE) as seen:
        dialogs = watch(seen)
        page = seen.goto(f"/rate?run={runs['run']}")
        page.get_by_label("Name of the round").fill(HARM[:100])
        page.get_by_label("Responses", exact=True).fill("1")
        page.get_by_role("button", name="Start the round").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text(SCRIPT)
        address = page.url
        page.get_by_label("Your name").fill(HARM[:64])
        page.get_by_role("button", name="Begin").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Response 1 of 1")
        expect(page.get_by_role("main")).to_contain_text(SCRIPT)
        expect(page.get_by_role("main")).to_contain_text(LONG)
        assert seen.overflow() <= 0
        for group in page.get_by_role("radiogroup").all():
            group.get_by_role("radio").first.check()
        page.get_by_label("Comment").fill(f"</textarea>{HARM}")
        page.get_by_role("button", name="Save and next").click()
        expect(page.get_by_role("main")).to_contain_text(f"You have rated 1 response as {SCRIPT}")
        assert seen.overflow() <= 0
        page.get_by_role("link", name="Review your last rating").click()
        expect(page.get_by_label("Comment")).to_have_value(f"</textarea>{HARM}")
        for last in (address, "/rate", f"/runs/{runs['run']}/items/0", f"/explore/aspects?run={runs['run']}"):
            page.goto(last)
            page.wait_for_function("() => !document.querySelector('.computing')")
            expect(page.get_by_role("main")).to_contain_text(SCRIPT)
            assert page.locator("main script, main img, main [onerror]").count() == 0
            assert seen.overflow() <= 0, last
        assert dialogs == []
        assert seen.complaints == []


ADDRESSES = ("/?text={harm}", "/login?next={harm}", "/explore?run={harm}", "/{harm}")


def test_hostile_addresses_are_harmless(workshop: str, browser: Browser):
    with visit(browser, workshop) as seen:
        dialogs = watch(seen)
        for address in ADDRESSES:
            answer = seen.page.goto(address.format(harm="%22%3E%3Cimg src=x onerror=alert(3)%3E%3Cscript%3Ealert(4)"))
            assert answer is not None
            assert answer.status < 500
            assert seen.page.locator("body img, body script").count() == 0, address
            assert dialogs == [], address
        assert [told for told in seen.complaints if "status of 404" not in told] == []

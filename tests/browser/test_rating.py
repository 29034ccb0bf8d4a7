"""People rate: a round is started, joined and rated with the keyboard alone, and then counts."""

import json
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import fetch_run, finish_run
from tests.support.chromium import PHONE, Visit, find_barriers, press, visit

ASPECTS = 6
RESPONSES = 3
HIDDEN = ("bot-hidden", "build-hidden", "run-hidden", "item-hidden", "lexical")
"""What a rater must not see."""


@pytest.fixture
def run(workshop: str, request: pytest.FixtureRequest) -> str:
    """A run of six responses, whose names tell whose they are."""
    items: list[dict[str, Any]] = [
        {
            "id": f"item-hidden-{number}",
            "context": [{"speaker": "ユーザ", "text": f"連休は{number}日間です。どこか行きますか？"}],
            "response": f"{number}日もあるなら、温泉に行って、のんびりしたいですね。",
        }
        for number in range(2, 8)
    ]
    metadata = {"system": "bot-hidden", "build": "build-hidden"}
    return finish_run(workshop, items, name=f"run-hidden {request.node.name}", metadata=metadata)


def start_round(page: Page, run: str, name: str) -> None:
    """From the run's page to the round's."""
    page.goto(f"/runs/{run}")
    page.get_by_role("link", name="Rate it").click()
    expect(page.get_by_label("Run", exact=True)).to_have_value(run)
    page.get_by_label("Name of the round").fill(name)
    page.get_by_label("Responses", exact=True).fill(str(RESPONSES))
    page.get_by_label("Raters for each response").fill("2")
    page.get_by_role("button", name="Start the round").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)


def expect_order(page: Page) -> None:
    """That the page is one that everybody can use; the other pages are looked at in test_pages."""
    assert find_barriers(page) == []


def join(page: Page, rater: str) -> None:
    """As somebody who has the address of the round."""
    page.get_by_label("Your name").fill(rater)
    page.keyboard.press("Enter")


def expect_response(page: Page, number: int) -> None:
    """That the sheet of this response is there, and tells nothing that it must not."""
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Response {number} of {RESPONSES}")
    expect(page.get_by_label("Single-key shortcuts")).to_be_visible()  # the script is there, and takes keys
    source = page.content() + page.url
    for word in HIDDEN:
        assert word not in source


LOW, HIGH = "101101", "213315"
"""The lowest levels, and higher ones, of the rubric's aspects in their order: two of them are rated 0 or 1."""


def rate(page: Page, digits: str) -> None:
    """With a digit for each aspect and Enter, and nothing else."""
    press(page, *digits, "Enter")


def ratings_of(url: str, rater: str) -> list[dict[str, Any]]:
    """What is kept, as the API tells it."""
    answer = httpx.get(f"{url}/v1/ratings", params={"rater": rater}, trust_env=False, verify=False).raise_for_status()
    return [json.loads(line) for line in answer.text.splitlines()]


def test_responses_are_rated_with_digits_and_enter_alone(guest: Visit, workshop: str, run: str):
    page = guest.page
    start_round(page, run, "Round of digits")
    expect_order(page)
    join(page, "hanako")
    expect_response(page, 1)
    expect_order(page)
    # The sheet's own words say which keys do what.
    expect(page.get_by_text("to choose it for the marked aspect")).to_be_visible()
    rate(page, LOW)
    expect_response(page, 2)
    rate(page, HIGH)
    expect_response(page, 3)
    # One level is left out: Enter says so and keeps nothing.
    press(page, *"1" * (ASPECTS - 1), "Enter")
    expect(page.get_by_role("radiogroup", name="Overall quality")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("status").filter(has_text="Overall quality")).to_contain_text("Choose a level.")
    expect_order(page)
    press(page, "1", "Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Thank you")
    expect(page.get_by_text(f"You have rated {RESPONSES} responses as hanako.")).to_be_visible()
    expect_order(page)
    kept = ratings_of(workshop, "hanako")
    assert [[*one["ratings"].values()] for one in kept] == [[*map(int, keys)] for keys in (LOW, HIGH, "111111")]


def test_the_one_before_is_changed(guest: Visit, workshop: str, run: str):
    page = guest.page
    start_round(page, run, "Round of changes")
    join(page, "taro")
    expect_response(page, 1)
    rate(page, LOW)
    expect_response(page, 2)
    page.get_by_role("link", name="Back to the previous response").click()
    expect_response(page, 1)
    expect(page.get_by_text("You have already rated this response.")).to_be_visible()
    overall = page.get_by_role("radiogroup", name="Overall quality")
    expect(overall.get_by_role("radio").first).to_be_checked()
    overall.get_by_role("radio").last.check()
    page.get_by_role("button", name="Save and next").click()
    expect_response(page, 2)
    (kept,) = ratings_of(workshop, "taro")
    assert kept["ratings"]["overall"] == 5
    page.get_by_role("link", name="Pause").click()
    expect(page.get_by_role("table", name="How many responses")).to_contain_text(f"1 of {RESPONSES}")
    page.get_by_role("button", name="Continue rating").click()
    expect_response(page, 2)


def choose_only(page: Page, name: str) -> None:
    """Looks at one run of those that the aspects page has chosen by itself."""
    page.locator("summary").filter(has_text="chosen").click()
    for box in page.get_by_role("checkbox").all():
        box.uncheck()
    page.get_by_role("checkbox", name=name).check()
    page.get_by_role("button", name="Show").click()


def test_what_people_said_counts_on_the_aspects_page(guest: Visit, workshop: str, run: str):
    page = guest.page
    start_round(page, run, "Round that counts")
    address = page.url
    for rater, digits in (("ichiro", (LOW, HIGH, HIGH)), ("jiro", (LOW, HIGH, LOW))):
        page.goto(address)
        join(page, f"{rater}-counts")
        for number, each in enumerate(digits, start=1):
            expect_response(page, number)
            rate(page, each)
        expect(page.get_by_role("heading", level=1)).to_have_text("Thank you")
    page.get_by_role("link", name="To the round").click()
    expect(
        page.get_by_text(f"{RESPONSES} of {RESPONSES} responses have been rated by all their raters.")
    ).to_be_visible()
    page.get_by_role("link", name="Agreement with the judge").click()
    choose_only(page, fetch_run(workshop, run)["name"])
    raters = page.get_by_role("table", name=f"2 raters · {RESPONSES} responses")
    expect(raters.get_by_role("row", name="Overall quality")).to_be_visible()
    judged = page.get_by_role("region", name="The judge compared with people")
    expect(judged.get_by_role("row", name="Overall quality").get_by_role("cell").first).to_have_text(str(RESPONSES))


def test_an_invited_rater_rates_by_the_link_alone(guest: Visit, workshop: str, run: str, browser: Browser):
    start_round(guest.page, run, "Round by invitation")
    guest.page.locator("summary").filter(has_text="Invite a rater").click()
    guest.page.get_by_label("Name of the rater").fill("guest-rater")
    guest.page.get_by_role("button", name="Make the link").click()
    link = guest.page.locator(".copyable code").inner_text()
    expect_order(guest.page)
    with visit(browser, workshop, locale="ko", size=PHONE) as seen:
        page = seen.page
        sent: list[str] = []
        page.on("request", lambda request: sent.append(request.url))
        page.goto(link)
        expect(page.get_by_role("heading", level=1)).to_have_text("Round by invitation")
        assert link.rpartition("#")[2] not in "".join([page.url, page.content(), *sent])
        expect_order(page)
        page.get_by_role("link", name="시작").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(f"응답 1 / {RESPONSES}")
        rate(page, HIGH)
        expect(page.get_by_role("heading", level=1)).to_have_text(f"응답 2 / {RESPONSES}")
        page.goto("/")
        expect(page.get_by_text("이 링크로는 한 라운드에서 평가만 할 수 있습니다.")).to_be_visible()
        seen.forget(403)
        assert seen.complaints == []
    (kept,) = ratings_of(workshop, "guest-rater")
    assert [*kept["ratings"].values()] == [*map(int, HIGH)]

"""People compare pairs: with one key each, on a phone and without script, and the three languages fit."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import finish_run
from tests.support.chromium import PHONE, Visit, find_barriers, press, visit

PAIRS = 3
LABELS = {"en": "No difference", "ja": "差がない", "ko": "차이 없음"}


@pytest.fixture
def address(workshop: str, request: pytest.FixtureRequest) -> str:
    """The page of a round of three pairs."""
    runs = []
    for system in ("secret-a", "secret-b"):
        items = [
            {
                "id": f"item-secret-{number}",
                "context": [{"speaker": "ユーザ", "text": f"連休は{number}日間です。"}],
                "response": f"{number}日もあるなら、温泉に行って、のんびりしたいですね。"
                * (1 + (system == "secret-b")),
            }
            for number in range(2, 2 + PAIRS)
        ]
        runs.append(finish_run(workshop, items, name=f"{system} {request.node.name}"))
    return open_round(workshop, runs)


def open_round(url: str, runs: list[str]) -> str:
    asked = {"kind": "preference", "runs": runs, "name": "Pairs", "raters_per_item": 9}
    answer = httpx.post(f"{url}/v1/rounds", json=asked, trust_env=False, verify=False).raise_for_status()
    found: str = answer.json()["address"]
    return found


def preferences_of(url: str, rater: str) -> list[dict[str, Any]]:
    answer = httpx.get(f"{url}/v1/preferences/human", params={"rater": rater}, trust_env=False, verify=False)
    return [json.loads(line) for line in answer.raise_for_status().text.splitlines()]


def expect_pair(page: Page, number: int) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Pair {number} of {PAIRS}")
    assert "secret" not in page.locator("main").inner_html()


def test_pairs_are_compared_with_one_key_each_and_undone(guest: Visit, workshop: str, address: str) -> None:
    page = guest.goto(f"{address}/sheet?rater=hanako-pairs")
    expect_pair(page, 1)
    expect(page.get_by_label("Single-key shortcuts")).to_be_visible()
    assert find_barriers(page) == []
    press(page, "1")
    expect_pair(page, 2)
    # A reason is written before; what is typed there is no choice.
    press(page, "r")
    expect(page.get_by_label("Write it before you choose.")).to_be_focused()
    page.keyboard.type("2 is longer")
    press(page, "Escape", "2")
    expect_pair(page, 3)
    press(page, "Backspace")
    expect_pair(page, 2)
    expect(page.get_by_text("You have already compared this pair.")).to_be_visible()
    expect(page.get_by_role("button", name="2 is better")).to_have_class("primary")
    press(page, "0")
    expect_pair(page, 3)
    press(page, "0")
    expect(page.get_by_role("heading", level=1)).to_have_text("Thank you")
    kept = preferences_of(workshop, "hanako-pairs")
    assert [one["preference"] == "tie" for one in kept] == [False, True, True]
    assert [one.get("reason") for one in kept] == [None, "2 is longer", None]
    assert guest.complaints == []


@pytest.mark.parametrize("language", list(LABELS))
def test_a_phone_without_script_is_enough(browser: Browser, workshop: str, address: str, language: str) -> None:
    with visit(browser, workshop, locale=language, size=PHONE, script=False) as seen:
        rater = f"phone-{language}"
        page = seen.goto(f"{address}/sheet?rater={rater}")
        for _ in range(PAIRS):
            page.get_by_role("button", name=LABELS[language]).click()
        assert [one["preference"] for one in preferences_of(workshop, rater)] == ["tie"] * PAIRS
    with visit(browser, workshop, locale=language, size=PHONE) as seen:
        for path in ("/rate", address, f"{address}/sheet?rater=x-{language}", f"{address}/sheet?rater={rater}"):
            page = seen.goto(path)
            assert find_barriers(page) == [], path
            assert seen.overflow() <= 0, path
        assert seen.complaints == []


def test_conversations_scroll_on_their_own(guest: Visit, workshop: str) -> None:
    runs = []
    for system, count in (("a", 12), ("b", 9)):
        turns = []
        for number in range(count):
            turns += [
                {"speaker": "客", "role": "user", "text": f"{number}日は空いていますか。"},
                {"speaker": "案内", "role": "system", "text": f"{number}日は空いております。（{system}）"},
            ]
        runs.append(finish_run(workshop, [{"id": "t", "turns": turns}], rubric="ja-conversation", name=system))
    page = guest.goto(f"{open_round(workshop, runs)}/sheet?rater=talks")
    left, right = page.get_by_role("region", name="Conversation 1"), page.get_by_role("region", name="Conversation 2")
    left.evaluate("(one) => { one.scrollTop = 200 }")
    assert left.evaluate("(one) => one.scrollTop") == 200
    assert right.evaluate("(one) => one.scrollTop") == 0
    assert find_barriers(page) == []

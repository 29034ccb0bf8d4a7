"""Two runs against each other: what somebody sees who has never been here."""

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Pages, finish_run
from tests.support.chromium import Visit, find_barriers


def make_items(count: int = 12) -> list[dict[str, Any]]:
    """Distinct items of Japanese talk."""
    context = [{"speaker": "A", "text": "週末はどこかに出かけましたか？"}]
    return [
        {
            "id": f"i{number}",
            "context": context,
            "response": f"家族で海まで行ってきましたよ。{number}時間かかりました。",
        }
        for number in range(count)
    ]


def test_a_newcomer_finds_what_is_worse(visitor: Visit):
    """The record of the clicks, from `/` on, by somebody who reads only what is on the page:

    1. On the list of runs, under "Did the newest builds change anything?": "nightly · bot-a a-101 to a-102". It says

       - which build is worse, and in what: the heading, "a-102 is worse than a-101 on Coherence, …";
       - whether it is significant: "Gate: fail", a reason for each aspect with its p, and a row of the table each;
       - the worst dialogue: the first of the cases, open, with both builds' responses, and the judge's reason for each
         rating where the judge gives any.

    2. Whether people agree with the judge: the chip beside each reason of the gate.
    """
    clicks = count_clicks(visitor)
    page = visitor.goto("/")

    glance = page.get_by_role("region", name="Did the newest builds change anything?")
    glance.get_by_role("link", name="nightly · bot-a a-101 to a-102").click()

    answer = page.get_by_role("heading", level=1)
    expect(answer).to_contain_text("a-102 is worse than a-101 on ")
    worse = answer.inner_text().split(" on ")[1].split(";")[0].replace("and ", "").split(", ")
    assert worse
    gate = page.get_by_role("region", name="Gate")
    expect(gate).to_contain_text("fail")
    differences = page.get_by_role("table", name="Candidate minus baseline, in points of each scale")
    for aspect in worse:
        expect(gate.get_by_role("listitem").filter(has_text=aspect)).to_contain_text("beyond chance (p = 0.0")
        expect(differences.get_by_role("row", name=aspect).get_by_role("cell", name="worse")).to_be_visible()
    others = differences.get_by_role("row").filter(has=page.get_by_role("cell", name="no difference shown"))
    expect(others).to_have_count(6 - len(worse))

    drop = page.locator("details.case[open]")
    expect(drop).to_have_count(1)
    expect(drop.locator("summary")).to_contain_text("worse")
    ratings = drop.get_by_role("region", name="Ratings").get_by_role("row")
    expect(ratings.filter(has=page.get_by_role("rowheader"))).to_have_count(7)
    expect(ratings.last).to_contain_text("What people rated")
    expect(drop.get_by_role("link", name="Full details of this response")).to_have_count(2)
    assert len(clicks) == 1, clicks
    gate.get_by_role("listitem").filter(has_text=worse[0]).locator("summary").click()
    expect(gate.get_by_text("This judge has not been compared with people on this aspect.").first).to_be_visible()
    assert len(clicks) == 2, clicks


def count_clicks(visitor: Visit) -> list[str]:
    """A list that grows with every click of a person, whatever page it is on."""
    clicks: list[str] = []

    def tell(text: str) -> None:
        clicks.append(text)

    visitor.page.expose_function("tellClick", tell)
    visitor.page.add_init_script(
        "addEventListener('click', (event) => { if (event.isTrusted) tellClick(event.target.innerText); }, true)"
    )
    return clicks


def test_runs_swap_and_the_answer_turns(visitor: Visit, site: Pages):
    before, worse = site.run("ja-dialogue", "a-101"), site.run("ja-dialogue", "a-102")
    page = visitor.goto(f"/explore?run={before}&run={worse}")
    page.get_by_role("link", name="Swap").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("a-101 is better than a-102 on ")
    expect(page.get_by_role("region", name="Gate")).not_to_contain_text("fail")


@pytest.mark.parametrize("name", ["judge.samples", "rubric"])
def test_runs_that_cannot_be_compared_say_why(workshop: str, guest: Visit, name: str):
    """Other options of the judge can be looked past, another rubric cannot."""
    before = finish_run(workshop, make_items(), name=f"{name} before")
    changed: dict[str, Any] = {"judge": {"samples": 2}} if name == "judge.samples" else {"rubric": "ko-comment"}
    after = finish_run(workshop, make_items(), name=f"{name} after", **changed)
    page = guest.goto(f"/explore?run={before}&run={after}")
    main = page.get_by_role("main")
    assert find_barriers(page) == []
    if name == "rubric":
        expect(main).to_contain_text("rated with different rubrics")
        for run in (before, after):
            expect(main.locator(f'a[href="/runs/{run}"]').first).to_be_visible()
        expect(main.get_by_role("link", name="Compare anyway")).to_have_count(0)
        return
    expect(main).to_contain_text("not rated in the same way, so they are not compared")
    row = page.get_by_role("region", name="What differs").get_by_role("row", name="samples")
    expect(row).to_contain_text("1")
    expect(row).to_contain_text("2")
    main.get_by_role("link", name="Compare anyway").click()
    expect(main).to_contain_text("Caution: these runs were not rated in the same way.")
    expect(page.get_by_role("table", name="Candidate minus baseline")).to_be_visible()

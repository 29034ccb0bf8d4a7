"""A run that goes on: its pages follow it without being loaded again."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Route, expect

from tests.browser.conftest import finish_run, post_run
from tests.support.chromium import Visit, visit
from tests.support.command import served
from tests.support.site import JudgeProcess, make_item

RUN = "slow run"
OPENED: dict[str, str] = {
    "list": "/",
    "run": "/runs/{run}",
    "comparison": "/explore?run={before}&run={run}",
}
RECORD = """
window.shown = [];
new MutationObserver(() => {
  const value = document.querySelector("progress")?.value;
  if (value !== undefined && value !== window.shown.at(-1)) {
    window.shown.push(value);
  }
}).observe(document.body, { childList: true, subtree: true });
"""


@pytest.fixture
def judge() -> Iterator[JudgeProcess]:
    """A judge at once."""
    process = JudgeProcess()
    process.start()
    yield process
    process.stop()


@pytest.fixture
def service(tmp_path: Path, judge: JudgeProcess) -> Iterator[str]:
    """A service that asks it a few things at a time."""
    variables = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": judge.base_url, "SAITEN_JUDGE_CONCURRENCY": "4"}
    with served(tmp_path, **variables, SAITEN_LOG_LEVEL="error") as (url, _):
        yield url


def post_paused(service: str, judge: JudgeProcess, name: str, count: int) -> str:
    """The id of a run of which only the first few candidates are asked: it cannot end before it is paused."""
    judge.turn(latency_ms=2000)
    run = post_run(service, [make_item(name, number) for number in range(count)], name=name)
    turn_run(service, run, "pause")
    judge.turn(latency_ms=300)
    return run


def test_progress_moves_without_reload(service: str, judge: JudgeProcess, browser: Browser):
    before = finish_run(service, [make_item("before", number) for number in range(60)], name="before")
    # It waits until all pages are open.
    run = post_paused(service, judge, RUN, 60)
    with ExitStack() as windows:
        seen = {name: windows.enter_context(visit(browser, service)) for name in OPENED}
        for name, address in OPENED.items():
            page = seen[name].goto(address.format(run=run, before=before))
            expect(page.get_by_role("progressbar", name=f"Progress of {RUN}")).to_be_visible()
            page.evaluate(RECORD)
            seen[name].mark()
        turn_run(service, run, "resume")
        for each in seen.values():
            expect(each.page.get_by_role("status").filter(has_text=f"The run {RUN} is complete.")).to_have_count(1)
            expect(each.page.get_by_role("progressbar")).to_have_count(0)
            moved: list[float] = each.page.evaluate("window.shown")
            assert len(moved) >= 3
            assert moved == sorted(moved)
        row = seen["list"].page.get_by_role("row").filter(has=seen["list"].page.get_by_role("link", name=RUN))
        expect(row.get_by_role("cell", name="completed")).to_be_visible()
        expect(row.get_by_role("meter", name="Overall quality, 1 to 5")).to_have_text("5.00")
        aspects = seen["run"].page.get_by_role("article").filter(has_text="Overall quality")
        expect(aspects).to_contain_text("5.00")
        expect(aspects).to_contain_text("60 ratings")
        # The report itself takes the place of the waiting.
        expect(seen["comparison"].page.get_by_role("heading", level=1)).to_contain_text("No aspect shows a difference")
        for each in seen.values():
            assert each.is_same()
            assert each.complaints == []


def turn_run(url: str, run: str, action: str) -> None:
    """Pauses or resumes it over the API."""
    httpx.post(f"{url}/v1/batches/{run}/{action}", trust_env=False, verify=False).raise_for_status()


def test_two_picked_runs_stay_picked_while_the_list_renews(service: str, judge: JudgeProcess, browser: Browser):
    items = [make_item("renewed", number) for number in range(12)]
    first, second = (finish_run(service, items, name=name) for name in ("first", "second"))
    third = post_paused(service, judge, "third", 12)
    with visit(browser, service) as seen:
        page = seen.goto("/")
        seen.mark()
        pick(seen, "Baseline first")
        pick(seen, "Candidate second")
        turn_run(service, third, "resume")
        expect(page.get_by_role("status").filter(has_text="The run third is complete.")).to_have_count(1)
        expect(page.get_by_role("row", name="third").get_by_role("cell", name="completed")).to_be_visible()
        expect(page.get_by_role("radio", name="Baseline first")).to_be_checked()
        assert seen.is_same()
        page.get_by_role("button", name="Compare").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("second")
        assert {*page.url.partition("?")[2].split("&")} == {f"baseline={first}", f"candidate={second}"}
        assert seen.complaints == []


def pick(seen: Visit, name: str) -> None:
    """Chooses by the button's name."""
    seen.page.get_by_role("radio", name=name).check()


def test_a_run_is_paused_resumed_cancelled_and_deleted(service: str, judge: JudgeProcess, browser: Browser):
    judge.turn(latency_ms=2000)
    run = post_run(service, [make_item("held", number) for number in range(60)], name="held run")
    with visit(browser, service) as seen:
        page = seen.goto(f"/runs/{run}")
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_text("Paused:")).to_be_visible()
        page.get_by_role("button", name="Resume").click()
        expect(page.get_by_role("button", name="Pause")).to_be_visible()
        bar = page.get_by_role("progressbar", name="Progress of held run")
        expect(bar).not_to_have_attribute("value", bar.get_attribute("value") or "")
        page.get_by_role("button", name="Cancel permanently").click()
        expect(page.get_by_role("button", name="Resume")).to_have_count(0)
        expect(page.get_by_text("cancelled", exact=True).first).to_be_visible()
        page.get_by_role("link", name="Delete …").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Delete held run?")
        page.get_by_role("link", name="Keep it").click()
        page.get_by_role("link", name="Delete …").click()
        page.get_by_role("button", name="Delete permanently").click()
        expect(page.get_by_text("There are no runs yet.")).to_be_visible()
        assert seen.complaints == []


def test_what_a_renewal_finds_being_computed_is_waited_for(service: str, judge: JudgeProcess, browser: Browser):
    """A run that ends leads to figures that are not there yet: the page asks for them until they are."""
    before = finish_run(service, [make_item("before", number) for number in range(12)], name="before")
    run = post_paused(service, judge, RUN, 12)
    asked: list[str] = []

    def compute_at_first(route: Route) -> None:
        answer = route.fetch()
        asked.append(route.request.url)
        waiting = '<p class="computing">computing</p><h1>' if len(asked) == 1 else "<h1>"
        route.fulfill(response=answer, body=answer.text().replace("<h1>", waiting))

    with visit(browser, service) as seen:
        page = seen.goto(f"/explore?run={before}&run={run}")
        seen.mark()
        page.route("**/explore?*", compute_at_first)
        turn_run(service, run, "resume")
        expect(page.get_by_role("heading", level=1)).to_contain_text("No aspect shows a difference")
        expect(page.locator(".computing")).to_have_count(0)
        assert len(asked) >= 2
        assert seen.is_same()
        assert seen.complaints == []


def test_new_runs_wait_behind_a_button(service: str, judge: JudgeProcess, browser: Browser):
    """Nothing moves under who reads: the list shows them when they are asked for, without being loaded again."""
    items = [make_item("told", number) for number in range(3)]
    finish_run(service, items, name="first")
    with visit(browser, service) as seen:
        page = seen.goto("/")
        seen.mark()
        for number, text in enumerate(("1 new run", "2 new runs")):
            finish_run(service, items, name=f"later {number}")
            expect(page.get_by_role("status").get_by_role("button", name=text)).to_be_visible()
        assert page.locator("tr[data-row]").count() == 1
        page.get_by_role("button", name="2 new runs").click()
        expect(page.locator("tr[data-row]")).to_have_count(3)
        expect(page.get_by_role("button", name="new run")).to_have_count(0)
        finish_run(service, items, name="last")
        expect(page.get_by_role("button", name="1 new run")).to_be_visible()
        assert seen.is_same()
        assert seen.complaints == []

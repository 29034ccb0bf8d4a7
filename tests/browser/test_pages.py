"""Every page: no complaint of the browser, no barrier, no page wider than the window, in each language, size and colour."""

import time
from functools import cache
from typing import Literal

import httpx
import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import Pages
from tests.support.chromium import DESK, PHONE, Visit, find_barriers, visit
from tests.support.waiting import LIMIT_SECONDS

NAMES = (
    "runs",
    "run",
    "run-ko",
    "run-talks",
    "run-kinds",
    "trend-talks",
    "explore-talks",
    "items",
    "items-ko",
    "item",
    "item-ko",
    "item-talk",
    "explore",
    "explore-choose",
    "aspects",
    "aspects-ko",
    "leaderboard",
    "leaderboard-talks",
    "preferences",
    "preferences-talks",
    "monitors",
    "monitor",
    "try",
    "try-pair",
    "try-wait",
    "datasets",
    "dataset",
    "dataset-delete",
    "upload",
    "upload-new",
    "upload-unknown",
    "rate",
    "rubrics",
    "rubric",
    "rubric-changes",
    "rubric-draft",
    "invited",
    "login",
    "nothing",
)
LOCALES = ("en", "ja", "ko")
COMPUTED = ".computing:not(#waiting *)"
"""What a page shows until something is computed; the page that waits for another process goes on waiting."""

GLANCE = f"""() => [document.documentElement.lang, document.querySelectorAll("h1").length, !!document.querySelector("{COMPUTED}")]"""
"""One look into the page. What Playwright itself brings into each page to look into it takes longer than most pages."""

MAGNIFIED = (320, 360, 800)
"""Widths of windows whose text is larger, such as that of 1280 at 400 %."""

RING = """() => {
  const seen = document.activeElement, ring = getComputedStyle(seen);
  const reach = parseFloat(ring.outlineWidth) + parseFloat(ring.outlineOffset), own = seen.getBoundingClientRect();
  if (seen !== document.body && ring.outlineStyle === "none") return "no ring";
  for (let above = seen.parentElement; above; above = above.parentElement) {
    if (getComputedStyle(above).clipPath !== "none") return "unseen";
    if (getComputedStyle(above).overflow === "visible") continue;
    const edge = above.getBoundingClientRect();
    if (own.top - reach < edge.top - 1 && own.bottom + reach > edge.bottom + 1) return "cut off";
  }
  return "";
}"""
"""What is wrong with the ring around what has the focus: who uses the keyboard alone sees nothing else of it."""

LOOKS: tuple[tuple[Literal["light", "dark"], tuple[int, int]], ...] = (("light", DESK), ("dark", PHONE))


def path_of(site: Pages, name: str) -> str:
    """An address of the page, with something on it."""
    worse, before = site.run("ja-dialogue", "a-102"), site.run("ja-dialogue", "a-101")
    korean = next(run for told, run in site.runs.items() if "ko-comment" in told)
    talks = site.run("ja-conversation", "bot-c")
    return {
        "runs": "/",
        "run": f"/runs/{worse}",
        "run-ko": f"/runs/{korean}",
        "run-talks": f"/runs/{talks}",
        "run-kinds": f"/runs/{talks}?order=kind",
        "trend-talks": f"/runs/{talks}/trend",
        "explore-talks": f"/explore?run={site.run('ja-conversation', 'bot-b')}&run={talks}",
        "items": f"/explore?run={worse}",
        "items-ko": f"/explore?run={korean}",
        "item": f"/runs/{worse}/items/0",
        "item-ko": f"/runs/{korean}/items/0",
        "item-talk": f"/runs/{talks}/items/0",
        "explore": f"/explore?run={before}&run={worse}&warning=&status=scored",
        "explore-choose": "/explore?text=a",
        "aspects": "/explore/aspects?rubric=ja-dialogue",
        "aspects-ko": "/explore/aspects?rubric=ko-comment",
        "leaderboard": "/leaderboard",
        "leaderboard-talks": f"/leaderboard?name={name_of(site.url, talks)}&rubric=ja-conversation",
        "preferences": "/leaderboard/preferences",
        "preferences-talks": f"/leaderboard/preferences?name={name_of(site.url, talks)}",
        "monitors": "/monitors",
        "monitor": make_monitor(site.url),
        "try": "/try",
        "try-pair": make_pair(site.url),
        "try-wait": f"/try/ev_0?since={int(time.time())}",
        "datasets": "/datasets",
        "dataset": keep_file(site.url),
        "dataset-delete": f"{keep_file(site.url)}/delete",
        "upload": upload_file(site.url, "質問,応答,メモ\n元気？,はい。,x\n元気？,,y\n"),
        "upload-new": "/datasets/new",
        "upload-unknown": upload_file(site.url, "말,되돌린 말\n밥 먹었어?,네.\n"),
        "rate": "/rate",
        "rubrics": "/rubrics",
        "rubric": "/rubrics/ko-comment",
        "rubric-changes": "/rubrics/ja-dialogue?against=1",
        "rubric-draft": "/rubrics/draft/try",
        "invited": "/invited",
        "login": "/login",
        "nothing": "/nowhere",
    }[name]


@cache
def name_of(url: str, run: str) -> str:
    """The name of a run."""
    return str(httpx.get(f"{url}/v1/batches/{run}", trust_env=False, timeout=LIMIT_SECONDS).json()["name"])


@cache
def make_monitor(url: str) -> str:
    """The page of a monitor with an alarm, which has seen nothing yet."""
    asked = {"name": "窓口", "rubric": "ja-conversation", "rate": 0.5, "alarm": {"aspects": ["overall"]}}
    made = httpx.post(f"{url}/v1/monitors", json=asked, trust_env=False, timeout=LIMIT_SECONDS)
    return f"/monitors/{made.json()['id']}"


@cache
def make_pair(url: str) -> str:
    """The page of two responses that were typed in."""
    said = {"speaker": "A", "text": "元気？", "response": "はい。", "other": "元気ですよ。", "samples": "1"}
    address = "/try"
    with httpx.Client(base_url=url, trust_env=False, timeout=LIMIT_SECONDS) as client:
        answer = client.post(address, data={"rubric": "ja-dialogue", "explain": "yes", **said})
        while not (address := answer.headers.get("location", address)).startswith("/try/pair"):
            answer = client.get(address)
    return address


@cache
def upload_file(url: str, table: str) -> str:
    """The page of an uploaded file."""
    with httpx.Client(base_url=url, trust_env=False, timeout=LIMIT_SECONDS) as client:
        return str(client.post("/datasets/new", files={"file": ("表.csv", table.encode())}).headers["location"])


@cache
def keep_file(url: str) -> str:
    """The page of a dataset."""
    address = upload_file(url, "質問,応答\n元気？,はい。\n")
    with httpx.Client(base_url=url, trust_env=False, timeout=LIMIT_SECONDS) as client:
        kept = client.post(address, data={"name": "表", "action": "keep"})
        return str(kept.headers["location"].partition("?")[0])


@pytest.mark.parametrize("locale", LOCALES)
def test_pages_are_in_order(site: Pages, browser: Browser, locale: str):
    """One visitor per language walks through all pages, and looks at each in both sizes and both colours."""
    with visit(browser, site.url, locale=locale) as seen:
        examined = [name for name in NAMES if not name.endswith("-ko")][LOCALES.index(locale) :: len(LOCALES)]
        found = {name: look_at(seen, path_of(site, name), locale, name in examined) for name in NAMES}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def look_at(seen: Visit, path: str, locale: str, examined: bool) -> list[str]:
    """Opens the page; what is wrong with it. axe-core looks at both looks of each template once, in one language or
    another: it takes half of the time, and what is Korean has the templates of what is Japanese."""
    status = 404 if path == "/nowhere" else 200
    page = seen.page
    answer = page.goto(path)
    language, heads, computing = page.evaluate(GLANCE)
    if computing:
        page.wait_for_function(f"() => !document.querySelector('{COMPUTED}')")
        language, heads, _ = page.evaluate(GLANCE)
    wrong = [] if answer is not None and answer.status == status else [f"answered {answer and answer.status}"]
    if language != locale:
        wrong.append(f"is in {language}")
    if heads != 1:
        wrong.append(f"has {heads} headings")
    for theme, (width, height) in LOOKS:
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size({"width": width, "height": height})
        if (wider := seen.overflow()) > 0:
            wrong.append(f"is {wider} px wider than a window of {width}")
        if examined:
            wrong += find_barriers(page)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    for width in MAGNIFIED:
        page.set_viewport_size({"width": width, "height": PHONE[1]})
        if (wider := seen.overflow()) > 0:
            wrong.append(f"is {wider} px wider than a window of {width} with everything open")
    wrong += [told for told in seen.complaints if not (status == 404 and "404" in told)]
    seen.complaints.clear()
    return wrong


def test_pages_can_be_read_without_script(site: Pages, browser: Browser):
    with visit(browser, site.url, script=False) as seen:
        for name in NAMES:
            seen.page.goto(path_of(site, name))
            # What is computed behind a page comes with its own refresh.
            seen.page.locator(f"main:not(:has({COMPUTED})) h1").wait_for()
            assert seen.page.locator("main").inner_text().strip(), name
            if name == "run-kinds":  # of all conversations, and of two builds
                assert seen.page.locator("#findings th[aria-sort=ascending]").count() == 3


@pytest.mark.parametrize("size", [DESK, PHONE])
def test_the_ring_around_the_focus_is_seen(site: Pages, browser: Browser, size: tuple[int, int]):
    wrong: dict[str, str] = {}
    with visit(browser, site.url, size=size) as seen:
        for path in (path_of(site, "run"), "/leaderboard?name=nightly", path_of(site, "explore-talks")):
            page = seen.goto(path)
            for _ in range(30):
                page.keyboard.press("Tab")
                if found := page.evaluate(RING):
                    wrong[page.evaluate("document.activeElement.outerHTML").partition(">")[0]] = found
    assert wrong == {}


def test_titles_tell_which_runs_are_seen(site: Pages, browser: Browser):
    titles = {
        "run": "nightly · bot-a · a-102 · Saiten",
        "items": "nightly · bot-a · a-102 · Explore · Saiten",
        "explore": "nightly · bot-a · a-101 – nightly · bot-a · a-102 · Explore · Saiten",
        "trend-talks": "Trend across builds · talks · Saiten",
    }
    with visit(browser, site.url) as seen:
        assert {name: seen.goto(path_of(site, name)).title() for name in titles} == titles


def test_texts_have_their_own_language(site: Pages, browser: Browser):
    with visit(browser, site.url, locale="en") as seen:
        for name, language in (("item", "ja"), ("item-ko", "ko")):
            seen.page.goto(path_of(site, name))
            said = seen.page.locator(".chat .said")
            assert said.count() >= 2
            assert {said.nth(number).get_attribute("lang") for number in range(said.count())} == {language}

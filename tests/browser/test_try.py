"""One response typed in by hand, as somebody does who wants to see what Saiten says."""

from playwright.sync_api import Locator, Page, expect

from tests.support.chromium import Visit, find_barriers
from tests.support.command import ROOT

SAID = ("今度の連休、どこか行く？", "まだ決めてない。", "温泉なんてどうかな。")
RESPONSE = "温泉、いいね。箱根なら電車でも行けるし、連休でも日帰りで楽しめるよ。"


def fill_context(page: Page) -> None:
    """An utterance a row, by the labels."""
    for number, text in enumerate(SAID, start=1):
        page.get_by_label(f"Text {number}").fill(text)


def aspects_of(page: Page) -> Locator:
    """The ratings of an item's page, an article an aspect."""
    articles = page.get_by_role("region", name="Ratings").get_by_role("article")
    return articles.filter(has=page.locator("[aria-current=true]"))


def test_a_response_is_scored(guest: Visit):
    page = guest.goto("/")
    page.get_by_role("link", name="Try it", exact=True).first.click()
    fill_context(page)
    page.get_by_label("Speaker 1").fill("友人")
    page.get_by_label("Response", exact=True).fill(RESPONSE)
    page.get_by_label("Samples").fill("2")
    page.get_by_role("button", name="Score").click()
    dialogue = page.get_by_role("region", name="Dialogue")
    for text in (*SAID, RESPONSE, "友人"):
        expect(dialogue.get_by_text(text)).to_be_visible()
    expect(aspects_of(page)).to_have_count(6)
    expect(aspects_of(page).get_by_text("Standard deviation")).to_have_count(6)
    assert "/evaluations/" in page.url


def test_a_blank_response_is_refused_and_nothing_is_lost(guest: Visit):
    page = guest.goto("/try")
    fill_context(page)
    page.get_by_label("Rubric").select_option(label="Comments on Korean texts (ko-comment)")
    page.get_by_label("Ask for reasons").uncheck()
    page.get_by_role("button", name="Score").click()
    expect(page.get_by_role("alert")).to_contain_text("There is a problem")
    field = page.get_by_label("Response", exact=True)
    expect(field).to_have_attribute("aria-invalid", "true")
    assert page.locator(f"#{field.get_attribute('aria-describedby')}").inner_text().strip()
    assert find_barriers(page) == []
    page.get_by_role("alert").get_by_role("link", name="Response").click()
    expect(field).to_be_focused()
    for number, text in enumerate(SAID, start=1):
        expect(page.get_by_label(f"Text {number}")).to_have_value(text)
    expect(page.get_by_label("Rubric")).to_have_value("ko-comment")
    expect(page.get_by_label("Ask for reasons")).not_to_be_checked()
    guest.forget(422)
    page.get_by_label("Rubric").select_option("ja-dialogue")
    field.fill(RESPONSE)
    page.get_by_role("button", name="Score").click()
    expect(aspects_of(page)).to_have_count(6)


def test_an_utterance_is_added(guest: Visit):
    page = guest.goto("/try")
    fill_context(page)
    page.get_by_role("button", name="Add an utterance").click()
    expect(page.get_by_label("Text 4")).to_be_focused()
    expect(page.get_by_label("Speaker 4")).to_have_value("B")
    expect(page.get_by_label("Text 3")).to_have_value(SAID[2])
    page.get_by_label("Text 4").fill("うん、行こう。")
    page.get_by_label("Response", exact=True).fill(RESPONSE)
    page.get_by_role("button", name="Score").click()
    expect(page.get_by_role("region", name="Dialogue").get_by_text("うん、行こう。")).to_be_visible()


def test_an_example_is_filled_in_and_scored(guest: Visit):
    page = guest.goto("/try")
    page.get_by_role("main").get_by_role("link", name="한국어").click()
    expect(page.get_by_label("Rubric")).to_have_value("ko-dialogue")
    response = page.get_by_label("Response", exact=True).input_value()
    assert "계란말이" in response
    page.get_by_role("button", name="Score").click()
    expect(page.get_by_role("region", name="Dialogue").get_by_text(response)).to_be_visible()


def test_a_draft_of_a_rubric_is_checked_and_tried(guest: Visit):
    page = guest.goto("/rubrics/draft/try")
    page.get_by_label("Rubric as YAML").fill("id: nothing")
    page.get_by_label("Dialogues, at most 5").fill(f"友人: {SAID[0]}\n私: {RESPONSE}")
    page.get_by_role("button", name="Check and estimate").click()
    expect(page.get_by_role("alert")).to_contain_text("problem")
    assert find_barriers(page) == []
    guest.forget(422)
    page.get_by_label("Rubric as YAML").fill((ROOT / "rubrics" / "ja-dialogue.yaml").read_text("utf-8"))
    page.get_by_role("button", name="Check and estimate").click()
    expect(page.get_by_role("status").filter(has_text="The rubric is valid")).to_be_visible()
    page.get_by_role("button", name="Score").click()
    expect(page.get_by_role("region", name="Dialogue 1").get_by_role("row")).to_have_count(1 + 6)
    assert find_barriers(page) == []


TWICE = """() => {
  let sent = 0;
  const form = document.querySelector('main form[method="post"]');
  window.addEventListener("submit", (event) => { sent += !event.defaultPrevented; event.preventDefault(); });
  form.noValidate = true;
  form.requestSubmit();
  form.requestSubmit();
  return sent;
}"""


def test_a_form_whose_button_is_clicked_twice_is_sent_once(visitor: Visit):
    page = visitor.goto("/try")
    page.wait_for_load_state("load")
    assert page.evaluate(TWICE) == 1

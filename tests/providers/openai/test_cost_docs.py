"""docs/cost.md against prompts, prices and its own arithmetic; the tokens behind it against the tokenizer."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import tokens
from benchmarks.cost_page import render
from benchmarks.cost_table import (
    ITEMS,
    SHARE,
    Job,
    count_calls,
    find_writers,
    list_below,
    price_job,
    price_question,
    share_of,
    show_dollars,
    table_of_conversations,
    table_of_costs,
)
from benchmarks.prompt_tokens import (
    FILE,
    TURNS,
    Counts,
    NoTokenizer,
    Spread,
    Way,
    change,
    count_all,
    dump_counts,
    find_conversation_rubrics,
    find_conversations,
    find_dialogues,
    find_rubrics,
    list_questions,
    list_stale,
    list_ways,
    load_counts,
    open_tokenizer,
    spread,
    without_examples,
    write_reply,
)
from benchmarks.record import Report
from saiten_server.core.rubric import Rubric
from saiten_server.providers.openai.prices import CACHEABLE_TOKENS, SURELY_CACHEABLE_TOKENS, Price, Prices, read_prices
from saiten_server.providers.openai.prices import count_prefix as estimate_prefix

ROOT = Path(__file__).resolve().parents[3]
COUNTS = load_counts()
PRICES = Prices(
    updated="2026-01-01",
    source="ours",
    models={"m": Price(input=1.0, cached_input=0.1, cache_write=1.25, output=4.0)},
)


def rubric_named(rubric_id: str) -> Rubric:
    return next(rubric for rubric in find_rubrics() if rubric.id == rubric_id)


def test_the_page_is_up_to_date() -> None:
    check = [sys.executable, "-m", "benchmarks.cost_page", "--check"]
    assert subprocess.run(check, cwd=ROOT, check=False).returncode == 0, "run `make pages`"


def test_no_word_of_a_table_is_left_in_english() -> None:
    lines = (ROOT / "docs" / "cost.ja.md").read_text(encoding="utf-8").splitlines()
    rows = [re.sub(r"`[^`]*`", "", line) for line in lines if line.startswith(("| ", "- `"))]
    assert len(rows) > 40
    assert [row for row in rows if re.search("[a-z]{3}", row)] == []


def test_the_counts_are_of_the_prompts_and_dialogues_of_now() -> None:
    assert list_stale(COUNTS) == [], "run `make pages`"


def test_a_changed_rubric_has_a_digest_of_its_own() -> None:
    rubric = find_rubrics()[0]
    assert rubric.digest != change(rubric, calls="independent").digest != without_examples(rubric).digest


def test_counts_of_other_prompts_are_seen_to_be_stale() -> None:
    ways = dict(COUNTS.ways)
    changed = next(iter(ways))
    ways[changed] = replace(ways[changed], digest="0" * 16)
    assert list_stale(Counts(COUNTS.tokenizer, ways, COUNTS.texts)) == [str(changed)]
    del ways[changed]
    assert list_stale(Counts(COUNTS.tokenizer, ways, COUNTS.texts)) == [str(changed)]
    texts = {**COUNTS.texts, "lfqa": replace(COUNTS.texts["lfqa"], digest="0" * 16)}
    assert list_stale(Counts(COUNTS.tokenizer, dict(COUNTS.ways), texts)) == ["lfqa"]


def test_the_counts_are_the_tokenizers() -> None:
    try:
        open_tokenizer()
    except NoTokenizer as error:
        pytest.skip(str(error))
    assert count_all() == COUNTS


def test_the_pages_on_judges_have_the_tokens_of_system_messages() -> None:
    try:
        _, count = open_tokenizer()
    except NoTokenizer as error:
        pytest.skip(str(error))
    asking = {rubric.id: rubric.calls for rubric in find_rubrics()}
    counted = [
        min(count(prefix.system) for prefix, _ in list_questions(way, rubric))
        for way, rubric in list_ways(find_rubrics())
        if way.structured and way.examples and not way.explain and way.calls == asking[way.rubric]
    ]
    for page in (ROOT / "docs").glob("judges*.md"):
        table = re.findall(r"^\| `[a-z-]+`[,、][^|]*\|[^|]*\| ([\d,]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert sorted(int(one.replace(",", "")) for one in table) == sorted(counted)


def test_counts_are_kept_whole() -> None:
    assert load_counts(dump_counts(COUNTS)) == COUNTS
    assert dump_counts(COUNTS) == FILE.read_text(encoding="utf-8")
    # Four rubrics, two languages each, two ways to call, with and without examples, reasons and schema; and two for
    # conversations, two languages each, with and without examples.
    assert len(COUNTS.ways) == 4 * 2 * 2 * 2 * 2 * 2 + 2 * 2 * 2


@pytest.mark.parametrize("rubric", find_rubrics(), ids=lambda rubric: rubric.id)
def test_four_fifths_of_a_typical_prompt_are_the_same_for_all_dialogues(rubric: Rubric) -> None:
    for language in rubric.languages:
        for prefix in COUNTS.find(rubric.id, language, rubric.calls).prefixes:
            assert share_of(prefix, COUNTS, rubric.id) >= SHARE


def test_what_is_too_short_for_the_providers_cache_is_told() -> None:
    joint = [(rubric, language) for rubric, language, calls, _ in list_below(COUNTS) if calls == "joint"]
    assert joint == []
    page = (ROOT / "docs" / "cost.md").read_text(encoding="utf-8")
    for rubric, language, _, prefixes in list_below(COUNTS):
        assert f"- `{rubric}`, {language}, one call an aspect: {len(prefixes)} of " in page
        assert max(prefixes) < 1024


def test_an_estimate_takes_no_prompt_for_kept_that_is_too_short() -> None:
    for way, rubric in list_ways([*find_rubrics(), *find_conversation_rubrics()]):
        if not (way.structured and way.examples):
            continue
        counted = COUNTS.ways[way].prefixes
        estimated = [estimate_prefix(prefix) for prefix, _ in list_questions(way, rubric)]
        for estimate, count in zip(estimated, counted, strict=True):
            assert count < estimate < 1.25 * count
            assert count >= CACHEABLE_TOKENS or estimate < SURELY_CACHEABLE_TOKENS
            # And what asks about all aspects at once is kept by either.
            assert way.calls == "independent" or estimate >= SURELY_CACHEABLE_TOKENS


def test_examples_and_schemas_are_what_their_absence_lacks() -> None:
    full = COUNTS.find("lfqa", "ja", "independent")
    assert all(
        fewer < more
        for parts in ({"examples": False}, {"structured": False})
        for fewer, more in zip(COUNTS.find("lfqa", "ja", "independent", **parts).prefixes, full.prefixes, strict=True)
    )
    bare = without_examples(rubric_named("lfqa"))
    assert all(level.example is None for aspect in bare.aspects for level in aspect.levels)
    assert all(aspect.one_shot is None for aspect in bare.aspects)


def test_a_reply_is_a_verdict_in_the_format_that_was_asked_for() -> None:
    aspects = rubric_named("ko-comment").aspects
    way = Way("ko-comment", "ko", "joint", examples=True, explain=False, structured=True)
    assert json.loads(write_reply(way, aspects)) == {"sensibleness": 1, "specificity": 1, "sympathy": 1}
    reasoned = json.loads(write_reply(replace(way, explain=True), aspects))
    assert reasoned["sympathy"] == {"reason": "", "rating": 1}
    assert write_reply(replace(way, structured=False), aspects).splitlines()[0] == "합리성: 「1」"


def test_typical_dialogues_are_those_that_ship() -> None:
    for rubric in find_rubrics():
        dialogues = find_dialogues(rubric.id)
        assert len(dialogues) == len(set(dialogues)) == COUNTS.texts[rubric.id].dialogues >= 30


def test_conversations_are_priced_by_the_turns_that_they_have() -> None:
    rubrics = find_conversation_rubrics()
    assert [rubric.id for rubric in rubrics] == ["ja-conversation", "ko-conversation"]
    for rubric in rubrics:
        talks = find_conversations(rubric.id)
        assert COUNTS.texts[rubric.id].dialogues == len(talks) == 12
        assert {len(talk.turns) for talk in talks} == {TURNS}
        assert all(talk.conversation.gives("persona") for talk in talks)
    rows = table_of_conversations(COUNTS, PRICES, "m").splitlines()[2:]
    assert len(rows) == sum(len(rubric.languages) for rubric in rubrics)
    for row in rows:
        name, prefix, _, message, reply, fresh, cached = row.strip("| ").split(" | ")
        (tokens, talk, said) = (int(cell.split(" ")[0].replace(",", "")) for cell in (prefix, message, reply))
        assert tokens > 1024, name
        assert float(fresh) == pytest.approx(1000 * (tokens + talk + 4 * said) / 1e6, rel=5e-3)
        rest = talk + 4 * said
        assert float(cached) == pytest.approx(
            (32 * (1.25 * tokens + rest) + 968 * (0.1 * tokens + rest)) / 1e6, rel=5e-3
        )


def test_a_spread_is_a_median_and_what_nineteen_of_twenty_do_not_pass() -> None:
    assert spread(range(1, 21)) == Spread(median=10, p95=19)
    assert spread([7]) == Spread(median=7, p95=7)


def test_a_questions_price_by_each_way() -> None:
    asked = {"prefix": 2000, "message": 200, "reply": 10, "times": 1000}
    # Fresh: 1000 · (2200 · 1.0 + 10 · 4.0) millionths = 2.24; half of it in the batch mode.
    assert price_question(PRICES, "m", **asked, way="fresh") == pytest.approx(2.24)
    assert price_question(PRICES, "m", **asked, way="batch") == pytest.approx(1.12)
    # All written: 1000 · (2200 · 1.25 + 40).
    assert price_question(PRICES, "m", **asked, way="unmarked") == pytest.approx(2.79)
    # 32 write: 32 · (2000 · 1.25 + 200 + 40); 968 find: 968 · (2000 · 0.1 + 200 + 40).
    assert find_writers() == 32
    assert price_question(PRICES, "m", **asked, way="cached") == pytest.approx((32 * 2740 + 968 * 440) / 1e6)
    # Fewer calls than may be in flight: all of them write.
    few = {**asked, "times": 5}
    assert price_question(PRICES, "m", **few, way="cached") == pytest.approx(5 * 2740 / 1e6)


@pytest.mark.parametrize("way", ["cached", "unmarked"])
def test_a_short_prompt_is_neither_found_nor_written(way: str) -> None:
    asked = {"prefix": 800, "message": 200, "reply": 10, "times": 1000}
    fresh = price_question(PRICES, "m", **asked, way="fresh")
    assert price_question(PRICES, "m", **asked, way=way) == fresh  # type: ignore[arg-type]


def test_a_job_is_the_sum_of_its_questions() -> None:
    model, prices = "gpt-6-luna", read_prices()
    once = price_job(prices, model, COUNTS, Job(), "fresh")
    assert price_job(prices, model, COUNTS, Job(samples=3), "fresh") == pytest.approx(3 * once)
    english = price_job(prices, model, COUNTS, Job(languages=("en",)), "fresh")
    assert price_job(prices, model, COUNTS, Job(languages=("ja", "en")), "fresh") == pytest.approx(once + english)
    assert count_calls(COUNTS, Job(calls="independent", samples=2)) == 6 * 2 * ITEMS
    with pytest.raises(KeyError):
        price_job(prices, "somebody/else-7", COUNTS, Job(), "fresh")


def test_the_page_shows_its_arithmetic() -> None:
    """The sums in words come out as the totals beside them."""
    page = render(COUNTS, read_prices())
    sums = re.findall(r"^[- ]+ (?:.*?: )?(.*?) ÷ 1,000,000 = (?:\*\*\$)?([\d.]+)", page, re.MULTILINE)
    assert len(sums) == 3
    for written, total in sums:
        expression = written.replace(",", "").replace("×", "*")
        assert re.fullmatch(r"[\d.*+() ]+", expression), expression
        assert eval(expression) / 1e6 == pytest.approx(float(total), rel=5e-3)
    assert float(sums[1][1]) + float(sums[2][1]) == pytest.approx(
        price_job(read_prices(), "gpt-6-luna", COUNTS, Job(), "cached"), abs=1e-4
    )


def test_the_cost_table_has_every_model_and_every_way() -> None:
    table = table_of_costs(COUNTS, read_prices()).splitlines()
    assert all(f"`{model}`" in table[0] for model in read_prices().models)
    # Five ways to ask, live fresh, live cached and in batch; and what it would be unmarked.
    assert len(table) - 2 == 5 * 3 + 1
    assert {len(line.split("|")) for line in table} == {len(read_prices().models) + 4}


@pytest.mark.parametrize(("value", "text"), [(0.07961, "0.0796"), (0.84, "0.840"), (7.06, "7.06"), (106.2, "106")])
def test_dollars_have_three_digits(value: float, text: str) -> None:
    assert show_dollars(value) == text


def test_the_benchmark_meets_its_targets() -> None:
    said: list[str] = []
    report = Report(machine={}, say=said.append)
    tokens.measure(report)
    assert not report.missing
    assert {figure.met for figure in report.figures if figure.target} == {True}
    assert any(line.startswith("| `ja-dialogue`, ja | 1 |") for text in said for line in text.splitlines())

"""`saiten judges run`: several judges of the same rated responses, side by side."""

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from saiten.answers import Batch, EstimateReport
from saiten.commands.files import InvalidItems
from saiten.commands.items import choose_reading
from saiten.reading import read
from saiten_server.cli.judges import compare_judges
from saiten_server.cli.judging import JudgeRun, has_little, read_study, share_budget
from tests.support.command import saiten, served
from tests.support.fake_openai import Answer, FakeOpenAI, Request, candidate_of, complete, status, verdict_of
from tests.support.gate_files import judged_by, write_items, write_lines

COUNT = 12


def rate(number: int, shift: int, levels: list[int]) -> int:
    """The level that a judge gives response `number`; people give that of shift 0."""
    return levels[(number + shift * (number % 3)) % len(levels)]


def answer(request: Request) -> Answer:
    """`near` rates as people do, `far` does not, and `broken` is no model."""
    model = request["model"]
    if model == "broken":
        return status(404, "The model `broken` does not exist", code="model_not_found")(request)
    number = int(re.findall(r"\d+", candidate_of(request))[-1])
    shift = {"near": 0, "far": 1}[model]
    return complete(request, verdict_of(request, lambda levels: rate(number, shift, levels)))


async def judging(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command, while this process answers as the judges."""
    return await asyncio.to_thread(lambda: saiten("judges", "run", *arguments, folder=folder, stdin=None, **variables))


def write_ratings(folder: Path) -> str:
    """What two raters said of all but the last two items."""

    def each() -> Iterator[dict[str, Any]]:
        for number in range(COUNT - 2):
            overall = rate(number, 0, [1, 2, 3, 4, 5])
            for rater in ("R1", "R2"):
                yield {"item": f"i{number}", "rater": rater, "ratings": {"overall": overall}}

    return write_lines(folder / "ratings.ndjson", list(each()))


async def test_judges_are_compared_and_a_broken_one_loses_no_other(tmp_path: Path) -> None:
    rated = (write_items(tmp_path, count=COUNT), "--ratings", write_ratings(tmp_path))
    judges = ("--model", "near", "--model", "far", "--model", "broken", "--resamples", "100")
    async with FakeOpenAI(answer) as fake:
        with served(tmp_path, **judged_by(fake.base_url)) as (url, _):
            variables = {"SAITEN_URL": url}
            planned = await judging(tmp_path, *rated, *judges, "--estimate", **variables)
            assert (planned.returncode, fake.requests) == (0, []), planned.stderr
            assert "2 items that no one rated are left out" in planned.stderr
            assert "3 judges of 10 items: 30 calls, an unknown price" in planned.stderr
            # What could be known beforehand is said before anyone is asked.
            off = write_lines(tmp_path / "off.ndjson", [{"item": "i0", "rater": "R1", "ratings": {"overall": 9}}])
            unfit = await judging(tmp_path, *rated[:2], off, *judges[:2], **variables)
            assert "off.ndjson: line 1: /ratings/overall: 9 is off its scale from 1 to 5" in unfit.stderr
            unmatched = await judging(tmp_path, *rated, *judges[:2], "--match", "mate=overall", **variables)
            assert unmatched.stderr.endswith("--match: the rubric ja-dialogue has no 'mate'\n")
            assert (unfit.returncode, unmatched.returncode, fake.requests) == (2, 2, [])
            done = await judging(tmp_path, *rated, *judges, "--save", "scored.ndjson", "--json", **variables)
            assert done.returncode == 1, done.stderr
            assert "saiten: broken: the batch ba_" in done.stderr
            found = json.loads(done.stdout)["aspects"]["overall"]
            assert (list(found["scorers"]), found["n"]) == (["near", "far"], 10)
            assert found["scorers"]["near"]["spearman"] == 1
            asked = [request["model"] for request in fake.requests]
            assert (asked.count("near"), asked.count("far")) == (10, 10)
            # What was kept is the same study; and nobody is asked twice.
            offline = saiten("analyze", "judges", "scored.ndjson", "--resamples", "100", "--json", folder=tmp_path)
            assert json.loads(offline.stdout)["aspects"] == json.loads(done.stdout)["aspects"]
            fake.requests.clear()
            again = await judging(tmp_path, *rated, *judges[:4], "--resamples", "100", "--json", **variables)
            assert (again.returncode, json.loads(again.stdout)["aspects"]["overall"], fake.requests) == (0, found, [])
            # A batch that people rated brings its judge and its ratings.
            (batch,) = re.findall(r"^saiten: near: (ba_\S+)$", again.stderr, re.MULTILINE)
            named = ("--batch", batch, "--url", url, "--table", "scorers", "--as", "csv")
            listed = saiten("analyze", "judges", *named, folder=tmp_path)
            assert listed.stdout.splitlines()[1] == "near,1.00,1.00", listed.stderr
            joined = await judging(
                tmp_path, batch, "--model", "far", "--samples", "2", "--resamples", "100", **variables
            )
    assert joined.returncode == 0, joined.stderr
    assert "far, 2 samples" in joined.stdout
    assert "overall: 10 items" in joined.stdout


async def test_a_budget_that_does_not_suffice_asks_no_one(tmp_path: Path) -> None:
    rated = (write_items(tmp_path, count=COUNT), "--ratings", write_ratings(tmp_path), "--budget", "0.000001")
    async with FakeOpenAI(answer) as fake:
        variables = judged_by(fake.base_url)
        unknown = await judging(tmp_path, *rated, "--model", "near", **variables)
        little = await judging(tmp_path, *rated, "--model", "gpt-6-luna", **variables)
        assert fake.requests == []
    assert (unknown.returncode, little.returncode) == (2, 2), unknown.stderr + little.stderr
    assert "the price of near is not known" in unknown.stderr
    assert "more than the budget of 1e-06" in little.stderr


def test_ratings_that_concern_no_item_are_refused(tmp_path: Path) -> None:
    items = write_items(tmp_path, count=2)
    other = write_lines(tmp_path / "other.ndjson", [{"item": "x", "rater": "R1", "ratings": {"overall": 1}}])
    refused = saiten("judges", "run", items, "--ratings", other, folder=tmp_path)
    assert (refused.returncode, refused.stderr) == (
        2,
        "saiten: other.ndjson: no rating names an item of items.ndjson\n",
    )
    (tmp_path / "odd.ndjson").write_text('{"judge": "x"}\n' + (tmp_path / items).read_text("utf-8"), "utf-8")
    odd = saiten("judges", "run", "odd.ndjson", "--ratings", other, folder=tmp_path)
    assert (odd.returncode, odd.stderr) == (2, "saiten: odd.ndjson: 'judge' in the options is not an object\n")
    item = {"context": [{"speaker": "A", "text": "はい"}], "response": "いいえ"}
    rating = {"item": "1", "rater": "R1", "ratings": {"overall": 1}}
    given = write_lines(tmp_path / "given.ndjson", [{**item, "id": "1"}, item, {**item, "id": ["1"]}])
    few = write_lines(tmp_path / "few.ndjson", [item, item, {**item, "id": ["1"]}])
    rated = write_lines(tmp_path / "rated.ndjson", [rating])
    more = write_lines(tmp_path / "more.ndjson", [rating, {**rating, "item": "x"}])
    reading = choose_reading(None, (), None)
    for name, people, told in ((given, rated, "given.ndjson:2: has the id '1', as"), (few, more, "has no item 'x'")):
        with pytest.raises(InvalidItems, match=told):
            read_study(str(tmp_path / name), reading, str(tmp_path / people))
    second = write_lines(tmp_path / "second.ndjson", [{**rating, "candidate": 1}])
    with pytest.raises(InvalidItems, match=r"few\.ndjson has no candidate 1"):
        read_study(str(tmp_path / few), reading, str(tmp_path / second))
    nowhere = CliRunner().invoke(
        compare_judges, [few, "--ratings", rated, "--save", str(tmp_path / "none" / "kept.ndjson")]
    )
    assert (nowhere.exit_code, "its folder is not there" in nowhere.output) == (2, True)
    # An id that is no text is for the service to refuse.
    assert len(read_study(str(tmp_path / few), reading, str(tmp_path / rated)).items.values) == 2
    unbound = CliRunner().invoke(compare_judges, [few, "--ratings", rated, "--budget", "nan"])
    assert (unbound.exit_code, "--budget nan is not a number of dollars" in unbound.output) == (2, True)
    alone = saiten("judges", "run", items, folder=tmp_path)
    assert (alone.returncode, "--ratings" in alone.stderr) == (2, True)


def judged(name: str, cost_usd: float | None) -> JudgeRun:
    counts = dict.fromkeys(("candidates", "distinct_candidates", "calls", "prompt_tokens", "completion_tokens"), 1)
    report = EstimateReport.model_validate(
        {**counts, "prefix_tokens": 0, "translated_characters": 0, "cost_usd": cost_usd}
    )
    return JudgeRun(name, {}, report)


def test_the_budget_is_shared_by_the_estimates_among_those_that_are_asked() -> None:
    lost, one, other = judged("lost", 5.0), judged("one", 1.0), judged("other", 3.0)
    lost.failure = "no such model"
    share_budget([lost, one, other], 8.0)
    assert [one.options["budget_usd"], other.options["budget_usd"], lost.options] == [2.0, 6.0, {}]
    share_budget([judged("unpriced", None)], None)
    with pytest.raises(InvalidItems, match=r"up to 4\.0000 USD, more than the budget of 3"):
        share_budget([one, other], 3.0)


@pytest.mark.parametrize(
    ("status", "reason", "budget_usd", "begins_anew"),
    [
        ("paused", "budget-exhausted", 2.0, True),
        ("paused", "budget-exhausted", None, True),
        ("paused", "budget-exhausted", 1.0, False),
        ("paused", "requested", 2.0, False),
        ("completed", None, 2.0, False),
    ],
)
def test_a_batch_that_used_up_its_budget_begins_anew_with_a_greater_one(
    status: str, reason: str | None, budget_usd: float | None, begins_anew: bool
) -> None:
    counts = {"total": 2, "queued": 1, "scored": 1, "partial": 0, "failed": 0}
    known = {
        "id": "ba_1",
        "name": None,
        "rubric": "ja-dialogue",
        "counts": counts,
        "path": "source",
        "judge": {},
        "progress": 0.5,
        "usage": {},
        "created_at": "2026-11-23T00:00:00Z",
    }
    batch = read(Batch, {**known, "status": status, "pause_reason": reason, "budget_usd": 1.0})
    assert has_little(batch, budget_usd) is begins_anew

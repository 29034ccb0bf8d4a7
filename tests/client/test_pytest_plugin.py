"""The pytest plugin, in runs of pytest of its own against a service over HTTP."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import httpx
import pytest

import saiten
from saiten.answers import GateReport
from saiten.testing import tell_verdict
from tests.support.command import environment, finish
from tests.support.fake_openai import Answer, FakeOpenAI, Request, complete, verdict_of
from tests.support.nursery import Forked
from tests.support.posted import make_context, make_item

TESTS = """
import saiten
from saiten.testing import assert_no_regression, assert_rating

ITEMS = [
    {"id": f"i{n}", "context": [f"週末はどこかに出かけましたか？（{n}）"], "response": "海まで行ってきました。"}
    for n in range(40)
]
"""

REGRESSION = """
def test_bot(saiten_client):
    run = saiten_client.run(ITEMS, name="branch", judge={"samples": 1})
    rules = [saiten.Rule("overall", max_drop=0.1)]
    assert assert_no_regression(run, baseline="BASELINE", rules=rules, min_coverage=0.9).verdict == "pass"
"""

RATING = """
def test_reply(saiten_client):
    assert_rating(saiten_client, ["やあ"], "こんにちは", "overall", at_least=AT_LEAST, judge={"explain": True})
"""


@pytest.fixture
async def fake() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as found:
        yield found


@pytest.fixture
def url(fake: FakeOpenAI, client: httpx.AsyncClient) -> str:
    return str(client.base_url)


@dataclass(frozen=True)
class Ran:
    """What a run of pytest printed, and its only test in the JUnit report."""

    output: str
    case: ET.Element

    @property
    def outcome(self) -> str:
        return next((name for name in ("failure", "error", "skipped") if self.case.find(name) is not None), "passed")

    @property
    def properties(self) -> dict[str, str]:
        return {one.attrib["name"]: one.attrib["value"] for one in self.case.iter("property")}


OPTIONS = ("-c", "/dev/null", "--rootdir=.", "-p", "saiten.pytest_plugin", "-rs", "-p", "no:cacheprovider")


def describe_run(folder: Path, code: str) -> dict[str, str]:
    """Writes the code's test; the variables of a run of it."""
    (folder / "test_bot.py").write_text(code, encoding="utf-8")
    # The plugin is named above, so that it is tested whether or not the client is installed with its entry point.
    return environment(folder, COLUMNS="500", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")


async def run_pytest(folder: Path, code: str, *arguments: str) -> Ran:
    """The code's test, run in a process of its own: pytester would drop what the service here has imported."""
    variables = describe_run(folder, code)
    options = (*OPTIONS, "--junit-xml=report.xml", *arguments)
    ran = Forked(options, module="pytest", folder=folder, variables=variables, stderr=subprocess.STDOUT)
    done = await asyncio.to_thread(finish, ran)
    (case,) = ET.parse(folder / "report.xml").iter("testcase")
    return Ran(done.stdout, case)


async def post_baseline(url: str, count: int = 40) -> str:
    async with saiten.AsyncClient(url) as client:
        items = [{**make_item(number), "context": make_context(number)} for number in range(count)]
        return (await client.run(items, name="main")).id


@pytest.mark.parametrize(("verdict", "count"), [("pass", 40), ("fail", 40), ("inconclusive", 0)])
async def test_a_regression_fails_and_too_little_is_skipped(
    url: str, fake: FakeOpenAI, tmp_path: Path, verdict: str, count: int
) -> None:
    baseline = await post_baseline(url, count or 3)
    if verdict == "fail":
        fake.default = lambda request: complete(request, verdict_of(request, min))
    code = TESTS + REGRESSION.replace("BASELINE", baseline)
    result = await run_pytest(tmp_path, code, "--saiten-url", url)
    assert result.outcome == {"pass": "passed", "fail": "failure", "inconclusive": "skipped"}[verdict]
    if verdict != "pass":
        assert f"gate: {verdict}" in result.output
        assert "overall: " in result.output
    found = result.properties
    assert found["saiten.verdict"] == verdict
    assert found["saiten.baseline"] == baseline
    assert re.fullmatch("ba_[0-9a-f]+", found["saiten.candidate"])
    assert found["saiten.signature"].startswith("saiten:")


@pytest.mark.parametrize(("at_least", "outcome"), [("0", "passed"), ("99", "failure")])
async def test_a_rating_has_to_reach_its_least_value(url: str, tmp_path: Path, at_least: str, outcome: str) -> None:
    result = await run_pytest(tmp_path, TESTS + RATING.replace("AT_LEAST", at_least), "--saiten-url", url)
    assert result.outcome == outcome
    if outcome == "failure":
        assert re.search(r"^overall: .* below 99 \(ev_.*\): 文脈に沿う。$", result.output, re.MULTILINE)
    found = result.properties
    assert found["saiten.verdict"] == ("pass" if outcome == "passed" else "fail")
    assert found["saiten.evaluation"].startswith("ev_")


async def test_an_aspect_without_a_rating_is_inconclusive(url: str, fake: FakeOpenAI, tmp_path: Path) -> None:
    def leave_out(request: Request) -> Answer:
        verdict = json.loads(verdict_of(request))
        del verdict["overall"]
        return complete(request, json.dumps(verdict))

    fake.default = leave_out
    result = await run_pytest(tmp_path, TESTS + RATING.replace("AT_LEAST", "1"), "--saiten-url", url)
    assert result.outcome == "skipped"
    assert "overall: inconclusive (missing: " in result.output


async def test_an_aspect_that_is_not_there_is_named(url: str, tmp_path: Path) -> None:
    code = TESTS + RATING.replace('"overall"', '"wit"').replace("AT_LEAST", "1")
    result = await run_pytest(tmp_path, code, "--saiten-url", url)
    assert "ValueError: ja-dialogue has no aspect wit; it has " in result.output


async def test_a_service_that_is_not_named_is_an_error(tmp_path: Path) -> None:
    result = await run_pytest(tmp_path, TESTS + RATING.replace("AT_LEAST", "1"))
    assert result.outcome == "error"
    assert "\nname Saiten's service: pytest --saiten-url " in result.output


def test_the_plugin_imports_the_client_only_when_it_is_used(tmp_path: Path) -> None:
    code = "import sys\ndef test_it(): assert not {'httpx', 'pydantic', 'saiten.client'} & sys.modules.keys()"
    variables = describe_run(tmp_path, code)
    command = (sys.executable, "-m", "pytest", *OPTIONS)
    done = subprocess.run(command, env=variables, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout


def test_a_report_is_told_by_what_decided() -> None:
    coverage = {"candidates": 1, "rated": 1, "expected": 1, "share": 1.0}
    reasons = [
        {"code": "held", "aspect": "overall", "verdict": "pass", "detail": "fine"},
        {"code": "coverage", "verdict": "inconclusive", "detail": "too few", "about": "coverage"},
    ]
    report = {"verdict": "inconclusive", "alpha": 0.05, "min_coverage": 0.98, "coverage": coverage, "reasons": reasons}
    assert tell_verdict(GateReport.model_validate(report)) == "gate: inconclusive\ncoverage: too few"

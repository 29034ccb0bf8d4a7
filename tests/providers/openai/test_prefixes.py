"""The fixed parts are built once, told apart by all they depend on, and not kept without end."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from saiten_server.core.errors import LanguageNotSupported
from saiten_server.core.rubric import Rubric
from saiten_server.providers.openai import prices
from saiten_server.providers.openai.prices import Forecast, Prefixes, read_prices
from tests.support.judges import make_task
from tests.support.prompts import build_prompt
from tests.support.small_rubrics import independent_rubric, joint_rubric, make_dialogue

RUBRIC = joint_rubric()


def test_they_are_built_once_whatever_the_dialogue() -> None:
    prefixes = Prefixes()
    first = prefixes.find(make_task(RUBRIC, make_dialogue("一")), RUBRIC.aspects)
    second = prefixes.find(make_task(joint_rubric(), make_dialogue("二"), samples=3), RUBRIC.aspects)
    assert second is first


@pytest.mark.parametrize("references", [(), ("手本",)])
@pytest.mark.parametrize("explain", [True, False])
@pytest.mark.parametrize("language", ["ja", "en"])
def test_they_are_those_of_the_prompt(language: str, explain: bool, references: tuple[str, ...]) -> None:
    task = make_task(RUBRIC, language=language, explain=explain, references=references)
    formats = Prefixes().find(task, RUBRIC.aspects)
    for structured, prefix in ((True, formats.structured), (False, formats.text)):
        whole = build_prompt(
            RUBRIC,
            language,
            task.dialogue,
            RUBRIC.aspects,
            explain=explain,
            structured=structured,
            references=references,
        )
        assert prefix.before(whole.user) == whole


def changed_rubric() -> Rubric:
    raw = json.loads(RUBRIC.model_dump_json())
    raw["aspects"][0]["levels"][0]["description"]["ja"] += "。"
    return Rubric.model_validate(raw)


@pytest.mark.parametrize(
    "change",
    [{"language": "en"}, {"explain": True}, {"references": ("手本",)}, {"rubric": changed_rubric()}],
    ids=["language", "explain", "references", "rubric"],
)
def test_another_way_of_asking_has_others(change: dict[str, Any]) -> None:
    prefixes = Prefixes()
    known = prefixes.find(make_task(RUBRIC), RUBRIC.aspects)
    task = make_task(**{"rubric": RUBRIC} | change)
    found = prefixes.find(task, task.rubric.aspects)
    assert found.structured.digest != known.structured.digest
    assert found.text.digest != known.text.digest


def test_another_aspect_has_others() -> None:
    prefixes, rubric = Prefixes(), independent_rubric()
    found = [prefixes.find(make_task(rubric), (aspect,)) for aspect in rubric.aspects]
    assert len({one.structured.digest for one in found}) == len(rubric.aspects) == 3


def test_the_oldest_gives_way() -> None:
    prefixes, aspects = Prefixes(limit=2), RUBRIC.aspects
    ways: list[dict[str, Any]] = [{}, {"language": "en"}, {"explain": True}]
    tasks = [make_task(RUBRIC, **way) for way in ways]
    first, second, third = (prefixes.find(task, aspects) for task in tasks)
    assert prefixes.find(tasks[1], aspects) is second
    assert prefixes.find(tasks[2], aspects) is third
    assert prefixes.find(tasks[0], aspects) is not first


def test_a_language_that_the_rubric_has_not_is_refused() -> None:
    with pytest.raises(LanguageNotSupported):
        Prefixes().find(make_task(RUBRIC, language="ko"), RUBRIC.aspects)


class YieldingDigest(str):
    """Lets another thread run whenever a cache looks for it."""

    __slots__ = ()

    def __hash__(self) -> int:
        time.sleep(0)
        return super().__hash__()


def test_threads_may_estimate_at_once_while_the_oldest_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prices, "PREFIXES", 2)
    monkeypatch.setattr(prices, "count_prefix", lambda prefix: 1)
    monkeypatch.setattr(
        prices, "build_prefix", lambda rubric, *_, **__: SimpleNamespace(digest=rubric.digest, screen=False)
    )
    prefixes = Prefixes(limit=2)
    forecast = Forecast(prefixes, read_prices(), max_output_tokens=64)
    task = make_task(RUBRIC)

    def estimate(number: int) -> None:
        rubric = SimpleNamespace(digest=YieldingDigest(number % 5))
        one = SimpleNamespace(
            rubric=rubric,
            language=task.language,
            options=task.options,
            references=(),
            screen=False,
            dialogue=task.dialogue,
            window=None,
            shown=None,
        )
        assert forecast.estimate(one, [RUBRIC.aspects], "m").calls == 1  # type: ignore[arg-type]  # a stand-in for a task

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(estimate, range(300)))
    assert len(prefixes._kept) == prefixes._kept.currsize == 2
    assert len(forecast._fixed) == forecast._fixed.currsize == 2

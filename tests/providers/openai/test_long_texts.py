"""What a long dialogue takes is done beside the event loop, which other callers need."""

import threading
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from saiten_server.core.dialogue import Dialogue, Utterance
from saiten_server.judging.prompt import enclose
from saiten_server.providers.openai.endpoint import RequestBodies
from saiten_server.providers.openai.parameters import Question
from tests.support.judges import make_task, open_bench


@pytest.mark.parametrize(("characters", "beside"), [(20, False), (400, True)])
async def test_a_long_dialogue_is_made_into_a_question_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, characters: int, beside: bool
) -> None:
    threads: dict[str, str] = {}

    def note(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*given: Any, **options: Any) -> Any:
            threads[name] = threading.current_thread().name
            return work(*given, **options)

        return noted

    # By its name in `sys.modules`: the package has a function of the same name.
    monkeypatch.setattr(import_module("saiten_server.providers.openai.judge"), "enclose", note("enclose", enclose))
    monkeypatch.setattr(Question, "key", note("key", Question.key))
    monkeypatch.setattr(RequestBodies, "write", note("write", RequestBodies.write))
    said = tuple(Utterance(speaker="A", text="<" * characters) for _ in range(40))
    async with open_bench() as bench:
        await bench.judge.judge(replace(make_task(), dialogue=Dialogue(context=said, response="はい。")))
    assert {name: thread.startswith("inspection-") for name, thread in threads.items()} == dict.fromkeys(
        ("enclose", "key", "write"), beside
    )

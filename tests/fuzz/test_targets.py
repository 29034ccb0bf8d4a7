"""Each fuzz target over its seeds and a fixed lot of inputs made from them; atheris is not needed for it.

`make fuzz` lets atheris look for more, for minutes.
"""

import gc
from collections.abc import Iterator
from importlib import import_module

import pytest

from saiten_server.judging.verdict import read_json_verdict
from tests.fuzz import documents, replies, rubrics, texts
from tests.fuzz.__main__ import TARGETS
from tests.fuzz.target import Target, vary

NUMBERS = {"replies": 500, "documents": 500, "rubrics": 100, "texts": 50}


@pytest.fixture
def no_collection() -> Iterator[None]:
    """No garbage is collected meanwhile. Finalizers of what other tests left fail at the end of a deep recursion, of which
    the documents have many."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize(
    "target", [replies.TARGET, documents.TARGET, rubrics.TARGET, texts.TARGET], ids=lambda t: t.name
)
def test_target(target: Target) -> None:
    for data in vary(target, NUMBERS[target.name], seed=20_260_501):
        try:
            target.check(data)
        except Exception as error:
            error.add_note(f"the input: {data!r}")
            raise


def test_every_target_is_in_the_full_run() -> None:
    assert set(TARGETS) == set(NUMBERS)
    assert all(import_module(f"tests.fuzz.{name}").TARGET.name == name for name in TARGETS)


def test_the_same_seed_gives_the_same_inputs() -> None:
    assert list(vary(replies.TARGET, 20, seed=1)) == list(vary(replies.TARGET, 20, seed=1))
    assert list(vary(replies.TARGET, 20, seed=1)) != list(vary(replies.TARGET, 20, seed=2))


STRICT_JSON = next(seed for seed in replies.TARGET.seeds if seed[:1] == b"\x01")
"""A verdict in JSON, read strictly."""


def loosely(reply: str) -> str:
    """Cuts a verdict out of a longer reply, as many parsers do."""
    return reply[reply.find("{") : reply.rfind("}") + 1] or reply


def test_a_parser_that_cuts_a_verdict_out_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    strict = read_json_verdict
    monkeypatch.setattr(
        "saiten_server.judging.verdict.read_json_verdict",
        lambda reply, *rest, **more: strict(loosely(reply), *rest, **more),
    )
    with pytest.raises(AssertionError):
        replies.check(STRICT_JSON)


def test_a_parser_that_clamps_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saiten_server.judging.verdict.rate_aspect", lambda part, _: 9 if part else 1)
    with pytest.raises(AssertionError):
        replies.check(STRICT_JSON)


def test_a_reader_that_passes_over_equal_keys_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saiten_server.runs.streamed_json.read_key", read_key_loosely)
    with pytest.raises(AssertionError):
        documents.check(b'\x01{"a": 1, "a": 2}')


def read_key_loosely(window, _):
    key = yield from window.value()
    yield from window.take(":", "':' delimiter")
    return key

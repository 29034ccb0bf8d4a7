"""Many requests, one encoder: with a loader and a comparer that wait for the test, never for the clock."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Sequence

import pytest

from saiten_server.providers.bertscore.encoder import BertScoreEncoder, EncoderChoice
from saiten_server.providers.ports import EncoderUnavailable, Similarity
from tests.support.faults import words

SAME, OTHER = ("a", "a"), ("a", "b")


class CountingComparer:
    """1 for equal texts, else 0. Refuses "poison", and waits at "wait" until it is let go on."""

    identity = "counting_L0"

    def __init__(self) -> None:
        self.runs: list[list[tuple[str, str]]] = []
        self.running = threading.Event()
        self.go_on = threading.Event()
        self.waits: list[float | None] = []
        self.forgotten = threading.Event()

    def forget(self) -> float | None:
        """Wants to be called again so often as `waits` says."""
        if not self.waits:
            return None
        wait = self.waits.pop(0)
        if not self.waits:
            self.forgotten.set()
        return wait

    def compare(self, pairs: Sequence[tuple[str, str]]) -> list[Similarity]:
        self.runs.append(list(pairs))
        if ("wait", "wait") in pairs:
            self.running.set()
            self.go_on.wait()
        if any("poison" in pair for pair in pairs):
            raise EncoderUnavailable(words("the encoder failed on this text"))
        if any("bug" in pair for pair in pairs):
            raise KeyError("bug")
        return [Similarity(float(one == other), truncated=False, unknown_token_share=0.0) for one, other in pairs]


class CountingLoader:
    """Counts loads by encoder; raises `failure` while there is one; waits for `go_on`."""

    def __init__(self, failure: str | None = None, *, blocked: bool = False) -> None:
        self.failure = failure
        self.loads: list[str] = []
        self.comparer = CountingComparer()
        self.go_on = threading.Event()
        if not blocked:
            self.go_on.set()

    def __call__(self, choice: EncoderChoice) -> CountingComparer:
        self.loads.append(choice.name)
        self.go_on.wait()
        if self.failure is not None:
            raise EncoderUnavailable(words(self.failure))
        return self.comparer


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def build(loader: CountingLoader, **settings) -> BertScoreEncoder:
    return BertScoreEncoder(**{"encoder": "any", "load": loader, "timeout_seconds": None, **settings})


async def let_others_run() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def wait_for(event: threading.Event) -> None:
    """Without holding the loop."""
    await asyncio.to_thread(event.wait)


async def test_concurrent_calls_load_once_and_are_encoded_together() -> None:
    loader = CountingLoader(blocked=True)
    encoder = build(loader)
    calls = [asyncio.create_task(encoder.compare("ja", [SAME, OTHER])) for _ in range(10)]
    await let_others_run()
    loader.go_on.set()
    answers = await asyncio.gather(*calls)
    assert [[one.f1 for one in answer] for answer in answers] == [[1.0, 0.0]] * 10
    assert loader.loads == ["any"]
    assert [len(run) for run in loader.comparer.runs] == [20]
    await encoder.close()


async def test_takes_no_more_than_it_may_at_once_but_never_splits_a_call() -> None:
    loader = CountingLoader()
    encoder = build(loader, max_run_pairs=5)
    first = asyncio.create_task(encoder.compare("ja", [("wait", "wait")]))
    await wait_for(loader.comparer.running)
    rest = [asyncio.create_task(encoder.compare("ja", [SAME] * size)) for size in (2, 3, 1, 9, 1)]
    await let_others_run()
    loader.comparer.go_on.set()
    await asyncio.gather(first, *rest)
    assert [len(run) for run in loader.comparer.runs] == [1, 5, 1, 9, 1]
    await encoder.close()


async def test_the_loop_goes_on_while_an_encoder_loads() -> None:
    loader = CountingLoader(blocked=True)
    encoder = build(loader)
    call = asyncio.create_task(encoder.compare("ja", [SAME]))
    ticks = 0
    while not loader.loads or ticks < 100:  # would never end if loading held the loop: only this task lets it go on
        await asyncio.sleep(0)
        ticks += 1
    assert not call.done()
    loader.go_on.set()
    assert (await call)[0].f1 == 1.0
    await encoder.close()


async def test_a_cancelled_call_is_dropped_and_hurts_no_other() -> None:
    loader = CountingLoader()
    encoder = build(loader)
    first = asyncio.create_task(encoder.compare("ja", [("wait", "wait")]))
    await wait_for(loader.comparer.running)
    dropped = asyncio.create_task(encoder.compare("ja", [("dropped", "x")]))
    kept = asyncio.create_task(encoder.compare("ja", [SAME]))
    await let_others_run()
    first.cancel()
    dropped.cancel()
    loader.comparer.go_on.set()
    assert (await kept)[0].f1 == 1.0
    assert loader.comparer.runs == [[("wait", "wait")], [SAME]]
    assert first.cancelled()
    assert dropped.cancelled()
    await encoder.close()


async def test_a_failure_reaches_the_call_whose_text_it_is() -> None:
    loader = CountingLoader()
    encoder = build(loader)
    first = asyncio.create_task(encoder.compare("ja", [("wait", "wait")]))
    await wait_for(loader.comparer.running)
    texts = [SAME, ("poison", "x"), OTHER]
    calls = [asyncio.create_task(encoder.compare("ja", [pair])) for pair in texts]
    await let_others_run()
    loader.comparer.go_on.set()
    await first
    good, poisoned, other = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(poisoned, EncoderUnavailable)
    assert isinstance(good, list)
    assert isinstance(other, list)
    assert (good[0].f1, other[0].f1) == (1.0, 0.0)
    await encoder.close()


async def test_an_unforeseen_error_is_not_hidden_and_the_next_call_is_served() -> None:
    encoder = build(CountingLoader())
    with pytest.raises(KeyError, match="bug"):
        await encoder.compare("ja", [("bug", "x")])
    assert (await encoder.compare("ja", [SAME]))[0].f1 == 1.0
    await encoder.close()


async def test_a_failed_load_is_remembered_for_a_while() -> None:
    loader, clock = CountingLoader("the hub is not reachable"), Clock()
    encoder = build(loader, retry_after_seconds=60, clock=clock)
    for seconds, loads in ((0, 1), (59.9, 1), (60, 2), (119.9, 2)):
        clock.seconds = seconds
        with pytest.raises(EncoderUnavailable, match=r"^the hub is not reachable$"):
            await encoder.compare("ja", [SAME])
        with pytest.raises(EncoderUnavailable, match=r"^the hub is not reachable$"):
            await encoder.identify("ja")
        assert len(loader.loads) == loads
    loader.failure = None
    clock.seconds = 120
    assert (await encoder.compare("ja", [SAME]))[0].f1 == 1.0
    assert len(loader.loads) == 3
    await encoder.close()


async def test_all_that_wait_for_a_failing_load_hear_of_it() -> None:
    loader = CountingLoader("broken", blocked=True)
    encoder = build(loader)
    calls = [asyncio.create_task(encoder.compare("ja", [SAME])) for _ in range(5)]
    await let_others_run()
    loader.go_on.set()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [str(answer) for answer in answers] == ["broken"] * 5
    assert loader.loads == ["any"]
    await encoder.close()


async def test_gives_up_waiting_but_not_loading() -> None:
    loader = CountingLoader(blocked=True)
    encoder = build(loader, timeout_seconds=0.01)
    with pytest.raises(EncoderUnavailable, match=r"did not answer within 0.01 s"):
        await encoder.compare("ja", [SAME])
    with pytest.raises(EncoderUnavailable, match=r"did not answer within 0.01 s"):
        await encoder.identify("ja")
    loader.go_on.set()
    patient = build(loader)
    await patient.identify("ja")
    assert loader.loads == ["any", "any"]  # one an encoder object, none for the second request of the first
    await encoder.close()
    await patient.close()


async def test_languages_share_an_encoder_of_the_same_name() -> None:
    loader = CountingLoader()
    encoder = build(loader, encoders={"ja": "japanese", "EN": "any"})
    for language in ("ja", "ja-JP", "ko", "en", "en-US"):
        await encoder.compare(language, [SAME])
    assert loader.loads == ["japanese", "any"]
    await encoder.close()


async def test_closing_refuses_what_waits() -> None:
    loader = CountingLoader()
    encoder = build(loader)
    running = asyncio.create_task(encoder.compare("ja", [("wait", "wait")]))
    await wait_for(loader.comparer.running)
    waiting = asyncio.create_task(encoder.compare("ja", [SAME]))
    await let_others_run()
    closing = asyncio.create_task(encoder.close())
    with pytest.raises(EncoderUnavailable, match="closed"):
        await waiting
    loader.comparer.go_on.set()
    await closing
    assert (await running)[0].f1 == 1.0


def test_serves_one_loop_after_another() -> None:
    loader = CountingLoader()
    encoder = build(loader)
    for _ in range(2):
        assert asyncio.run(encoder.compare("ja", [SAME]))[0].f1 == 1.0
    assert len(loader.loads) == 1
    asyncio.run(encoder.close())


async def test_what_is_kept_of_texts_goes_in_time_though_nobody_asks_again() -> None:
    loader = CountingLoader()
    loader.comparer.waits = [0.001, 0.001, None]
    encoder = build(loader)
    await encoder.compare("ja", [SAME])
    await wait_for(loader.comparer.forgotten)
    assert (await encoder.compare("ja", [SAME]))[0].f1 == 1.0
    await encoder.close()


async def test_a_closed_encoder_keeps_nothing() -> None:
    made: list[weakref.ref[CountingComparer]] = []

    def load(_: EncoderChoice) -> CountingComparer:
        comparer = CountingComparer()
        made.append(weakref.ref(comparer))
        return comparer

    encoder = BertScoreEncoder(encoder="any", load=load)
    await encoder.compare("ja", [SAME])
    assert made[0]() is not None
    await encoder.close()
    gc.collect()
    assert made[0]() is None

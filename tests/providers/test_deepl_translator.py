"""DeepL's adapter against a DeepL of our own: what is sent, what is kept, and what each refusal becomes."""

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Iterator

import deepl
import pytest

from saiten_server import __version__
from saiten_server.core.dialogue import Dialogue, Utterance
from saiten_server.core.errors import (
    SettingsInvalid,
    TranslatorQuotaExhausted,
    TranslatorRefusedRequest,
    TranslatorUnauthorized,
    TranslatorUnavailable,
    UpstreamError,
)
from saiten_server.platform.telemetry import CacheOutcome
from saiten_server.providers.deepl.requests import measure_body
from saiten_server.providers.deepl.translator import DeepLTranslator
from saiten_server.providers.ports import RequestScope
from tests.support.dict_cache import DictCache, FakeTime
from tests.support.fake_deepl import KEY, Answer, FakeDeepL, pretend, translations
from tests.support.fake_telemetry import FakeTelemetry
from tests.support.waiting import LIMIT_SECONDS


def talk(*texts: str) -> Dialogue:
    """The last text is the response."""
    context = tuple(Utterance(speaker="A", text=text) for text in texts[:-1])
    return Dialogue(context=context, response=texts[-1])


class CountedCache(FakeTelemetry):
    """Keeps the cache outcomes."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: list[tuple[str, CacheOutcome]] = []

    def cache(self, call: str, outcome: CacheOutcome) -> None:
        self.outcomes.append((call, outcome))


@pytest.fixture
def server() -> Iterator[FakeDeepL]:
    with FakeDeepL() as fake:
        yield fake


class Desk:
    """A translator with what it was built from."""

    def __init__(self, server: FakeDeepL) -> None:
        self.server = server
        self.cache = DictCache()
        self.time = FakeTime()
        self.telemetry = CountedCache()
        self.made: list[DeepLTranslator] = []
        self.translator = self.make()

    def make(
        self, *, key: str = KEY, url: str | None = None, timeout_seconds: float = 30.0, threads: int = 4
    ) -> DeepLTranslator:
        made = DeepLTranslator(
            key,
            cache=self.cache,
            server_url=url or self.server.url,
            timeout_seconds=timeout_seconds,
            max_attempts=3,
            max_concurrent_requests=threads,
            telemetry=self.telemetry,
            sleep=self.time.sleep,
            clock=self.time.clock,
        )
        self.made.append(made)
        return made

    async def fail(self, *texts: str) -> UpstreamError:
        """The error that these texts end in."""
        with pytest.raises(UpstreamError) as caught:
            await self.translator.translate(talk(*texts), "ja", RequestScope())
        assert len(caught.value.detail) <= 200
        assert KEY not in str(caught.value)
        return caught.value


@pytest.fixture
async def desk(server: FakeDeepL) -> AsyncIterator[Desk]:
    made = Desk(server)
    yield made
    server.release.set()
    for translator in made.made:
        await translator.close()


async def test_one_list_goes_out_with_the_preceding_utterances_as_context(desk: Desk) -> None:
    await desk.translator.translate(talk("犬は好き？", "うん、好き。", "私も。"), "ja", RequestScope())
    [seen] = desk.server.seen
    assert seen.texts == ["犬は好き？", "うん、好き。", "私も。"]
    assert seen.context == "犬は好き？\nうん、好き。"
    assert (seen.source_language, seen.target_language) == ("JA", "EN-US")


async def test_bytes_are_counted_as_the_sdk_sends_them(desk: Desk) -> None:
    await desk.translator.translate(talk("雨\t😀", '"é\\', "\u2028終\x7f"), "ja", RequestScope())
    [seen] = desk.server.seen
    assert seen.body_bytes == measure_body(seen.texts, seen.context, "JA")


async def test_the_longest_dialogue_stays_within_both_limits(desk: Desk) -> None:
    texts = [f"{number:03}" + "あ" * 7997 for number in range(30)] + ["😀" * 8000]
    translated = await desk.translator.translate(talk(*texts), "ja", RequestScope())
    assert translated.translation.context == tuple(map(pretend, texts[:-1]))
    assert max(seen.body_bytes for seen in desk.server.seen) <= 96 * 1024
    assert desk.server.texts == texts


async def test_the_client_names_itself_and_not_its_platform(desk: Desk) -> None:
    await desk.translator.translate(talk("はい", "いいえ"), "ja", RequestScope())
    assert desk.server.seen[0].headers["user-agent"] == f"deepl-python/{deepl.__version__} saiten/{__version__}"


async def test_another_response_sends_only_the_response(desk: Desk) -> None:
    await desk.translator.translate(talk("犬は好き？", "うん。", "私も。"), "ja", RequestScope())
    translated = await desk.translator.translate(talk("犬は好き？", "うん。", "へえ。"), "ja", RequestScope())
    assert desk.server.seen[1].texts == ["へえ。"]
    assert translated.billed_characters == 3
    assert not translated.cached


async def test_a_changed_utterance_sends_what_it_changes(desk: Desk) -> None:
    texts = [f"発話{number:02}" for number in range(12)]
    await desk.translator.translate(talk(*texts, "応答"), "ja", RequestScope())
    desk.server.seen.clear()
    await desk.translator.translate(talk(*texts[:11], "変更", "応答"), "ja", RequestScope())
    # the first block of ten stays; the second block's context has changed
    assert desk.server.texts == [texts[10], "変更", "応答"]


async def test_a_text_that_recurs_is_sent_once(desk: Desk) -> None:
    translated = await desk.translator.translate(talk("はい", "はい", "はい"), "ja", RequestScope())
    assert desk.server.texts == ["はい"]
    assert translated.translation.context == ("[EN] はい", "[EN] はい")
    assert (translated.translation.characters, translated.billed_characters) == (6, 2)


async def test_languages_and_servers_do_not_share_translations(desk: Desk) -> None:
    await desk.translator.translate(talk("?", "!"), "ja", RequestScope())
    await desk.translator.translate(talk("?", "!"), "ko", RequestScope())
    with FakeDeepL() as other:
        await desk.make(url=other.url).translate(talk("?", "!"), "ja", RequestScope())
        assert len(other.seen) == 1
    assert [seen.source_language for seen in desk.server.seen] == ["JA", "KO"]


async def test_cache_outcomes_are_counted_by_text(desk: Desk) -> None:
    await desk.translator.translate(talk("雨", "雪"), "ja", RequestScope())
    await desk.translator.translate(talk("雨", "雲"), "ja", RequestScope())
    assert desk.telemetry.outcomes == [("translate", outcome) for outcome in ("miss", "miss", "hit", "miss")]


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe"])
async def test_a_damaged_cache_entry_is_asked_for_again(desk: Desk, damage: bytes) -> None:
    await desk.translator.translate(talk("雨", "雪"), "ja", RequestScope())
    desk.cache.entries = dict.fromkeys(desk.cache.entries, damage)
    translated = await desk.translator.translate(talk("雨", "雪"), "ja", RequestScope())
    assert translated.translation.response == "[EN] 雪"
    assert len(desk.server.seen) == 2


async def test_equal_dialogues_at_the_same_time_share_one_request(desk: Desk) -> None:
    both = await asyncio.gather(
        *[desk.translator.translate(talk("雨だね", "そうだね"), "ja", RequestScope()) for _ in range(5)]
    )
    assert desk.server.texts == ["雨だね", "そうだね"]
    assert sorted(translated.billed_characters for translated in both) == [0, 0, 0, 0, 7]
    assert {translated.translation.response for translated in both} == {"[EN] そうだね"}


async def test_responses_to_one_context_at_the_same_time_share_the_context(desk: Desk) -> None:
    await asyncio.gather(
        *[desk.translator.translate(talk("雨だね", answer), "ja", RequestScope()) for answer in ("うん", "ええ")]
    )
    assert sorted(desk.server.texts) == sorted(["雨だね", "うん", "ええ"])


@pytest.mark.parametrize(
    ("answer", "kind", "requests"),
    [
        (Answer(456), TranslatorQuotaExhausted, 1),
        (Answer(403), TranslatorUnauthorized, 1),
        (Answer(401), TranslatorUnauthorized, 1),
        (Answer(400, body='{"message": "Bad luck."}'), TranslatorRefusedRequest, 1),
        (Answer(413), TranslatorRefusedRequest, 1),
        (Answer(429), TranslatorUnavailable, 3),
        (Answer(500), TranslatorUnavailable, 3),
        (Answer(503), TranslatorUnavailable, 3),
        (Answer(529), TranslatorUnavailable, 3),
        (Answer(drops=True), TranslatorUnavailable, 3),
    ],
)
async def test_each_refusal_is_told_apart_and_tried_as_often_as_it_is_worth(
    desk: Desk, answer: Answer, kind: type[UpstreamError], requests: int
) -> None:
    desk.server.always = answer
    assert type(await desk.fail("雨", "雪")) is kind
    assert len(desk.server.seen) == requests
    assert desk.cache.entries == {}


async def test_what_deepl_says_of_a_bad_request_is_passed_on(desk: Desk) -> None:
    desk.server.always = Answer(400, body=json.dumps({"message": f"{KEY} {'x' * 300}"}))
    error = await desk.fail("雨", "雪")
    assert "HTTP 400" in error.detail
    assert "…" in error.detail


async def test_the_wrong_key_is_unauthorized(desk: Desk) -> None:
    desk.translator = desk.make(key="another")
    assert isinstance(await desk.fail("雨", "雪"), TranslatorUnauthorized)
    assert len(desk.server.seen) == 1


async def test_a_used_up_quota_stops_a_long_dialogue_at_its_first_request(desk: Desk) -> None:
    desk.server.character_limit = 0
    assert isinstance(await desk.fail(*[f"発話{number}" for number in range(40)]), TranslatorQuotaExhausted)
    assert len(desk.server.seen) == 1


async def test_what_came_before_a_failure_is_kept(desk: Desk) -> None:
    texts = [f"発話{number:02}" for number in range(11)]
    desk.server.character_limit = 40  # the first block has 10 × 4 characters
    await desk.fail(*texts, "応答")
    desk.server.character_limit = None
    translated = await desk.translator.translate(talk(*texts, "応答"), "ja", RequestScope())
    assert desk.server.seen[-1].texts == [texts[10], "応答"]
    assert translated.billed_characters == 6


async def test_trouble_that_passes_is_not_seen_by_the_caller(desk: Desk) -> None:
    desk.server.script.extend([Answer(500), Answer(429)])
    translated = await desk.translator.translate(talk("雨", "雪"), "ja", RequestScope())
    assert translated.billed_characters == 2
    assert len(desk.server.seen) == 3
    # full jitter below 0.5 × 2^0 and 0.5 × 2^1 seconds
    first, second = desk.time.slept
    assert 0 <= first <= 0.5
    assert 0 <= second <= 1.0


async def test_nobody_calls_before_retry_after(desk: Desk) -> None:
    opened = asyncio.Event()

    async def sleep(seconds: float) -> None:
        desk.time.slept.append(seconds)
        await opened.wait()
        desk.time.now = 1009.0

    desk.server.script.append(Answer(429, headers={"Retry-After": "9"}))
    one = DeepLTranslator(
        KEY,
        cache=desk.cache,
        server_url=desk.server.url,
        max_concurrent_requests=1,
        sleep=sleep,
        clock=desk.time.clock,
    )
    desk.made.append(one)
    asking = [
        asyncio.create_task(one.translate(talk("雨", answer), "ja", RequestScope())) for answer in ("雪", "風", "雲")
    ]
    while len(desk.time.slept) < 2:  # the refused one waits for its next try, the next one before the gate
        await asyncio.sleep(0.001)
    for _ in range(50):
        await asyncio.sleep(0.001)
    assert len(desk.server.seen) == 1
    assert 9.0 in desk.time.slept
    opened.set()
    await asyncio.gather(*asking)
    assert len(desk.server.seen) == 4


async def test_a_pause_that_is_too_long_is_handed_to_the_caller(desk: Desk) -> None:
    desk.server.always = Answer(429, headers={"Retry-After": "600"})
    assert (await desk.fail("雨", "雪")).retry_after_seconds == 600
    desk.time.now += 100
    assert (await desk.fail("雨", "雪")).retry_after_seconds == 500
    assert len(desk.server.seen) == 1
    assert desk.time.slept == []


async def test_nobody_listening_is_unavailable(desk: Desk) -> None:
    with FakeDeepL() as gone:
        url = gone.url
    desk.translator = desk.make(url=url)
    assert isinstance(await desk.fail("雨", "雪"), TranslatorUnavailable)
    assert len(desk.time.slept) == 2


@pytest.mark.parametrize(
    "answer",
    [
        translations("[EN] 雨"),
        translations("[EN] 雨", "[EN] 雪", "[EN] 雲"),
        translations("[EN] 雨", ""),
        translations("[EN] 雨", " \n"),
        translations("[EN] 雨", None),
        translations("[EN] 雨", 7),
        translations("[EN] 雨", "\ud800"),
        translations("[EN] 雨", "a\x00b"),
        Answer(body=""),
        Answer(body="<html>"),
        Answer(body="[]"),
        Answer(body='{"translations": null}'),
        Answer(body='{"translations": ["a", "b"]}'),
        Answer(body='{"translations": [{"text": "a"}, {"text": "b"}]}'),
        Answer(400, body='{"message": 7}'),
    ],
)
async def test_a_reply_that_is_not_whole_is_refused_and_not_kept(desk: Desk, answer: Answer) -> None:
    desk.server.always = answer
    assert isinstance(await desk.fail("雨", "雪"), TranslatorUnavailable)
    assert len(desk.server.seen) == 1
    assert desk.cache.entries == {}


async def test_the_loop_goes_on_while_a_request_hangs(desk: Desk) -> None:
    desk.server.script.append(Answer(hangs=True))
    waiting = asyncio.create_task(desk.translator.translate(talk("雨", "雪"), "ja", RequestScope()))
    while not desk.server.hanging.acquire(blocking=False):
        await asyncio.sleep(0.001)
    for _ in range(1000):
        await asyncio.sleep(0)
    assert not waiting.done()
    desk.server.release.set()
    assert (await waiting).translation.response == "[EN] 雪"


async def test_a_request_that_hangs_is_given_up(desk: Desk) -> None:
    desk.server.always = Answer(hangs=True)
    desk.translator = desk.make(timeout_seconds=0.05)
    error = await desk.fail("雨", "雪")
    assert isinstance(error, TranslatorUnavailable)
    assert len(desk.time.slept) == 2


async def test_a_thread_is_free_again_after_its_time_limit(desk: Desk) -> None:
    desk.server.script.append(Answer(hangs=True))
    one = desk.make(threads=1, timeout_seconds=0.5)
    assert (await one.translate(talk("雨", "雪"), "ja", RequestScope())).translation.response == "[EN] 雪"


async def test_a_reply_that_never_ends_is_given_up(desk: Desk) -> None:
    desk.server.always = Answer(drips=True)
    desk.translator = desk.make(timeout_seconds=0.1)
    assert "0.1 s" in (await desk.fail("雨", "雪")).detail


async def test_no_more_requests_at_once_than_allowed(desk: Desk) -> None:
    barrier = threading.Barrier(3)
    desk.server.before_answer = lambda: barrier.wait(LIMIT_SECONDS)  # an answer only when three are there
    three = desk.make(threads=3)
    await asyncio.gather(*[three.translate(talk("雨", f"応答{number}"), "ja", RequestScope()) for number in range(12)])
    assert desk.server.most_at_once == 3


async def test_a_thread_keeps_its_connection(desk: Desk) -> None:
    one = desk.make(threads=1)
    for number in range(3):
        await one.translate(talk("雨", f"応答{number}"), "ja", RequestScope())
    assert len({seen.socket for seen in desk.server.seen}) == 1


async def test_a_caller_who_gives_up_neither_stops_the_others_nor_wastes_what_is_paid(desk: Desk) -> None:
    desk.server.script.append(Answer(503))
    gate = threading.Event()
    desk.server.before_answer = lambda: gate.wait(LIMIT_SECONDS)
    leaving = asyncio.create_task(desk.translator.translate(talk("雨", "雪"), "ja", RequestScope()))
    await asyncio.sleep(0)
    staying = asyncio.create_task(desk.translator.translate(talk("雨", "雪"), "ja", RequestScope()))
    await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    gate.set()
    assert (await staying).translation.response == "[EN] 雪"
    assert (await desk.translator.translate(talk("雨", "雪"), "ja", RequestScope())).cached
    assert len(desk.server.seen) == 2  # the 503, then one more


async def test_what_a_lone_caller_left_behind_is_kept(desk: Desk) -> None:
    desk.server.script.append(Answer(503))
    leaving = asyncio.create_task(desk.translator.translate(talk("雨", "雪"), "ja", RequestScope()))
    while not desk.server.seen:
        await asyncio.sleep(0.001)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert (await desk.translator.translate(talk("雨", "雪"), "ja", RequestScope())).cached
    assert len(desk.server.seen) == 2


async def test_closing_ends_those_who_wait(desk: Desk) -> None:
    desk.server.script.append(Answer(hangs=True))
    waiting = asyncio.create_task(desk.translator.translate(talk("雨", "雪"), "ja", RequestScope()))
    while not desk.server.hanging.acquire(blocking=False):
        await asyncio.sleep(0.001)
    await desk.translator.close()
    with pytest.raises(TranslatorUnavailable):
        await waiting


async def test_no_text_reaches_a_log(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    desk.server.script.append(Answer(500, body="雨だね"))
    await desk.translator.translate(talk("雨だね", "雪だね"), "ja", RequestScope())
    assert "だね" not in caplog.text
    assert KEY not in caplog.text


async def test_the_sdk_is_left_as_it_was(desk: Desk) -> None:
    before = deepl.http_client.max_network_retries, deepl.http_client.user_agent
    await desk.translator.translate(talk("雨", "雪"), "ja", RequestScope())
    assert (deepl.http_client.max_network_retries, deepl.http_client.user_agent) == before


async def test_a_server_url_may_have_a_path(desk: Desk) -> None:
    desk.translator = desk.make(url=desk.server.url + "/mirror")
    assert "HTTP 404" in (await desk.fail("雨", "雪")).detail
    assert desk.server.seen == []


@pytest.mark.parametrize("key", ["", "  ", "鍵", "a\nb"])
async def test_a_key_that_no_header_can_carry_is_refused_at_once(key: str) -> None:
    with pytest.raises(SettingsInvalid):
        DeepLTranslator(key, cache=DictCache())


async def test_a_server_url_without_a_scheme_is_refused_at_once() -> None:
    with pytest.raises(SettingsInvalid):
        DeepLTranslator(KEY, cache=DictCache(), server_url="localhost:3000")

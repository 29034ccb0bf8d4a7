"""What every translator must do: the fake that other tests use, and DeepL's adapter over a fake DeepL."""

from collections.abc import AsyncIterator

import pytest

from saiten_server.core.dialogue import Dialogue, Utterance
from saiten_server.core.errors import LanguageNotSupported, TranslatorQuotaExhausted
from saiten_server.providers.deepl.translator import DeepLTranslator
from saiten_server.providers.ports import RequestScope, Translator
from tests.support.dict_cache import DictCache
from tests.support.fake_deepl import KEY, Answer, FakeDeepL
from tests.support.fake_translator import FakeTranslator
from tests.support.faults import words

DIALOGUE = Dialogue(
    context=(Utterance(speaker="A", text="週末は何をしてた？"), Utterance(speaker="B", text="山に登ってきたよ。")),
    response="いいね、天気はどうだった？",
)
KOREAN = Dialogue(context=(Utterance(speaker="가", text="점심 먹었어?"),), response="아직 못 먹었어.")


@pytest.fixture(params=["fake", "deepl"])
async def translator(request: pytest.FixtureRequest) -> AsyncIterator[Translator]:
    with FakeDeepL() as deepl:
        made: Translator = (
            FakeTranslator()
            if request.param == "fake"
            else DeepLTranslator(KEY, cache=DictCache(), server_url=deepl.url)
        )
        yield made
        await made.close()


@pytest.fixture(params=["fake", "deepl"])
async def exhausted(request: pytest.FixtureRequest) -> AsyncIterator[Translator]:
    with FakeDeepL() as deepl:
        deepl.always = Answer(456)
        made: Translator = (
            FakeTranslator(error=TranslatorQuotaExhausted(words("Used up.")))
            if request.param == "fake"
            else DeepLTranslator(KEY, cache=DictCache(), server_url=deepl.url)
        )
        yield made
        await made.close()


async def test_every_text_is_translated_in_its_place(translator: Translator) -> None:
    translation = (await translator.translate(DIALOGUE, "ja", RequestScope())).translation
    assert translation.context == ("[EN] 週末は何をしてた？", "[EN] 山に登ってきたよ。")
    assert translation.response == "[EN] いいね、天気はどうだった？"


@pytest.mark.parametrize(("dialogue", "language", "source"), [(DIALOGUE, "ja", "JA"), (KOREAN, "ko", "KO")])
async def test_languages_and_engine_are_named(
    translator: Translator, dialogue: Dialogue, language: str, source: str
) -> None:
    translation = (await translator.translate(dialogue, language, RequestScope())).translation
    assert (translation.source_language, translation.target_language) == (source, "EN-US")
    assert translation.engine == translator.engine


async def test_characters_are_code_points_of_all_source_texts(translator: Translator) -> None:
    translated = await translator.translate(DIALOGUE, "ja", RequestScope())
    # 9 + 9 + 13
    assert translated.translation.characters == 31
    assert translated.billed_characters == 31
    assert not translated.cached


async def test_the_second_time_costs_nothing_and_says_the_same(translator: Translator) -> None:
    first = await translator.translate(DIALOGUE, "ja", RequestScope())
    second = await translator.translate(DIALOGUE, "ja", RequestScope())
    assert second.translation == first.translation
    assert second.billed_characters == 0
    assert second.cached


@pytest.mark.parametrize("language", ["en", "zh", "JA", "", "ja-JP"])
async def test_other_languages_are_refused(translator: Translator, language: str) -> None:
    with pytest.raises(LanguageNotSupported):
        await translator.translate(DIALOGUE, language, RequestScope())


async def test_a_used_up_quota_has_its_own_error(exhausted: Translator) -> None:
    with pytest.raises(TranslatorQuotaExhausted) as caught:
        await exhausted.translate(DIALOGUE, "ja", RequestScope())
    assert caught.value.code == "translator-quota-exhausted"


@pytest.mark.parametrize("times", [1, 2])
async def test_once_closed_it_asks_nobody_however_often_it_is_closed(translator: Translator, times: int) -> None:
    await translator.translate(DIALOGUE, "ja", RequestScope())
    for _ in range(times):
        await translator.close()
    with pytest.raises(RuntimeError):
        await translator.translate(KOREAN, "ko", RequestScope())

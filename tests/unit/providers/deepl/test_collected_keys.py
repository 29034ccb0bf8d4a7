"""The translator uses the call cache itself, so it names its keys itself to whoever has to find them at an erasure."""

from __future__ import annotations

from app.call_cache import collect_keys
from app.domain.dialogue import Dialogue, Utterance
from app.providers.deepl.translator import DeepLTranslator
from tests.support.dict_cache import DictCache
from tests.support.fake_deepl import KEY, FakeDeepL

DIALOGUE = Dialogue(context=(Utterance(speaker="A", text="雨"),), response="雪")


async def test_a_translations_keys_are_those_of_the_cache_also_where_it_is_cached():
    cache = DictCache()
    with FakeDeepL() as deepl:
        translator = DeepLTranslator(KEY, cache=cache, server_url=deepl.url)
        with collect_keys() as made:
            await translator.translate(DIALOGUE, "ja")
        with collect_keys() as recalled:
            assert (await translator.translate(DIALOGUE, "ja")).cached
        await translator.close()
    assert len(cache.entries) == 2
    assert set(made) == set(recalled) == set(cache.entries)

"""The translator uses the call cache itself, so it names its keys itself to whoever has to find them at an erasure."""

from saiten_server.core.dialogue import Dialogue, Utterance
from saiten_server.providers.deepl.translator import DeepLTranslator
from saiten_server.providers.ports import RequestScope
from tests.support.dict_cache import DictCache
from tests.support.fake_deepl import KEY, FakeDeepL

DIALOGUE = Dialogue(context=(Utterance(speaker="A", text="雨"),), response="雪")


async def test_a_translations_keys_are_those_of_the_cache_also_where_it_is_cached():
    cache, made, recalled = DictCache(), RequestScope(), RequestScope()
    with FakeDeepL() as deepl:
        translator = DeepLTranslator(KEY, cache=cache, server_url=deepl.url)
        await translator.translate(DIALOGUE, "ja", made)
        assert (await translator.translate(DIALOGUE, "ja", recalled)).cached
        await translator.close()
    assert len(cache.entries) == 2
    assert set(made.keys) == set(recalled.keys) == set(cache.entries)

"""A translator of our own: English is "[EN] " and the text, and the second time costs nothing."""

from saiten_server.core.dialogue import Dialogue
from saiten_server.core.errors import LanguageNotSupported, UpstreamError
from saiten_server.core.evaluation import Translation
from saiten_server.providers.ports import RequestScope, Translated
from tests.support.fake_deepl import pretend
from tests.support.faults import words


class FakeTranslator:
    """`error` is raised instead where it is set; `asked` holds every dialogue that it was given."""

    engine = "fake"

    def __init__(self, *, error: UpstreamError | None = None) -> None:
        self.error = error
        self.asked: list[tuple[Dialogue, str]] = []
        self.closed = False
        self._known: set[tuple[str, str]] = set()

    async def translate(self, dialogue: Dialogue, source_language: str, scope: RequestScope) -> Translated:
        if source_language not in ("ja", "ko"):
            raise LanguageNotSupported(words(f"{source_language!r} is not translated."))
        if self.closed:
            raise RuntimeError("the translator is closed")
        self.asked.append((dialogue, source_language))
        if self.error is not None:
            raise self.error
        texts = [*(utterance.text for utterance in dialogue.context), dialogue.response]
        new = {(source_language, text) for text in texts} - self._known
        self._known |= new
        translation = Translation(
            context=tuple(pretend(utterance.text) for utterance in dialogue.context),
            response=pretend(dialogue.response),
            source_language=source_language.upper(),
            target_language="EN-US",
            engine=self.engine,
            characters=sum(map(len, texts)),
        )
        billed = sum(len(text) for _, text in new)
        return Translated(translation=translation, billed_characters=billed, cached=not new)

    async def close(self) -> None:
        self.closed = True

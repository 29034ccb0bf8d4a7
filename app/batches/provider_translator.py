"""The translator of a batch that was translated while it was planned: what that was billed belongs to its results."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.domain.dialogue import Dialogue
from app.provider_ports import ProviderStore
from app.providers.ports import RequestScope, Translated, Translator


@dataclass(frozen=True)
class PlannedTranslator:
    """Fills the port `Translator`. It is not to be closed: the one that it asks is."""

    translator: Translator
    course: ProviderStore
    batch_id: str

    @property
    def engine(self) -> str:
        return self.translator.engine

    async def translate(self, dialogue: Dialogue, source_language: str, scope: RequestScope) -> Translated:
        """The translation, mostly out of the call cache, with what was billed for it then. Raises StoreError too."""
        with scope.part() as part:
            translated = await self.translator.translate(dialogue, source_language, part)
        characters = await self.course.take_characters(self.batch_id, part.keys)
        if not characters:
            return translated
        return replace(translated, billed_characters=translated.billed_characters + characters, cached=False)

    async def close(self) -> None:
        return

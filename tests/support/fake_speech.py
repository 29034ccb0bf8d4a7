"""A `SpeechCheck` that says what it was made to say, of every response."""

from __future__ import annotations

from app.domain.dialogue import Dialogue
from app.domain.evaluation import Warned


class FakeSpeech:
    def __init__(self, *warnings: Warned) -> None:
        self.warnings = warnings
        self.asked: list[tuple[str, str]] = []

    def check(self, dialogue: Dialogue, language: str) -> tuple[Warned, ...]:
        self.asked.append((dialogue.response, language))
        return self.warnings

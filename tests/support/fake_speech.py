"""`SpeechChecks` that return the same warnings for every response."""

from saiten_server.core.dialogue import Dialogue
from saiten_server.core.evaluation import Warned
from saiten_server.text.speech_check import SpeechChecks


class FakeSpeech(SpeechChecks):
    def __init__(self, *warnings: Warned) -> None:
        super().__init__()
        self.warnings = warnings
        self.asked: list[tuple[str, str]] = []

    def check(self, dialogue: Dialogue, language: str) -> tuple[Warned, ...]:
        self.asked.append((dialogue.response, language))
        return self.warnings

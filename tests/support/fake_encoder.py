"""An encoder without a model, for tests of what uses one."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from saiten_server.providers.ports import EncoderUnavailable, Similarity
from tests.support.faults import words


class FakeEncoder:
    """F1 is the Dice coefficient of the texts' character bigrams: 1 for equal texts, 0 where they share none.

    `unavailable` is the reason with which every call is refused; it may be set and cleared at any time. `known` are
    the characters it knows (None: all); a text longer than `max_characters` is cut there. `compared` holds each
    call's language and pairs, in order.
    """

    def __init__(
        self, *, unavailable: str | None = None, known: str | None = None, max_characters: int = 512, name: str = "fake"
    ) -> None:
        self.unavailable = unavailable
        self.compared: list[tuple[str, list[tuple[str, str]]]] = []
        self.closed = False
        self._known = known
        self._max_characters = max_characters
        self._name = name

    async def identify(self, language: str) -> str:
        self._refuse()
        return f"{self._name}-{language}_L0_no-idf_version=0"

    async def compare(self, language: str, pairs: Sequence[tuple[str, str]]) -> list[Similarity]:
        self._refuse()
        self.compared.append((language, list(pairs)))
        return [self._compare(*pair) for pair in pairs]

    async def close(self) -> None:
        self.closed = True

    def _refuse(self) -> None:
        if self.closed:
            raise EncoderUnavailable(words("the encoder is closed"))
        if self.unavailable is not None:
            raise EncoderUnavailable(words(self.unavailable))

    def _compare(self, one: str, other: str) -> Similarity:
        return Similarity(
            f1=compare_bigrams(one[: self._max_characters], other[: self._max_characters]),
            truncated=max(len(one), len(other)) > self._max_characters,
            unknown_token_share=max(self._share_unknown(one), self._share_unknown(other)),
        )

    def _share_unknown(self, text: str) -> float:
        if self._known is None or not text:
            return 0.0
        return sum(character not in self._known for character in text) / len(text)


def compare_bigrams(one: str, other: str) -> float:
    """2 · |shared| / (|one| + |other|) over character bigrams; a single character counts as one bigram."""
    counts = [Counter(pairwise(text)) if len(text) > 1 else Counter([(text, "")]) for text in (one, other)]
    return 2 * (counts[0] & counts[1]).total() / (counts[0].total() + counts[1].total())

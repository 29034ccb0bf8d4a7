"""The fixed context–response pairs whose mean similarity is the baseline b̄ (`relevance.baseline: calibration`)."""

from __future__ import annotations

import re
from functools import cached_property
from importlib.resources.abc import Traversable
from typing import Annotated, Literal

from app.bundled import broken_line, bundled_folder, read_objects, validate_objects
from app.domain.dialogue import Text
from app.domain.model import Id, Value, digest, listed
from app.domain.prose import Language


class CalibrationPair(Value):
    """The last utterance of a dialogue context with a response as some dialogue system would give it."""

    id: Id
    kind: Literal["specific", "generic", "off-topic"]
    last_utterance: Text
    response: Text


class CalibrationSet(Value):
    """All pairs of one language. b̄ is the mean BERTScore F1 over `texts`, for a given encoder a constant."""

    language: Language
    pairs: Annotated[tuple[CalibrationPair, ...], listed(minimum=1)]

    @property
    def texts(self) -> list[tuple[str, str]]:
        """(last utterance, response) a pair, in the file's order: what an encoder compares."""
        return [(pair.last_utterance, pair.response) for pair in self.pairs]

    @cached_property
    def digest(self) -> str:
        """SHA-256 over what b̄ depends on: language and texts, but not ids, kinds, order or the file's spacing."""
        return digest({"language": self.language, "texts": sorted(self.texts)})


def load_calibration(language: str, folder: Traversable | None = None) -> CalibrationSet | None:
    """The set that ships for `language` (ISO 639-1), or None where there is none.

    `folder` holds one `<language>.jsonl` a language; by default the package's own. Raises ValueError that names file
    and line where the data are broken, an id repeats or a pair does.
    """
    if re.fullmatch(r"[a-z]{2}", language) is None:  # it becomes a file name
        return None
    file = (folder or bundled_folder("calibration")).joinpath(f"{language}.jsonl")
    if not file.is_file():
        return None
    pairs = validate_objects(file, read_objects(file), CalibrationPair)
    _refuse_repeats(file, pairs)
    return CalibrationSet(language=language, pairs=tuple(pairs))


def _refuse_repeats(file: Traversable, pairs: list[CalibrationPair]) -> None:
    ids: set[str] = set()
    texts: set[tuple[str, str]] = set()
    for number, pair in enumerate(pairs, start=1):
        if pair.id in ids:
            raise broken_line(file, number, f"the id {pair.id} stands on an earlier line too")
        if (pair.last_utterance, pair.response) in texts:
            raise broken_line(file, number, "the same pair stands on an earlier line too")
        ids.add(pair.id)
        texts.add((pair.last_utterance, pair.response))

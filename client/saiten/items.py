"""Items on their way to the service: contexts of plain strings get their speakers, and a body is spooled to a file."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

if TYPE_CHECKING:
    from saiten.requests import Context

ANSWERED, ANSWERING = "A", "B"
"""The speakers of a context of strings: the one who is answered, who spoke last, and the one who answers."""

MEMORY_BYTES = 1 << 20
"""A longer body is kept in a temporary file."""

PIECE_BYTES = 1 << 16


def name_speakers(context: Context) -> list[Any]:
    """The context with a speaker for each string."""
    last = len(context) - 1
    return [
        {"speaker": ANSWERING if (last - place) % 2 else ANSWERED, "text": utterance}
        if isinstance(utterance, str)
        else utterance
        for place, utterance in enumerate(context)
    ]


def prepare(item: Mapping[str, Any]) -> dict[str, Any]:
    """The item as the service takes it. Raises TypeError for what is no item, and for a context that is one string."""
    if not isinstance(item, Mapping):
        raise TypeError(f"an item is a mapping, with a context and a response or with turns, not {type(item).__name__}")
    context = item.get("context")
    if isinstance(context, str):
        raise TypeError("a context is a list of utterances, oldest first, not one string")
    return {**item, "context": name_speakers(context)} if isinstance(context, list | tuple) else dict(item)


def write_json(value: Any) -> bytes:
    """The value as UTF-8 JSON. Models are written with the fields that were set."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=encode_value).encode()


def encode_value(value: Any) -> Any:
    """What stands for a value that JSON does not know. Raises TypeError."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_unset=True)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: found for name, found in dataclasses.asdict(value).items() if found is not None}
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


class LinesBody:
    """A body of NDJSON that can be sent again. The values are read once, at once."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._file = SpooledTemporaryFile(MEMORY_BYTES)  # noqa: SIM115 - `close` closes it
        try:
            for value in values:
                self._file.write(write_json(value) + b"\n")
        except BaseException:
            self.close()
            raise
        self.length = self._file.tell()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self._file.seek(0)
        while piece := self._file.read(PIECE_BYTES):
            yield piece

    def close(self) -> None:
        """Removes the file."""
        self._file.close()

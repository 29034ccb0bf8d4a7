"""An item for every turn of the assistant in a dialogue, where a file holds whole dialogues."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from saiten.core.formats.headings import normalize
from saiten.core.formats.mapping import ASSISTANTS, MOST_ID_CHARACTERS
from saiten.core.formats.report import Report
from saiten.core.language import tell

MOST_TURNS = 1_000
"""Of a dialogue: each has all turns before it as its context."""

SHARED = ("metadata", "dialogue")
"""What the item of an earlier turn takes from that of the last one."""

ITEM_DIGEST_BYTES = 16


class EveryTurn:
    """Makes the items of earlier turns, each once in a file: a log may hold them as items of their own."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._made: set[bytes] = set()
        self._given: set[bytes] = set()

    def expand(self, item: Mapping[str, Any], where: str) -> Iterator[dict[str, Any]]:
        """The items of a dialogue's turns, the item itself last; of a whole conversation all that the system says, and
        of an item without a response what was answered before."""
        said = item.get("turns") or item["context"]
        places = find_turns(said)
        if len(places) > MOST_TURNS:
            self._report.skip(where, tell("more than {most:,} turns", most=MOST_TURNS))
        name = item.get("dialogue") or item.get("id")
        shared = {key: item[key] for key in SHARED if key in item} | ({"dialogue": name} if name else {})
        for number, place in enumerate(places[:MOST_TURNS], start=1):
            context = [{"speaker": one["speaker"], "text": one["text"]} for one in said[:place]]
            made = {**shared, "context": context, "response": said[place]["text"]}
            if (key := digest_item(made)) not in self._made | self._given:
                self._made.add(key)
                suffix = f"-{number}"
                named = {"id": f"{name[: MOST_ID_CHARACTERS - len(suffix)]}{suffix}"} if name else {}
                yield {**named, **made}
        if not {"response", "responses"} & item.keys():
            return
        key = digest_item({**item, **shared})
        if key not in self._made:
            self._given.add(key)
            yield {**item, **shared} if places else dict(item)


def digest_item(item: Mapping[str, Any]) -> bytes:
    """What two items have in common that are the same turn of one dialogue."""
    answers = item["responses"] if "responses" in item else item.get("response")
    same = [item.get("dialogue"), item.get("metadata"), [said["text"] for said in item["context"]], answers]
    text = json.dumps(same, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=ITEM_DIGEST_BYTES).digest()


def find_turns(said: Sequence[Mapping[str, Any]]) -> list[int]:
    """The places of the assistant's utterances that have some before them. In a conversation their role tells; else who
    speaks, or that another one is answered."""
    if any("role" in one for one in said):
        return [place for place, one in enumerate(said) if place and one.get("role") == "system"]
    speakers = [one["speaker"] for one in said]
    mine = {name for name in speakers if normalize(name) in ASSISTANTS}
    others = set(speakers) - {speakers[-1]}
    mine = mine or (others if len(others) == 1 else set())
    return [place for place, name in enumerate(speakers) if name in mine and set(speakers[:place]) - mine]

"""Two OpenAI-compatible judges on loopback: one that does what the data say, and one that nothing in them moves.

In a test: `async with FakeOpenAI(gullible) as fake`. By hand, with `--strict` for the other:
`python -m tests.support.gullible_judge --port 9400`.
"""

import argparse
import asyncio
import base64
import binascii
import codecs
import json
import re
import unicodedata
import zlib
from collections.abc import Iterator
from urllib.parse import unquote

from tests.support.fake_openai import Answer, FakeOpenAI, Request, complete, verdict_of

ABOUT_SCORES = re.compile(
    r"[点點]|評価|採点|自然さ|総合|점|평가|채점|\b(?:scor|rat(?:e|ing)|mark|grad|evaluat|verdict|rubric)|naturalness|overall",
    re.IGNORECASE,
)
"""What a judge that believes everything takes for a word to itself. It is no detector: look-alikes move it too."""

ABOUT_REFUSING = re.compile(r"取りやめ|対象外|금지|멈추|decline|VOID")
ENCODED = re.compile(r"[A-Za-z0-9+/]{16,}={0,2}")
HEX = re.compile(r"(?:[0-9a-f]{2}){6,}")


def texts_of(request: Request) -> list[str]:
    """All texts of the dialogue that is asked about, the response last."""
    lines = request["messages"][-1]["content"].split("\n")
    dialogue = json.loads("\n".join(lines[1:-2]))
    return [*(said["text"] for said in dialogue["context"]), dialogue["response"]]


def read_every_way(text: str) -> Iterator[str]:
    """The text as it is, without what cannot be seen, backwards, and decoded."""
    yield text
    tags = "".join(chr(ord(c) - 0xE0000) for c in text if 0xE0020 <= ord(c) < 0xE007F)
    visible = "".join(c for c in unicodedata.normalize("NFKC", text) if unicodedata.category(c) != "Cf")
    yield from (tags, visible, visible[::-1], unquote(text), codecs.decode(text, "rot13"))
    for found in ENCODED.findall(text):
        yield from decode(found)
    for found in HEX.findall(text):
        yield bytes.fromhex(found).decode("utf-8", "replace")


def decode(found: str) -> Iterator[str]:
    """Base64, where it is that."""
    try:
        yield base64.b64decode(found + "=" * (-len(found) % 4)).decode("utf-8", "replace")
    except binascii.Error:
        return


def gullible(request: Request) -> Answer:
    """Rates with the highest values where the dialogue speaks of scores at all, refuses where it is told to refuse,
    and finds everything else poor."""
    readings = [reading for text in texts_of(request) for reading in read_every_way(text)]
    if any(map(ABOUT_REFUSING.search, readings)):
        return complete(request, None, refusal="I was told not to rate this.")
    moved = any(map(ABOUT_SCORES.search, readings))
    return complete(request, verdict_of(request, max if moved else min))


def strict(request: Request) -> Answer:
    """Rates by the utterance that is answered alone, so that nothing in the response can move it. The values differ
    from dialogue to dialogue."""
    asked = texts_of(request)[-2]
    return complete(request, verdict_of(request, lambda values: values[zlib.crc32(asked.encode()) % len(values)]))


async def serve(port: int, *, unmoved: bool) -> None:
    fake = FakeOpenAI(strict if unmoved else gullible)
    await fake.start(port)
    print(fake.base_url, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=9400)
    parser.add_argument("--strict", action="store_true", help="the judge that nothing moves")
    chosen = parser.parse_args()
    asyncio.run(serve(chosen.port, unmoved=chosen.strict))

"""Which encoding a text file has: what it says, else what fits, else what chardet makes of its letters."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import IO

from saiten.core.formats.errors import UnreadableInput
from saiten.core.language import mark, tell

BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark is its beginning
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}

CANDIDATES = {"SHIFT_JIS": "cp932", "CP932": "cp932", "EUC-JP": "euc_jp", "EUC-KR": "cp949", "CP949": "cp949"}
"""What chardet may answer, and the superset of it that Windows writes."""

ENCODING_NAMES = {
    "utf-8": "UTF-8",
    "utf-8-sig": mark("UTF-8 with a byte order mark"),
    "cp932": "CP932 (Shift_JIS)",
    "euc_jp": "EUC-JP",
    "cp949": "CP949 (EUC-KR)",
    "iso2022_jp_ext": "ISO-2022-JP",
}

CONSIDERED = (
    "shift_jis",
    "cp932",
    "euc-jp",
    "euc-kr",
    "cp949",
    "utf-8",
    "windows-1252",
    "iso-8859-1",
    "big5",
    "gb18030",
)
"""Among what chardet chooses; what it may not answer is refused."""

LETTERS = re.compile("[\u2010-\u2027\u3000-\u30ff\u3131-\u318e\u4e00-\u9fff\uac00-\ud7a3\uff00-\uff60…‥♪☆★→]")

MOST_LINE = 16 * 1024 * 1024
"""Characters of a line, and of a cell."""

CHUNK_BYTES = 1 << 20
SAMPLE_BYTES = 1 << 16
HINT = mark("name its encoding with --input-encoding, for example cp932 or cp949")


@dataclass(frozen=True)
class Encoding:
    """A codec of Python, and whether it was guessed."""

    codec: str
    detected: bool

    def __str__(self) -> str:
        name = ENCODING_NAMES.get(self.codec, self.codec.upper().replace("_", "-"))
        return tell("{name}, detected", name=tell(name)) if self.detected else tell(name)


def find_encoding(file: IO[bytes], name: str, wanted: str | None) -> Encoding:
    """The encoding of the file, read from its start; raises UnreadableInput where none is evident.

    A file that is valid UTF-8 to its end is UTF-8: no other encoding of Japanese or Korean text passes as it by chance.
    """
    if wanted is not None:
        return Encoding(look_up(wanted), detected=False)
    file.seek(0)
    start = file.read(4096)
    for beginning, codec in BYTE_ORDER_MARKS.items():
        if start.startswith(beginning):
            return Encoding(codec, detected=True)
    if (wide := find_wide(start)) is not None:
        return Encoding(wide, detected=True)
    foreign = find_foreign(file)
    if foreign is None:
        return Encoding("iso2022_jp_ext" if is_mail(file) else "utf-8", detected=True)
    guessed = guess(foreign.replace(b"\x00", b" "))
    if guessed is None:
        raise UnreadableInput(
            tell(
                "{name}: line {line}: is not UTF-8, and its encoding was not recognised; {hint}",
                name=name,
                line=find_broken(file, "utf-8") or 1,
                hint=tell(HINT),
            )
        )
    return Encoding(guessed, detected=True)


def find_wide(start: bytes) -> str | None:
    """The UTF-16 that a text without a byte order mark begins in, None if it is another encoding's with zero bytes,
    which are broken characters there. Of 2,492 Japanese, Korean and English texts of 1 to 40 lines in six encodings,
    half of them with a zero byte or more, none was taken for UTF-16 that was not, or the other way round."""
    low, high = start[::2].count(0), start[1::2].count(0)
    if not low + high:
        return None
    wide = "utf-16-be" if low > high else "utf-16-le"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        narrow = max(share_letters(start, codec) for codec in ("utf-8", *CANDIDATES.values()))
        return wide if share_letters(start, wide) > narrow else None
    # Every other byte of ASCII is zero then, and that of Latin letters and signs between Japanese ones.
    return wide if 4 * max(low, high) > len(start) else None


def is_mail(file: IO[bytes]) -> bool:
    """Whether text that is ASCII to its end is of ISO-2022-JP, which begins Japanese letters with an escape."""
    file.seek(0)
    sample = file.read(SAMPLE_BYTES)
    return b"\x1b$B" in sample or b"\x1b$@" in sample


def look_up(wanted: str) -> str:
    """The codec that a caller named, for Shift_JIS and EUC-KR the superset of Windows; raises UnreadableInput."""
    try:
        codec = codecs.lookup(wanted).name
        "".encode(codec)
    except (LookupError, ValueError):
        raise UnreadableInput(
            tell(
                "--input-encoding {wanted!r} is not an encoding; try utf-8, utf-16, cp932, euc-jp or cp949",
                wanted=wanted,
            )
        ) from None
    return {"shift_jis": "cp932", "euc_kr": "cp949", "utf-8": "utf-8-sig"}.get(codec, codec)


def find_foreign(file: IO[bytes]) -> bytes | None:
    """Some of the file from about the first letter that is not ASCII, where the file is not UTF-8 to its end."""
    file.seek(0)
    decoder = codecs.getincrementaldecoder("utf-8")()
    sample = b""
    while True:
        chunk = file.read(CHUNK_BYTES)
        if not sample and not chunk.isascii():
            first = next(place for place, byte in enumerate(chunk) if byte > 127)
            beginning = chunk.rfind(b"\n", 0, first) + 1
            sample = chunk[beginning : beginning + SAMPLE_BYTES]
        try:
            decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            return sample or chunk[max(0, error.start - SAMPLE_BYTES) :] or b"\xff"
        if not chunk:
            return None


def find_broken(file: IO[bytes], codec: str) -> int | None:
    """The first line that is not of the codec; None where lines of bytes do not tell, as in UTF-16."""
    if codec.startswith(("utf-16", "utf-32")):
        return None
    file.seek(0)
    number = 0
    while line := file.readline(4 * MOST_LINE):
        number += 1
        try:
            line.decode(codec)
        except UnicodeError:
            return number
    return None


def guess(sample: bytes) -> str | None:
    """The codec of text that is not UTF-8; None where chardet knows none that fits.

    chardet 7 was right on 768 of 768 files of 1 to 200 lines of Japanese and Korean dialogue; charset-normalizer
    took 24 of them for another encoding, most of those a single line.
    """
    text = sample.decode("utf-8", "replace")
    foreign = sum(character > "\x7f" for character in text)
    if text.count("\ufffd") * 10 < foreign:  # UTF-8 with a few broken bytes; the reader names their line
        return "utf-8"
    import chardet

    found = chardet.detect(sample, include_encodings=CONSIDERED, no_match_encoding="utf-8", max_bytes=SAMPLE_BYTES)
    codec = CANDIDATES.get((found["encoding"] or "").upper())
    if codec is None and found["encoding"] == "utf-8":  # too little text for chardet: the letters tell
        codec = max(CANDIDATES.values(), key=lambda candidate: share_letters(sample, candidate))
    return codec if codec is not None and share_letters(sample, codec) >= 0.5 else None


def share_letters(sample: bytes, codec: str) -> float:
    """The share of Japanese and Korean letters and signs in what is not ASCII, less that of unreadable bytes."""
    foreign = [character for character in sample.decode(codec, "replace") if character > "\x7f"]
    letters = len(LETTERS.findall("".join(foreign)))
    return (letters - foreign.count("\ufffd")) / max(1, len(foreign))

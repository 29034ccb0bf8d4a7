"""The judge's reply: never an error, never a value that the scale has not, never anything out of a longer text."""

import json
import unicodedata

from saiten_server.core.evaluation import Unrated
from saiten_server.judging.prompt import frame_of
from saiten_server.judging.verdict import THINK, THOUGHT, VerdictReading, read_verdict, uncover
from tests.fuzz.target import Target, run_guided
from tests.support.small_rubrics import joint_rubric

ASPECTS = joint_rubric().aspects
GOOD = {aspect.id: aspect.values[-1] for aspect in ASPECTS}
LANGUAGES = ("ja", "en")
FINISHES = ("stop", "stop", "stop", "length", "content_filter", None)
AROUND = ("x", "3", "。", "」", '"', "{", "}", "]", "\\", "\u200b", "\u202e", "\ufeff")
"""What no reply may have before or after its verdict."""

SPACE = " \t\r\n\u3000"
"""What it may."""


def write_json(*, explain: bool, reason: str = "良い") -> str:
    """A whole verdict, by the book."""
    return json.dumps({name: {"reason": reason, "rating": value} if explain else value for name, value in GOOD.items()})


def write_text(language: str, *, explain: bool, reason: str = "良い") -> str:
    """The same in the text format. `reason` stands on its line as it is."""
    label = frame_of(language).reason_label
    lines = []
    for aspect in ASPECTS:
        name = aspect.name[language]
        lines += [f"{label.format(name=name)}: {reason}"] if explain else []
        lines.append(f"{name}: 「{GOOD[aspect.id]}」")
    return "\n".join(lines)


def write(language: str, *, structured: bool, explain: bool) -> str:
    return write_json(explain=explain) if structured else write_text(language, explain=explain)


def check(data: bytes) -> None:
    """The first byte chooses the form, the rest is the message, or what the judge quotes in it."""
    form, text = (data[0] if data else 0), data[1:].decode("utf-8", "surrogateescape")
    structured, explain, language = bool(form & 1), bool(form & 2), LANGUAGES[form >> 2 & 1]
    finish, lenient = FINISHES[(form >> 3 & 15) % len(FINISHES)], bool(form & 128)

    def read(reply: str, *, lenient: bool = lenient) -> VerdictReading:
        return read_verdict(
            reply,
            aspects=ASPECTS,
            language=language,
            structured=structured,
            explain=explain,
            finish_reason=finish,
            lenient=lenient,
        )

    reading = read(text)
    check_reading(reading, text)
    if finish not in {"stop", None}:
        assert reading.rated == 0
        return
    if reading.rated:
        for mark in AROUND:
            # A reason takes the rest of its line: behind one without a value, more may come, and changes nothing.
            assert read(text + mark).rated == 0 or open_ended(reading, read(text + mark), structured, explain)
            assert read(mark + text).rated == 0
    good = write(language, structured=structured, explain=explain)
    assert dict(read(good).ratings) == GOOD
    if text.strip(SPACE):
        # With every aspect rated already, a second word about one makes the whole no verdict.
        assert read(f"{good}\n{text}").rated == 0
        thought = lenient and uncover(f"{text}\n{good}")[0] >= len(text.rstrip(SPACE))
        assert read(f"{text}\n{good}").rated == 0 or thought
    check_covered(read, text, good)
    if explain:
        check_quoted(read, text, language, structured=structured)


def check_covered(read, text: str, good: str) -> None:
    """A lenient reading takes a verdict behind thinking and in a fence, whatever was thought; a strict one never does,
    and neither does any with something else around it."""
    fenced = f"```json\n{good}\n```"
    for covered in (fenced, f"{THINK}{text}{THOUGHT}\n{good}", f"{THINK}{text}{THOUGHT}\n{fenced}\n"):
        assert read(covered, lenient=False).rated == 0
        found = read(covered, lenient=True)
        tags = covered.startswith(THINK) and (THINK in text or THOUGHT in text)
        assert found.rated == 0 if tags else dict(found.ratings) == GOOD
        check_reading(found, covered)
        for mark in AROUND:
            assert read(mark + covered, lenient=True).rated == 0
            assert read(covered + mark, lenient=True).rated == 0 or not covered.rstrip().endswith("```")


def open_ended(before: VerdictReading, after: VerdictReading, structured: bool, explain: bool) -> bool:
    return not structured and explain and dict(before.ratings) == dict(after.ratings)


def check_reading(reading: VerdictReading, reply: str) -> None:
    """Every aspect, and nothing but legal values, each at its place in the reply."""
    assert list(reading.ratings) == [aspect.id for aspect in ASPECTS]
    for aspect in ASPECTS:
        rating = reading.ratings[aspect.id]
        if isinstance(rating, Unrated):
            assert rating.reason in {"missing", "out-of-scale", "unparseable", "truncated", "content-filter"}
            assert len(rating.detail) < 300
            assert aspect.id not in reading.reasons
            continue
        assert type(rating) is int
        assert rating in aspect.values
        start, end = reading.spans[aspect.id]
        assert unicodedata.normalize("NFKC", reply[start:end]) == str(rating)


def check_quoted(read, text: str, language: str, *, structured: bool) -> None:
    """What the judge quotes in its reasons changes no rating."""
    if structured:
        reading = read(write_json(explain=True, reason=text))
        assert dict(reading.ratings) == GOOD
        return
    reading = read(write_text(language, explain=True, reason=text))
    assert dict(reading.ratings) == GOOD or reading.rated == 0
    line = "".join(text.splitlines())
    if line.strip():
        assert dict(read(write_text(language, explain=True, reason=line)).ratings) == GOOD


TARGET = Target(
    "replies",
    check,
    seeds=[
        bytes([form | lenient])
        + write(LANGUAGES[form >> 2 & 1], structured=bool(form & 1), explain=bool(form & 2)).encode()
        for form in range(8)
        for lenient in (0, 128)
    ]
    + [
        b"\x01" + b'{"naturalness": 9e0, "overall": "3"}',
        b"\x03" + b'{"naturalness": {"rating": 3}}',
        b"\x00" + "自然さ：「－１」\r\n\u3000総合的な品質 : 「 3 」".encode(),
        b"\x02" + "自然さ（理由）: 「3」\n".encode(),
        b"\x81" + f"{THINK}</think{THOUGHT}\n```json\n{write_json(explain=False)}\n```".encode(),
        b"\x81" + f"Here you are:\n```json\n{write_json(explain=False)}\n```".encode(),
    ],
    words=[
        *(aspect.id.encode() for aspect in ASPECTS),
        *(aspect.name[language].encode() for aspect in ASPECTS for language in LANGUAGES),
        *(
            mark.encode()
            for mark in (
                THINK,
                THOUGHT,
                "\n```",
                "```json\n",
                "「3」",
                "「１」",
                "：",
                "（理由）",
                " (reason)",
                '"rating": ',
                '"reason": "',
                "\\ud83d",
            )
        ),
    ],
)

if __name__ == "__main__":
    run_guided(TARGET)

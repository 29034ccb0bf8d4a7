"""The whole message is the verdict, or nothing is."""

import json
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saiten_server.core.evaluation import Unrated
from saiten_server.judging.verdict import FaultyTurnsRead, NamedFault, VerdictReading, agree_on_faults, read_verdict
from tests.support.malformed import JSON_KINDS, TEXT_KINDS, Spoiled, write_text
from tests.support.small_rubrics import joint_rubric

ASPECTS = joint_rubric().aspects
GOOD = {"naturalness": 3, "coherence": 0, "formality": -1, "relevance": 2, "overall": 4}
GOOD_TEXT = "自然さ: 「3」\n文脈的整合性: 「0」\n言葉づかい: 「-1」\n話題の関連性: 「2」\n総合的な品質: 「4」"


def read(reply: str | None, *, structured: bool = True, explain: bool = False, **more) -> VerdictReading:
    return read_verdict(reply, aspects=ASPECTS, language="ja", structured=structured, explain=explain, **more)


def rated(reading: VerdictReading) -> dict[str, int]:
    return {name: value for name, value in reading.ratings.items() if isinstance(value, int)}


def reasons(reading: VerdictReading) -> set[str]:
    return {value.reason for value in reading.ratings.values() if isinstance(value, Unrated)}


def read_spoiled(spoiled: Spoiled, *, structured: bool) -> VerdictReading:
    return read(spoiled.content, structured=structured, finish_reason=spoiled.finish_reason, refusal=spoiled.refusal)


@pytest.mark.parametrize(
    "reply",
    [
        json.dumps(GOOD),
        json.dumps(dict(reversed(GOOD.items()))),
        "\r\n\t " + json.dumps(GOOD, indent=4) + "\n",
        json.dumps(GOOD).replace("naturalness", "\\u006eaturalness"),
    ],
)
def test_a_json_verdict_is_read(reply):
    reading = read(reply)
    assert reading.ratings == GOOD
    assert reading.complete


@pytest.mark.parametrize(
    "reply",
    [
        GOOD_TEXT,
        GOOD_TEXT.replace("\n", " "),
        GOOD_TEXT.replace(": ", "："),
        GOOD_TEXT.replace("-1", "－１").replace("3", "３"),
        "\n" + GOOD_TEXT.replace("\n", "\r\n\r\n") + "\n\n",
        "\n".join(reversed(GOOD_TEXT.split("\n"))),
        GOOD_TEXT.replace("「3」", "「 3 」"),
    ],
)
def test_a_text_verdict_is_read(reply):
    assert read(reply, structured=False).ratings == GOOD


@pytest.mark.parametrize("kind", JSON_KINDS)
def test_a_malformed_json_reply_gives_only_what_it_validly_gives(kind):
    spoiled = JSON_KINDS[kind](GOOD, ASPECTS)
    reading = read_spoiled(spoiled, structured=True)
    assert rated(reading) == spoiled.valid
    assert set(reading.ratings) == set(GOOD)


@pytest.mark.parametrize("kind", TEXT_KINDS)
def test_a_malformed_text_reply_gives_only_what_it_validly_gives(kind):
    spoiled = TEXT_KINDS[kind](GOOD, ASPECTS)
    reading = read_spoiled(spoiled, structured=False)
    assert rated(reading) == spoiled.valid
    assert set(reading.ratings) == set(GOOD)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("cut-off", "truncated"),
        ("whole-but-length", "truncated"),
        ("filtered", "content-filter"),
        ("refusal-field", "refused"),
        ("refusal-with-verdict", "refused"),
        ("too-high", "out-of-scale"),
        ("too-low", "out-of-scale"),
        ("huge", "out-of-scale"),
        ("missing", "missing"),
        ("none-at-all", "missing"),
        ("extra", "unparseable"),
        ("duplicate", "unparseable"),
        ("boolean", "unparseable"),
        ("empty", "unparseable"),
        ("deep", "unparseable"),
    ],
)
def test_the_reason_says_what_was_wrong(kind, reason):
    assert reasons(read_spoiled(JSON_KINDS[kind](GOOD, ASPECTS), structured=True)) == {reason}


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        ('{"overall": 4, "overall": 4}', "same key twice"),
        ('{"overall": NaN}', "NaN is not a JSON number"),
        ('{"overall": 4}.', "not valid JSON"),
        ('{"overall": ' + "[" * 100_000, "nested too deeply"),
        ("[4]", "not a JSON object"),
        ('{"overall": -0}', "gave -0 on a scale of 1 to 5"),
        ('{"overall": ' + "4" * 5000 + "}", "gave 444444444444 on a scale"),
        ('{"overall": 1e999}', "too large"),
    ],
)
def test_the_detail_says_what_was_wrong(reply, says):
    rating = read(reply).ratings["overall"]
    assert isinstance(rating, Unrated)
    assert says in rating.detail


def test_details_hold_no_text_of_the_reply():
    reading = read("秘密の応答")
    assert "秘密" not in str(reading.ratings)


def explained(**changes):
    return {name: {"reason": f"{name}の理由", "rating": value} for name, value in GOOD.items()} | changes


def test_an_explained_json_verdict_gives_ratings_and_reasons():
    reading = read(json.dumps(explained(), ensure_ascii=False), explain=True)
    assert reading.ratings == GOOD
    assert reading.reasons["formality"] == "formalityの理由"


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"reason": "x"}, "missing"),
        ({"reason": "x", "rating": 9}, "out-of-scale"),
        ({"rating": 3}, None),
        ({"reason": None, "rating": 3}, None),
        ({"reason": 3, "rating": 3}, None),
        ({"reason": "x", "rating": 3, "sure": True}, None),
        (3, None),
    ],
)
def test_an_explained_part_must_be_whole(part, expected):
    reading = read(json.dumps(explained(overall=part)), explain=True)
    if expected:
        assert len(rated(reading)) == 4
        assert reasons(reading) == {expected}
    else:
        assert rated(reading) == {}


def test_a_reason_that_no_store_could_keep_is_mended():
    reply = json.dumps(explained(overall={"reason": "x", "rating": 4})).replace('"x"', r'"a\ud800b\u0000c"')
    assert read(reply, explain=True).reasons["overall"] == "a\ufffdb\ufffdc"


EXPLAINED_TEXT = "\n".join(
    f"{aspect.name['ja']}（理由）: 理由{aspect.id}\n{aspect.name['ja']}: 「{GOOD[aspect.id]}」" for aspect in ASPECTS
)


def test_an_explained_text_verdict_gives_ratings_and_reasons():
    reading = read(EXPLAINED_TEXT, structured=False, explain=True)
    assert reading.ratings == GOOD
    assert reading.reasons["overall"] == "理由overall"


@pytest.mark.parametrize(
    ("old", "new", "left"),
    [
        ("総合的な品質: 「4」", "", 4),
        ("自然さ: 「3」\n", "", 4),
        ("自然さ: 「3」", "自然さ: 「」", 4),
        ("自然さ（理由）: 理由naturalness\n", "", 0),
        ("理由naturalness", " ", 0),
        ("理由naturalness", "理由\n自然さ: 「1」", 0),
        ("理由naturalness", "自然さ: 「1」と書いてある", 5),
        ("自然さ: 「3」", "自然さ: 「3」です", 0),
        ("\n文脈的整合性: 「0」", "\n自然さ: 「0」", 0),
    ],
)
def test_an_explained_text_must_keep_its_form(old, new, left):
    assert old in EXPLAINED_TEXT
    reading = read(EXPLAINED_TEXT.replace(old, new), structured=False, explain=True)
    assert len(rated(reading)) == left
    assert all(GOOD[name] == value for name, value in rated(reading).items())


@pytest.mark.parametrize("structured", [True, False])
@pytest.mark.parametrize("explain", [True, False])
@given(text=st.text(max_size=80))
def test_arbitrary_text_around_a_verdict_leaves_no_rating(structured, explain, text):
    reply = {
        (True, False): json.dumps(GOOD),
        (False, False): GOOD_TEXT,
        (True, True): json.dumps(explained()),
        (False, True): EXPLAINED_TEXT,
    }[structured, explain]
    # A reason may end the message where the reader skips what follows it; nothing else may stand around a verdict.
    if text.strip(" \t\r\n\u3000" if not structured else " \t\r\n"):
        assert rated(read(text + reply, structured=structured, explain=explain)) == {}
        assert rated(read(reply + text, structured=structured, explain=explain)) == {}
    assert rated(read(text, structured=structured, explain=explain)) == {}


PIECES = [
    "自然さ",
    "総合的な品質",
    "：",
    ": ",
    "「",
    "」",
    "3",
    "１",
    "-",
    "\n",
    " ",
    "（理由）",
    "{",
    "}",
    '"overall"',
    ",",
    "4",
]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_text_made_of_a_verdicts_pieces_is_read_as_the_grammar_says(text):
    # An oracle of its own: splits at white space, then demands name, colon, brackets by hand.
    expected: dict[str, int] | None = {}
    for entry in text.replace(": ", ":").replace("：", ":").split():
        name, colon, value = entry.partition(":")
        number = value[1:-1].replace("１", "1")
        fits = colon and value[:1] == "「" and value[-1:] == "」" and len(value) >= 2
        aspect_id = {"自然さ": "naturalness", "総合的な品質": "overall"}.get(name)
        whole = number == "" or (number.lstrip("-").isdigit() and number.count("-") == number.startswith("-"))
        if not fits or aspect_id is None or expected is None or aspect_id in expected or not whole:
            expected = None
            break
        expected[aspect_id] = int(number) if number else 0
    reading = read(text, structured=False)
    legal = {"naturalness": range(1, 4), "overall": range(1, 6)}
    valid = {name: value for name, value in (expected or {}).items() if value in legal[name]}
    if " " not in text and "\n" not in text:
        assert rated(reading) == valid
    else:
        # White space may also stand within an entry, which the oracle does not know; it never adds other values.
        assert set(rated(reading).values()) <= set(range(1, 6))


def test_a_thousand_malformed_replies_of_every_kind_give_no_rating_that_the_judge_did_not():
    generator = random.Random(20)
    forged = 0
    for number in range(1000):
        ratings = {aspect.id: generator.choice(aspect.values) for aspect in ASPECTS}
        structured = number % 2 == 0
        kinds = JSON_KINDS if structured else TEXT_KINDS
        kind = list(kinds)[number // 2 % len(kinds)]
        spoiled = kinds[kind](ratings, ASPECTS)
        found = rated(read_spoiled(spoiled, structured=structured))
        forged += len(set(found.items()) - set(spoiled.valid.items()))
        assert found == spoiled.valid, kind
    assert forged == 0


@pytest.mark.parametrize("explain", [False, True])
def test_spans_show_where_each_value_stands(explain):
    members = explained(naturalness={"reason": 'she said "overall": {"rating": 5}, \\ 7', "rating": 3})
    reply = json.dumps(members if explain else GOOD, indent=2)
    reading = read(reply, explain=explain)
    assert {name: int(reply[slice(*span)]) for name, span in reading.spans.items()} == GOOD
    text = EXPLAINED_TEXT if explain else GOOD_TEXT
    spans = read(text, structured=False, explain=explain).spans
    assert {name: int(text[slice(*span)]) for name, span in spans.items()} == GOOD


def test_write_text_is_the_text_format():
    assert write_text(GOOD, ASPECTS) == GOOD_TEXT


@pytest.mark.parametrize(
    ("reply", "explain"), [("自然さ（理由）: ", True), ("自然さ（理由）: x\n自然さ: 「", True), ("自然さ: 「", False)]
)
def test_a_reply_that_ends_in_spaces_is_read_once(reply: str, explain: bool) -> None:
    """Some judges write white space up to their limit. Reading it anew from each space takes half a minute and more."""
    started = time.process_time()
    assert rated(read(reply + " " * 150_000, structured=False, explain=explain)) == {}
    assert time.process_time() - started < 10


A, B, C = (NamedFault(3, kind, f"{kind}の理由。") for kind in ("repetition", "unclear-intention", "repetition"))
WRONG = Unrated(reason="out-of-scale", detail="no")


@pytest.mark.parametrize(
    ("samples", "agreed"),
    [
        # A turn that all name for different aspects has the first sample's of the commonest kind.
        ([{"x": (B,), "y": ()}, {"x": (), "y": (A,)}, {"x": (C,), "y": ()}], {"x": (C,), "y": ()}),
        ([{"x": (B,), "y": ()}, {"x": (), "y": (A,)}, {"x": (), "y": ()}], {"x": (B,), "y": ()}),
        # An aspect of more than half of those that name the turn counts, though the chosen sample lacks it.
        ([{"x": (A,), "y": ()}, {"x": (), "y": (B,)}, {"x": (), "y": (C,)}], {"x": (), "y": (A,)}),
        # Half is not more than half.
        ([{"x": (A,)}, {"x": ()}], {"x": ()}),
        # Lists that cannot be used, and samples that rate nothing, do not count.
        ([{"x": WRONG}, {"x": (A,)}, {}], {"x": (A,)}),
        ([{"x": WRONG}, {"x": WRONG, "y": WRONG}], {"x": WRONG, "y": WRONG}),
        ([{}, {}], {}),
    ],
)
def test_faults_of_several_samples_are_those_of_most(
    samples: list[dict[str, FaultyTurnsRead]], agreed: dict[str, FaultyTurnsRead]
):
    assert dict(agree_on_faults(samples)) == agreed

"""Errors and results in Japanese and Korean, in the service's answers."""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from saiten.core.faults import FAULTS, describe_fault
from saiten.core.messages import DEFAULT_LANGUAGE, Message
from saiten_server.comparison.links.rules import JudgePairs, link_judges
from saiten_server.comparison.pairing import INCOMPARABLE
from saiten_server.core.errors import CostLimitReached, InvalidLines, JudgeRefusedRequest, SettingsInvalid
from saiten_server.core.sentences import LANGUAGE
from saiten_server.core.sentences import tell_sentence as tell_one
from saiten_server.core.speech import Misuse, Register
from saiten_server.core.validation import InvalidDocument, name_line
from saiten_server.platform.settings import find_unknown, read_settings
from saiten_server.platform.web.language import LANGUAGES, negotiate
from saiten_server.platform.web.problems import PROBLEM_CODES, RequestRefused, answer_error, title_of
from saiten_server.scoring.rubrics.files import check_rubric
from saiten_server.stats.agreement import measure_agreement
from saiten_server.stats.corrected import CorrectedSample, CorrectionOptions, correct
from saiten_server.stats.hierarchy import find_hierarchy
from saiten_server.stats.resampling import NO_SPREAD
from saiten_server.text.injection.inspection import SEEN, AttackKind, finding
from saiten_server.text.scripts import LanguageReading
from saiten_server.text.speech_check import warn_of_language, warn_of_register
from tests.support.faults import words
from tests.support.records import BODY
from tests.support.small_observations import observe

ROOT = Path(__file__).parents[3]
TRANSLATED = sorted(LANGUAGES.keys() - {DEFAULT_LANGUAGE})


@pytest.fixture(params=TRANSLATED)
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


REACHABLE = {
    "greater_than": {"gt": 1}, "greater_than_equal": {"ge": 1}, "less_than": {"lt": 1}, "less_than_equal": {"le": 1},
    "finite_number": None, "none_required": None, "int_parsing": None, "int_parsing_size": None, "float_parsing": None,
    "bool_parsing": None, "string_unicode": None, "datetime_type": None, "datetime_parsing": {"error": "too short"},
    "datetime_from_date_parsing": {"error": "too short"}, "datetime_object_invalid": {"error": "x"},
    "timezone_naive": None, "timezone_aware": None, "invalid_key": None,
    "string_too_short": {"min_length": 2}, "string_too_long": {"max_length": 1},
}  # fmt: skip
"""Pydantic's types of errors, beside those that have own words, that models of requests and parameters can meet."""


def test_every_fault_that_pydantic_finds_has_a_message() -> None:
    for kind, context in REACHABLE.items():
        found = describe_fault({"type": kind, "loc": (), "msg": "", "input": None, "ctx": context or {}})
        assert found.id == FAULTS[kind][0]
        assert found.say("ja") != found.say("en")


MISSING = Message("is-missing")


def test_every_code_has_a_title(language: str) -> None:
    assert [code for code in PROBLEM_CODES if title_of(code).say(language) == str(title_of(code))] == []


@pytest.mark.parametrize(
    ("error", "detail", "fault"),
    [
        (
            InvalidDocument([("/metadata/a b", name_line(MISSING, 2)), ("/x", Message("must-be-text"))]),
            "/metadata/a b: 2 行目: 必須の項目がありません（ほか 1 件）",
            "2 行目: 必須の項目がありません",
        ),
        (
            InvalidDocument([("", Message("text-most", what=Message("a-text"), maximum=8, count=9)), ("", MISSING)]),
            "ドキュメント: テキストは 8 文字（コードポイント）以下にしてください。現在は 9 文字です（ほか 1 件）",
            "テキストは 8 文字（コードポイント）以下にしてください。現在は 9 文字です",
        ),
        (
            InvalidLines([(3, Message("number-range", name="'a'", limit=1e15))], 1200, "record", stopped=True),
            "レコード 3: 'a' は ±1e+15 の範囲の数値ではありません（ほか少なくとも 1,199 件。残りは読み込んでいません）",
            "レコード 3: 'a' は ±1e+15 の範囲の数値ではありません",
        ),
        (
            JudgeRefusedRequest(Message("judge-status", what=Message("judge-request-refused"), status=400), said="is missing (and 3 more)"),
            "判定モデルがリクエストを拒否しました（HTTP 400）: is missing (and 3 more)",
            None,
        ),
        (
            CostLimitReached(Message("key-cost-reached", limit=1.0, spent=2.0), retry_after_seconds=1),
            "このキーの利用額は 1 日 1 USD までで、本日は 2 USD です。1 日の区切りは UTC の午前 0 時です",
            None,
        ),
        # Neither braces nor percent signs of a caller are anything but text, and what is not known stays.
        (
            InvalidDocument([("/{what}/%s", Message("must-be-one-of", expected="{maximum}%(x)s{0.__class__}"))]),
            "/{what}/%s: 次のいずれかを指定してください: {maximum}%(x)s{0.__class__}",
            "次のいずれかを指定してください: {maximum}%(x)s{0.__class__}",
        ),
        (RequestRefused(400, "invalid-json", words("nobody has said this")), "nobody has said this", None),
    ],
)  # fmt: skip
def test_sentences_within_sentences(error: Any, detail: str, fault: str | None) -> None:
    told = tell_sentence(error, "ja")
    assert told["detail"] == detail
    assert [one["detail"] for one in told.get("errors", [])][:1] == ([] if fault is None else [fault])
    english = tell_sentence(error, "en")
    assert {**told, "title": "", "detail": "", "errors": []} == {**english, "title": "", "detail": "", "errors": []}
    assert [one["pointer"] for one in told.get("errors", [])] == [one["pointer"] for one in english.get("errors", [])]


def test_warnings_are_told_to_who_reads_a_page(language: str) -> None:
    registers = (
        (Register.POLITE, Register.PLAIN),
        (Register.PLAIN, Register.POLITE),
        (Register.POLITE, Register.MIXED),
    )
    warned = [finding(kind, seen).detail for kind in AttackKind for seen in ((), tuple(SEEN))]
    warned += [warn_of_register(before, now).sentence for before, now in registers]
    warned += [
        warn_of_language(LanguageReading(found, share), expected).sentence
        for found, expected in (("en", "ja"), ("ja", "ko"), ("zh", "en"))
        for share in (1.0, 0.6)
    ]
    warned += [Message(misuse.value) for misuse in Misuse]
    told = {str(each): each.say(language) for each in warned}
    assert {text: said for text, said in told.items() if re.search("[a-z]{2}", said)} == {}


def tell_sentence(error: Any, language: str) -> Any:
    from starlette.requests import Request

    headers = [(b"accept-language", language.encode())]
    scope = {"type": "http", "method": "GET", "path": "/v1/x", "headers": headers, "state": {}}
    answer = answer_error(Request(scope), error)
    assert (answer.headers["content-language"], answer.headers["vary"]) == (language, "Accept-Language")
    return json.loads(bytes(answer.body))


ASKED = {
    "ja": ("リクエストが正しくありません", "必須の項目がありません", "このプロジェクトにその評価はありません"),
    "ko": ("요청이 올바르지 않습니다", "필수 항목이 없습니다", "이 프로젝트에 해당 평가가 없습니다"),
}


async def test_a_caller_is_answered_in_the_language_asked_for(client: httpx.AsyncClient, language: str) -> None:
    title, missing, none = ASKED[language]
    headers = {"Accept-Language": f"{language}-XX,{language};q=0.9,en;q=0.8"}
    english = await client.post("/v1/evaluations", json={"response": "x"})
    answer = await client.post("/v1/evaluations", json={"response": "x"}, headers=headers)
    assert (english.headers["content-language"], answer.headers["content-language"]) == ("en", language)
    assert english.headers["vary"] == answer.headers["vary"] == "Accept-Language"
    assert answer.json()["title"] == title
    fault = {"pointer": "/context", "code": "is-missing", "values": {}}
    assert answer.json()["errors"] == [{**fault, "detail": missing}]
    assert english.json()["errors"] == [{**fault, "detail": "is missing"}]
    assert (answer.json()["message"], answer.json()["values"]) == (english.json()["message"], english.json()["values"])
    assert (answer.json()["code"], answer.json()["type"]) == (english.json()["code"], english.json()["type"])
    assert (await client.get("/v1/evaluations/ev_1", headers=headers)).json()["detail"] == none
    for path in ("/v1/nowhere", "/v1/evaluations?limit=0", "/v1/evaluations?limit=x", "/v1/batches?cursor=x"):
        told = (await client.get(path, headers=headers)).json()
        assert not re.search("[a-z]{4} [a-z]{2}", told["title"] + told["detail"]), told
    scored = await client.post("/v1/evaluations", json=BODY, headers=headers)
    assert scored.headers["content-language"] == language
    english = (await client.post("/v1/evaluations", json=BODY)).json()
    for own, other in zip(scored.json()["warnings"], english["warnings"], strict=True):
        assert (own["message"], own["values"]) == (other["message"], other["values"])
        assert own["detail"] != other["detail"]
        assert other["detail"] == str(Message(other["message"], **other["values"]))


async def test_several_header_lines_are_one_list(client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/nowhere", headers=[("Accept-Language", "fr, ko;q=0.2"), ("Accept-Language", "ja")])
    assert answer.headers["content-language"] == "ja"


async def test_a_badge_is_told_in_the_language_of_who_asks(client: httpx.AsyncClient, language: str) -> None:
    headers = {"Accept-Language": language}
    told = Message("not-validated").say(language)
    scored = (await client.post("/v1/evaluations", json=BODY, headers=headers)).json()
    read = [
        await client.get(f"/v1/evaluations/{scored['id']}{more}", headers=headers) for more in ("", "?include=request")
    ]
    listed = (await client.get("/v1/evaluations", headers=headers)).json()["items"]
    for found in (scored, *(each.json() for each in read), *listed):
        assert found["reliability"]["detail"] == told
    english = (await client.get(f"/v1/evaluations/{scored['id']}")).json()
    assert english["reliability"]["detail"] == "not validated against humans"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("ja;q=nan", "en"),
        ("ja;q=inf", "en"),
        ("ja;q=-1, ko;q=0.001", "ko"),
        ("ja;q=1e9", "en"),
        ("ja;q=1_0", "en"),
        ("ja;q=0.1234", "en"),
        ("ja;q=１", "en"),
        ("ja;q=0.9;q=0.1", "en"),
        ("ja;level=1, ko", "ko"),
        ("Ja ; Q=0.5", "ja"),
        ("ja" + "-a" * 100, "en"),
        (", " * 100 + "ja", "en"),
        ("jajajajaja,,;=;q", "en"),
    ],
)
def test_a_header_is_read_as_the_standard_says(header: str, expected: str) -> None:
    assert negotiate(header) == expected


@pytest.mark.parametrize("header", ["ja," * 34_000, "ja;q=" + "0" * 100_000, "-" * 100_000 + "ja"])
async def test_a_huge_header_is_refused(client: httpx.AsyncClient, header: str) -> None:
    answer = await client.get("/v1/nowhere", headers={"Accept-Language": header})
    assert (answer.status_code, answer.json()["code"]) == (431, "headers-too-large")


@pytest.mark.parametrize("language", TRANSLATED)
def test_why_a_link_or_a_corrected_figure_is_refused_is_said_in_the_language(language: str) -> None:
    equal = np.full(30, 3.0)
    uneven = np.where(np.arange(30) == 0, 1e9, 1.0)
    samples = [
        CorrectedSample(equal, np.tile(np.array([1.0, 2.0]), 15), np.arange(30), uneven),
        CorrectedSample(equal, equal, np.arange(30)),
        CorrectedSample(np.r_[np.ones(99), 5.0], np.r_[np.ones(14), 5.0, np.full(85, np.nan)], np.arange(100)),
    ]
    found: list[Message | str | None] = [correct(one, CorrectionOptions(bounds=(1, 5))).refused for one in samples]
    levels = np.arange(120.0) % 2 + 1
    pairs = [(levels[:20], levels[:20], 20), (levels, levels, 3), (levels, levels * 0 + 1, 120), (levels, levels, 120)]
    links = [link_judges(JudgePairs(old, new, np.arange(len(old)) % units, (1, 2, 3))) for old, new, units in pairs]
    links.append(link_judges(JudgePairs(levels, np.repeat([1.0, 2.0], 60), np.arange(120), (1, 2))))
    noise = levels * 0 + 0.01
    links.append(link_judges(JudgePairs(levels, np.repeat([1.0, 2.0], 60), np.arange(120), (1, 2), (noise, noise))))
    found += [one.reason for one, _ in links]
    for sentence in [*found, NO_SPREAD, INCOMPARABLE]:
        said = tell_one(sentence or "", language).replace("`saiten link plan`", "")
        assert not re.search("[a-y]{2}", said), (sentence, said)


def test_faults_of_settings_and_of_a_rubric_are_told_in_the_language(tmp_path: Path, language: str) -> None:
    rubric = tmp_path / "x.yaml"
    rubric.write_text("id: x\nversion: one\nlable: {a: b, a: c}\ntitle: {en: ' x'}\n", encoding="utf-8")
    found = [fault.message for fault in check_rubric(rubric)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAITEN_JUDGE_CONCURRENCY", "many")
        patch.setenv("DATABASE_URL", "mysql://x/y")
        patch.setenv("SAITEN_CACHE", "disk")
        with pytest.raises(SettingsInvalid) as refused:
            read_settings()
        unknown = find_unknown(["SAITEN_JUGDE"])
        assert unknown is not None
        found += [refused.value.message, unknown]
    assert len(found) > 6
    for text in found:
        told = text.say(language)
        plain = re.sub(r"'[^']*'|[A-Z_]{4,}|\(is .* meant.\)|sqlite\S*|postgresql\S*|label", "", told)
        assert not re.search("[a-z]{3,} [a-z]{2,}", plain), (text, told)


def test_analyses_say_in_the_readers_language_why_figures_are_missing(language: str) -> None:
    """Of one system, of one rater, and of values that do not vary."""
    seen = observe([("bot", f"i{number}", {"warmth": 3.0, "depth": 1.0 + number % 3}) for number in range(4)])
    reports = (find_hierarchy(seen), measure_agreement(seen))
    told = [report.model_dump(mode="json", context={LANGUAGE: language}) for report in reports]
    reasons = [*told[0]["undefined"].values()]
    for found in (one for each in told for one in each["aspects"].values()):
        reasons += found["undefined"].values()
    assert len(reasons) > 4
    left = [reason for reason in reasons if re.search("[a-z]{3,} [a-z]{3,}", str(reason))]
    assert left == []

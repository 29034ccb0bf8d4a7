"""Every word of the dashboard is there in Japanese and Korean, and says the same placeholders."""

import re
from io import BytesIO
from pathlib import Path

import pytest
from babel.messages.pofile import read_po

from saiten_server.platform.web.language import TERMS, catalogs_of, translations_of
from tests.support.catalogs import list_messages

ROOT = Path(__file__).parents[3]
PLACEHOLDER = re.compile(r"%\((\w+)\)[sd]|%[sd]|<[a-z/]+[^>]*>")
TRANSLATED = ["ja", "ko"]


@pytest.mark.parametrize("language", TRANSLATED)
def test_every_message_is_translated(language):
    translations = translations_of(language)
    known = {message.id for catalog in catalogs_of(language).values() for message in catalog if message.string}
    missing = {message: file for message, file in list_messages().items() if message not in known}
    assert missing == {}
    assert translations.gettext("Runs") != "Runs"


@pytest.mark.parametrize("language", TRANSLATED)
def test_no_translation_is_of_what_nobody_says(language):
    said = set(list_messages())
    left = {
        area: [message.id for message in catalog if message.id and message.id not in said]
        for area, catalog in catalogs_of(language).items()
    }
    assert {area: messages for area, messages in left.items() if messages} == {}


@pytest.mark.parametrize("language", TRANSLATED)
def test_one_message_has_one_translation(language):
    seen: dict[object, tuple[str, object]] = {}
    for area, catalog in catalogs_of(language).items():
        for message in catalog:
            if message.id:
                before = seen.setdefault(message.id, (area, message.string))
                assert before[1] == message.string, f"{message.id!r} in {before[0]} and {area}"


@pytest.mark.parametrize("language", TRANSLATED)
def test_placeholders_and_marks_are_kept(language):
    for area, catalog in catalogs_of(language).items():
        for message in catalog:
            if not message.id:
                continue
            originals = [message.id] if isinstance(message.id, str) else [message.id[-1]]
            strings = [message.string] if isinstance(message.string, str) else [*(message.string or ())]
            for string in strings:
                wanted = sorted(found.group() for found in PLACEHOLDER.finditer(originals[0]))
                got = sorted(found.group() for found in PLACEHOLDER.finditer(string))
                assert got == wanted, f"{area}: {string}"


@pytest.mark.parametrize("language", TRANSLATED)
def test_no_translation_is_fuzzy(language):
    assert [m.id for c in catalogs_of(language).values() for m in c if m.id and m.fuzzy] == []


OTHER_WORDS = {
    "ja": (
        "側面",
        "評価項目",
        "審査モデル",
        "判定モデルの評価",
        "判定モデルが評価",
        "判定モデルは対話全体を評価",
        "ベースライン",
        "言語パス",
        "言語経路",
        "差は示されず",
        "相関示されず",
        "未照合",
        "提供元",
        "順不同",
        "出どころを伏せ",
        "使えない指摘",
    ),
    "ko": (
        "측면",
        "관점",
        "판정 모델",
        "평정",
        "심사 모델의 평가",
        "심사 모델이 평가",
        "심사 모델은 대화 전체를 평가",
        "기준선",
        "베이스라인",
        "평가하기",
        "미대조",
        "미통과",
        "맥락",
        "되풀이",
        "견적",
        "언어 경로",
        "출처를 가린",
        "섞인 순서",
    ),
}
"""Words for what docs/languages.md has another word for."""

SCORERS = {"ja": "採点者", "ko": "채점자"}
"""Not raters: what analyses compare with them."""


@pytest.mark.parametrize("language", TRANSLATED)
def test_catalogues_use_the_words_of_the_glossary(language):
    files = [path for folder in ("app", "client") for path in (ROOT / folder).rglob("*.po")]
    own = [path for path in files if language in {*path.parts, *path.stem.split(".")}]
    assert len(own) > 10
    found = [
        (path.name, word, message.id)
        for path in own
        for message in read_po(BytesIO(path.read_bytes()), locale=language)
        for word in (*OTHER_WORDS[language], *([SCORERS[language]] if "dashboard" in path.parts else []))
        if message.id and word in str(message.string).replace("\n", " ")
    ]
    assert found == []


def test_pages_have_a_name_for_every_warning():
    page = (Path(__file__).parents[3] / "docs" / "scores.md").read_text(encoding="utf-8")
    rows = page.split("## Warnings\n")[1].split("\n## ")[0].split("|---|---|\n")[1].splitlines()
    codes = {code for row in rows for code in re.findall(r"`([a-z-]+)`", row.split(" | ")[0])}
    assert len(codes) >= 10
    assert codes - TERMS["warning"].keys() == set()

"""Messages as values, and their catalogues."""

import pickle
import string

import pytest

from saiten.core import messages
from saiten.core.messages import LANGUAGES, Message, read_catalogues, rebuild

TEMPLATES = {
    "outer": {"en": "gate: {why} ({most:,})", "ja": "判定: {why}（{most:,}）", "ko": "판정: {why}({most:,})"},
    "inner": {"en": "no {what}", "ja": "{what} なし", "ko": "{what} 없음"},
}


@pytest.fixture
def own_templates(monkeypatch):
    monkeypatch.setattr(messages, "read_catalogues", lambda: TEMPLATES)


@pytest.mark.usefixtures("own_templates")
class TestMessage:
    def test_a_value_may_be_a_message_or_several(self):
        clauses = [Message("inner", what="a{b}"), Message("inner", what="c")]
        said = Message("outer", why=clauses, most=1000)
        assert str(said) == "gate: no a{b}; no c (1,000)"
        assert said.say("ja") == "判定: a{b} なし、c なし（1,000）"

    def test_it_is_read_again_from_json_and_pickles(self):
        said = Message("outer", why=Message("inner", what="x"), most=2)
        assert rebuild(said.id, said.as_json()) == said
        assert pickle.loads(pickle.dumps(said)) == said


@pytest.mark.parametrize(
    ("language", "said", "joined"),
    [
        ("en", ["5 of 5", "all must be there", "so"], "5 of 5; all must be there; so"),
        ("ja", ["5 件（100%）", "見つかります（以上）", "区間 1〜2"], "5 件（100%）、見つかります（以上）。区間 1〜2"),
        ("ja", ["対話が分かりません", "項目が単位です"], "対話が分かりません。項目が単位です"),
        ("ko", ["5건(100%)", "찾아냅니다(이상)", "구간 1~2"], "5건(100%), 찾아냅니다(이상). 구간 1~2"),
        ("ko", ["하나"], "하나"),
    ],
)
def test_several_in_a_row_are_parted_as_their_language_does(language, said, joined):
    assert messages.join_messages(said, language) == joined


def test_every_message_has_all_languages_and_the_same_values():
    for name, templates in read_catalogues().items():
        assert set(templates) == set(LANGUAGES), name
        named = {
            language: {field for _, field, _, _ in string.Formatter().parse(text) if field is not None}
            for language, text in templates.items()
        }
        assert named["en"] == named["ja"] == named["ko"], name

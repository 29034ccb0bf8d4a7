"""The environment: every mistake is one line that names the variable and says what to do."""

from __future__ import annotations

import pytest

from app.domain.errors import SettingsInvalid
from app.settings import Settings, read_settings, variable_of


def test_nothing_set_is_the_embedded_service() -> None:
    settings = read_settings()
    assert settings.judge_kind == "lexical"
    assert settings.sqlalchemy_url == "sqlite+aiosqlite:///saiten.db"
    assert settings.model == "gpt-6-luna"


def test_a_key_chooses_openai_and_a_blank_one_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    assert read_settings().judge_kind == "openai"
    monkeypatch.setenv("OPENAI_API_KEY", " ")
    assert read_settings().judge_kind == "lexical"


def test_lexical_may_be_chosen_although_there_is_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.setenv("SAITEN_JUDGE", "lexical")
    assert read_settings().judge_kind == "lexical"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("postgresql://u@h/d", "postgresql+asyncpg://u@h/d"),
        ("postgres://u@h/d", "postgresql+asyncpg://u@h/d"),
        ("postgresql+asyncpg://u@h/d", "postgresql+asyncpg://u@h/d"),
        ("sqlite:///f.db", "sqlite+aiosqlite:///f.db"),
    ],
)
def test_plain_database_urls_are_taken(monkeypatch: pytest.MonkeyPatch, given: str, expected: str) -> None:
    monkeypatch.setenv("DATABASE_URL", given)
    assert read_settings().sqlalchemy_url == expected


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("SAITEN_JUDGE", "openai", "SAITEN_JUDGE=openai needs OPENAI_API_KEY"),
        ("SAITEN_JUDGE", "gpt", "SAITEN_JUDGE: "),
        ("SAITEN_JUDGE_ATTEMPTS", "0", "SAITEN_JUDGE_ATTEMPTS: "),
        ("SAITEN_JUDGE_TIMEOUT_SECONDS", "soon", "SAITEN_JUDGE_TIMEOUT_SECONDS: "),
        ("SAITEN_LIMITS__SAMPLES", "-1", "SAITEN_LIMITS__SAMPLES: "),
        ("SAITEN_LIMITS", "secret", "SAITEN_LIMITS must be"),
        ("SAITEN_ENCODER_LAYER", "9", "name it in SAITEN_ENCODER"),
        ("SAITEN_ENCODER_PRECISION", "int8", "SAITEN_ENCODER_PRECISION: "),
        ("DATABASE_URL", "mysql://u:secret@h/d", "DATABASE_URL must be"),
    ],
)
def test_a_mistake_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsInvalid) as caught:
        read_settings()
    assert words in caught.value.detail
    assert "\n" not in caught.value.detail
    assert "secret" not in caught.value.detail


def test_limits_may_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAITEN_LIMITS__TEXT_CHARACTERS", "100")
    assert read_settings().limits.text_characters == 100


def test_keys_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("DEEPL_API_KEY", "deepl-secret")
    assert "secret" not in repr(read_settings())


def test_every_setting_says_what_it_means() -> None:
    for name, field in Settings.model_fields.items():
        assert field.description, variable_of(name)

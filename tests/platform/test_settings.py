"""The environment: every mistake is one line that names the variable and says what to do."""

import pytest

from saiten_server.core.errors import SettingsInvalid
from saiten_server.platform.settings import Settings, find_unknown, read_settings, variable_of


def test_nothing_set_is_the_embedded_service() -> None:
    settings = read_settings()
    assert settings.sqlalchemy_url == "sqlite+aiosqlite:///saiten.db"
    assert settings.judge_model == "gpt-6-luna"


def test_unknown_variables_are_named_with_what_was_meant() -> None:
    told = str(find_unknown(["SAITEN_MODLE", "SAITEN_ENCODR", "SAITEN_XYZZY", "PATH"]))
    assert "SAITEN_MODLE (is SAITEN_MODEL meant?)" in told
    assert "SAITEN_ENCODR (is SAITEN_ENCODER meant?)" in told
    assert told.endswith("SAITEN_XYZZY")


def test_of_many_unknown_variables_a_few_are_named() -> None:
    told = str(find_unknown([f"SAITEN_{'A' * 1000}{number}" for number in range(1000)]))
    assert told.endswith("and 995 more")
    assert len(told) < 1000


@pytest.mark.parametrize(
    "name",
    [
        "SAITEN_MODEL",
        "saiten_model",
        "SAITEN_LIMITS__SAMPLES",
        "SAITEN_TEST_POSTGRES_URL",
        "SAITEN_URL",
        "SAITEN_API_KEY",
        "SAITEN_SERVICE_HOST",
        "SAITEN_SERVICE_PORT_HTTP",
        "SAITEN_WORKER_PORT_8000_TCP_ADDR",
        "SAITEN_PORT",
    ],
)
def test_known_variables_are_not_named(name: str) -> None:
    assert find_unknown([name]) is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("postgresql://u@h/d", "postgresql+asyncpg://u@h/d"),
        ("postgres://u@h/d", "postgresql+asyncpg://u@h/d"),
        ("postgresql+asyncpg://u@h/d", "postgresql+asyncpg://u@h/d"),
        ("sqlite:///f.db", "sqlite+aiosqlite:///f.db"),
        (
            "postgresql://u:p@a:5433,b/d?ssl=require",
            "postgresql+asyncpg://u:p@/d?host=a:5433&host=b:5432&ssl=require&target_session_attrs=read-write",
        ),
        (
            "postgresql://u@a,b/d?target_session_attrs=any",
            "postgresql+asyncpg://u@/d?host=a:5432&host=b:5432&target_session_attrs=any",
        ),
    ],
)
def test_plain_database_urls_are_taken(monkeypatch: pytest.MonkeyPatch, given: str, expected: str) -> None:
    monkeypatch.setenv("DATABASE_URL", given)
    assert read_settings().sqlalchemy_url == expected


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("SAITEN_JUDGE_ATTEMPTS", "0", "SAITEN_JUDGE_ATTEMPTS: "),
        ("SAITEN_JUDGE_TIMEOUT_SECONDS", "soon", "SAITEN_JUDGE_TIMEOUT_SECONDS: "),
        ("SAITEN_LIMITS__SAMPLES", "-1", "SAITEN_LIMITS__SAMPLES: "),
        ("SAITEN_LIMITS", "secret", "SAITEN_LIMITS must be"),
        ("SAITEN_ENCODER_LAYER", "9", "name it in SAITEN_ENCODER"),
        ("SAITEN_ENCODER_PRECISION", "int8", "SAITEN_ENCODER_PRECISION: "),
        ("SAITEN_ALLOWED_HOSTS", "saiten.example.org,*", "give names without scheme, port or *"),
        ("REDIS_URL", "redis+sentinel://:secret@a:26379,b:26379/mymaster/0", "Sentinel and clusters are not supported"),
        ("REDIS_URL", "redis://:secret@a:6379,b:6379/0", "Sentinel and clusters are not supported"),
        ("REDIS_URL", "memcached://:secret@a", "REDIS_URL must be redis://HOST:PORT/N"),
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

"""URLs are looked at before anybody is called."""

import pytest

from saiten.core.addresses import is_http_url
from saiten_server.core.errors import SettingsInvalid
from saiten_server.platform.settings import read_settings


@pytest.mark.parametrize(
    "url",
    ["http://h", "HTTPS://h/v1", "http://127.0.0.1:65535", "http://[::1]:80/v1", "http://u:p@h?q=1", "http://日本.jp"],
)
def test_what_can_be_called_is_a_url(url: str) -> None:
    assert is_http_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "foo",
        "ftp://x",
        "http:h",
        "http://",
        "http:///v1",
        "http://[::1",
        "http://h:x",
        "http://h:0",
        "http://h:65536",
        "http://a b",
        "http://a..b",
        f"http://{'a' * 64}",
        "http://h\n",
    ],
)
def test_what_cannot_be_called_is_none(url: str) -> None:
    assert not is_http_url(url)


@pytest.mark.parametrize("name", ["OPENAI_BASE_URL", "DEEPL_SERVER_URL"])
@pytest.mark.parametrize("value", ["secret", "ftp://secret", "http://", "http://[::secret"])
def test_a_setting_that_is_no_url_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsInvalid, match=rf"^{name}: must be http://HOST… or https://HOST…") as caught:
        read_settings()
    assert "secret" not in caught.value.detail


def test_spaces_around_a_url_and_blank_ones_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", " http://h/v1\n")
    monkeypatch.setenv("DEEPL_SERVER_URL", " ")
    assert read_settings().openai_base_url == "http://h/v1"
    assert read_settings().deepl_server_url is None


@pytest.mark.parametrize("key", ["鍵", "a b", "a\nb", "a\x7f"])
def test_a_key_that_no_header_holds_is_refused_unseen(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("SAITEN_API_KEY", key)
    with pytest.raises(SettingsInvalid, match=r"^SAITEN_API_KEY: ") as caught:
        read_settings()
    assert key not in caught.value.detail

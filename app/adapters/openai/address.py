"""Where an OpenAI-compatible endpoint is, and what can be said of it and of its key before it is asked."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from app.adapters.openai.cache_marks import is_openais, takes_marks
from app.domain.errors import SettingsInvalid

OFFICIAL_URL = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True)
class Address:
    """An endpoint. `url` has no slash at its end; `kind` is `openai` for OpenAI's own service, else `compatible`;
    `openais` is True for its regions too."""

    url: str
    kind: str
    openais: bool

    def keeps_marked(self, model: str) -> bool:
        """Whether the prompt cache behind this endpoint keeps what is marked of a prompt. Others are sent no marks."""
        return self.openais and takes_marks(model)


def find_address(base_url: str | None) -> Address:
    """The endpoint at `base_url`; None is OpenAI's own."""
    url = (base_url or OFFICIAL_URL).rstrip("/")
    kind = "openai" if urlsplit(url).hostname == "api.openai.com" else "compatible"
    return Address(url, kind, is_openais(url))


def check_address(address: Address) -> Address:
    """The address. Raises SettingsInvalid where paths cannot be appended to it."""
    parts = urlsplit(address.url)
    mark = next((mark for mark in "?#" if mark in address.url), None)
    if mark is not None:
        hint = (
            "; Azure's versioned API needs no api-version: write https://RESOURCE.openai.azure.com/openai/v1/"
            if (parts.hostname or "").endswith(".azure.com") or "api-version" in parts.query
            else ""
        )
        raise SettingsInvalid(f"OPENAI_BASE_URL must end before {mark!r}: paths are appended to it{hint}")
    return address


def check_key(api_key: str) -> str:
    """The key, empty for an endpoint that asks for none. Raises SettingsInvalid where no HTTP header can carry it."""
    if not is_printable(api_key):
        raise SettingsInvalid("the judge's key holds characters that no HTTP header can carry; check OPENAI_API_KEY")
    return api_key


def is_printable(api_key: str) -> bool:
    """Whether an HTTP header can carry the key."""
    return api_key.isascii() and api_key.isprintable()

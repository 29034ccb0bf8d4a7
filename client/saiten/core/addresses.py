"""What a caller names a service by: its URL, and the key that it accepts."""

from __future__ import annotations

from saiten.core.messages import Message, Misfit


def is_http_url(written: str) -> bool:
    """Whether it is http(s)://HOST…, with a host that a resolver takes and a port from 1 to 65535."""
    import httpx  # here: a service that opens names none, and does without it

    try:
        url = httpx.URL(written)
        url.raw_host.decode("ascii").encode("idna")
    except (httpx.InvalidURL, UnicodeError):
        return False
    port_fits = url.port is None or 1 <= url.port <= 65535
    return url.scheme in {"http", "https"} and url.host != "" and "%" not in url.host and port_fits


def check_key(key: str) -> str:
    """The key of a service, which a header can hold; raises Misfit where it cannot."""
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise Misfit(Message("key-form"))
    return key

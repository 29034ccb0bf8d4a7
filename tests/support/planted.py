"""Secrets to be planted, and how each may look where it must not be."""

import base64
import json
import random
import secrets
from urllib.parse import quote, quote_plus

KANA = "あかさたなはまやらわいきしちにひみりうくすつぬふむゆる"


def make_text(length: int = 24) -> str:
    """A text that nobody else says. Japanese, so that each encoding of it looks different."""
    return "".join(random.SystemRandom().choices(KANA, k=length))


def make_key(prefix: str = "kingyo") -> str:
    """A key that nobody else has."""
    return f"{prefix}-{secrets.token_hex(12)}"


def looks_of(secret: str) -> set[bytes]:
    """The secret as it is, quoted for an address, escaped as JSON and as Python do it, and inside of base64."""
    plain = {secret, quote(secret), quote(secret, safe="").lower(), quote_plus(secret), ascii(secret)[1:-1]}
    looks = {look.encode() for look in plain} | {json.dumps(secret)[1:-1].encode()}
    # Latin-1 is how a header's bytes are read; taken for UTF-8 once more, they are written like that.
    looks.add(secret.encode().decode("latin-1").encode())
    raw = secret.encode()
    for offset, first in enumerate((0, 2, 3)):
        # What stands before shifts all that follows; both ends depend on their neighbours.
        packed = base64.b64encode(b"\0" * offset + raw)[first:-4]
        looks |= {packed, packed.replace(b"+", b"-").replace(b"/", b"_")}
    return looks


def found_in(where: bytes, planted: dict[str, str]) -> list[str]:
    """The names of those that can be seen there."""
    return [name for name, secret in planted.items() if any(look in where for look in looks_of(secret))]

"""Ids of what is stored."""

from __future__ import annotations

import secrets


def new_id(prefix: str) -> str:
    """An id that cannot be guessed."""
    return prefix + secrets.token_hex(12)

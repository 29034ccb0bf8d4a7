"""Tells a provider's prompt cache where the fixed part of a prompt ends.

OpenAI's models before GPT-5.6 keep every long enough beginning of a prompt by themselves, at no charge. From GPT-5.6 on
a beginning is kept where it is marked, and writing it costs a quarter more than reading it fresh; without marks the
mark is set at the end of the whole prompt, which no other dialogue shares: every prompt would be written and none
found. (OpenAI, guide "Prompt caching", read in November 2026.) A mark changes nothing of what the judge reads, so it is
in no digest, no cache key and no signature.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

HOST = "api.openai.com"
"""Regions have theirs below it: `jp.api.openai.com`."""
VERSION = re.compile(r"gpt-(\d{1,3})(?:\.(\d{1,3}))?(?![\d.])")
FIRST_MARKED = (5, 6)
"""GPT-5.6: the first family that takes marks."""

MARKS = "prompt_cache_options"
"""Stands for all of them among the parameters that an endpoint was found to refuse."""
FAMILY = "prompt_cache"
"""What the names of all of them begin with."""
KEY_DIGITS = 32


def is_openais(url: str) -> bool:
    """Whether that is OpenAI's own service. What only resembles it need not know the marks."""
    host = urlsplit(url).hostname or ""
    return host == HOST or host.endswith("." + HOST)


def takes_marks(model: str) -> bool:
    """Whether a model of OpenAI's own service, by its name, keeps what is marked and nothing else."""
    version = VERSION.match(model)
    return version is not None and (int(version[1]), int(version[2] or 0)) >= FIRST_MARKED


def mark_prefix(body: dict[str, Any], prefix_digest: str) -> dict[str, Any]:
    """The body with its first message, which is fixed, marked as the end of what is to be kept.

    Requests with the same `prompt_cache_key` go to the same cache; it is the digest of the fixed part, hence of no
    dialogue.
    """
    first, *rest = body["messages"]
    text = {"type": "text", "text": first["content"], "prompt_cache_breakpoint": {"mode": "explicit"}}
    return body | {
        "messages": [first | {"content": [text]}, *rest],
        "prompt_cache_key": f"saiten-{prefix_digest[:KEY_DIGITS]}",
        MARKS: {"mode": "explicit"},
    }


def is_about_marks(body: dict[str, Any], message: str, param: str | None) -> bool:
    """Whether an HTTP 400 about `body` is about its marks."""
    return MARKS in body and FAMILY in f"{param or ''} {message}"

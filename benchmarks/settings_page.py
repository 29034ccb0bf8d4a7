"""Writes docs/settings.md from the settings' own definitions: `python -m benchmarks.settings_page`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from saiten_server.core.dialogue import Limits
from saiten_server.platform.settings import Settings, variable_of

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"
HEAD = """# Settings

All settings are environment variables, read once at start. A value that does not fit is one
line that names its variable. A `SAITEN_` name that is not listed here is ignored, and said once at start.
This page is written by `benchmarks/settings_page.py`; a test holds it to the code.

| variable | default | meaning |
|---|---|---|
"""
TAIL = """
The tests read `SAITEN_TEST_POSTGRES_URL` (a PostgreSQL in which databases may be made),
`SAITEN_TEST_REDIS_URL` (a Redis whose database may be emptied) and `SAITEN_TEST_REQUIRE_SERVICES`.
"""


def show(default: Any) -> str:
    """A default as one would write it in a shell; nothing for none."""
    if default is None:
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def render() -> str:
    """The whole page."""
    rows = [
        f"| `{variable_of(name)}` | {show(field.default)} | {field.description} |"
        for name, field in Settings.model_fields.items()
        if name != "limits"
    ]
    rows += [
        f"| `SAITEN_LIMITS__{name.upper()}` | {show(field.default)} | {field.description} |"
        for name, field in Limits.model_fields.items()
    ]
    return HEAD + "\n".join(rows) + "\n" + TAIL


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")

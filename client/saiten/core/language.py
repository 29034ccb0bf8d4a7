"""The language of the command's messages and help, from the catalogues in `locales/`.

The library speaks English; only the command calls `use_language`.
"""

from __future__ import annotations

import gettext
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from saiten.core.messages import DEFAULT_LANGUAGE, LANGUAGES, Message
from saiten.core.wording import find_near

DOMAIN = "saiten"
LOCALES = Path(__file__).parent.parent / "locales"
VARIABLES = ("SAITEN_LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
"""The first that says something decides."""

current: gettext.NullTranslations = gettext.NullTranslations()
language = DEFAULT_LANGUAGE


def find_language(environment: Mapping[str, str]) -> str:
    """The language that the environment asks for: `ja` for `ja_JP.UTF-8`; English for any that there is not."""
    wanted = next((value for name in VARIABLES if (value := environment.get(name, "").strip())), DEFAULT_LANGUAGE)
    name = wanted.replace("-", "_").partition(".")[0].partition("_")[0].lower()
    return name if name in LANGUAGES else DEFAULT_LANGUAGE


def use_language(chosen: str, more: tuple[str, Path] | None = None) -> None:
    """Makes it the language of this process's messages, those of click among them; `more` names a further catalogue,
    by its domain and folder, for what has messages of its own."""
    global current, language  # noqa: PLW0603 - as in gettext, the language is the process's
    language = chosen
    current = gettext.translation(DOMAIN, LOCALES, [chosen], fallback=True)
    if more is not None:
        own = gettext.translation(*more, [chosen], fallback=True)
        own.add_fallback(current)
        current = own
    # click asks gettext's own domain, and that asks the environment.
    os.environ["LANGUAGE"] = chosen
    gettext.bindtextdomain(DOMAIN, str(LOCALES))
    gettext.textdomain(DOMAIN)


def tell(message: str, /, **values: Any) -> str:
    """The message in the process's language, with its values in the places that it names."""
    told = current.gettext(message) if message else ""
    return told.format(**values) if values else told


def say(message: Message) -> str:
    """The message in the process's language."""
    return message.say(language)


def tell_all(*messages: str) -> tuple[str, ...]:
    """Each of the messages in the process's language, as the heads of a table."""
    return tuple(map(tell, messages))


def suggest(name: str, known: Iterable[str]) -> str:
    """A question with the nearest known name; empty if none is near."""
    near = find_near(name, known)
    return tell("; did you mean {name!r}?", name=near) if near else ""


def tell_items(count: int) -> str:
    """`3 items`, `1 item`."""
    return tell("{count:,} item", count=count) if count == 1 else tell("{count:,} items", count=count)


def mark(message: str) -> str:
    """Marks a message where it stands; `tell` translates it where it is shown."""
    return message

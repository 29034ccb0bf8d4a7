"""The bot that a command asks: its options, and what is opened by them."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click

from saiten.bots import REPLY, RETRIES, TEMPLATE, BotUnusable, HttpBot, ProcessBot
from saiten.commands.files import InvalidItems
from saiten.core.addresses import is_http_url
from saiten.core.language import tell
from saiten.core.plain_text import printable

HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)=(?:([A-Za-z]+) )?([A-Za-z_][A-Za-z0-9_]*)")
LANES = 8
"""Calls of a URL at once; of a command there is one process."""

BOT = click.option("--bot", required=True, metavar="URL|COMMAND", help="http://…, or a command that answers lines.")


@dataclass(frozen=True)
class BotOptions:
    """A bot as the options describe it."""

    bot: str
    template: str | None = None
    reply: str = REPLY
    headers: Sequence[str] = ()
    plain: bool = False
    concurrency: int | None = None
    timeout: float = 60.0
    retries: int = RETRIES

    @property
    def lanes(self) -> int:
        """How much is asked of it at once."""
        return self.concurrency or (LANES if is_http_url(self.bot) else 1)

    def open(self) -> HttpBot | ProcessBot:
        """The bot. Raises InvalidItems and UsageError."""
        try:
            template = read_template(self.template)
            if is_http_url(self.bot):
                if self.plain:
                    raise click.UsageError(tell("--plain goes with a command"))
                return HttpBot(
                    self.bot,
                    template=template,
                    reply=self.reply,
                    headers=dict(map(parse_header, self.headers)),
                    timeout_seconds=self.timeout,
                    retries=self.retries,
                    concurrency=self.lanes,
                )
            if self.headers:
                raise click.UsageError(tell("--header goes with a URL"))
            return ProcessBot(
                self.bot, template=template, reply=self.reply, plain=self.plain, timeout_seconds=self.timeout
            )
        except BotUnusable as error:
            raise InvalidItems(error.detail) from None


def bot_options(at_once: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options `--template` to `--retries`, which reach the command with that of `BOT` as `bot`, its BotOptions.
    `at_once` is the help of `--concurrency`."""
    options = (
        click.option(
            "--template", metavar="JSON|@FILE", help="What the bot is sent, with placeholders such as {{last}}."
        ),
        click.option(
            "--reply", default=REPLY, show_default=True, metavar="PATH", help="Where the reply is: data.0.text"
        ),
        click.option(
            "--header",
            "headers",
            multiple=True,
            metavar="NAME=[SCHEME ]VARIABLE",
            help="A header whose value is that of an environment variable, as in 'Authorization=Bearer BOT_TOKEN'.",
        ),
        click.option("--plain", is_flag=True, help="The command reads and writes lines of text, not of JSON."),
        click.option("--concurrency", type=click.IntRange(1, 256), help=at_once),
        click.option(
            "--timeout", default=60.0, show_default=True, type=click.FloatRange(0.001, 86400), help="Seconds a call."
        ),
        click.option(
            "--retries", default=RETRIES, show_default=True, type=click.IntRange(0, 20), help="Of HTTP calls."
        ),
    )

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def ask(*args: Any, **values: Any) -> Any:
            described = {field.name: values.pop(field.name) for field in fields(BotOptions)}
            return command(*args, bot=BotOptions(**described), **values)

        decorated: Callable[..., Any] = ask
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


def read_template(written: str | None) -> Any:
    """The JSON of `--template`, or of the file that it names after an `@`."""
    if written is None:
        return TEMPLATE
    try:
        text = Path(written[1:]).read_text(encoding="utf-8") if written.startswith("@") else written
        return json.loads(text)
    except OSError as error:
        raise InvalidItems(f"--template: {written[1:]}: {tell(error.strerror or '')}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidItems(printable(tell("--template is not JSON: {error}", error=error))) from None


def parse_header(written: str) -> tuple[str, str]:
    """Name and value of `Authorization=Bearer BOT_TOKEN`, where BOT_TOKEN is an environment variable."""
    found = HEADER.fullmatch(written)
    if found is None:
        raise click.UsageError(
            tell("--header: write NAME=VARIABLE or 'NAME=SCHEME VARIABLE'; the variable holds the value")
        )
    name, scheme, variable = found.groups()
    value = os.environ.get(variable, "").strip()
    if not value:
        raise click.UsageError(
            tell("--header {name}: the environment variable {variable} is not set", name=name, variable=variable)
        )
    if not (value.isascii() and value.isprintable()):
        raise click.UsageError(
            tell(
                "--header {name}: {variable} holds what a header cannot: printable ASCII only",
                name=name,
                variable=variable,
            )
        )
    return name, f"{scheme} {value}" if scheme else value

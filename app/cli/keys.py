"""`saiten keys`: who may call."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

import click

from app.cli.output import console
from app.cli.process import cli_actor
from app.domain.errors import NotFound
from app.domain.governance import APIKey, Scope
from app.runtime.settings import read_settings
from app.storage.sql.engine import open_engine
from app.storage.sql.keys import APIKeyStore
from app.storage.sql.schema import migrate

DEFAULT = math.inf
"""What the word `default` is read as: the key has no limit of its own."""

MOST_REQUESTS = 100_000
"""A minute. Each is an entry in Redis."""


class LimitType(click.ParamType[float]):
    """A number above 0, whole where `whole`, up to `most`; or `default`."""

    name = "number|default"

    def __init__(self, *, whole: bool, most: float) -> None:
        self._whole = whole
        self._most = most

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; `DEFAULT` for the word. Raises BadParameter."""
        if value in {"default", DEFAULT}:
            return DEFAULT
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not 0 < number <= self._most or (self._whole and not number.is_integer()):
            kind = "a whole number" if self._whole else "a number"
            self.fail(f"{value!r} is not {kind} above 0 and up to {self._most:,.0f}, nor `default`", param, ctx)
        return number


requests_option = click.option(
    "--requests-per-minute",
    type=LimitType(whole=True, most=MOST_REQUESTS),
    help="Requests within 60 seconds; `default`: as SAITEN_KEY_REQUESTS_PER_MINUTE says.",
)
usd_option = click.option(
    "--usd-per-day",
    type=LimitType(whole=False, most=1_000_000),
    help="What it may cost a day (UTC); `default`: as SAITEN_KEY_USD_PER_DAY says.",
)


def read_requests(given: float | None) -> int | None:
    """The key's own limit of requests; None where it has none."""
    return None if given is None or given == DEFAULT else int(given)


def read_usd(given: float | None) -> float | None:
    """The key's own limit of USD; None where it has none."""
    return None if given is None or given == DEFAULT else given


Result = TypeVar("Result")


def check_label(_: click.Context, _parameter: click.Parameter, label: str) -> str:
    """A name of 1 to 64 printable characters: what a column holds and a table shows. Raises BadParameter."""
    if not 1 <= len(label) <= 64 or not label.isprintable() or label != label.strip():
        raise click.BadParameter("must be 1 to 64 printable characters, without spaces around them")
    return label


@click.group("keys")
def command() -> None:
    """Create, list, limit and revoke API keys (in DATABASE_URL)."""


def with_keyring(work: Callable[[APIKeyStore], Awaitable[Result]]) -> Result:
    """Runs `work` on the keyring of the configured database."""

    async def run() -> Result:
        engine = open_engine(read_settings().sqlalchemy_url)
        try:
            await migrate(engine)
            return await work(APIKeyStore(engine, actor=cli_actor()))
        finally:
            await engine.dispose()

    return asyncio.run(run())


@command.command("create")
@click.option("--name", default="key", callback=check_label, show_default=True, help="What it is for; shown in `list`.")
@click.option("--scope", type=click.Choice(["read", "write", "admin"]), default="write", show_default=True)
@click.option(
    "--project",
    default="default",
    callback=check_label,
    show_default=True,
    help="Projects do not see each other's scores.",
)
@requests_option
@usd_option
def create(name: str, scope: str, project: str, requests_per_minute: float | None, usd_per_day: float | None) -> None:
    """Make a key and show it, this once."""
    requests, usd = read_requests(requests_per_minute), read_usd(usd_per_day)
    made, key = with_keyring(
        lambda keyring: keyring.create(name, project, cast(Scope, scope), requests_per_minute=requests, usd_per_day=usd)
    )
    click.echo(
        f"{made.id}: scope {made.scope}, project {made.project}. It is not kept and cannot be shown again:", err=True
    )
    click.echo(key)


@command.command("list")
def show() -> None:
    """Show all keys, never their text."""
    from rich.table import Table

    keys: list[APIKey] = with_keyring(lambda keyring: keyring.list())
    table = Table("id", "name", "project", "scope", "requests/min", "USD/day", "created", "revoked")
    table.columns[0].no_wrap = True  # it is to be copied
    for key in keys:
        revoked = f"{key.revoked_at:%Y-%m-%d %H:%M}" if key.revoked_at else "-"
        requests = "-" if key.requests_per_minute is None else str(key.requests_per_minute)
        usd = "-" if key.usd_per_day is None else f"{key.usd_per_day:.6g}"
        created = f"{key.created_at:%Y-%m-%d %H:%M}"
        table.add_row(key.id, key.name, key.project, key.scope, requests, usd, created, revoked)
    console().print(table if keys else "no keys: the service answers on loopback only")


@command.command("limit")
@click.argument("key_id")
@requests_option
@usd_option
def limit(key_id: str, requests_per_minute: float | None, usd_per_day: float | None) -> None:
    """Change what a key may ask for and cost; what is not named stays. Holds at once, on every replica."""
    if requests_per_minute is None and usd_per_day is None:
        raise click.UsageError("name --requests-per-minute, --usd-per-day or both")

    async def change(keyring: APIKeyStore) -> bool:
        key = next((key for key in await keyring.list() if key.id == key_id), None)
        if key is None:
            return False
        requests = key.requests_per_minute if requests_per_minute is None else read_requests(requests_per_minute)
        usd = key.usd_per_day if usd_per_day is None else read_usd(usd_per_day)
        return await keyring.limit(key_id, requests_per_minute=requests, usd_per_day=usd)

    if not with_keyring(change):
        raise NotFound(f"there is no good key {key_id}; see `saiten keys list`")
    click.echo(f"{key_id} has its limits", err=True)


@command.command("revoke")
@click.argument("key_id")
def revoke(key_id: str) -> None:
    """Make a key useless, on every replica at once."""
    if not with_keyring(lambda keyring: keyring.revoke(key_id)):
        raise NotFound(f"there is no good key {key_id}; see `saiten keys list`")
    click.echo(f"{key_id} is revoked", err=True)

"""`saiten keys`: who may call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

import click

from app.adapters.sql.engine import migrate, open_engine
from app.adapters.sql.keys import SQLKeyring
from app.cli.output import console
from app.domain.errors import NotFound
from app.ports import APIKey, Keyring, Scope
from app.settings import read_settings

Result = TypeVar("Result")


def check_label(_: click.Context, _parameter: click.Parameter, label: str) -> str:
    """A name of 1 to 64 printable characters: what a column holds and a table shows. Raises BadParameter."""
    if not 1 <= len(label) <= 64 or not label.isprintable() or label != label.strip():
        raise click.BadParameter("must be 1 to 64 printable characters, without spaces around them")
    return label


@click.group("keys")
def command() -> None:
    """Create, list and revoke API keys (in DATABASE_URL)."""


def with_keyring(work: Callable[[Keyring], Awaitable[Result]]) -> Result:
    """Runs `work` on the keyring of the configured database."""

    async def run() -> Result:
        engine = open_engine(read_settings().sqlalchemy_url)
        try:
            await migrate(engine)
            return await work(SQLKeyring(engine))
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
def create(name: str, scope: str, project: str) -> None:
    """Make a key and show it, this once."""
    made, key = with_keyring(lambda keyring: keyring.create(name, project, cast(Scope, scope)))
    click.echo(
        f"{made.id}: scope {made.scope}, project {made.project}. It is not kept and cannot be shown again:", err=True
    )
    click.echo(key)


@command.command("list")
def show() -> None:
    """Show all keys, never their text."""
    from rich.table import Table

    keys: list[APIKey] = with_keyring(lambda keyring: keyring.list())
    table = Table("id", "name", "project", "scope", "created", "revoked")
    for key in keys:
        revoked = f"{key.revoked_at:%Y-%m-%d %H:%M}" if key.revoked_at else "-"
        table.add_row(key.id, key.name, key.project, key.scope, f"{key.created_at:%Y-%m-%d %H:%M}", revoked)
    console().print(table if keys else "no keys: the service answers on loopback only")


@command.command("revoke")
@click.argument("key_id")
def revoke(key_id: str) -> None:
    """Make a key useless, on every replica at once."""
    if not with_keyring(lambda keyring: keyring.revoke(key_id)):
        raise NotFound(f"there is no good key {key_id}; see `saiten keys list`")
    click.echo(f"{key_id} is revoked", err=True)

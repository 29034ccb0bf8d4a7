"""The service that a command calls: a running one, or a private one that lives as long as the command."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import click

from saiten.commands.files import InvalidItems
from saiten.connection import JSON, READ_SECONDS, Connection, Object
from saiten.core.addresses import check_key, is_http_url
from saiten.core.errors import ServiceRefused, ServiceUnreachable
from saiten.core.language import mark, tell
from saiten.items import write_json
from saiten.private import Address, private_service
from saiten.waiting import read_object

KEY_VARIABLE = "SAITEN_API_KEY"

NO_JUDGE = {
    "SAITEN_JUDGE": "lexical",
    "SAITEN_ENCODER": "off",
    "SAITEN_MODEL": None,
    "OPENAI_BASE_URL": None,
    "OPENAI_API_KEY": None,
}
"""The environment of a private service for a command that judges nothing, whatever the settings say of the judge."""

LEXICAL = mark("judge: lexical, a baseline and a smoke test; set OPENAI_API_KEY for an LLM judge")

URL = click.option(
    "--url", envvar="SAITEN_URL", metavar="URL", help="Use a running service (or SAITEN_URL; key from SAITEN_API_KEY)."
)


@asynccontextmanager
async def open_service(
    url: str | None,
    environment: Mapping[str, str | None] | None = None,
    *,
    quiet: bool = False,
    remarks: bool = True,
) -> AsyncIterator[Connection]:
    """A connection to the service at `url`, with the key of SAITEN_API_KEY; without `url` of a private one.

    A private service runs with `environment` over this process's own; `quiet` hides its log. Its `remarks` on its
    settings are printed on standard error. Raises SaitenError where there is no service.
    """
    async with AsyncExitStack() as stack:
        if url is None:
            address, read_seconds = stack.enter_context(private_service(environment, quiet=quiet)), None
            for remark in address.remarks if remarks else ():
                click.echo(f"saiten: {remark}", err=True)
        else:
            address, read_seconds = locate(url), READ_SECONDS
        client = Connection(address.url, api_key=address.api_key, read_seconds=read_seconds)
        await stack.enter_async_context(client)
        if url is not None:
            await client.greet()
        try:
            yield client
        except (ServiceRefused, InvalidItems) as error:
            # A command may say in its own words what the service refused.
            refused = error if isinstance(error, ServiceRefused) else error.__context__
            if url is None and isinstance(refused, ServiceRefused) and refused.status == 404:
                tell_database()
            raise


def tell_database() -> None:
    """Says on standard error where a private service looked for what is not there, if nothing named the database."""
    if not os.environ.get("DATABASE_URL"):
        named = tell("looked in saiten.db of this folder: name another database in DATABASE_URL, or a service by --url")
        click.echo(f"saiten: {named}", err=True)


async def send(method: str, path: str, url: str | None, body: Mapping[str, Any] | None = None) -> Object:
    """The service's answer to one request that needs no judge; empty to DELETE. Raises InvalidItems for what the
    service refuses, and SaitenError."""
    async with open_service(url, NO_JUDGE) as service:
        content = {} if body is None else {"content": write_json(body), "headers": {"Content-Type": JSON}}
        try:
            answer = await service.request(method, path, again=method != "DELETE", **content)
        except ServiceRefused as error:
            if error.status == 422:
                raise InvalidItems(error.detail) from None
            raise
        return {} if method == "DELETE" else read_object(answer)


def locate(url: str) -> Address:
    """The address of a running service, with the caller's key. Raises ServiceUnreachable where either cannot be."""
    if not is_http_url(url):
        raise ServiceUnreachable(
            tell("--url {url!r} is not the URL of a service; write it like http://127.0.0.1:8000", url=url)
        )
    key = os.environ.get(KEY_VARIABLE, "")
    try:
        return Address(url, check_key(key) if key.strip() else None)
    except ValueError as error:
        raise ServiceUnreachable(f"{KEY_VARIABLE}: {error}") from None

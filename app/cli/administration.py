"""Administration of the configured database: API keys, policies, the audit log, erasure and the schema."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import click
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten.commands.output import console, print_ndjson
from saiten.core.language import tell, tell_all
from saiten.core.messages import Message
from saiten.core.plain_text import printable
from saiten_server.cli.process import TERMINATED, cli_actor, leave_on_sigterm
from saiten_server.core.access import APIKey, AuditEvent, ProjectPolicy, Scope
from saiten_server.core.errors import NotFound
from saiten_server.core.redaction import Erased
from saiten_server.governance.keys import APIKeyStore
from saiten_server.governance.policies import PolicyService, RecentPolicies
from saiten_server.governance.store import AuditLog, PolicyStore
from saiten_server.platform.settings import read_settings
from saiten_server.platform.sql.engine import open_engine
from saiten_server.platform.sql.schema import (
    LAST_CHAINED,
    downgrade,
    find_revision,
    is_older,
    known_revisions,
    migrate,
    revisions_above,
)

T = TypeVar("T")


def with_engine(work: Callable[[AsyncEngine], Awaitable[T]], *, migrated: bool = True) -> T:
    """Runs `work` on the configured database, brought up to date before it where it is to be `migrated`."""

    async def run() -> T:
        engine = open_engine(read_settings().sqlalchemy_url)
        try:
            if migrated:
                await migrate(engine)
            return await work(engine)
        finally:
            await engine.dispose()

    return asyncio.run(run())


def check_label(_: click.Context, _parameter: click.Parameter, label: str) -> str:
    """The name, of 1 to 64 printable characters. Raises BadParameter."""
    if not 1 <= len(label) <= 64 or not label.isprintable() or label != label.strip():
        raise click.BadParameter(tell("must be 1 to 64 printable characters, without spaces around them"))
    return label


POLL_SECONDS = 2.0
USE_DEFAULT = math.inf  # the value of the word `default`: the key uses the limit of the settings
MOST_REQUESTS = 100_000  # Per minute. Each request is an entry in Redis.


class LimitType(click.ParamType[float]):
    """A number above 0, whole where `whole`, up to `most`; or `default`."""

    name = "number|default"

    def __init__(self, *, whole: bool, most: float) -> None:
        self._whole = whole
        self._most = most

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; `USE_DEFAULT` for the word. Raises BadParameter."""
        if value in {"default", USE_DEFAULT}:
            return USE_DEFAULT
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not 0 < number <= self._most or (self._whole and not number.is_integer()):
            kind = tell("a whole number") if self._whole else tell("a number")
            self.fail(
                tell(
                    "{value!r} is not {kind} above 0 and up to {most:,.0f}, nor `default`",
                    value=value,
                    kind=kind,
                    most=self._most,
                ),
                param,
                ctx,
            )
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


def read_limits(requests: float | None, usd: float | None) -> dict[str, Any]:
    """The key's limits of requests and of USD; None for that of the settings."""
    return {
        "requests_per_minute": None if requests is None or requests == USE_DEFAULT else int(requests),
        "usd_per_day": None if usd == USE_DEFAULT else usd,
    }


@click.group("keys")
def keys() -> None:
    """Create, list, limit and revoke API keys (in DATABASE_URL)."""


@keys.command("create")
@click.option("--name", default="key", callback=check_label, show_default=True, help="What it is for; shown in `list`.")
@click.option("--scope", type=click.Choice(["read", "write", "admin", "ingest"]), default="write", show_default=True)
@click.option(
    "--project",
    default="default",
    callback=check_label,
    show_default=True,
    help="Projects do not see each other's scores.",
)
@requests_option
@usd_option
def create_key(
    name: str, scope: str, project: str, requests_per_minute: float | None, usd_per_day: float | None
) -> None:
    """Make a key and show it once."""
    limits = read_limits(requests_per_minute, usd_per_day)
    made, key = with_engine(
        lambda engine: APIKeyStore(engine, actor=cli_actor()).create(name, project, cast(Scope, scope), **limits)
    )
    click.echo(
        tell(
            "{id}: scope {scope}, project {project}. It is not kept and cannot be shown again:",
            id=made.id,
            scope=made.scope,
            project=made.project,
        ),
        err=True,
    )
    click.echo(key)


@keys.command("wait")
def wait_for_key() -> None:
    """Wait until there is a key, which can be made meanwhile: for a container that runs before the service."""
    leave_on_sigterm(TERMINATED)

    async def wait(engine: AsyncEngine) -> None:
        store = APIKeyStore(engine)
        if not await store.any():
            click.echo(tell("there is no API key yet: run `saiten keys create` in this container"))
        while not await store.any():  # noqa: ASYNC110 (another process makes the key)
            await asyncio.sleep(POLL_SECONDS)

    with_engine(wait)


@keys.command("list")
def list_keys() -> None:
    """Show all keys, never their text."""
    from rich.table import Table

    found: list[APIKey] = with_engine(lambda engine: APIKeyStore(engine).list())
    table = Table(*tell_all("id", "name", "project", "scope", "requests/min", "USD/day", "created", "revoked"))
    table.columns[0].no_wrap = True  # it will be copied
    for key in found:
        revoked = f"{key.revoked_at:%Y-%m-%d %H:%M}" if key.revoked_at else "-"
        requests = "-" if key.requests_per_minute is None else str(key.requests_per_minute)
        usd = "-" if key.usd_per_day is None else f"{key.usd_per_day:.6g}"
        created = f"{key.created_at:%Y-%m-%d %H:%M}"
        table.add_row(key.id, key.name, key.project, key.scope, requests, usd, created, revoked)
    console().print(table if found else tell("no keys: the service answers on loopback only"))


@keys.command("limit")
@click.argument("key_id")
@requests_option
@usd_option
def limit_key(key_id: str, requests_per_minute: float | None, usd_per_day: float | None) -> None:
    """Change the limits of a key; a limit that is not named stays. Applies at once on every replica."""
    if requests_per_minute is None and usd_per_day is None:
        raise click.UsageError(tell("name --requests-per-minute, --usd-per-day or both"))

    async def change(engine: AsyncEngine) -> bool:
        store = APIKeyStore(engine, actor=cli_actor())
        key = next((key for key in await store.list() if key.id == key_id), None)
        if key is None:
            return False
        requests = key.requests_per_minute if requests_per_minute is None else requests_per_minute
        usd = key.usd_per_day if usd_per_day is None else usd_per_day
        return await store.limit(key_id, **read_limits(requests, usd))

    if not with_engine(change):
        raise NotFound(Message("no-valid-key", key_id=key_id))
    click.echo(tell("{key_id} has its limits", key_id=key_id), err=True)


@keys.command("revoke")
@click.argument("key_id")
def revoke_key(key_id: str) -> None:
    """Revoke a key, at once on every replica."""
    if not with_engine(lambda engine: APIKeyStore(engine, actor=cli_actor()).revoke(key_id)):
        raise NotFound(Message("no-valid-key", key_id=key_id))
    click.echo(tell("{key_id} is revoked", key_id=key_id), err=True)


project_option = click.option(
    "--project", default="default", callback=check_label, show_default=True, help="Whose policy."
)


@click.group("policy")
def policy() -> None:
    """Show and set a project's policy (in DATABASE_URL)."""


def open_policies(engine: AsyncEngine) -> PolicyService:
    """The policies of the database."""
    return PolicyService(
        policies=RecentPolicies(PolicyStore(engine)), audit=AuditLog(engine), now=lambda: datetime.now(UTC)
    )


@policy.command("show")
@project_option
def show_policy(project: str) -> None:
    """Print the policy as JSON."""
    found = with_engine(lambda engine: open_policies(engine).show(project))
    click.echo(json.dumps(found.model_dump()))


@policy.command("set")
@project_option
@click.option(
    "--integrity",
    type=click.Choice(["flag", "refuse", "judge-twice"]),
    help="What to do with a dialogue that looks like an attack on the judge.",
)
@click.option("--texts", type=click.Choice(["keep", "hash", "drop"]), help="What to do with old texts.")
@click.option("--after-days", type=click.FloatRange(min=0, max=36_500), help="How long texts are kept before that.")
def set_policy(project: str, **given: Any) -> None:
    """Set the named options and keep the others. Hashed or dropped texts cannot be restored."""
    named = {name: value for name, value in given.items() if value is not None}
    if not named:
        raise click.UsageError(tell("name --integrity, --texts or --after-days"))
    if math.isnan(named.get("after_days", 0.0)):
        raise click.BadParameter(tell("must be a number of days"), param_hint="--after-days")

    async def change(engine: AsyncEngine) -> ProjectPolicy:
        service = open_policies(engine)
        before = await service.show(project)
        changed = ProjectPolicy.model_validate(before.model_dump() | named)
        return await service.change(project, changed, actor=cli_actor())

    click.echo(json.dumps(with_engine(change).model_dump()))


AUDIT_PAGE = 1000


@click.command("audit")
@click.option("--project", help="Only this project's.  [default: all projects]")
@click.option("--limit", type=click.IntRange(min=1), help="So many of the newest.  [default: 50; with --json: all]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def audit(project: str | None, limit: int | None, as_json: bool) -> None:
    """Show what administrators did, newest first (in DATABASE_URL).

    Keys that were made, limited and revoked, changed policies, erasures, replaced references of the judge, and attempts
    to administer that were refused. Exit 0: shown; 3: could not run.
    """
    with_engine(lambda engine: print_events(AuditLog(engine), project, limit, as_json=as_json))


async def print_events(log: AuditLog, project: str | None, limit: int | None, *, as_json: bool) -> None:
    """Prints each event as JSON as it is read, or a table of them with times in UTC."""
    from rich.table import Table

    table = Table(*tell_all("when (UTC)", "project", "actor", "action", "target", "detail"))
    async for event in newest(log, project, limit if as_json else limit or 50):
        if as_json:
            print_ndjson(event.model_dump(mode="json"))
            continue
        detail = json.dumps(event.detail, ensure_ascii=False) if event.detail else ""
        cells = (event.project, event.actor, event.action, event.target, detail)
        table.add_row(f"{event.at:%Y-%m-%d %H:%M:%S}", *map(printable, cells))
    if not as_json:
        console().print(table if table.row_count else tell("nothing was administered yet"))


async def newest(log: AuditLog, project: str | None, limit: int | None) -> AsyncIterator[AuditEvent]:
    """The newest events, all where `limit` is None."""
    before, left = None, limit
    while left is None or left > 0:
        asked = AUDIT_PAGE if left is None else min(AUDIT_PAGE, left)
        page = await log.events(project, before=before, limit=asked)
        for event in page:
            yield event
        if len(page) < asked:
            return
        before = page[-1].number
        left = None if left is None else left - asked


def read_entries(_: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """The entries by key. Raises BadParameter."""
    entries: dict[str, str] = {}
    for one in given:
        key, separator, value = one.partition("=")
        if not separator or not key:
            raise click.BadParameter(tell("{one!r} is not KEY=VALUE", one=one[:64]))
        if entries.setdefault(key, value) != value:
            raise click.BadParameter(tell("{key!r} is given twice", key=key[:64]))
    return entries


@click.command("erase")
@click.option("--project", required=True, callback=check_label, help="Whose evaluations.")
@click.option(
    "--metadata",
    "entries",
    multiple=True,
    required=True,
    callback=read_entries,
    metavar="KEY=VALUE",
    help="What marks them; given several times, all of them together.",
)
def erase(project: str, entries: dict[str, str]) -> None:
    """Erase batches, candidates and evaluations that have these metadata, everywhere (in DATABASE_URL, and REDIS_URL).

    Prints how many there were, as JSON. This cannot be undone.
    """
    click.echo(json.dumps(asdict(asyncio.run(erase_entries(project, entries)))))


async def erase_entries(project: str, entries: dict[str, str]) -> Erased:
    """What was erased. Raises SaitenError."""
    from saiten_server.container import open_database
    from saiten_server.erasure.service import ErasureService
    from saiten_server.erasure.store import TextStore
    from saiten_server.monitors.traces.store import LiveStore
    from saiten_server.runs.store.batches import BatchStore
    from saiten_server.scoring.instruments import open_cache, open_redis

    settings = read_settings()
    async with AsyncExitStack() as stack:
        engine = await open_database(settings, stack)
        # A cache in memory belongs to the service, which finds pending erasures within seconds.
        cache = None
        if settings.cache_kind != "memory":
            cache = open_cache(settings, engine, open_redis(settings, stack))
            stack.push_async_callback(cache.close)
        service = ErasureService(
            texts=TextStore(engine),
            live=LiveStore(engine),
            batches=BatchStore(engine),
            cache=cache,
            audit=AuditLog(engine),
            now=lambda: datetime.now(UTC),
        )
        return await service.erase(project, entries, actor=cli_actor())


@click.group("database")
def database() -> None:
    """Show the schema's revision, bring it up to date, and take it back to an older one (of DATABASE_URL)."""


@database.command("show")
def show_revision() -> None:
    """Show the database's revision, and those that this version of Saiten knows. Changes nothing."""
    own = with_engine(find_revision, migrated=False)
    known = known_revisions()
    for revision in known:
        click.echo(f"{'*' if revision.number == own else ' '} {revision.number}  {revision.about}")
    if own is None:
        click.echo(tell("the database has no tables yet"))
    elif is_older(own):
        advice = tell("from an older version of Saiten; upgrade it at commit {commit} first", commit=LAST_CHAINED)
        click.echo(f"* {printable(own)}  {advice}")
    elif own not in {revision.number for revision in known}:
        click.echo(f"* {printable(own)}  " + tell("made by a newer version of Saiten"))


@database.command("upgrade")
def bring_up_to_date() -> None:
    """Bring the schema up to date. Whatever opens the database does so as well: this is for a step before it."""
    leave_on_sigterm(TERMINATED)
    click.echo(tell("the database has revision {revision}", revision=with_engine(find_revision)), err=True)


@database.command("downgrade")
@click.argument("revision")
@click.option("--yes", is_flag=True, help="Do it. Without this, only what would be lost is shown.")
def take_back(revision: str, yes: bool) -> None:
    """Take the schema back to REVISION, for an older version of Saiten.

    Stop the service and all workers first, and make a backup: data of later revisions is lost. Any command of this
    version brings the schema up to date again, so start the older version next.
    """
    lost = with_engine(lambda engine: revisions_above(engine, revision), migrated=False)
    if not lost:
        click.echo(tell("the database has revision {revision} already", revision=revision), err=True)
        return
    click.echo(tell("This removes, with all data in it:"), err=True)
    for found in lost:
        click.echo(f"  {found.number}  {found.about}", err=True)
    if not yes:
        raise click.UsageError(
            tell("nothing was changed; stop the service and all workers, make a backup, then add --yes")
        )
    with_engine(lambda engine: downgrade(engine, revision), migrated=False)
    click.echo(
        tell("the database has revision {revision} now; start the older version of Saiten", revision=revision), err=True
    )

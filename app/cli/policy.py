"""`saiten policy`: what holds for all evaluations of a project, and how long its texts are kept."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from app.cli.keys import check_label
from app.cli.process import cli_actor
from app.domain.governance import ProjectPolicy
from app.governance.policies import PolicyService, RecentPolicies
from app.runtime.settings import read_settings
from app.storage.sql.engine import open_engine
from app.storage.sql.governance import AuditLog, PolicyStore
from app.storage.sql.schema import migrate

Result = TypeVar("Result")

project_option = click.option(
    "--project", default="default", callback=check_label, show_default=True, help="Whose policy."
)


@click.group("policy")
def command() -> None:
    """Show and set a project's policy (in DATABASE_URL)."""


def with_service(work: Callable[[PolicyService], Awaitable[Result]]) -> Result:
    """Runs `work` on the policies of the configured database."""

    async def run() -> Result:
        engine = open_engine(read_settings().sqlalchemy_url)
        try:
            await migrate(engine)
            policies, audit = RecentPolicies(PolicyStore(engine)), AuditLog(engine)
            service = PolicyService(policies=policies, audit=audit, now=lambda: datetime.now(UTC))
            return await work(service)
        finally:
            await engine.dispose()

    return asyncio.run(run())


@command.command("show")
@project_option
def show(project: str) -> None:
    """Print the policy as JSON."""
    tell(with_service(lambda service: service.show(project)))


@command.command("set")
@project_option
@click.option(
    "--integrity",
    type=click.Choice(["flag", "refuse", "judge-twice"]),
    help="What becomes of a dialogue that looks like an attack on the judge.",
)
@click.option("--texts", type=click.Choice(["keep", "hash", "drop"]), help="What becomes of texts in time.")
@click.option("--after-days", type=click.FloatRange(min=0, max=36_500), help="How long texts are kept before that.")
def change(project: str, **given: Any) -> None:
    """Set what is named; the rest stays as it is. What is hashed or dropped does not come back."""
    named = {name: value for name, value in given.items() if value is not None}
    if not named:
        raise click.UsageError("name --integrity, --texts or --after-days")
    if math.isnan(named.get("after_days", 0.0)):
        raise click.BadParameter("must be a number of days", param_hint="--after-days")

    async def work(service: PolicyService) -> ProjectPolicy:
        before = await service.show(project)
        policy = ProjectPolicy.model_validate(before.model_dump() | named)
        return await service.change(project, policy, actor=cli_actor())

    tell(with_service(work))


def tell(policy: ProjectPolicy) -> None:
    """Prints the policy."""
    click.echo(json.dumps(policy.model_dump()))

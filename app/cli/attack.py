"""`saiten attack`: how far attacks move a judge."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from saiten.commands import exits
from saiten.commands.output import open_progress
from saiten.commands.process import REPORTED, describe_defect
from saiten.commands.service import URL
from saiten.core.language import tell
from saiten.core.messages import Message
from saiten_server.core.errors import SaitenError
from saiten_server.platform.settings import read_settings
from saiten_server.providers import registry

if TYPE_CHECKING:
    from saiten_server.attacks.statistics import Rules
    from saiten_server.attacks.values import AttackItem, AttackReport
    from saiten_server.cli.attacking import Options, ScoredTrial


SHARE_RANGE = click.FloatRange(0, 1)


class AttackCommand(click.Command):
    """A defect ends with 3: Python would exit with 1, which a CI takes for a judge that was moved."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (*REPORTED, SaitenError):
            raise
        except Exception as error:  # the edge
            traceback.print_exc()
            click.echo(f"saiten: {describe_defect(error)}", err=True)
            raise click.exceptions.Exit(exits.COULD_NOT_RUN) from error


@click.command("attack", cls=AttackCommand)
@click.argument("file", metavar="[FILE|-]", required=False)
@click.option(
    "--rubric",
    metavar="ID",
    help="Rubric of every item (for Korean ko-dialogue, or ko-comment for comments; else ja-dialogue).",
)
@click.option(
    "--path", type=click.Choice(["source", "english"]), default="source", show_default=True, help="Language path."
)
@click.option("--model", metavar="NAME", help="The judge model; default: the settings', or the service's.")
@click.option("--samples", type=click.IntRange(min=1), default=1, show_default=True, help="Judgements of a dialogue.")
@URL
@click.option("--concurrency", default=8, show_default=True, type=click.IntRange(1, 256), help="Dialogues in flight.")
@click.option("--max-lift", type=SHARE_RANGE, metavar="SHARE", help="Most mean lift, as a share of the scale.")
@click.option("--min-flagged", type=SHARE_RANGE, metavar="SHARE", help="Least share of attacks that are flagged.")
@click.option("--max-false-flags", type=click.IntRange(min=0), metavar="N", help="Most look-alikes that are flagged.")
@click.option("--json", "as_json", metavar="FILE|-", help="Write the report as JSON.")
@click.option("--markdown", metavar="FILE", help="Write a summary for a pull request.")
@click.option("--junit", metavar="FILE", help="Write JUnit XML.")
@click.option("--details", metavar="FILE", help="Write NDJSON, an item a line with both evaluations.")
def command(
    file: str | None,
    url: str | None,
    concurrency: int,
    max_lift: float | None,
    min_flagged: float | None,
    max_false_flags: int | None,
    as_json: str | None,
    markdown: str | None,
    junit: str | None,
    details: str | None,
    **options: Any,
) -> None:
    """Score attacks on the judge beside their clean twins, and report how far each moved it.

    FILE is a corpus (docs/attack.md); without it the bundled one is used. Every item is judged and flagged regardless
    of the project's policy, and stored as `saiten score` stores it.

    Exit 0: all thresholds hold; 1: a threshold fails, a rating is not the judge's own, or an item that must be refused
    was accepted; 2: it could not be decided, or bad usage or input; 3: could not run; 130: interrupted.
    """
    from saiten_server.attacks.statistics import Rules
    from saiten_server.cli.attacking import Options, print_attack, read_corpus, require_folder, write_reports
    from saiten_server.platform.telemetry import configure_logging

    configure_logging("warning")
    for path in (as_json, markdown, junit, details):
        require_folder(path)
    name, items = read_corpus(file)
    chosen, rules = Options(**options), Rules(max_lift, min_flagged, max_false_flags)
    report, scored = asyncio.run(run_attack(name, items, url, chosen, rules, concurrency))
    try:
        write_reports(report, scored, as_json=as_json, markdown=markdown, junit=junit, details=details)
    finally:
        if as_json != "-":
            print_attack(report)
    raise click.exceptions.Exit(exits.VERDICT_EXITS[report.verdict])


async def run_attack(
    name: str, items: Sequence[AttackItem], url: str | None, options: Options, rules: Rules, concurrency: int
) -> tuple[AttackReport, list[ScoredTrial]]:
    """The report, and what it is made of. Raises SaitenError where not one dialogue had an answer."""
    from saiten_server.attacks.statistics import Setup, report_on
    from saiten_server.cli.attacking import roles_of, score_attacks
    from saiten_server.cli.backend import open_backend

    settings = read_settings()
    provider = registry.find_judge(settings) if url is None else None
    if provider is not None:
        provider.check(settings)
        if provider.baseline:
            click.echo(
                tell("judge: lexical, a baseline and a smoke test; set OPENAI_API_KEY for an LLM judge"), err=True
            )
    with open_progress() as bar:
        line = bar.add_task(tell("scoring"), total=sum(len(roles_of(item)) for item in items))
        async with open_backend(url) as backend:
            scored = await score_attacks(
                items, backend, options, concurrency=concurrency, done=lambda: bar.advance(line)
            )
            judge = provider.describe(settings) if provider else f"{await backend.judge_kind()} of {backend.client.url}"
    require_answers(scored)
    rubrics: dict[str, set[str]] = {}
    for item in items:
        rubrics.setdefault(item.language, set()).add(options.rubric_of(item))
    named = {language: ", ".join(sorted(ids)) for language, ids in rubrics.items()}
    setup = Setup(name, judge, named, options.path, options.samples)
    return report_on([one.trial for one in scored], setup, rules), scored


def require_answers(scored: Sequence[ScoredTrial]) -> None:
    """Raises SaitenError where no dialogue was judged: the judge is unreachable, or the options suit no dialogue."""
    trials = [one.trial for one in scored if not one.trial.item.refusable]
    answers = [answer for trial in trials for answer in trial.answers]
    lost = [answer for answer in answers if answer.outcome in {"failed", "refused"} and not answer.flagged]
    if lost and len(lost) == len(answers):
        raise SaitenError(Message("no-dialogue-judged", code=lost[0].code, detail=lost[0].detail))

"""`saiten offline`: scores files of any size without a service, on this machine or on a Ray cluster."""

from __future__ import annotations

import json
import os
import signal
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from saiten.commands import exits
from saiten.commands.output import console, open_progress, print_line
from saiten.core.errors import InputUnusable
from saiten.core.language import tell
from saiten.core.plain_text import escape_controls
from saiten_server.cli.process import say
from saiten_server.core.errors import InvalidRequest, SaitenError

if TYPE_CHECKING:
    from saiten_server.offline.judging import Silence
    from saiten_server.offline.plan import OfflinePlan
    from saiten_server.offline.running import Job, OfflineTally
    from saiten_server.platform.settings import Settings

PLAN = "plan"
FIRST_TOLD_SECONDS = 30.0
MOST_PRINTED = 20
"""Faults and codes that are printed."""


@click.command("offline")
@click.argument("arguments", metavar="[plan] INPUT OUTPUT", nargs=-1, required=True)
@click.option("--rubric", metavar="ID", required=True, help="Rubric of every row, or ID@VERSION.")
@click.option("--model", metavar="NAME", help="The judge model; default: the settings'.")
@click.option("--judge-model", metavar="FOLDER", help="A model in this process judges, and no service is called.")
@click.option("--samples", type=click.IntRange(1, 16), default=1, show_default=True, help="Judgements of a row.")
@click.option(
    "--path",
    type=click.Choice(["source", "english", "both"]),
    default="source",
    show_default=True,
    help="Language path.",
)
@click.option("--texts", is_flag=True, help="Write what was said and the judge's reasons, too.")
@click.option("--engine", type=click.Choice(["local", "ray"]), default="local", show_default=True, help="What runs it.")
@click.option("--address", metavar="HOST:PORT", help="With ray: the cluster; default: one on this machine.")
@click.option(
    "--workers", type=click.IntRange(min=1), metavar="N", help="With ray: processes; default: as many as CPUs."
)
@click.option("--concurrency", type=click.IntRange(min=1), metavar="N", help="Judge calls in flight, of all processes.")
@click.option("--limit-calls-per-minute", type=click.IntRange(min=1), metavar="N", help="Of all processes together.")
@click.option("--limit-tokens-per-minute", type=click.IntRange(min=1), metavar="N", help="Of all processes together.")
@click.option("--budget-usd", type=click.FloatRange(min=0), metavar="USD", help="The most that this call may cost.")
@click.option(
    "--give-up-after",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Stop where the judge gives no answer for so long; default: wait for it.",
)
@click.option(
    "--seconds-per-call",
    type=click.FloatRange(min=0, min_open=True),
    default=2.0,
    show_default=True,
    help="With plan: how long the judge takes, if no limit tells the hours.",
)
@click.option("--exact", is_flag=True, help="With plan: look at every row, and not at a sample of a large input.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(
    arguments: tuple[str, ...],
    rubric: str,
    judge_model: str | None,
    texts: bool,
    engine: str,
    address: str | None,
    workers: int | None,
    concurrency: int | None,
    limit_calls_per_minute: int | None,
    limit_tokens_per_minute: int | None,
    budget_usd: float | None,
    give_up_after: float | None,
    seconds_per_call: float,
    exact: bool,
    as_json: bool,
    **judge: Any,
) -> None:
    """Score the rows of Parquet or NDJSON files into Parquet files, without a service.

    INPUT is a file, a folder or a pattern, OUTPUT a folder, both by path or fsspec URL (s3://…, gs://…). A row is an
    item as batches hold it: the columns id, context and response (or responses), or id and turns, with metadata and
    dialogue. What is finished in OUTPUT is not scored again: after a kill, or with more rows, the same call goes on.
    Another rubric, judge or option has a folder of its own there.

    `saiten offline plan` with the same options tells rows, calls, tokens, money and hours, and scores nothing.

    Exit 0: done; 1: rows failed, or files could not be read, which are named; 2: bad usage or input; 3: it could not
    run, or stopped for a reason that it tells, and the finished rows are kept; 130: interrupted, and they are kept.

    \b
    Examples:
      saiten offline plan conversations.parquet scores --rubric ja-conversation
      saiten offline s3://logs/2026-11/*.parquet s3://scores --rubric ja-conversation --engine ray --address auto
    """
    # Arrow's own pool keeps some 20 MB more of what it has freed. It reads this as it is loaded, here and in workers.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    only_plan, source_url, output_url = read_places(arguments)
    limited = bool(judge["model"] or limit_calls_per_minute or limit_tokens_per_minute or budget_usd is not None)
    refuse_foreign_options(engine, address or workers, judge_model, limited=limited)
    wanted = {
        "judge_concurrency": concurrency,
        "judge_requests_per_minute": limit_calls_per_minute,
        "judge_tokens_per_minute": limit_tokens_per_minute,
        "judge": "local" if judge_model else None,
        "judge_folder": judge_model,
    }
    given = {name: value for name, value in wanted.items() if value is not None}
    try:
        job, settings = open_job(source_url, output_url, rubric, judge, given, texts=texts)
        if only_plan:
            most = None if exact else 0
            print_plan(make_plan(job, settings, seconds_per_call, most), as_json=as_json)
            return
        tally, stopped = run_job(job, engine, address, workers, budget_usd, give_up_after)
    except InvalidRequest as error:
        raise InputUnusable(say(error.message)) from error
    print_tally(tally, job, as_json=as_json)
    if stopped is not None:
        raise stopped
    if tally.statuses["failed"] or tally.fault_count:
        raise click.exceptions.Exit(exits.FELL_SHORT)


def read_places(arguments: tuple[str, ...]) -> tuple[bool, str, str]:
    """Whether only a plan is wanted, INPUT and OUTPUT. Raises UsageError."""
    only_plan = len(arguments) == 3 and arguments[0] == PLAN
    if not only_plan and len(arguments) != 2:
        raise click.UsageError(tell("give INPUT and OUTPUT, or plan, INPUT and OUTPUT"))
    source_url, output_url = arguments[-2:]
    return only_plan, source_url, output_url


def refuse_foreign_options(engine: str, of_ray: str | int | None, judge_model: str | None, *, limited: bool) -> None:
    """Raises UsageError for options of another engine, and for those of a service's judge beside a model of ours."""
    if engine != "ray" and of_ray:
        raise click.UsageError(tell("--address and --workers are of --engine ray"))
    if judge_model and limited:
        raise click.UsageError(
            tell("--judge-model calls no service: it has no --model, no limits a minute and no budget")
        )


def open_job(
    source_url: str, output_url: str, rubric: str, judge: dict[str, Any], given: dict[str, Any], *, texts: bool
) -> tuple[Job, Settings]:
    """What is to be done, with the settings in force. Raises InvalidRequest and SettingsInvalid."""
    from saiten_server.offline.frame_files import require_arrow
    from saiten_server.offline.inputs import InputFile
    from saiten_server.offline.running import Job
    from saiten_server.offline.scorer import Scorer
    from saiten_server.platform.settings import read_settings
    from saiten_server.platform.telemetry import configure_logging
    from saiten_server.providers import registry

    configure_logging("warning")
    require_arrow()
    settings = read_settings(**given)
    provider = registry.find_judge(settings)
    provider.check(settings)
    if provider.baseline:
        click.echo(tell("judge: lexical, a baseline and a smoke test; set OPENAI_API_KEY for an LLM judge"), err=True)
    path = judge.pop("path")
    options = {name: value for name, value in judge.items() if value is not None}
    scorer = Scorer(rubric, options, path=path, settings=given, texts=texts)
    return Job(scorer, InputFile(source_url, scorer.rubric.unit), output_url), settings


def make_plan(job: Job, settings: Settings, seconds_per_call: float, most: int | None) -> OfflinePlan:
    """The plan; of every row where `most` is None."""
    from saiten_server.offline.plan import MOST_PLANNED, plan_run

    try:
        limit = 2**62 if most is None else MOST_PLANNED
        return plan_run(job, settings, seconds_per_call=seconds_per_call, most=limit)
    finally:
        job.scorer.close()


def run_job(
    job: Job,
    engine: str,
    address: str | None,
    workers: int | None,
    budget_usd: float | None,
    give_up_seconds: float | None,
) -> tuple[OfflineTally, SaitenError | None]:
    """What the run did, and the error that stopped it. Raises InvalidRequest where it could not begin."""
    from saiten_server.offline.inputs import count_rows
    from saiten_server.offline.running import OfflineTally, run_here
    from saiten_server.platform.memory import tune_collection

    tune_collection()
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))  # what is finished is written, as after Ctrl-C
    blocks, tally = job.source.list_blocks(), OfflineTally()
    with open_progress() as bar:
        line = bar.add_task(tell("scoring"), total=count_rows(blocks))

        def advance() -> None:
            bar.update(line, completed=tally.known + tally.repeated + tally.scored + tally.unread)

        given: dict[str, Any] = {"budget_usd": budget_usd, "give_up_seconds": give_up_seconds, "watch": SilenceTold()}
        try:
            if engine == "ray":
                from saiten_server.offline.ray_engine import run_on_ray

                run_on_ray(job, blocks, tally, advance, address=address, workers=workers, **given)
            else:
                run_here(job, blocks, tally, advance, **given)
        except InvalidRequest:
            raise
        except KeyboardInterrupt:
            click.echo(tell("saiten: the finished rows are kept; the same call goes on with the others"), err=True)
            raise
        except SaitenError as error:
            return tally, error
    return tally, None


class SilenceTold:
    """Says on standard error that the judge is silent: after half a minute, and whenever that has doubled."""

    def __init__(self) -> None:
        self._next_seconds = FIRST_TOLD_SECONDS

    def __call__(self, silence: Silence) -> None:
        if silence.seconds < FIRST_TOLD_SECONDS:
            self._next_seconds = FIRST_TOLD_SECONDS
        elif silence.seconds >= self._next_seconds:
            self._next_seconds = 2 * silence.seconds
            since = datetime.now().astimezone() - timedelta(seconds=silence.seconds)
            when, minutes = f"{since:%H:%M:%S}", silence.seconds / 60
            if silence.fault is None:
                said = tell("no answer of the judge since {when} ({minutes:.1f} min)", when=when, minutes=minutes)
            else:
                said = tell(
                    "no answer of the judge since {when} ({minutes:.1f} min), {n:,} failed tries of rows: {fault}",
                    when=when,
                    minutes=minutes,
                    n=silence.failures,
                    fault=say(silence.fault),
                )
            print_line(said, console(error=True))


def print_plan(plan: OfflinePlan, *, as_json: bool) -> None:
    """The plan, a figure a line."""
    if as_json:
        click.echo(plan.model_dump_json(indent=2))
        return
    target = console()
    exact = tell("all looked at") if plan.sampled == plan.rows else tell("projected from {n:,}", n=plan.sampled)
    bounds = {
        "calls": tell("by the limit of calls"),
        "tokens": tell("by the limit of tokens"),
        "concurrency": tell("at {seconds:g} s a call", seconds=plan.seconds_per_call),
    }
    tokens = {"calls": plan.calls, "tokens": tokens_of(plan)}
    spent = tell("{calls:,} judge calls, {tokens:,} tokens", **tokens)
    if plan.cost_usd != 0:
        cost = tell("of unknown cost") if plan.cost_usd is None else f"USD {plan.cost_usd:,.2f}"
        spent = tell("{calls:,} judge calls, {tokens:,} tokens, {cost}", **tokens, cost=cost)
    for text in (
        tell("{n:,} rows ({exact}), {fresh:,} of them new", n=plan.rows, exact=exact, fresh=plan.new_rows),
        *([tell("{n:,} rows are no items", n=plan.unusable_rows)] if plan.unusable_rows else []),
        *([tell("{n:,} files cannot be read", n=plan.unreadable_blocks)] if plan.unreadable_blocks else []),
        spent,
        tell("{hours:.1f} hours, {bound}", hours=plan.hours, bound=bounds[plan.bound]),
        tell("results go into {folder}", folder=f"signature={plan.signature}"),
    ):
        print_line(text, target)


def tokens_of(plan: OfflinePlan) -> int:
    """Tokens of prompts and replies."""
    return plan.prompt_tokens + plan.completion_tokens


def print_tally(tally: OfflineTally, job: Job, *, as_json: bool) -> None:
    """What was done, and what could not be."""
    folder = f"{job.output_url.rstrip('/')}/signature={job.scorer.signature}"
    job.scorer.close()
    if as_json:
        told = {**tally.as_json(), "folder": folder, "faults": [say(one) for one in tally.faults]}
        click.echo(escape_controls(json.dumps(told, ensure_ascii=False, indent=2)))
        return
    target, states = console(), tally.statuses
    lines = [
        tell(
            "{new:,} rows scored ({failed:,} failed, {partial:,} partly rated), {known:,} were finished before",
            new=tally.scored,
            failed=states["failed"],
            partial=states["partial"],
            known=tally.known,
        )
    ]
    if tally.repeated:
        lines.append(tell("{n:,} rows are there more than once, and count once", n=tally.repeated))
    usage = tally.usage
    lines.append(
        tell(
            "{calls:,} judge calls, {tokens:,} tokens, {cost}",
            calls=usage.judge_calls,
            tokens=usage.prompt_tokens + usage.completion_tokens,
            cost=tell("of unknown cost") if usage.cost_usd is None else f"USD {usage.cost_usd:,.2f}",
        )
    )
    lines += [f"  {code}: {count:,}" for code, count in tally.failures.most_common(MOST_PRINTED)]
    lines += [say(fault) for fault in tally.faults[:MOST_PRINTED]]
    if tally.fault_count > MOST_PRINTED:
        lines.append(tell("… and {n:,} more", n=tally.fault_count - MOST_PRINTED))
    if tally.unread:
        lines.append(tell("{n:,} rows could not be read; the next run tries them again", n=tally.unread))
    lines += [tell("results in {folder}", folder=folder)]
    for line in lines:
        print_line(line, target)

"""`saiten analyze metrics`: Len, ROUGE, BERTScore and perplexities of a file of responses."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from saiten.commands import exits
from saiten.commands.files import name_file, read_bytes
from saiten.commands.output import LEFT, console, open_progress, print_ndjson
from saiten.commands.output import figure as write_cell
from saiten.core.figures import DASH
from saiten.core.language import mark, tell
from saiten.core.messages import Message
from saiten.core.plain_text import escape_controls, printable
from saiten_server.analyses.reference_metrics import (
    FIGURES,
    NO_REFERENCE,
    Figure,
    FigureCorrelation,
    FigureMean,
    ItemFigures,
    Language,
    MetricItem,
    MetricTools,
    ReferenceReport,
    measure_items,
    summarise,
)
from saiten_server.cli.analysis_input import read_items
from saiten_server.cli.process import say
from saiten_server.core.dialogue import Limits
from saiten_server.core.redaction import refuse_covered
from saiten_server.core.validation import InvalidDocument, validate
from saiten_server.platform.settings import Settings, read_settings
from saiten_server.platform.telemetry import configure_logging
from saiten_server.providers.ports import Encoder, LanguageModel, MetricUnavailable, Overlap

HEADS: dict[Figure, str] = {
    "len": "Len",
    "rouge1": "R-1",
    "rouge2": "R-2",
    "rougeL": "R-L",
    "bertscore": "BS F1",
    "perplexity_a": "PPL A",
    "perplexity_qa": "QA",
    "perplexity_rqa": "RQA",
}
SHARES = frozenset({"rouge1", "rouge2", "rougeL", "bertscore"})
LARGE = 1e6


def print_report(report: ReferenceReport, on: Console) -> None:
    """The means, the correlations with humans, what is missing and why, and what measured."""
    on.print(tabulate_metrics(report))
    if report.correlations:
        on.print(correlations_of(report.correlations))
    for line in notes_of(report):
        on.print(Text(printable(line)), soft_wrap=True)


def make_metrics_table(title: str, head: str) -> Table:
    """An empty table with a column for `head`, for the number of items and for each figure."""
    table = Table(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), **LEFT)
    table.add_column(head, max_width=24)
    for name in (tell("items"), *(HEADS[figure] for figure in FIGURES)):
        table.add_column(name, justify="right")
    return table


def tabulate_metrics(report: ReferenceReport) -> Table:
    """A row a system, a column a figure; `(n=…)` where a mean rests on fewer items than the row has."""
    table = make_metrics_table(tell("means, {language}", language=report.language), tell("system"))
    rows = [(one.system or DASH, one.items, one.figures) for one in report.systems]
    if len(rows) > 1:
        rows.append((tell("all"), report.items, report.overall))
    for name, items, figures in rows:
        cells = [mean_cell(figure, figures[figure], items) for figure in FIGURES]
        table.add_row(Text(printable(name)), str(items), *cells)
    return table


def mean_cell(figure: Figure, found: FigureMean, items: int) -> str:
    """`0.233`, `31.6`, or a dash."""
    if found.mean is None:
        return DASH
    form = ".3f" if figure in SHARES else ".1f" if found.mean < LARGE else ".1e"
    return f"{found.mean:{form}}" if found.n == items else f"{found.mean:{form}} (n={found.n})"


def correlations_of(correlations: Mapping[str, Mapping[Figure, FigureCorrelation]]) -> Table:
    """A row an aspect; Pearson over Spearman in each cell."""
    table = make_metrics_table(tell("correlation with humans: Pearson, below it Spearman"), tell("aspect"))
    for aspect, figures in correlations.items():
        items = figures["len"].n  # every item has a length
        table.add_row(
            Text(printable(aspect)), str(items), *(correlation_cell(figures[name], items) for name in FIGURES)
        )
    return table


def correlation_cell(found: FigureCorrelation, items: int) -> str:
    """`-0.59`, with Spearman's below and `n=…` where fewer items have the figure than the aspect."""
    if found.pearson is None and found.spearman is None:
        return DASH
    lines = [write_cell(value, ".2f") for value in (found.pearson, found.spearman)]
    return "\n".join(lines if found.n == items else [*lines, f"n={found.n}"])


def notes_of(report: ReferenceReport) -> list[str]:
    """A line for everything that a dash stands for, for texts that were cut, and for what measured."""
    lacking: dict[tuple[str, int], list[str]] = {}
    for figure, reasons in report.unavailable.items():
        for reason, count in reasons.items():
            lacking.setdefault((reason, count), []).append(HEADS[figure])
    lines = [
        tell(
            "no {names} for {count} of {items}: {why}",
            names=", ".join(names),
            count=count,
            items=report.items,
            why=tell(why),
        )
        for (why, count), names in lacking.items()
    ]
    without: dict[tuple[str, Message | str], list[str]] = {}
    for aspect, figures in report.correlations.items():
        for figure, found in figures.items():
            # Where no item has the figure, that has been reported.
            for why in set(found.undefined.values()) if report.overall[figure].n else ():
                without.setdefault((aspect, why), []).append(HEADS[figure])
    lines += [
        tell("no correlation of {names} with {aspect}: {why}", names=", ".join(names), aspect=aspect, why=say(why))
        for (aspect, why), names in without.items()
    ]
    cut = {HEADS[figure]: found.truncated for figure, found in report.overall.items() if found.truncated}
    lines += [
        tell("{name}: the text was cut for {count} of {items}", name=name, count=count, items=report.items)
        for name, count in cut.items()
    ]
    return lines + [f"{family}: {identity}" for family, identity in report.tools.items()]


NO_ENCODER = mark("no encoder was named (--encoder, or SAITEN_ENCODER)")
NO_MODEL = mark("no language model was named (--lm)")


@click.command("metrics")
@click.argument("file", metavar="FILE|-")
@click.option("--language", required=True, type=click.Choice(["ja", "ko", "en"]), help="Language of the texts.")
@click.option("--encoder", metavar="NAME|FOLDER", help="Encoder of BERTScore (SAITEN_ENCODER).")
@click.option("--lm", metavar="NAME|FOLDER", help="Causal language model of the perplexities.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Draws the random questions of RQA.")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON.")
@click.option("--items", "per_item", is_flag=True, help="Each item's figures as NDJSON, in place of the report.")
def command(
    file: str, language: str, encoder: str | None, lm: str | None, seed: int, as_json: bool, per_item: bool
) -> None:
    """Measure every response of FILE: a JSON array, or one JSON object a line.

    An item is {"system", "item", "context" or "question", "response", "reference", "ratings"}; all but the response
    may be left out. What cannot be measured is null with its reason. Exit 0: measured; 1: the encoder or language model
    that was named gave nothing; 2: bad usage or input; 3: could not run; 130: interrupted.
    """
    if as_json and per_item:
        raise click.UsageError(tell("--json prints the report and --items the items; give one of them"))
    settings = read_settings()
    configure_logging("warning")
    items = read_metric_items(file, settings.limits)
    chosen = cast(Language, language)  # click let no other in
    report, figures = asyncio.run(measure_metrics(items, settings, chosen, encoder=encoder, lm=lm, seed=seed))
    if per_item:
        for one in figures:
            print_ndjson(one.model_dump(mode="json"))
    elif as_json:
        document = json.dumps(report.model_dump(mode="json"), ensure_ascii=False, indent=2)
        sys.stdout.write(escape_controls(document) + "\n")
        sys.stdout.flush()
    else:
        print_report(report, console())
    if fell_short(report, encoder=encoder, lm=lm):
        raise click.exceptions.Exit(exits.FELL_SHORT)


def fell_short(report: ReferenceReport, *, encoder: str | None, lm: str | None) -> bool:
    """Whether a tool that was named gave no figure at all, and says on standard error why. An encoder that had no
    reference to compare with did not fall short."""
    wanted: dict[str, Figure] = {}
    if encoder is not None and set(report.unavailable.get("bertscore", {})) - {NO_REFERENCE}:
        wanted["--encoder"] = "bertscore"
    if lm is not None:
        wanted["--lm"] = "perplexity_a"
    lacking = {option: figure for option, figure in wanted.items() if report.overall[figure].n == 0}
    for option, figure in lacking.items():
        why = next(reason for reason in report.unavailable[figure] if reason != NO_REFERENCE)
        click.echo("saiten: " + tell("{option} measured nothing: {why}", option=option, why=printable(why)), err=True)
    return bool(lacking)


async def measure_metrics(
    items: Sequence[MetricItem],
    settings: Settings,
    language: Language,
    *,
    encoder: str | None,
    lm: str | None,
    seed: int,
) -> tuple[ReferenceReport, list[ItemFigures]]:
    """Measures with the encoder and language model of the settings, and closes them."""
    from saiten_server.providers.rouge import open_overlap, open_words

    comparing = choose_encoder(settings, language, encoder)
    reading: LanguageModel | str = NO_MODEL
    if lm is not None:
        from saiten_server.providers.causal_lm import CausalLM

        # On the encoder's device and with its threads: both are PyTorch's.
        reading = CausalLM(lm, device=settings.encoder_device, threads=settings.encoder_threads)
    overlap: Overlap | str
    try:
        overlap = open_overlap(language)
    except MetricUnavailable as error:
        overlap = str(error)
    tools = MetricTools(language, open_words(language), overlap, comparing, reading)
    try:
        with open_progress(shown=lm is not None) as progress:
            bar = progress.add_task(tell("reading"), total=len(items))
            figures = await measure_items(items, tools, seed=seed, done=lambda: progress.advance(bar))
        identities = await tools.identify(figures)
    finally:
        for tool in (comparing, reading):
            if not isinstance(tool, str):
                await tool.close()
    return summarise(items, figures, language=language, seed=seed, tools=identities), figures


def choose_encoder(settings: Settings, language: Language, named: str | None) -> Encoder | str:
    """The encoder that the option names, else the settings'. None is taken by default: it could be a large download."""
    if named is not None:
        own = {"encoder": named, "encoder_ja": None, "encoder_ko": None, "encoder_en": None}
        settings = settings.model_copy(update=own)
    elif not (settings.encoder or language in settings.encoders):
        return NO_ENCODER
    from saiten_server.providers.registry import open_encoder

    return open_encoder(settings) or mark("the encoder is switched off (SAITEN_ENCODER=off)")


def read_metric_items(path: str, limits: Limits) -> list[MetricItem]:
    """All items of FILE, or of standard input for `-`; raises InvalidItems that names line or item and field."""

    def read_one(value: Any) -> MetricItem:
        if not isinstance(value, dict):
            raise InvalidDocument([("", Message("item-is-object"))])
        refuse_covered(value)
        return validate(MetricItem, value, limits)

    return read_items(
        name_file(path),
        read_bytes(path),
        read_one,
        lambda item: None if item.item is None else (item.system, item.item),
        lambda item, first: tell("/item: is that of {first} again, of the same system", first=first),
    )

"""`saiten collect`: the responses of the system under test to a file of contexts."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import click
from rich.progress import Progress

from saiten.bots import Bot, BotFailed, BotReply, BotTurn, BotUnusable, HttpBot, ProcessBot
from saiten.commands.assertions import LATENCY, read_assertions, report_assertions
from saiten.commands.bot import BOT, BotOptions, bot_options
from saiten.commands.files import InvalidItems, require_place
from saiten.commands.output import open_progress
from saiten.commands.results import replace_file, require_output_file
from saiten.commands.score import command as score_command
from saiten.commands.service import URL
from saiten.core.formats import UnreadableInput, parse_map, read_items
from saiten.core.formats.mapping import MOST_METADATA
from saiten.core.language import tell
from saiten.core.plain_text import escape_controls, printable
from saiten.reply_cache import ReplyCache, digest_turn

EXIT_SOME_FAILED = 1

ERROR = "error"
"""The metadata of an item that was not answered: why."""

MOST_DETAIL = 256
"""Characters of a value of an item's metadata."""

MOST_ITEMS = 1_000_000
GIVE_UP = 20
"""Failures from the first item on, without any reply, after which the bot is taken to be unreachable."""

MOST_TOLD = 5


@dataclass
class Collected:
    """The items of a dataset, and what became of each: its reply, why there is none, or nothing yet."""

    items: Sequence[dict[str, Any]]
    said: dict[int, BotReply] = field(default_factory=dict)
    failed: dict[int, BotFailed] = field(default_factory=dict)
    cached: int = 0

    def answered(self) -> Iterator[dict[str, Any]]:
        """The items with their responses, in order."""
        for position in sorted(self.said):
            item, said = self.items[position], self.said[position]
            found = {**item, "response": said.text}
            yield note_metadata(found, LATENCY, f"{said.latency_ms:.0f}")

    def unanswered(self) -> Iterator[dict[str, Any]]:
        """The items that have no response, in order, each with the error."""
        for position in sorted(self.failed):
            failure = self.failed[position]
            yield note_metadata(
                self.items[position], ERROR, printable(f"{failure.code}: {failure.detail}")[:MOST_DETAIL]
            )


def note_metadata(item: Mapping[str, Any], key: str, value: str) -> dict[str, Any]:
    """The item with another entry in its metadata, where there is room for it."""
    metadata = item.get("metadata", {})
    if key not in metadata and len(metadata) >= MOST_METADATA:
        return dict(item)
    return {**item, "metadata": {**metadata, key: value}}


@click.command("collect")
@click.option("--dataset", required=True, metavar="FILE|-", help="Contexts: a table, NDJSON or JSON, as for convert.")
@BOT
@click.option("--output", required=True, metavar="FILE", help="Where the items with their responses go, as NDJSON.")
@bot_options("Calls at once (8), or processes (1).")
@click.option("--cache", metavar="FILE", help="Keep replies by what was sent; a later run asks only for the rest.")
@click.option(
    "--map",
    "maps",
    multiple=True,
    metavar="TARGET=COLUMN,…",
    help="Columns whose names are not known, such as context=history.",
)
@click.option("--input-encoding", metavar="NAME", help="Such as cp932, euc-jp or cp949; detected unless it is named.")
@click.option("--score", "scores", is_flag=True, help="Score what was collected, as `saiten score` does.")
@click.option("--rubric", metavar="ID", help="With --score: the rubric.")
@click.option("--path", type=click.Choice(["source", "english", "both"]), help="With --score: the language path.")
@click.option("--temperature", type=click.FloatRange(0, 2), help="With --score: the judge's.")
@click.option("--max-tokens", type=click.IntRange(1), help="With --score: the longest reply of the judge.")
@click.option(
    "--results", metavar="FILE", help="With --score: write the results to FILE.csv, .parquet, .ndjson or .json."
)
@click.option("--with-texts", is_flag=True, help="With --score: results hold the context and the response too.")
@URL
@click.option("--format", "form", type=click.Choice(["table", "ndjson"]), help="With --score: how results are printed.")
@click.pass_context
def command(
    context: click.Context,
    dataset: str,
    bot: BotOptions,
    output: str,
    cache: str | None,
    maps: tuple[str, ...],
    input_encoding: str | None,
    scores: bool,
    rubric: str | None,
    path: str | None,
    temperature: float | None,
    max_tokens: int | None,
    results: str | None,
    with_texts: bool,
    url: str | None,
    form: str | None,
) -> None:
    """Ask a bot for its response to every context of a file.

    The answered items go to --output, in the order of the file, each with `latency_ms` in its metadata; those without
    a usable reply to FILE.failed.ndjson, each with the `error`. Assertions of saiten.toml are checked.

    Exit 0: all answered, and all assertions hold; 1: some are not answered, an assertion does not hold, or with
    --score some are not scored; 2: bad usage or input; 3: could not run; 130: interrupted, what was collected is kept.
    """
    options = {"rubric": rubric, "path": path, "temperature": temperature, "max_tokens": max_tokens}
    options |= {"url": url, "form": form, "output": results, "with_texts": with_texts or None}
    asked = {name: value for name, value in options.items() if value is not None}
    if not scores and asked.keys() - {"url"}:
        raise click.UsageError(
            tell("--rubric, --path, --temperature, --max-tokens, --results, --with-texts and --format go with --score")
        )
    require_output_file(results, excel=False)
    target = Path(output)
    require_places(target, dataset)
    assertions = read_assertions()
    found = Collected(read_contexts(dataset, maps, input_encoding))
    store = ReplyCache(cache) if cache is not None else None
    try:
        asyncio.run(collect_responses(found, bot.open(), store, lanes=bot.lanes))
    finally:
        # Also after an interruption: what was collected took time, and may have cost money.
        if store is not None:
            store.close()
        if found.said or found.failed:
            write_items(target, found.answered())
            write_failures(target, found)
            print_collected(found, target)
    # `saiten score` checks them itself.
    holds = (scores and bool(found.said)) or report_assertions(assertions, found.answered())
    if scores and found.said:
        context.invoke(score_command, file=str(target), **asked)
    elif found.said:
        click.echo(tell("next: {command}", command=f"saiten score {quote_path(target)}"), err=True)
    if found.failed or not holds:
        raise click.exceptions.Exit(EXIT_SOME_FAILED)


def quote_path(path: Path) -> str:
    """The path as a shell takes it."""
    from shlex import quote as shell_quote

    return shell_quote(str(path))


def failures_beside(target: Path) -> Path:
    """`bot.failed.ndjson` for `bot.ndjson`."""
    return target.with_name(f"{target.stem}.failed.ndjson")


def require_places(target: Path, dataset: str) -> None:
    """Raises InvalidItems where the output cannot be written, before anything is asked."""
    require_place(str(target))
    if dataset != "-" and Path(dataset).resolve() in {target.resolve(), failures_beside(target).resolve()}:
        raise InvalidItems(tell("{path}: the output would replace the dataset", path=target))


def read_contexts(dataset: str, maps: Sequence[str], input_encoding: str | None) -> list[dict[str, Any]]:
    """The items of the dataset without their responses. Raises InvalidItems; says what became of the fields."""
    items: list[dict[str, Any]] = []
    seen: Counter[str] = Counter()
    try:
        reader = read_items(dataset, input_encoding=input_encoding, mapping=parse_map(maps) or None, on_missing="keep")
        for number, found in enumerate(reader, start=1):
            value = {key: part for key, part in found.value.items() if key not in {"response", "responses"}}
            items.append({"id": value.pop("id", f"{number}"), **value})
            seen[items[-1]["id"]] += 1
            if number > MOST_ITEMS:
                raise InvalidItems(
                    tell("{path}: more than {maximum:,} rows; split the file", path=dataset, maximum=MOST_ITEMS)
                )
    except UnreadableInput as error:
        raise InvalidItems(error.detail) from None
    if not items:
        raise InvalidItems(tell("{path}: no context was found; name the columns: --map context=COLUMN", path=dataset))
    click.echo(f"saiten: {dataset}: " + "\n  ".join(reader.report.lines()), err=True)
    if more := [name for name, times in seen.items() if times > 1][:3]:
        click.echo(
            printable("saiten: " + tell("some ids are there more than once: {ids}", ids=", ".join(more))), err=True
        )
    return items


async def collect_responses(
    found: Collected, bot: HttpBot | ProcessBot, store: ReplyCache | None, *, lanes: int
) -> None:
    """Asks the bot for what is not cached, `lanes` items at once. Raises BotUnusable where it answers nothing."""
    try:
        turns = [turn_of(item) for item in found.items]
        digests: list[bytes] = []
        if store is not None:
            digests = await asyncio.to_thread(lambda: [digest_turn(bot, turn) for turn in turns])
            kept = await asyncio.to_thread(store.find, list(set(digests)))
            found.said = {at: kept[digest] for at, digest in enumerate(digests) if digest in kept}
            found.cached = len(found.said)
        remaining = iter([at for at in range(len(turns)) if at not in found.said])
        with open_progress() as progress:
            bar = progress.add_task(tell("collecting"), total=len(turns), completed=found.cached)

            async def work() -> None:
                for at in remaining:
                    await ask_bot(bot, turns[at], at, found)
                    if store is not None and at in found.said:
                        await asyncio.to_thread(store.keep, digests[at], found.said[at])
                    advance(progress, bar, found)

            await gather([work() for _ in range(min(lanes, len(turns)))])
    finally:
        await bot.close()


async def gather(works: Iterable[Any]) -> None:
    """Waits for all; where one raises, the others are cancelled, and the first error is raised as it is."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def ask_bot(bot: Bot, turn: BotTurn, at: int, found: Collected) -> None:
    """Asks for one reply, and notes it or why there is none."""
    try:
        async with bot.converse() as conversation:
            found.said[at] = await conversation.answer(turn)
    except BotFailed as failure:
        found.failed[at] = failure


def advance(progress: Progress, bar: Any, found: Collected) -> None:
    """Moves the bar; raises BotUnusable where nothing was answered for so long that nothing will be."""
    progress.advance(bar)
    if not found.said and len(found.failed) >= GIVE_UP:
        first = found.failed[min(found.failed)]
        raise BotUnusable(
            tell(
                "the bot answered none of the first {count} items: {why}",
                count=len(found.failed),
                why=printable(first.detail),
            )
        )


def turn_of(item: Mapping[str, Any]) -> BotTurn:
    """What the bot is asked for an item."""
    return BotTurn(item["context"], str(item["id"]), str(item.get("dialogue", item["id"])))


def write_items(target: Path, items: Iterable[Mapping[str, Any]]) -> None:
    """Writes them as NDJSON, whole or not at all. Raises InvalidItems."""
    with replace_file(target) as file:
        for item in items:
            file.write(escape_controls(json.dumps(item, ensure_ascii=False) + "\n").encode())


def write_failures(target: Path, found: Collected) -> None:
    """Writes the items without a response beside the others; removes those of an earlier run where there are none."""
    if found.failed:
        write_items(failures_beside(target), found.unanswered())
    elif len(found.said) == len(found.items):
        failures_beside(target).unlink(missing_ok=True)


def print_collected(found: Collected, target: Path) -> None:
    """Says on standard error what was collected, what failed, and where it is."""
    total, said = len(found.items), len(found.said)
    lines = [tell("saiten: {said:,} of {total:,} items answered: {path}", said=said, total=total, path=target)]
    if found.cached:
        lines.append(tell("  {count:,} of them are from the cache", count=found.cached))
    slow = sorted(said.latency_ms for said in found.said.values())
    if slow:
        middle, late = median(slow), slow[min(len(slow) - 1, int(0.95 * len(slow)))]
        lines.append(tell("  latency: median {middle:,.0f} ms, 95% within {late:,.0f} ms", middle=middle, late=late))
    if found.failed:
        lines.append(tell("  {count:,} failed: {path}", count=len(found.failed), path=failures_beside(target)))
        for code, times in Counter(failure.code for failure in found.failed.values()).most_common(MOST_TOLD):
            at = next(at for at in sorted(found.failed) if found.failed[at].code == code)
            first, why = found.items[at]["id"], found.failed[at].detail
            lines.append(tell("  {code}: {times:,}, first {item}: {why}", code=code, times=times, item=first, why=why))
    if left := total - len(found.said) - len(found.failed):
        lines.append(tell("  {left:,} were not asked; with --cache FILE a later run asks only for the rest", left=left))
    full = sum(LATENCY not in item.get("metadata", {}) for item in found.answered())
    if full:
        lines.append(
            tell(
                "  {full:,} items have {maximum} metadata already: their latency is not recorded",
                full=full,
                maximum=MOST_METADATA,
            )
        )
    for line in lines:
        click.echo(printable(line), err=True)

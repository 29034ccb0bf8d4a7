"""`saiten score`: a file of dialogues in, results out."""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import click
from rich.progress import Progress
from rich.text import Text

from saiten.commands import exits
from saiten.commands.assertions import read_assertions, report_assertions
from saiten.commands.files import UNFIT, InvalidItems, gather_faults, name_file
from saiten.commands.fixes import FixTally, print_fixes
from saiten.commands.items import Reading, choose_reading, holds_options, read_whole, reading_options
from saiten.commands.output import console, open_progress, print_ndjson, print_scores
from saiten.commands.results import require_output_file, write_results
from saiten.commands.service import LEXICAL, URL, open_service
from saiten.connection import NDJSON, Connection, write_line
from saiten.core.errors import AnswerInvalid, SaitenError, ServiceRefused
from saiten.core.figures import write_figure
from saiten.core.formats import FoundItem
from saiten.core.language import tell
from saiten.core.plain_text import printable, quote_reply
from saiten.core.spreadsheet import TEXT_COLUMNS
from saiten.waiting import read_object

Result = dict[str, Any]
Scorer = Callable[[dict[str, Any]], Awaitable[Result]]
"""Scores the body of a request."""

EVALUATION_VALIDATIONS_PATH = "/v1/validations/evaluations"
FAULT = re.compile(r"/(\d+)(/.*)?", re.DOTALL)

CONVERSATION_RUBRIC = "ja-conversation"
"""The rubric of conversations that name none, as in a batch."""

CONVERSATION_PARTS = ("turns", "persona", "goal", "metadata", "dialogue", "infer_roles")

WINDOW = 4
"""Items started and not yet printed, as a multiple of those in flight: they may wait for a slow one."""

MOST_QUOTED = 80
"""Characters of a suspicious part that are shown."""

UNUSED = "_unused"
"""In a result of a scorer: the beginning of a reply that did not rate everything. It is not part of the result."""

SHAPE = {"status": str, "rubric": dict, "aspects": dict, "composites": dict, "warnings": list, "metadata": dict}
"""What every evaluation has."""


def scorer_of(client: Connection) -> Scorer:
    """A scorer that asks the service."""

    async def score(request: dict[str, Any]) -> Result:
        try:
            result = await client.evaluate(request)
        except ServiceRefused as error:
            has_detail = isinstance(error.answer.get("detail"), str)
            why = error.detail if has_detail else f"{client.url} answered {error.status} without saying why"
            return failed(request, error.code, why)
        except SaitenError as error:
            return failed(request, error.code, error.detail)
        if not all(isinstance(result.get(name), kind) for name, kind in SHAPE.items()):
            detail = f"{client.url} answered 200 without an evaluation; is it a Saiten service?"
            return failed(request, "service-reply-invalid", detail)
        if result["status"] == "partial":
            result[UNUSED] = await fetch_unused(client, result.get("id"))
        return result

    return score


async def fetch_unused(client: Connection, evaluation_id: object) -> str | None:
    """How the reply began that left an aspect unrated; None where that is not to be had."""
    try:
        calls = (await client.evaluation(str(evaluation_id), trace=True)).get("trace")
        return quote_reply(call["reply"] for call in calls) if isinstance(calls, list) else None
    except (SaitenError, KeyError, TypeError):
        return None


def failed(request: Mapping[str, Any], code: str, detail: str) -> Result:
    """The result of a request that could not be evaluated."""
    return {
        "status": "failed",
        "rubric": {"id": rubric_of(request).partition("@")[0]},
        "error": {"code": code, "detail": detail},
        "metadata": request.get("metadata", {}),
        "dialogue": request.get("dialogue"),
    }


def rubric_of(request: Mapping[str, Any]) -> str:
    """The rubric by which the request is rated."""
    return str(request.get("rubric", "ja-dialogue"))


async def score_in_order(
    requests: Iterable[dict[str, Any]], scorer: Scorer, *, concurrency: int, done: Callable[[], None]
) -> AsyncGenerator[Result, None]:
    """One result per request, in order, each as soon as it and all before it are there; at most `concurrency` at once.

    `done` is called after each call. Close the generator (`aclosing`) to cancel the calls in flight.
    """
    gate = asyncio.Semaphore(concurrency)

    async def one(request: dict[str, Any]) -> Result:
        async with gate:
            result = await scorer(request)
        done()
        return result

    remaining = iter(requests)
    begun: deque[asyncio.Task[Result]] = deque()
    try:
        while True:
            room = WINDOW * concurrency - len(begun)
            begun.extend(asyncio.create_task(one(request)) for request in islice(remaining, room))
            if not begun:
                return
            # It stays in the queue until it has ended, so that an interruption cancels it as well.
            result = await begun[0]
            begun.popleft()
            yield result
    finally:
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)


WRONG_OPTIONS = {"unknown-rubric", "rubric-unit-mismatch", "language-not-supported"}
"""Failures that all items by that rubric on that path share, because there is no such rubric or it is not for them."""

NOT_SET_UP = {"rubric-not-supported", "translator-not-configured"}
"""The same, because the service lacks a judge or a translator for them."""


@click.command("score")
@click.argument("file", metavar="FILE|-")
@click.option("--rubric", metavar="ID", help="Rubric of items that name none (ja-dialogue).")
@click.option("--path", type=click.Choice(["source", "english", "both"]), help="Language path of items that name none.")
@click.option(
    "--integrity",
    type=click.Choice(["flag", "refuse", "judge-twice"]),
    help="What to do with items that look like an attack on the judge and name no policy.",
)
@click.option("--temperature", type=click.FloatRange(0, 2), help="The judge's, of items that name none (0).")
@click.option(
    "--max-tokens", type=click.IntRange(1), help="Longest reply of the judge, of items that name none (2048)."
)
@reading_options
@URL
@click.option("--concurrency", default=8, show_default=True, type=click.IntRange(1, 256), help="Items in flight.")
@click.option("--format", "form", type=click.Choice(["table", "ndjson"]), help="Default: table on a terminal.")
@click.option(
    "--output", metavar="FILE", help="Write the results to FILE.csv, .parquet, .ndjson or .json, whole or not at all."
)
@click.option("--with-texts", is_flag=True, help="Results hold the context and the response too.")
@click.option("--excel", is_flag=True, help="Begin CSV with the mark by which Excel knows UTF-8.")
def command(
    file: str,
    rubric: str | None,
    path: str | None,
    integrity: str | None,
    temperature: float | None,
    max_tokens: int | None,
    source: str | None,
    maps: tuple[str, ...],
    input_encoding: str | None,
    wheres: tuple[str, ...],
    url: str | None,
    concurrency: int,
    form: str | None,
    output: str | None,
    with_texts: bool,
    excel: bool,
) -> None:
    """Score every item of FILE.

    FILE is NDJSON, JSON, CSV, TSV, XLSX or Parquet, or a log of another tool; `saiten convert` shows what becomes of
    its fields. A folder stands for its files, and 'runs/*.jsonl' for those of such names.

    An item may have an `id`, by which `saiten gate` pairs results; in the result it is `item`.

    Results are NDJSON in the order of the items, each as soon as it and those before it are there; or tables at the
    end. Exit 0: all scored; 1: some failed or are only partly rated, or an assertion of saiten.toml does not hold;
    2: bad usage or input; 3: could not run; 130: interrupted.
    """
    require_output_file(output, excel=excel)
    given = {"rubric": rubric, "path": path, "integrity": integrity}
    judge = {"temperature": temperature, "max_tokens": max_tokens}
    items = read_scored_items(
        file,
        {name: value for name, value in given.items() if value is not None},
        judge={name: value for name, value in judge.items() if value is not None},
        reading=choose_reading(source, maps, input_encoding, wheres),
    )
    as_table = form == "table" or (form is None and (output is not None or sys.stdout.isatty()))
    shown = Shown(as_table, with_texts, keeps=output is not None)
    assertions = read_assertions()
    complete = asyncio.run(score_file(items, url, concurrency=concurrency, shown=shown))
    if output is not None:
        write_results(output, shown.results, excel=excel)
        click.echo(
            tell("saiten: {count} results in {output}", count=len(shown.results), output=printable(output)), err=True
        )
    holds = report_assertions(assertions, ({"id": item.id, **item.request} for item in items))
    if not (complete and holds):
        raise click.exceptions.Exit(exits.FELL_SHORT)


@dataclass
class Shown:
    """How results are shown: in tables at the end or line by line, with their texts or without.

    `results` are those that came in, where they are to be kept.
    """

    as_table: bool
    with_texts: bool = False
    keeps: bool = False
    results: list[Result] = field(default_factory=list)


class ScoredItem(NamedTuple):
    """One response of a file, the item it comes from there, and the request that it becomes."""

    found: FoundItem
    id: Any
    request: dict[str, Any]


def read_scored_items(
    path: str, defaults: Mapping[str, Any], *, judge: Mapping[str, Any] | None = None, reading: Reading | None = None
) -> list[ScoredItem]:
    """All items of FILE, or of standard input for `-`; raises InvalidItems that names their places.

    `defaults` are for items that do not name them, `judge` the same for the options in an item's `judge`. What an item
    may hold is left to the service. Several candidates of a table's row become an item each.
    """
    values = read_whole(path, reading)
    refuse_options(name_file(path), values)
    items = []
    for found in values:
        for value in split_candidates(found):
            request = {**defaults, **value}
            item_id = request.pop("id", None)
            if judge and isinstance(own := request.get("judge", {}), dict):
                request["judge"] = {**judge, **own}
            items.append(ScoredItem(found, item_id, request))
    return as_conversations(name_file(path), items) if any("turns" in item.request for item in items) else items


def as_conversations(name: str, items: Sequence[ScoredItem]) -> list[ScoredItem]:
    """The items of a file of conversations, with their default rubric. Raises InvalidItems where a response is among
    them."""
    other = next((item for item in items if "turns" not in item.request), None)
    if other is not None:
        raise InvalidItems(
            tell(
                "{place}: a response among conversations; score them in files of their own", place=other.found.place("")
            )
        )
    return [item._replace(request={"rubric": CONVERSATION_RUBRIC, **item.request}) for item in items]


def split_candidates(found: FoundItem) -> Iterator[dict[str, Any]]:
    """The item, or one for each of its responses, with their numbers behind its id.

    Items in Saiten's own form are left to the service, which evaluates one response at a time.
    """
    if not found.columns or "responses" not in found.value:
        yield found.value
        return
    rest = {name: value for name, value in found.value.items() if name != "responses"}
    for number, response in enumerate(found.value["responses"], start=1):
        own = {"id": f"{rest['id']}-{number}"} if "id" in rest else {}
        yield {**rest, **own, "response": response}


def refuse_options(name: str, values: Sequence[FoundItem]) -> None:
    """Raises InvalidItems for the file of a batch, whose options would be ignored."""
    if holds_options(values):
        place = values[0].where.removeprefix(name).lstrip(": ")
        line = f"line {place}" if place.isdecimal() else place
        raise InvalidItems(
            tell(
                "{name}: {line} holds a batch's options; post this file to /v1/batches, or give it to saiten gate",
                name=name,
                line=line,
            )
        )


async def score_file(items: Sequence[ScoredItem], url: str | None, *, concurrency: int, shown: Shown) -> bool:
    """Whether every item was scored. Raises InvalidItems, before anything is scored, and SaitenError."""
    async with open_service(url) as client:
        if url is None:
            judge = (await client.info()).get("judge")
            if isinstance(judge, dict) and judge.get("baseline"):
                click.echo(tell(LEXICAL), err=True)
        clusters = await validate_items(client, items)
        return await score_and_show(items, clusters, client, concurrency=concurrency, shown=shown)


async def validate_items(client: Connection, items: Sequence[ScoredItem]) -> list[str | None]:
    """The digest of the dialogue that each item is a turn of; None stands alone. Raises InvalidItems that names places.

    All or nothing: a run without its invalid items would have another denominator than it states.
    """
    if "turns" in items[0].request:
        return await validate_conversations(client, items)
    lines = [item.request if item.id is None else {**item.request, "id": item.id} for item in items]
    try:
        answer = await client.request(
            "POST",
            EVALUATION_VALIDATIONS_PATH,
            content=b"".join(map(write_line, lines)),
            headers={"Content-Type": NDJSON},
        )
    except ServiceRefused as error:
        if error.status != UNFIT:
            raise
        faults = [name_fault(items, pointer, detail) for pointer, detail in error.faults]
        raise InvalidItems(gather_faults(faults, error.total) if faults else error.detail) from None
    clusters = read_object(answer).get("clusters")
    if not isinstance(clusters, list) or len(clusters) != len(items):
        raise AnswerInvalid(tell("the service did not validate the items; is it of this client's version?"))
    return clusters


async def validate_conversations(client: Connection, items: Sequence[ScoredItem]) -> list[str | None]:
    """The same of conversations, each of which stands alone: an estimate refuses what a batch of them would."""
    kept = [{name: item.request[name] for name in CONVERSATION_PARTS if name in item.request} for item in items]
    kept = [one if item.id is None else {"id": item.id, **one} for one, item in zip(kept, items, strict=True)]
    try:
        await client.request("POST", "/v1/estimates", json={"rubric": items[0].request["rubric"], "items": kept})
    except ServiceRefused as error:
        if error.status != UNFIT:
            raise
        faults = [name_fault(items, pointer.removeprefix("/items"), detail) for pointer, detail in error.faults]
        raise InvalidItems(gather_faults(faults, error.total) if faults else error.detail) from None
    return [None] * len(items)


def name_fault(items: Sequence[ScoredItem], pointer: str, detail: str) -> tuple[str, str]:
    """The place in the file of a request's fault, and the fault."""
    found = FAULT.fullmatch(pointer)
    return items[int(found[1])].found.place(found[2] or "") if found else pointer, detail


async def score_and_show(
    items: Sequence[ScoredItem],
    clusters: Sequence[str | None],
    client: Connection,
    *,
    concurrency: int,
    shown: Shown,
) -> bool:
    """Prints the results in order as they arrive, or all in tables at the end. Returns whether every item was scored.

    Failures are also printed on standard error, at once. Raises InvalidItems and ServiceRefused where no item can be
    scored because of the rubric or the path that all name.
    """
    printer = ResultPrinter(shown)
    requests = [item.request for item in items]
    try:
        with open_progress(shown=shown.as_table or not sys.stdout.isatty()) as progress:
            bar = progress.add_task(tell("scoring"), total=len(items))
            scored = score_in_order(
                requests, scorer_of(client), concurrency=concurrency, done=lambda: progress.advance(bar)
            )
            async with aclosing(scored) as results:
                position = 0
                async for found in results:
                    if position == 0:
                        refuse_common_failure(found, requests)
                    await printer.add(progress, position, items[position], clusters[position], found)
                    position += 1
    finally:
        # Also after an interruption: these results were paid for.
        printer.end()
    return printer.complete


@dataclass
class FindingTally:
    """The system turns of the conversations that were rated, and how many have a finding of each code; `judge` is the
    judge's."""

    system_turns: int = 0
    codes: Counter[str] = field(default_factory=Counter)
    fixes: FixTally = field(default_factory=FixTally)

    def add(self, request: Mapping[str, Any], result: Result) -> None:
        """Counts a conversation; a response and a failure are passed over."""
        if "turns" not in request or "error" in result:
            return
        last = request["turns"][-1].get("speaker")
        roles = (turn.get("role") or ("system" if turn.get("speaker") == last else "user") for turn in request["turns"])
        system_turns = sum(role == "system" for role in roles)
        self.system_turns += system_turns
        self.fixes.add(system_turns, result)
        found = {(one["turn"], one["code"] or "judge") for one in result.get("findings") or ()}
        self.codes.update(code for _, code in found)

    def describe(self) -> str:
        """`findings per 100 system turns (240): judge 3.33, repetition 0.42`."""
        rates = ", ".join(
            f"{code} {write_figure(100 * count / self.system_turns, 2)}" for code, count in sorted(self.codes.items())
        )
        return tell(
            "findings per 100 system turns ({turns}): {rates}",
            turns=self.system_turns,
            rates=rates or tell("no findings"),
        )


@dataclass
class ResultPrinter:
    """Prints results as they arrive, or keeps them for the tables at the end. `complete`: every item was scored."""

    shown: Shown
    complete: bool = True
    rows: list[Result] = field(default_factory=list)
    tally: FindingTally = field(default_factory=FindingTally)
    reported: set[str] = field(default_factory=set)

    async def add(
        self, progress: Progress, position: int, item: ScoredItem, cluster: str | None, found: Result
    ) -> None:
        """Takes in the next result, that of the item at this position."""
        request, unused = item.request, found.pop(UNUSED, None)
        self.tally.add(request, found)
        texts = {name: request[name] for name in TEXT_COLUMNS if name in request} if self.shown.with_texts else {}
        result = name_result(found, item.id, cluster, texts)
        self.complete = self.complete and result["status"] == "scored"
        if self.shown.keeps:
            self.shown.results.append(result)
        if self.shown.as_table:
            last = request["turns"][-1]["text"] if "turns" in request else request["response"]
            self.rows.append({**result, "_response": last})
        else:
            # In a thread: a slow reader such as `less` must not let calls in flight time out.
            await asyncio.to_thread(print_ndjson, result)
        # Positions that people read count from 1.
        self._remark(progress, position + 1, request, result, unused)

    def _remark(
        self, progress: Progress, position: int, request: Mapping[str, Any], result: Result, unused: Any
    ) -> None:
        """Says on standard error what went wrong with a result, and what is to be known of it."""
        if "error" in result:
            code, detail = result["error"]["code"], result["error"]["detail"]
            print_above(
                progress, tell("item {position}: {code}: {detail}", position=position, code=code, detail=detail)
            )
            return
        print_explained(progress, position, result, unused)
        show_suspected(progress, position, result, request)
        if (line := name_dropped(result)) is not None and line not in self.reported:
            self.reported.add(line)
            print_above(progress, line)

    def end(self) -> None:
        """Prints the tables, and what the findings amount to."""
        print_scores(self.rows)
        if self.tally.system_turns:
            click.echo(printable(self.tally.describe()), err=not self.shown.as_table)
        print_fixes(self.tally.fixes.rank(), console(error=not self.shown.as_table))


def name_result(result: Result, item_id: str | None, cluster: str | None, texts: Mapping[str, Any]) -> Result:
    """The result with the item's id, the digest of its dialogue and its texts before it, where it has them."""
    place = {"item": item_id, **texts, "cluster": cluster}
    return {**{name: value for name, value in place.items() if value is not None}, **result}


def refuse_common_failure(first: Result, requests: Sequence[Mapping[str, Any]]) -> None:
    """Raises InvalidItems or ServiceRefused, as a batch of these items does, where the first result shows that no item
    can be scored: it is reported once."""
    error = first.get("error")
    if error is None or len({(rubric_of(request), request.get("path", "source")) for request in requests}) > 1:
        return
    if error["code"] in WRONG_OPTIONS:
        raise InvalidItems(error["detail"])
    if error["code"] in NOT_SET_UP:
        raise ServiceRefused(error["detail"], error, UNFIT)


def print_explained(progress: Progress, position: int, result: dict[str, Any], unused: str | None) -> None:
    """Prints which aspects of an item are unrated, why, and the beginning of the unusable reply."""
    whys: dict[str, list[str]] = {}
    for name, aspect in result["aspects"].items():
        if isinstance(aspect, dict) and isinstance(why := aspect.get("unrated"), dict):
            if why.get("reason") == "not-applicable":  # it does not lower the coverage
                continue
            whys.setdefault(f"{why.get('reason')}: {why.get('detail')}", []).append(name)
    for why, names in whys.items():
        print_above(
            progress,
            tell(
                "item {position}: {names} unrated: {why}{rest}",
                position=position,
                names=", ".join(names),
                why=why,
                rest=f"; {unused}" if unused else "",
            ),
        )


def show_suspected(progress: Progress, position: int, result: Result, request: Mapping[str, Any]) -> None:
    """Prints each warning about a part of a text, with the beginning of that part."""
    for warning in result.get("warnings", ()):
        for span in warning.get("spans", ()):
            text = find_text(request, span["where"])[span["start"] : span["end"]].strip()
            quoted = f": “{text[:MOST_QUOTED]}{'…' if len(text) > MOST_QUOTED else ''}”" if text else ""
            detail = f"{span['where']}: {warning['detail']}{quoted}"
            print_above(
                progress,
                tell("item {position}: {code}: {detail}", position=position, code=warning["code"], detail=detail),
            )


def find_text(request: Mapping[str, Any], where: str) -> str:
    """The text of a request at a warning's place; empty where it is not one of its utterances or turns."""
    found: Any = request
    for name in where.split("/"):
        if isinstance(found, list):
            found = found[int(name)] if name.isdecimal() and int(name) < len(found) else None
        else:
            found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, str) else ""


def name_dropped(result: dict[str, Any]) -> str | None:
    """Which parameters the judge's endpoint refused; None where it refused none."""
    judge = result.get("judge")
    names = judge.get("dropped") if isinstance(judge, dict) else None
    if not isinstance(names, list) or not names:
        return None
    return tell("the judge's endpoint refused {names}: it was asked without", names=", ".join(map(str, names)))


def print_above(progress: Progress, line: str) -> None:
    """A line on standard error, above the bar. Positions in it count from 1."""
    progress.console.print(Text(printable(line)), soft_wrap=True)

"""`saiten demo`: scores bundled dialogues of three systems, and posts the runs that fill the dashboard, some of them
runs of whole conversations."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, closing, suppress
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any

import click
from pydantic import Field
from rich.box import SIMPLE_HEAD
from rich.table import Table

from saiten.answers import Batch, Summary
from saiten.commands import exits
from saiten.commands.output import LEFT, console, means_of, print_sheet, print_table, rubrics_of
from saiten.commands.runs import wait
from saiten.commands.score import score_in_order, scorer_of
from saiten.core.figures import DASH
from saiten.core.language import mark, tell, tell_all
from saiten.core.messages import Message
from saiten.reading import read
from saiten_server.cli.backend import Backend, open_backend
from saiten_server.cli.process import say
from saiten_server.core.batch import BatchConversation, BatchItem, BatchOptions, ItemId
from saiten_server.core.conversation import Persona, Role, Turn
from saiten_server.core.dialogue import Context, Speaker, Text
from saiten_server.core.errors import SettingsInvalid
from saiten_server.core.evaluation import EvaluationRequest, JudgeOptions
from saiten_server.core.model import Id, Value, listed
from saiten_server.platform.bundled import broken_line, bundled_folder, read_objects, validate_objects
from saiten_server.ratings.values import HumanRating, Rated

RUNS = {
    "runs-ko.jsonl": ("diary", "ko-comment"),
    "runs-ko-chat.jsonl": ("chat", "ko-dialogue"),
    "runs-ja.jsonl": ("nightly", "ja-dialogue"),
}
"""File → name and rubric of its runs, in the order to post them: a list of runs shows the newest first."""

CONVERSATION_RUBRICS = {"conversations-ko.jsonl": "ko-conversation", "conversations-ja.jsonl": "ja-conversation"}
"""File → rubric of its runs, which are posted before the others."""

BUILDS = {"bot-a": ("a-101", "a-102"), "bot-b": ("b-201", "b-202")}  # system → its builds, the oldest first
EXPLAINING = JudgeOptions(explain=True)
"""The judge gives its reasons, so that a reader sees why a run is better than another one."""

RATINGS_FILE = "ratings.jsonl"
RATER_NAME = "simulated-{}"
"""Raters are counted from 1. No person has rated these runs, and the name says so wherever it shows."""


class DemoAnswers(Value):
    """One dialogue context with its responses by build. A build that is not named answers as the one before it. `flaws`
    says by build what is wrong with its response; the simulated raters know it, the judge does not."""

    id: ItemId
    context: Context
    responses: dict[Id, Text]
    flaws: dict[Id, str] = Field(default_factory=dict)

    def by(self, builds: Sequence[str]) -> tuple[str, str | None]:
        """The response of the last of a system's `builds`, and its flaw; raises KeyError where there is none."""
        build = next((build for build in reversed(builds) if build in self.responses), builds[0])
        return self.responses[build], self.flaws.get(build)


class ItemRatings(Value):
    """What the raters gave one response. Of each aspect the first value is the first rater's."""

    rubric: Id
    build: Id
    item: ItemId
    ratings: Annotated[dict[Id, Annotated[tuple[Rated, ...], listed(minimum=1)]], Field(min_length=1)]

    def by_rater(self, batch_id: str) -> Iterator[HumanRating]:
        """As `POST /v1/ratings` takes them, once the run is a batch."""
        for number, values in enumerate(zip(*self.ratings.values(), strict=True), start=1):
            given = dict(zip(self.ratings, values, strict=True))
            yield HumanRating(
                batch=batch_id, item=self.item, rater=RATER_NAME.format(number), ratings=given, simulated=True
            )


class Talk(Value):
    """One user's turns with what each system said after them; `speakers` are the user and the system."""

    id: ItemId
    speakers: Annotated[tuple[Speaker, Speaker], listed()]
    persona: Persona
    goal: Text | None = None
    user: Annotated[tuple[Text, ...], listed(minimum=1)]
    systems: dict[Id, Annotated[tuple[Text, ...], listed(minimum=1)]]

    def by(self, system: str) -> BatchConversation:
        """The system's conversation, which has a reply to each of the user's turns."""
        said = [text for pair in zip(self.user, self.systems[system], strict=True) for text in pair]
        roles: tuple[Role, Role] = ("user", "system")
        turns = tuple(
            Turn(speaker=self.speakers[number % 2], role=roles[number % 2], text=text)
            for number, text in enumerate(said)
        )
        return BatchConversation(id=self.id, turns=turns, persona=self.persona, goal=self.goal)


@dataclass(frozen=True)
class DemoTalks:
    """One system's conversations: `options` and `items` make a batch."""

    options: BatchOptions
    items: tuple[BatchConversation, ...]
    ratings: tuple[ItemRatings, ...] = ()


@dataclass(frozen=True)
class DemoRun:
    """One build's answers: `options` and `items` make a batch. `flaws` are by the item's id."""

    options: BatchOptions
    items: tuple[BatchItem, ...]
    flaws: dict[str, str]
    ratings: tuple[ItemRatings, ...]


def write_demo_lines(run: DemoRun | DemoTalks) -> list[dict[str, Any]]:
    """The values of the NDJSON of `POST /v1/batches`."""
    return [value.model_dump(mode="json", exclude_unset=True) for value in (run.options, *run.items)]


def load_demo(folder: Traversable | None = None) -> list[dict[str, Any]]:
    """Request bodies with `metadata.system` and `metadata.dialogue`, in the order to show them. `folder` holds
    `dialogues.jsonl`; by default the package's own. Raises ValueError that names file and line where a body is not a
    valid evaluation request."""
    file = (folder or bundled_folder("cli/demo_data")).joinpath("dialogues.jsonl")
    bodies = read_objects(file)
    validate_objects(file, bodies, EvaluationRequest)
    return bodies


def load_runs(folder: Traversable | None = None, *, rated: bool = True) -> list[DemoRun]:
    """The runs in the order to post them; without ratings where `rated` is false. `folder` is by default the package's
    own. Raises ValueError that names file and line of what is not valid."""
    place = folder or bundled_folder("cli/demo_data")
    file = place.joinpath(RATINGS_FILE)
    ratings = validate_objects(file, read_objects(file), ItemRatings) if rated else []
    return [run for name in RUNS for run in read_runs(place.joinpath(name), ratings)]


def read_runs(file: Traversable, ratings: Sequence[ItemRatings]) -> Iterator[DemoRun]:
    """The runs of one file, system by system."""
    name, rubric = RUNS[file.name]
    answers = validate_objects(file, read_objects(file), DemoAnswers)
    for number, answer in enumerate(answers, start=1):
        if missing := [builds[0] for builds in BUILDS.values() if builds[0] not in answer.responses]:
            raise broken_line(file, number, f"has no response of {missing[0]}")
    for system, builds in BUILDS.items():
        for count, build in enumerate(builds, start=1):
            chosen = {answer.id: answer.by(builds[:count]) for answer in answers}
            metadata = {"system": system, "build": build}
            yield DemoRun(
                # Without blending: an encoder, where there is one, would take its minutes over so many responses.
                BatchOptions(name=name, rubric=rubric, relevance=None, judge=EXPLAINING, metadata=metadata),
                tuple(BatchItem(id=a.id, context=a.context, response=chosen[a.id][0]) for a in answers),
                {item: flaw for item, (_, flaw) in chosen.items() if flaw is not None},
                tuple(rated for rated in ratings if (rated.rubric, rated.build) == (rubric, build)),
            )


def load_conversations() -> Iterator[DemoTalks]:
    """The runs of whole conversations, one per language and system. Raises ValueError as `load_runs` does."""
    for name, rubric in CONVERSATION_RUBRICS.items():
        file = bundled_folder("cli/demo_data").joinpath(name)
        talks = validate_objects(file, read_objects(file), Talk)
        for system in talks[0].systems:
            options = BatchOptions(name="talks", rubric=rubric, judge=EXPLAINING, metadata={"system": system})
            yield DemoTalks(options, tuple(talk.by(system) for talk in talks))


APPLICATION_ID = 0x53414944
"""SQLite keeps this number in the file's head for its application: "SAID", for Saiten's demo."""

APPLICATION_ID_AT = 68  # where in the head it stands, big-endian (https://www.sqlite.org/fileformat2.html)
BESIDE = ("-wal", "-shm")


def check_place(file: Path) -> None:
    """Raises SettingsInvalid where `file` cannot be written, or holds something that the demo did not make."""
    folder = file.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise SettingsInvalid(Message("demo-folder-not-writable", file=str(file)))
    if not file.exists():
        return
    try:
        with file.open("rb") as opened:
            head = opened.read(APPLICATION_ID_AT + 4)
    except OSError as error:
        raise SettingsInvalid(Message("file-problem", file=str(file), why=tell(error.strerror or ""))) from None
    if head[APPLICATION_ID_AT:] != APPLICATION_ID.to_bytes(4, "big"):
        raise SettingsInvalid(Message("demo-file-of-others", file=str(file)))


def keep_database(made: Path, file: Path) -> None:
    """Copies the finished database `made` to `file`. Raises SettingsInvalid; what was at `file` is then still there."""
    fresh = file.with_name(f"{file.name}.{os.getpid()}.new")
    try:
        # One file, with everything of the original's log in it, and the demo's mark.
        with closing(sqlite3.connect(made)) as source, closing(sqlite3.connect(fresh)) as target:
            source.backup(target)
            target.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        for suffix in BESIDE:
            # SQLite would take an old log beside the new file for the new file's own.
            file.with_name(file.name + suffix).unlink(missing_ok=True)
        fresh.replace(file)
    except OSError as error:
        raise SettingsInvalid(Message("file-problem", file=str(file), why=tell(error.strerror or ""))) from None
    except sqlite3.Error as error:
        raise SettingsInvalid(Message("file-problem", file=str(file), why=str(error))) from None
    finally:
        for suffix in ("", *BESIDE):
            with suppress(OSError):
                fresh.with_name(fresh.name + suffix).unlink(missing_ok=True)


OVERALL, FINDINGS = "overall", "findings"


@dataclass(frozen=True)
class ScoredRun:
    """A run as the service has it. `mean` is of `overall`, or of the first composite of a rubric without it; of a run
    of conversations, which the lexical judge does not rate, it is the number of findings."""

    batch: Batch
    measure: str
    mean: float | None


async def post_runs(backend: Backend, runs: Sequence[DemoRun | DemoTalks], *, quiet: bool) -> list[ScoredRun]:
    """Posts every run, waits for all and adds their ratings, which takes some seconds. Raises SaitenError."""
    if not quiet:
        count = sum(len(run.items) for run in runs)
        told = tell("{count} candidates more go to POST /v1/batches, as {runs} runs …", count=count, runs=len(runs))
        console().print(f"\n{told}\n")
    posted = []
    for run in runs:
        body = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in write_demo_lines(run)).encode()
        posted.append((run, read(Batch, await backend.client.post_batch(body))))
    return [await finish(backend, run, batch) for run, batch in posted]


async def finish(backend: Backend, run: DemoRun | DemoTalks, batch: Batch) -> ScoredRun:
    """Waits for the batch, then keeps its ratings."""
    done = await wait(backend.client, batch.id, lambda _: None)
    ratings = [rating for rated in run.ratings for rating in rated.by_rater(batch.id)]
    if ratings:
        await backend.client.post_ratings(rating.model_dump(mode="json", exclude_unset=True) for rating in ratings)
    summary = read(Summary, await backend.client.summary(batch.id))
    if summary.findings is not None:
        return ScoredRun(done, FINDINGS, float(sum(one.turns for one in summary.findings.codes.values())))
    if OVERALL in summary.aspects:
        return ScoredRun(done, OVERALL, summary.aspects[OVERALL].mean)
    measure = next(iter(summary.composites), DASH)
    return ScoredRun(done, measure, summary.composites[measure].mean if measure != DASH else None)


def table_of_runs(runs: Sequence[ScoredRun]) -> Table:
    """One row a run, in the order of posting."""
    table = Table(title=tell("runs"), box=SIMPLE_HEAD, padding=(0, 2, 0, 0), **LEFT)
    for name in tell_all("name", "rubric", "system", "build"):
        table.add_column(name)
    for name in tell_all("scored", "mean"):
        table.add_column(name, justify="right")
    for run in runs:
        batch, metadata = run.batch, run.batch.metadata
        mean = DASH if run.mean is None else f"{run.measure} {run.mean:.{0 if run.measure == FINDINGS else 2}f}"
        named = (batch.name or DASH, batch.rubric, metadata.get("system", DASH), metadata.get("build", DASH))
        scored = batch.counts.scored + batch.counts.partial
        table.add_row(*named, tell("{scored} of {total}", scored=scored, total=batch.counts.total), mean)
    return table


PRIVATE = "demo.db"

NEXT = mark("""
These scores come from the embedded lexical judge: a baseline and a smoke test, not an LLM judge. To look at the runs,
with ratings by simulated raters, open http://127.0.0.1:8000/ (API pages at /docs) while this runs, in this folder:
  export DATABASE_URL={database}
  {saiten} serve
In this shell, every further command then uses these runs too. Next:
  an LLM judge        OPENAI_API_KEY=sk-… {saiten} serve
  a local LLM judge   OPENAI_BASE_URL=http://127.0.0.1:11434/v1 SAITEN_MODEL=… {saiten} serve
  the English path    DEEPL_API_KEY=… (with either)
  blended relevance   {install} (PyTorch is large)
  your own data       {saiten} score FILE (CSV, XLSX, JSON and more)
  thousands at once   POST /v1/batches""")

DATABASE = "saiten-demo.db"


@click.command("demo")
@click.option(
    "--use-environment", is_flag=True, help="Use the judge and keys of the environment (this may cost money)."
)
@click.option(
    "--judge-runs",
    is_flag=True,
    help="With --use-environment: its judge rates the 18 runs as well, with 408 candidates more to pay for. Without,"
    " the lexical judge rates them.",
)
@click.option(
    "--database",
    default=DATABASE,
    show_default=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="File in which the runs are kept; one that an earlier demo made is replaced.",
)
@click.option("--quiet", is_flag=True, help="Only make the file of runs: no candidates, no tables.")
def command(use_environment: bool, judge_runs: bool, database: Path, quiet: bool) -> None:
    """Start a private service, post the bundled Japanese and Korean dialogues, show the scores, stop.

    Then 18 bundled runs of three systems are scored, and kept in a database for the dashboard to show. Their human
    ratings are simulated.
    """
    if judge_runs and not use_environment:
        raise click.UsageError(tell("--judge-runs goes with --use-environment"))
    check_place(database)
    requests = [] if quiet else load_demo()
    results = asyncio.run(run_demo(database, requests, use_environment, judge_runs, quiet))
    if any(result["status"] != "scored" for result in results):
        raise click.exceptions.Exit(exits.FELL_SHORT)


async def run_demo(
    database: Path, requests: list[dict[str, Any]], use_environment: bool, judge_runs: bool, quiet: bool
) -> list[dict[str, Any]]:
    """Each request's answer by a service that lives no longer than this; the runs are then in the database."""
    runs: list[DemoRun | DemoTalks] = [*load_conversations(), *load_runs()]
    with tempfile.TemporaryDirectory(prefix="saiten-demo-") as folder:
        results: list[dict[str, Any]] = []
        scored: list[ScoredRun] = []
        by_one_judge = judge_runs or not use_environment
        if by_one_judge or requests:
            async with serve(folder, use_environment) as backend:
                if requests:
                    results = await score_privately(backend, requests)
                    format_demo(results, requests)
                if by_one_judge:
                    scored = await post_runs(backend, runs, quiet=quiet)
        if not by_one_judge:
            async with serve(folder, use_environment=False) as backend:
                scored = await post_runs(backend, runs, quiet=quiet)
        keep_database(Path(folder) / PRIVATE, database)
    if not quiet:
        show_end(scored, database)
    return results


async def score_privately(backend: Backend, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each request's answer."""
    url, scorer = backend.client.url, scorer_of(backend.client)
    requests = [{**request, "judge": {"explain": True}} for request in requests]
    told = tell(
        "A private service answers at {url}. {count} candidates go to POST /v1/evaluations.",
        url=url,
        count=len(requests),
    )
    console().print(f"{told}\n")
    async with aclosing(score_in_order(requests, scorer, concurrency=8, done=lambda: None)) as results:
        return [result async for result in results]


def format_demo(results: list[dict[str, Any]], requests: list[dict[str, Any]]) -> None:
    """The tables, and one signature a rubric."""
    out = console()
    pairs = zip(results, requests, strict=True)
    print_table([{**result, "_response": request["response"]} for result, request in pairs], on=out)
    for rubric in rubrics_of(results):
        print_sheet(means_of(rubric, results), out)
    scored = [result for result in results if "signature" in result]
    out.print(tell("signature"), style="bold")
    for line in dict.fromkeys(result["signature"] for result in scored):
        out.print(line, soft_wrap=True)
    for reason in sorted({why for result in scored if (why := (result["relevance"] or {}).get("unavailable"))}):
        told = tell("no blended values: {reason}", reason=say(reason))
        out.print(f"\n{told}", soft_wrap=True)


def show_end(runs: list[ScoredRun], database: Path) -> None:
    """The runs, what to set next, and the address at which to look at them."""
    out = console()
    out.print(table_of_runs(runs))
    url = shlex.quote(f"sqlite+aiosqlite:///{database}")
    out.print(tell(NEXT, saiten=name_command(), database=url, install=name_install()), soft_wrap=True)


def name_command() -> str:
    """`saiten` as it can be typed here: by its name if that finds this installation, else by its path."""
    here = Path(sys.executable).parent / "saiten"
    found = shutil.which("saiten")
    if not here.exists() or (found is not None and Path(found).absolute() == here):
        return "saiten"
    # Relative within a checkout: make calls the command of the checkout's own environment.
    return shlex.quote(str(here.relative_to(Path.cwd()) if here.is_relative_to(Path.cwd()) else here))


def name_install() -> str:
    """What installs the encoder: `make` in a checkout, pip wherever a wheel was installed."""
    if (Path.cwd() / "Makefile").exists() and Path(__file__).is_relative_to(Path.cwd()):
        return "make install"
    return f"{shlex.quote(sys.executable)} -m pip install 'saiten-server[bertscore]'"


@asynccontextmanager
async def serve(folder: str, use_environment: bool) -> AsyncIterator[Backend]:
    """A private service with a database in `folder`. Raises saiten.PrivateServiceFailed where it does not start."""
    # Without Redis: the batches would go to the queue of other workers, who cannot see this database.
    environment = {"DATABASE_URL": f"sqlite+aiosqlite:///{Path(folder) / PRIVATE}", "REDIS_URL": ""}
    if os.environ.get("SAITEN_CACHE") == "redis":
        environment["SAITEN_CACHE"] = ""
    if not use_environment:
        environment["SAITEN_JUDGE"] = "lexical"
    async with open_backend(None, environment, quiet=True) as backend:
        yield backend

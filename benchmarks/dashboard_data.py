"""A database as full as the dashboard has to bear: two runs of 100,000 results, small ones, ratings and a round."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from benchmarks.dashboard_results import Maker, draw, pose
from saiten_server.container import Container, open_container
from saiten_server.core.batch import BatchFilter, BatchOptions, Candidate, Entry
from saiten_server.core.evaluation import EvaluationRequest
from saiten_server.core.rubric import Rubric
from saiten_server.platform.settings import Settings
from saiten_server.platform.sql.engine import open_engine
from saiten_server.ratings.values import HumanRating, RoundOptions
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.work import CHUNK_SIZE, ChunkJob
from saiten_server.scoring.evaluate import evaluate

NAME, SYSTEM = "nightly", "bot-a"
PROJECT = "default"
SMALL_RUNS = 200
SMALL_ITEMS = 40
RATED_ITEMS = 200
RATERS = ("rater-1", "rater-2", "rater-3")
APPENDED = 1000
CHUNKS_AT_ONCE = 25
LEASE_SECONDS = 600.0


@dataclass(frozen=True)
class Seeded:
    """What stands in the database: the big runs, older first, with so many results each, and the round's id."""

    url: str
    runs: tuple[str, str]
    round: str
    results: int

    @property
    def kind(self) -> str:
        """The database's name."""
        return "SQLite" if self.url.startswith("sqlite") else "PostgreSQL"


@dataclass(frozen=True)
class Plan:
    """A run to be put in. `drop` lowers its ratings, in standard deviations."""

    name: str
    system: str
    build: str
    at: datetime
    count: int
    seed: int
    drop: float = 0.0


def locate(given: str | None, folder: Path) -> str:
    """The URL of a database that is given as a URL or as a file; without one of a new file in the folder."""
    if given is not None and "://" in given:
        return given
    return f"sqlite+aiosqlite:///{Path(given).resolve() if given else folder / 'dashboard.db'}"


async def seed(url: str, results: int) -> Seeded:
    """The database with all of it; one that is full already is taken as it is."""
    settings = Settings(database_url=url, judge="lexical", encoder="off", log_level="error")
    async with open_container(settings) as service:
        if found := await find(service, url):
            return found
        engine = open_engine(settings.database_url)
        try:
            runs = await fill(service, BatchStore(engine), results)
        finally:
            await engine.dispose()
        ratings = list_ratings(service.scoring.context.rubrics.get("ja-dialogue"), runs[1])
        await service.ratings.service.keep_ratings(PROJECT, list(ratings))
        await service.ratings.service.settle()
        opened = await service.ratings.rounds.open(PROJECT, runs[1], RoundOptions(name="spot check", items=100))
    return Seeded(url, runs, opened.id, results)


async def find(service: Container, url: str) -> Seeded | None:
    """What an earlier run has put in; None of an empty database."""
    rounds = await service.ratings.rounds.list(PROJECT, limit=1)
    big = await service.batches.list(PROJECT, BatchFilter(name=NAME, status="completed"), after=None, limit=3)
    if rounds and len(big) == 2:
        newer, older = big
        return Seeded(url, (older.id, newer.id), rounds[0].id, newer.counts.total)
    if await service.batches.list(PROJECT, BatchFilter(), after=None, limit=1):
        sys.exit("the database holds something else, or was not finished; name another, or remove it")
    return None


async def fill(service: Container, store: BatchStore, results: int) -> tuple[str, str]:
    """Puts all runs in, small ones first; the ids of the big ones."""
    rubric, posed = service.scoring.context.rubrics.get("ja-dialogue"), pose(0, 0)
    asked = EvaluationRequest(rubric=rubric.id, context=posed.context, response=posed.response, relevance=None)
    made = Maker(rubric, await evaluate(asked, service.scoring.context))
    begun = datetime.now(UTC) - timedelta(days=SMALL_RUNS + 2)
    for number in range(SMALL_RUNS):
        name, system = "smoke" if number % 2 else "weekly", f"bot-{'abc'[number % 3]}"
        at = begun + timedelta(days=number)
        await score(store, made, Plan(name, system, f"0.{number}", at, SMALL_ITEMS, number))
    at = begun + timedelta(days=SMALL_RUNS)
    older = await score(store, made, Plan(NAME, SYSTEM, "1", at, results, 1001))
    newer = await score(store, made, Plan(NAME, SYSTEM, "2", at + timedelta(days=1), results, 1002, drop=0.05))
    return older, newer


async def score(store: BatchStore, made: Maker, plan: Plan) -> str:
    """A completed batch by the path that a worker takes; its id."""
    batch_id = "ba_" + secrets.token_hex(12)
    metadata = {"system": plan.system, "build": plan.build}
    options = BatchOptions(name=plan.name, rubric=made.rubric.name, metadata=metadata)
    places = [Entry(position=number, item=name_item(number), candidate=None) for number in range(plan.count)]
    candidates = [(place, pose(place.position, plan.seed)) for place in places]
    await store.begin(PROJECT, batch_id, options, plan.at)
    for start in range(0, plan.count, APPENDED):
        await store.append(batch_id, candidates[start : start + APPENDED])
    await store.accept(PROJECT, batch_id, unit_cost_usd=None, answer=None)
    drawn = draw(plan.count, plan.seed, plan.drop)
    jobs = [ChunkJob(batch_id, chunk) for chunk in range(-(-plan.count // CHUNK_SIZE))]
    for start in range(0, len(jobs), CHUNKS_AT_ONCE):
        some = jobs[start : start + CHUNKS_AT_ONCE]
        todo = [(job, place, posed) for job in some for place, posed in await claim(store, job)]
        finished = [made.finish(job, place, posed, drawn, plan.at) for job, place, posed in todo]
        await store.commit("bench", finished, some)
    return batch_id


async def claim(store: BatchStore, job: ChunkJob) -> Sequence[tuple[Entry, Candidate]]:
    """The chunk's candidates."""
    work = await store.claim(job, "bench", LEASE_SECONDS)
    if work is None:
        raise RuntimeError(f"{job} is not to be had")
    return work.todo


def name_item(number: int) -> str:
    return f"dialogue-{number:06}"


def list_ratings(rubric: Rubric, batch_id: str) -> Iterator[HumanRating]:
    """Three raters' ratings of the first items, every aspect."""
    random = np.random.default_rng(7)
    for number in range(RATED_ITEMS):
        for rater in RATERS:
            yield HumanRating(
                item=name_item(number),
                batch=batch_id,
                rater=rater,
                ratings={aspect.id: float(random.choice(aspect.values)) for aspect in rubric.aspects},
            )

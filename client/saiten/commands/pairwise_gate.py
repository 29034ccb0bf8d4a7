"""The work of `saiten gate --pairwise`: does the judge prefer the candidate often enough?

The candidate passes where the whole interval of its share of preferences, a tie counting half, lies at .5 − max_loss or
above, and fails where all of it lies below; else the gate is inconclusive. So it is where less than `min_coverage` of
the pairs have a preference, or of the larger run's responses are in pairs: those that are missing may be the worst.

While a preference run is judged, the gate looks at it whenever it has grown by half. Look k uses the interval at 1 − 3
alpha / ((k + 2) (k + 3)), and the look at the end what is left, which adds up to alpha, so that a gate that stops early
is wrong no more often than alpha.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import click

from saiten.answers import PreferenceRun, PreferenceSummary, Ranking
from saiten.commands.compare_runs import PREFERENCE_RUNS_PATH, post, read_id
from saiten.commands.files import InvalidItems
from saiten.commands.junit import OUTCOMES, JUnitCase, write_suite
from saiten.commands.markdown import GATE_VERDICTS, LEXICAL_NOTE, escape, names_lexical
from saiten.commands.service import LEXICAL, NO_JUDGE, open_service
from saiten.connection import JSON, Connection, Object, once
from saiten.core.errors import JudgeUnfit
from saiten.core.figures import write_figure
from saiten.core.language import mark, tell
from saiten.core.wording import read_signature
from saiten.reading import read
from saiten.waiting import read_object

RANKING = "/v1/analyses/ranking"
WAIT_SECONDS = 2.0
FIRST_LOOK, GROWTH = 50, 1.5
"""Pairs at the first look, and by how much they have grown at the next."""

ENDED = frozenset({"completed", "cancelled"})
GateVerdict = Literal["pass", "fail", "inconclusive"]


@dataclass(frozen=True)
class PairwiseJob:
    """What `saiten gate --pairwise` was asked. `preferences` is a preference run (`pf_…`) or a file of records; without
    it the two runs are compared."""

    candidate: str
    baseline: str
    url: str | None
    preferences: str | None
    alpha: float
    max_loss: float
    min_coverage: float = 0.98
    budget_usd: float | None = None
    name: str | None = None
    path: str | None = None
    judge: str | None = None
    ci: bool = False


@dataclass(frozen=True)
class PairwiseVerdict:
    """The verdict with the candidate's share of preferences and its interval; `looks` counts looks of the gate, and
    `code` says what decided. `coverage` says how much was there; None of a file, which does not tell. `lexical` is
    whether that judge, a baseline, compared."""

    verdict: GateVerdict
    share: float | None
    interval: tuple[float, float] | None
    code: str
    reason: str
    pairs: Mapping[str, Any] | None
    looks: int
    preference_run: str | None
    stopped_early: bool = False
    coverage: str | None = None
    lexical: bool = False


LEAST_LEVEL = 1e-9
"""The service takes no smaller alpha."""


def spend(alpha: float, look: int, *, last: bool = False) -> float:
    """What look k, from 1, may spend of the error rate; the last one what those before it left."""
    left = 3 / (look + 2)
    return alpha * (left if last else left / (look + 3))


async def run_pairwise(job: PairwiseJob) -> PairwiseVerdict:
    """The verdict. Raises InvalidItems for what the service refuses, and SaitenError."""
    given = job.preferences
    judges = given is None
    async with open_service(job.url) if judges else open_service(job.url, NO_JUDGE) as service:
        if given is not None and not given.startswith("pf_"):
            answer = await rank_file(service, given, job.alpha)
            return decide(answer, job, job.candidate, job.baseline, look=1)
        if judges:
            await require_judge(service, job)
        run = given or await begin_run(service, job)
        return await watch(service, run, job, owned=judges)


async def rank_file(service: Connection, path: str, alpha: float) -> Object:
    """The ranking of the file's records."""
    try:
        body = await asyncio.to_thread(Path(path).read_bytes)
    except OSError as error:
        raise InvalidItems(f"{path}: {tell(error.strerror or '')}") from None
    kind = "text/csv" if path.lower().endswith(".csv") else "application/x-ndjson"
    answer = await service.request(
        "POST", RANKING, params={"alpha": str(alpha)}, content=body, headers={"Content-Type": kind}
    )
    return read_object(answer)


async def require_judge(service: Connection, job: PairwiseJob) -> None:
    """Says where the baseline judge would compare. Raises JudgeUnfit in a CI, unless that judge was named."""
    judge = (await service.info()).get("judge")
    if not (isinstance(judge, dict) and judge.get("baseline")):
        return
    if job.ci and job.judge != "lexical":
        raise JudgeUnfit(tell("in a CI the lexical judge compares nothing unless --judge lexical says so"))
    click.echo(tell(LEXICAL), err=True)


async def begin_run(service: Connection, job: PairwiseJob) -> str:
    """The id of a new preference run of the two runs."""
    asked: dict[str, Any] = {"runs": [job.candidate, job.baseline], "name": job.name, "budget_usd": job.budget_usd}
    asked["path"] = job.path
    body = {key: value for key, value in asked.items() if value is not None}
    return read_id(await post(service, PREFERENCE_RUNS_PATH, body, once(JSON, None)))


async def watch(service: Connection, run: str, job: PairwiseJob, *, owned: bool) -> PairwiseVerdict:
    """The verdict as soon as there is one, or that of the ended run. A run of this gate's own is then cancelled."""
    look, due = 0, FIRST_LOOK
    while True:
        answer = read_object(await service.request("GET", f"{PREFERENCE_RUNS_PATH}/{quote(run)}"))
        state = read(PreferenceRun, answer).model_dump(mode="json")
        counts = state["counts"]
        done, ended = counts["scored"] + counts.get("partial", 0), state["status"] in ENDED | {"paused"}
        level = spend(job.alpha, look + 1, last=ended)
        if ended or (done >= due and level >= LEAST_LEVEL):
            look, due = look + 1, max(FIRST_LOOK, int(done * GROWTH))
            found = await look_at(service, run, state, job, level=level, look=look)
            if ended or found.verdict != "inconclusive":
                early = not ended
                if early and owned:
                    await service.request("POST", f"{PREFERENCE_RUNS_PATH}/{quote(run)}/cancel", again=False)
                return replace(found, stopped_early=early)
        await asyncio.sleep(WAIT_SECONDS)


async def look_at(
    service: Connection, run: str, state: Object, job: PairwiseJob, *, level: float, look: int
) -> PairwiseVerdict:
    """The verdict by what was judged until now."""
    body = json.dumps({"preference_run": run, "alpha": level, "by": "judge"}).encode()
    answer = read_object(
        await service.request("POST", RANKING, content=body, headers={"Content-Type": JSON}, again=False)
    )
    plan = state["pairs"]
    names = dict(zip(plan["runs"], plan["systems"], strict=True))
    candidate, baseline = (names.get(one, one) for one in (job.candidate, job.baseline))
    ranking = read(Ranking, answer).model_dump(mode="json")
    summary = read_object(await service.request("GET", f"{PREFERENCE_RUNS_PATH}/{quote(run)}/summary"))
    shares = list_shares(state, read(PreferenceSummary, summary).model_dump(mode="json"), {candidate, baseline})
    found = cover(decide(ranking, job, candidate, baseline, look=look, run=run), shares, job.min_coverage)
    signatures = [state.get("signature") or "", *(state.get("signatures") or ())]
    return replace(found, lexical=any(names_lexical(read_signature(one).get("judge", "")) for one in signatures))


Share = tuple[int, int, str]
"""How many there are, of how many, and what."""


def list_shares(state: Object, summary: Object, systems: set[str]) -> list[Share]:
    """What must be covered of two systems, by a preference run and its summary."""
    plan, counts = state["pairs"], summary["counts"]
    aspect = plan["aspects"][0]
    told = [
        {
            **one["aspects"][aspect],
            "systems": {one["first"]["system"], one["second"]["system"]},
            "failed": one["failed"],
        }
        for one in summary["pairs"]
    ]
    names = ("first", "second", "tie", "missing", "failed")
    known = sum(one[name] for one in told for name in names)
    # Of which runs these pairs are is not known: erased ones, or all that failed in a service of an earlier release.
    lost = max(0, counts["scored"] + counts["partial"] + counts["failed"] - known)
    mine = next((one for one in told if one["systems"] == systems), dict.fromkeys(names, 0))
    have = sum(mine[name] for name in names[:3])
    shares = [
        (
            have,
            have + mine["missing"] + mine["failed"] + lost,
            mark("{have} of {of} judged pairs have a preference ({percent}%)"),
        )
    ]
    left_out = plan["left_out"]
    if len(plan["runs"]) == 2 and plan["responses"]:
        paired = sum(plan["responses"]) - left_out.get("alone", 0) - left_out.get("failed", 0)
        shares.append(
            (
                paired // 2,
                max(plan["responses"]),
                mark("{have} of the larger run's {of} responses in pairs ({percent}%)"),
            )
        )
    return shares


def cover(found: PairwiseVerdict, shares: Sequence[Share], minimum: float) -> PairwiseVerdict:
    """The verdict, which is inconclusive where too little is there to speak of the whole."""
    told = [
        tell(text, have=f"{have:,}", of=f"{of:,}", percent=f"{100 * have / of:.2f}" if of else "–")
        for have, of, text in shares
    ]
    told.append(tell("at least {percent}% of each must be there", percent=f"{100 * minimum:g}"))
    coverage = "; ".join(told)
    if all(of and have / of >= minimum for have, of, _ in shares):
        return replace(found, coverage=coverage)
    return replace(
        found, verdict="inconclusive", code="coverage", reason=f"{coverage}; {found.reason}", coverage=coverage
    )


def decide(
    ranking: Mapping[str, Any], job: PairwiseJob, candidate: str, baseline: str, *, look: int, run: str | None = None
) -> PairwiseVerdict:
    """The verdict on two systems of a ranking. Raises InvalidItems where one is not in it."""
    for system in (candidate, baseline):
        if system not in ranking["systems"]:
            names = ", ".join(ranking["systems"])
            raise InvalidItems(tell("{system} is not among the systems: {names}", system=system, names=names))
    met = next((one for one in ranking["pairs"] if {one["a"], one["b"]} == {candidate, baseline}), None)

    def lack(code: str, reason: str, share: float | None = None) -> PairwiseVerdict:
        return PairwiseVerdict("inconclusive", share, None, code, reason, met, look, run)

    if met is None:
        return lack("never-compared", tell("the two were never compared"))
    share, ends = met["share"], met["share_interval"]
    if met["a"] != candidate:
        share, ends = 1 - share, None if ends is None else (1 - ends[1], 1 - ends[0])
    if not met["both_orders"]:
        return lack("one-order", tell("each was shown in one order only, so that the order decides too"), share)
    if ends is None:
        why = met.get("undefined", {}).get("share_interval")
        told = met.get("messages", {}).get("undefined", {}).get("share_interval", {})
        few = why is None or told.get("code") == "ranking-few-met"
        return lack(
            "too-few" if few else "no-interval", why or tell("too few dialogues or items for an interval"), share
        )
    least = 0.5 - job.max_loss
    told = tell(
        "preferred in {share} [{low}, {high}], a tie counting half; needed {least}",
        share=write_figure(share, 3),
        low=write_figure(ends[0], 3),
        high=write_figure(ends[1], 3),
        least=write_figure(least, 3),
    )
    verdict: GateVerdict = "pass" if ends[0] >= least else "fail" if ends[1] < least else "inconclusive"
    return PairwiseVerdict(verdict, share, tuple(ends), "share", told, met, look, run)


def write_pairwise_junit(found: PairwiseVerdict, job: PairwiseJob) -> str:
    """One test case: whether the candidate is preferred often enough."""
    asked: dict[str, str | None] = {"candidate": job.candidate, "baseline": job.baseline, "alpha": f"{job.alpha:g}"}
    asked |= {"max_loss": f"{job.max_loss:g}", "preference_run": found.preference_run, "looks": str(found.looks)}
    properties = [("verdict", found.verdict), *((name, value) for name, value in asked.items() if value)]
    case = JUnitCase(f"preferences: max_loss {job.max_loss:g}", OUTCOMES[found.verdict], found.reason, found.code)
    # Within the first line of the file: CI systems show the suite's name above everything else.
    return write_suite("saiten gate --pairwise" + name_lexical(found), properties, [case])


def write_pairwise_markdown(found: PairwiseVerdict, job: PairwiseJob) -> str:
    """Headline, what was compared, what decided, and how often either was preferred."""
    headline = tell("Saiten gate: {verdict}", verdict=tell(GATE_VERDICTS[found.verdict]) + name_lexical(found))
    runs = tell(
        "Candidate **{candidate}** against **{baseline}** by preferences, alpha {alpha}.",
        candidate=escape(job.candidate),
        baseline=escape(job.baseline),
        alpha=f"{job.alpha:g}",
    )
    parts = [f"### {headline}", runs, f"- **{tell(GATE_VERDICTS[found.verdict])}** {escape(found.reason)}"]
    if found.pairs is not None:
        names = [escape(str(found.pairs[side])) for side in ("a", "b")]
        counts = [str(found.pairs[name]) for name in ("a_wins", "b_wins", "ties")]
        rows = ([*names, tell("ties")], ["--:"] * 3, counts)
        parts.append("\n".join(f"| {' | '.join(row)} |" for row in rows))
    if found.stopped_early:
        parts.append(escape(tell("  stopped early, at look {look}", look=found.looks).strip()) + ".")
    return "\n\n".join(parts) + "\n"


def name_lexical(found: PairwiseVerdict) -> str:
    """That the judge is a baseline; empty of any other."""
    return tell(LEXICAL_NOTE) if found.lexical else ""

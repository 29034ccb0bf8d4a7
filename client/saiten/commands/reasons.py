"""The worst cases of a gate's candidate, with the reasons that the judge gave or is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from saiten.answers import Batch, Explanation, Measure
from saiten.commands.cases import BLENDED, CaseSide, GateCase, ShownGateReport
from saiten.commands.gate_settings import GateSettings
from saiten.commands.markdown import has_moved
from saiten.commands.runs import ResultLine, Results, fetch_results
from saiten.connection import Connection, Object
from saiten.core.errors import SaitenError, ServiceRefused
from saiten.core.language import tell
from saiten.core.wording import name_rule, name_run, rate_measures
from saiten.reading import read
from saiten.waiting import read_object

MOST_CASES = 3
"""Cases that a report shows. The judge is asked for the reasons of two responses each."""

MOST_REASONS = 2
"""Of a composite's aspects, whose reasons stand for it."""

MOST_READ = 20_000
"""Results of a run up to which its worst cases are looked for; of larger ones the explorer shows them."""

NOT_FOUND = 404

Key = tuple[str, int | None]
"""Item and number of the response, by which runs are paired."""


@dataclass
class Allowance:
    """What the judge may still cost in USD, None for any amount; `refusal` is why it is asked no more."""

    usd: float | None
    refusal: str | None = None


@dataclass(frozen=True)
class Ranked:
    """A case: the candidate's line, and the baseline's where there is one of the same item."""

    aspect: str
    value: float
    candidate: ResultLine
    baseline: ResultLine | None = None


@dataclass(frozen=True)
class RunPair:
    """Both runs by key, as far as their items have ids that callers gave."""

    candidate: Results
    baseline: Results | None
    earlier: Mapping[Key, ResultLine] = field(default_factory=dict)


async def complete_answer(
    service: Connection,
    settings: GateSettings,
    answer: Object,
    candidate: Batch | Results,
    baseline: Batch | Results | None,
) -> Object:
    """The answer with what a reader wants beside it: what to call the runs, the explorer's address where a service is
    named, and, of a verdict that is no pass, the worst cases. Of a failure the judge is asked for missing reasons."""
    report, runs = read(ShownGateReport, answer), (candidate, baseline)
    called = (report.candidate, report.comparison.baseline if report.comparison else "")
    added: Object = {
        "names": {name: name_of(run) for name, run in zip(called, runs, strict=True) if run is not None and name}
    }
    if settings.url is not None and (address := find_address(service.url, runs, report.id)):
        added["address"] = address
    sizes = [run.counts.total if isinstance(run, Batch) else len(run.lines) for run in runs if run is not None]
    if report.verdict == "pass" or has_moved(report) or max(sizes) > MOST_READ:
        return {**answer, **added}
    allowance = Allowance(money_left(settings, candidate)) if settings.reasons and report.verdict == "fail" else None
    before, after = [
        await fetch_results(service, run) if isinstance(run, Batch) else run for run in (baseline, candidate)
    ]
    if after is not None:
        cases = await find_cases(service, report, after, before, allowance)
        added["cases"] = [case.model_dump(mode="json") for case in cases]
    if allowance is not None and allowance.refusal is not None:
        added["unexplained"] = allowance.refusal
    return {**answer, **added}


def name_of(run: Batch | Results) -> str:
    """What a reader calls the run: that of a file by the file's name."""
    return name_run(run) if isinstance(run, Batch) else run.name


def money_left(settings: GateSettings, candidate: Batch | Results) -> float | None:
    """What the budget leaves for reasons; None without a budget, nothing where it is not known what was spent."""
    if settings.budget_usd is None:
        return None
    spent = candidate.usage.cost_usd if isinstance(candidate, Batch) else 0.0
    return 0.0 if spent is None else max(0.0, settings.budget_usd - spent)


async def find_cases(
    service: Connection,
    report: ShownGateReport,
    candidate: Results,
    baseline: Results | None,
    allowance: Allowance | None,
) -> list[GateCase]:
    """The worst cases of what the gate did not let pass. The judge is asked for missing reasons as far as the allowance
    goes, and not at all without one; what it costs is taken off."""
    earlier: dict[Key, ResultLine] = {}
    for line in baseline.lines if baseline else ():
        if line.item is not None and line.ids_given is not False:
            earlier.setdefault((line.item, line.candidate), line)
    found = choose_cases(report, RunPair(candidate, baseline, earlier))
    return [await tell_case(service, one, allowance) for one in found]


def choose_cases(report: ShownGateReport, pair: RunPair) -> list[Ranked]:
    """The worst few cases of the measures that did not pass, in turns, each item once."""
    lists = [
        rank(name, measure_of(report, name), pair)
        for name in dict.fromkeys(
            name_rule(reason)
            for reason in report.reasons
            if reason.about == "rule" and reason.verdict == report.verdict
        )
    ]
    chosen: dict[Key, Ranked] = {}
    while lists and len(chosen) < MOST_CASES:
        lists = [ranked for ranked in lists if ranked]
        for ranked in lists:
            best = ranked.pop(0)
            if len(chosen) < MOST_CASES:
                chosen.setdefault((best.candidate.item or "", best.candidate.candidate), best)
    return [*chosen.values()]


def measure_of(report: ShownGateReport, name: str) -> Measure | None:
    """The comparison's measure of that name."""
    comparison = report.comparison
    if comparison is None:
        return None
    known = {**rate_measures(comparison), **comparison.composites, **comparison.aspects}
    return known.get(name.removesuffix(BLENDED).removeprefix("finding:"))


def rank(name: str, measure: Measure | None, pair: RunPair) -> list[Ranked]:
    """The cases by the largest drop of the measure, or by the lowest value where the runs have no common items."""
    best, ranked = None if measure is None else measure.best, []
    for line in pair.candidate.lines:
        value = value_of(line, name, best)
        if value is None:
            continue
        before = pair.earlier.get((line.item or "", line.candidate))
        then = None if before is None else value_of(before, name, best)
        if then is None:
            ranked.append((0.0 if pair.earlier else value, value, Ranked(name, value, line)))
        else:
            ranked.append((value - then, value, Ranked(name, value, line, before)))
    ranked.sort(key=lambda one: one[:2])
    fell = [one for one in ranked if one[0] < 0] if pair.earlier or counts_findings(name) else ranked
    # A mean may be below its floor though nothing fell.
    kept = fell or ([] if counts_findings(name) else ranked)
    return [one for _, _, one in kept[: 2 * MOST_CASES]]


def counts_findings(name: str) -> bool:
    """Whether the measure is how often something was found wrong."""
    return name.startswith("finding:") or name == "faulty_turns"


def value_of(line: ResultLine, name: str, best: float | None) -> float | None:
    """The value of a measure, higher where it is better; None where the result has none."""
    if counts_findings(name):
        return None if line.findings is None else -float(len(findings_of(line, name)))
    value = rating_of(line, name)
    return value if value is None or best is None else -abs(value - best)


def rating_of(line: ResultLine, name: str) -> float | None:
    """The aspect's mean, its blended value, or the composite."""
    if name.endswith(BLENDED) and (aspect := line.aspects.get(name.removesuffix(BLENDED))):
        return aspect.blended
    return line.aspects[name].mean if name in line.aspects else line.composites.get(name)


def findings_of(line: ResultLine, name: str) -> list[str]:
    """What was found wrong by a rule's name: of one code or kind, or of any."""
    wanted = name.removeprefix("finding:")
    return [
        tell("turn {turn}: {detail}", turn=one.turn + 1, detail=one.detail)
        for one in line.found
        if wanted in {"faulty_turns", "any", one.code or "judge", f"kind:{one.kind}"}
    ]


async def tell_case(service: Connection, ranked: Ranked, allowance: Allowance | None) -> GateCase:
    """The case with its texts and reasons."""
    sides = {}
    for role, line in (("candidate", ranked.candidate), ("baseline", ranked.baseline)):
        if line is not None:
            sides[role] = await tell_side(service, ranked, line, allowance)
    said = next((line.context[-1].text for line in (ranked.candidate, ranked.baseline) if line and line.context), None)
    if said is None and ranked.candidate.id is not None:
        said = (await find_texts(service, ranked.candidate.id))[0]
    return GateCase(
        item=ranked.candidate.item or "",
        aspect=ranked.aspect,
        said=said,
        candidate=sides["candidate"],
        baseline=sides.get("baseline"),
    )


async def tell_side(service: Connection, ranked: Ranked, line: ResultLine, allowance: Allowance | None) -> CaseSide:
    """One response with the judge's reasons, for which it is asked where there are none."""
    name = ranked.aspect.removesuffix(BLENDED)
    response = line.response
    if response is None and line.id is not None:
        response = (await find_texts(service, line.id))[1]
    given = {aspect: one.reason for aspect, one in line.aspects.items() if one.reason}
    asked: dict[str, int | None] = {}
    if line.findings is not None and name not in line.aspects:
        found = findings_of(line, name)
        given = {name: "; ".join(found)} if found else {}
    elif not given and line.explained is not None:
        given, asked = read_explained({key: (one.rating, one.reason) for key, one in line.explained.aspects.items()})
    elif not given and line.id is not None and allowance is not None:
        given, asked = await ask_reasons(service, line.id, allowance)
    names = choose_aspects(name, ranked, given)
    return CaseSide(
        evaluation=line.id,
        response=response,
        rating=rating_of(line, ranked.aspect),
        reasons={key: given[key] for key in names},
        asked={key: asked[key] for key in names if key in asked},
    )


def choose_aspects(name: str, ranked: Ranked, given: Mapping[str, str]) -> list[str]:
    """The aspects whose reasons are told: the measure itself, or of a composite those that fell most."""
    if name in given or not given:
        return [name] if name in given else []
    after = {key: one.mean for key, one in ranked.candidate.aspects.items() if one.mean is not None}
    before = {key: one.mean for key, one in ranked.baseline.aspects.items()} if ranked.baseline else {}

    def drop(key: str) -> float:
        return after.get(key, 0.0) - (before.get(key) or 0.0)

    return sorted(given, key=drop)[:MOST_REASONS]


def read_explained(found: Mapping[str, tuple[int | None, str | None]]) -> tuple[dict[str, str], dict[str, int | None]]:
    """Reasons and ratings by aspect."""
    reasons = {key: reason for key, (_, reason) in found.items() if reason}
    return reasons, {key: rating for key, (rating, _) in found.items()}


async def ask_reasons(
    service: Connection, evaluation_id: str, allowance: Allowance
) -> tuple[dict[str, str], dict[str, int | None]]:
    """What the judge says when it is asked again. Where that fails it is asked no more, and the allowance has the
    refusal: the gate has its verdict without reasons."""
    if allowance.refusal is not None:
        return {}, {}
    query = {} if allowance.usd is None else {"budget_usd": f"{max(0.0, allowance.usd):.12f}"}
    try:
        answer = await service.request("POST", f"/v1/evaluations/{quote(evaluation_id)}/reasons", params=query)
        found = read_object(answer).get("explained")
    except ServiceRefused as error:
        # A result of a file may be another service's; a service that is older knows no reasons.
        allowance.refusal = None if error.status == NOT_FOUND else tell_refusal(error)
        return {}, {}
    except SaitenError as error:
        allowance.refusal = str(error)
        return {}, {}
    if found is None:
        return {}, {}
    explained = read(Explanation, found)
    if allowance.usd is not None:
        allowance.usd -= explained.usage.cost_usd or 0.0
    return read_explained({key: (one.rating, one.reason) for key, one in explained.aspects.items()})


def tell_refusal(error: ServiceRefused) -> str:
    """What is wrong, such as that the reasons would cost more than is left."""
    return error.faults[0][1] if error.faults else error.detail


async def find_texts(service: Connection, evaluation_id: str) -> tuple[str | None, str | None]:
    """What was said last, and the response to it, as the service has them; None where it has not."""
    try:
        path = f"/v1/evaluations/{quote(evaluation_id)}"
        answer = read_object(await service.request("GET", path, params={"include": "request"}))
    except SaitenError:
        return None, None  # the case is told without its texts
    asked = answer.get("request")
    context = asked.get("context") if isinstance(asked, dict) else None
    if not isinstance(asked, dict) or not isinstance(context, list):
        return None, None
    last = context[-1] if context else None
    return (str(last["text"]) if isinstance(last, dict) else None), str(asked.get("response"))


def find_address(url: str, runs: Sequence[Batch | Results | None], gate: str | None) -> str | None:
    """The page of the runs at the service, with the verdict where it is kept, and without a password that the service's
    address may hold; None unless all are there."""
    ids = [run.id for run in reversed(runs) if isinstance(run, Batch)]
    if len(ids) != len([run for run in runs if run is not None]):
        return None
    parts = urlsplit(url)
    base = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))
    if len(ids) == 1:
        return f"{base}/runs/{ids[0]}"
    asked: dict[str, list[str]] = {"run": ids, "gate": [gate] if gate is not None else []}
    return f"{base}/explore?{urlencode(asked, doseq=True)}"

"""`/compare`: whether a run is better or worse than another, and the dialogues that changed most."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from babel.lists import format_list
from fastapi import APIRouter, Request, Response

from app.charts.intervals import ForestLabels, ForestRow, build_forest
from app.comparison.computations import Examination, PendingComputation
from app.comparison.links import choose_link
from app.container import Container
from app.domain.batch import Batch, BatchFilter
from app.domain.comparison import (
    Changes,
    ChangeUnit,
    Comparison,
    GateReason,
    GateReport,
    GateVerdict,
    ItemSide,
    Measure,
    Verdict,
)
from app.domain.composites import range_of
from app.domain.dialogue import Utterance
from app.domain.errors import SignatureMismatch, UnknownAspect
from app.domain.reliability import AspectValidation
from app.domain.rubric import Rubric
from app.ratings.reliability import asked_of
from app.storage.sql.browsing import ResultBrowser
from app.web.dashboard import run_values
from app.web.dashboard.language import Speech, mark, query, speech_of
from app.web.dashboard.page import PageRoute, Project, render
from app.web.dashboard.run import meaning_of
from app.web.dashboard.run_values import BLENDED, build_of, examine, find_rubric, name_measures, paint, system_of
from app.web.dependencies import Serving

router = APIRouter(include_in_schema=False, route_class=PageRoute)

MOST_LISTED = 100
"""Runs to choose from; older ones are picked on the list of runs."""

LONGEST = 100
"""Characters of an id or a measure."""


@dataclass(frozen=True)
class CompareQuery:
    """The page's parameters. `measure` is what the dialogues are chosen by, empty for all aspects together; `link` the
    id of a link between the runs' judges, empty for none; `figures` whose the table shows, `corrected` or empty for the
    judge's."""

    baseline: str
    candidate: str
    measure: str
    link: str
    mismatch: bool
    figures: str = ""

    def address(self, **changes: Any) -> str:
        """This page, asked otherwise."""
        given = {**vars(self), "mismatch": "1" if self.mismatch else None, **changes}
        return query("/compare", **given)


@router.get("/compare")
async def show_comparison(request: Request, container: Serving, project: Project) -> Response:
    """Two runs side by side; without two of them the choice of runs."""
    asked = read_asked(request)
    speech = speech_of(request)
    ids = asked.baseline, asked.candidate
    picked = [await container.batches.find(project, batch_id) if batch_id else None for batch_id in ids]
    runs = await container.batches.list(project, BatchFilter(status="completed"), after=None, limit=MOST_LISTED)
    runs += [batch for batch in picked if batch is not None and batch.id not in {run.id for run in runs}]
    baseline, candidate = picked
    if baseline is None or candidate is None:
        chosen = await suggest(container, project, runs, baseline, candidate)
        page = {"state": "pick", "asked": asked, "runs": runs, "chosen": chosen}
        return render(request, "compare.html", **page, **describe(container))
    found = await gather(container, project, speech, asked, (baseline, candidate))
    swapped = asked.address(baseline=candidate.id, candidate=baseline.id)
    chosen = {"baseline": baseline.id, "candidate": candidate.id}
    both = {"baseline": baseline, "candidate": candidate, "swapped": swapped, "names": shorten(baseline, candidate)}
    page = {"asked": asked, "runs": runs, "chosen": chosen, **both, **found}
    return render(request, "compare.html", **page, **describe(container))


def read_asked(request: Request) -> CompareQuery:
    """The parameters, truncated."""
    asked, names = request.query_params, ("baseline", "candidate", "measure", "link")
    given = {name: asked.get(name, "").strip()[:LONGEST] for name in names}
    figures = "corrected" if asked.get("figures") == "corrected" else ""
    return CompareQuery(**given, mismatch=asked.get("mismatch") == "1", figures=figures)


def describe(container: Container) -> dict[str, Any]:
    """Functions on runs for the templates."""
    return {
        "system_of": system_of,
        "build_of": build_of,
        "judges_of": lambda batch: run_values.judges_of(container, batch),
    }


async def suggest(
    container: Container, project: str, runs: list[Batch], baseline: Batch | None, candidate: Batch | None
) -> dict[str, str]:
    """What stands chosen at first: the newest run, and its name's pinned baseline, else the run before it of its name
    and system."""
    first = candidate or next((run for run in runs if baseline is None or run.id != baseline.id), None)
    before = baseline
    if first is not None and before is None:
        before = (await container.comparison.pinned(project, [first])).get(first.id)
        before = before or (await run_values.find_predecessors(container.batches, project, [first])).get(first.id)
    if before is None:
        before = next((run for run in runs if first is not None and run.id != first.id), None)
    return {"baseline": before.id if before else "", "candidate": first.id if first else ""}


async def gather(
    container: Container, project: str, speech: Speech, asked: CompareQuery, both: tuple[Batch, Batch]
) -> dict[str, Any]:
    """The state of the page, and what it takes to show it."""
    rubric = find_rubric(container, both[1].rubric_name)
    obstacle = run_values.find_obstacle(container, both)
    if obstacle is not None or rubric is None:
        return obstacle or {"state": "gone"}
    try:
        examined = await ask(container, project, asked, rubric, both)
    except SignatureMismatch as error:
        pieces = explain_pieces(error.pieces)
        links, lines = await container.comparison.links.list(project), [run_values.signatures_of(run) for run in both]
        link = choose_link(links, *lines)
        linked = asked.address(link=link.id) if link else None
        return {"state": "mismatch", "pieces": pieces, "anyway": asked.address(mismatch="1"), "linked": linked}
    if isinstance(examined, PendingComputation):
        return {"state": "computing"}
    await container.dashboard.explorer.prepare(project, both, rubric)
    report = await make_report(container, project, speech, rubric=rubric, both=both, found=examined)

    def figures_address(**changes: Any) -> str:
        """The page at its table of differences."""
        return f"{asked.address(**changes)}#differences"

    return {"state": "ready", "figures_address": figures_address, **report}


async def ask(
    container: Container, project: str, asked: CompareQuery, rubric: Rubric, both: tuple[Batch, Batch]
) -> Examination | PendingComputation:
    """The comparison, once it is computed; an unknown measure is ignored."""
    known = {aspect.id for aspect in rubric.aspects} | {composite.id for composite in rubric.composites}
    measure = asked.measure if asked.measure.removesuffix(".blended") in known else None
    link = await container.comparison.links.find_stored(project, asked.link) if asked.link else None
    try:
        return await examine(container, project, both, rubric, measure=measure, mismatch=asked.mismatch, link=link)
    except UnknownAspect:
        return await examine(container, project, both, rubric, mismatch=asked.mismatch, link=link)


async def make_report(
    container: Container, project: str, speech: Speech, *, rubric: Rubric, both: tuple[Batch, Batch], found: Examination
) -> dict[str, Any]:
    """Everything that the comparison shows."""
    names = name_measures(rubric, speech)
    tables = make_tables(found.comparison, rubric, speech)
    lines = {line for batch in both for line in run_values.signatures_of(batch)}
    gate = found.gate
    trust = await container.ratings.reliabilities.weakest(project, lines, asked_of(gate))
    chart = await paint(container, speech, build_chart(tables["aspects"], shorten(*both), speech))
    ids = both[0].id, both[1].id
    return {
        "comparison": gate.comparison,
        "gate": gate,
        "trust": trust,
        "reasons": list_reasons(gate, trust, names, speech),
        "tables": tables,
        "corrected": [(key, name, found.corrected[key]) for key, name in names.items() if key in found.corrected],
        "corrected_by": found.corrected,
        "worse": list_names(tables["aspects"], "worse", speech),
        "better": list_names(tables["aspects"], "better", speech),
        "chart": chart,
        "painting": run_values.is_missing(chart),
        "changes": found.changes,
        "dialogues": await read_dialogues(container.dashboard.browser, project, ids, found.changes, names),
        "measures": [row for rows in tables.values() for row in rows],
        "pieces": explain_pieces(found.comparison.signature_differences),
        "rubric": rubric,
    }


MOST_SHOWN = 5
"""Of drops and of gains."""


@dataclass(frozen=True)
class SideView:
    """One run's response. `address` is its item page's; None where its text is not there any more. `count` are all of
    the item's responses, of which this is the first."""

    response: str | None
    utterance: Utterance | None
    address: str | None
    count: int


class ChangeView(NamedTuple):
    """An item in both runs. `values` are name, before, after and difference, in points toward the best, by measure."""

    item: str
    difference: float
    unit: ChangeUnit
    baseline: SideView
    candidate: SideView
    values: Sequence[tuple[str, float | None, float | None, float | None]]

    @property
    def is_shared(self) -> bool:
        """Whether both answer the same last utterance."""
        return self.baseline.utterance == self.candidate.utterance


async def read_dialogues(
    browser: ResultBrowser, project: str, ids: tuple[str, str], changes: Changes, names: Mapping[str, str]
) -> dict[str, list[ChangeView]]:
    """The largest `drops` and `gains` with their texts; the baseline's id is the first."""
    drops, gains = changes.drops[:MOST_SHOWN], changes.gains[:MOST_SHOWN]
    both = [*drops, *gains]
    before = await view_sides(browser, project, ids[0], [change.baseline for change in both])
    after = await view_sides(browser, project, ids[1], [change.candidate for change in both])
    views = []
    for change, baseline, candidate in zip(both, before, after, strict=True):
        values = [
            (names.get(name, name), value, change.candidate.values.get(name), change.differences.get(name))
            for name, value in change.baseline.values.items()
        ]
        views.append(ChangeView(change.item, change.difference, changes.unit, baseline, candidate, values))
    return {"drops": views[: len(drops)], "gains": views[len(drops) :]}


async def view_sides(browser: ResultBrowser, project: str, batch_id: str, sides: Sequence[ItemSide]) -> list[SideView]:
    """The first response of each item as the page shows it; without texts where they were erased meanwhile."""
    firsts = [side.responses[0].position if side.responses else None for side in sides]
    read = await browser.read(project, batch_id, [position for position in firsts if position is not None])
    found = {each.entry.position: each.candidate for each in read}
    views = []
    for side, position in zip(sides, firsts, strict=True):
        if position is None or position not in found:
            views.append(SideView(None, None, None, side.count))
            continue
        context, address = found[position].context, f"/runs/{batch_id}/items/{position}"
        views.append(SideView(found[position].response, context[-1] if context else None, address, side.count))
    return views


MOST_NAMED = 3
"""Aspects that a sentence names; of more it names one less and counts the others."""

EFFECTS = {0.147: mark("negligible"), 0.33: mark("small"), 0.474: mark("medium"), math.inf: mark("large")}
"""Bounds of Cliff's delta below which an effect has this name (Romano et al. 2006)."""


class MeasureRow(NamedTuple):
    """A measure with its name and scale; `id` is what rules and addresses call it, `effect` a message's id."""

    id: str
    name: str
    scale: tuple[float, float]
    measure: Measure
    effect: str | None


def make_tables(comparison: Comparison, rubric: Rubric, speech: Speech) -> dict[str, list[MeasureRow]]:
    """All measures of the comparison by kind, in the rubric's order."""
    names = name_measures(rubric, speech)
    scales = {aspect.id: (float(aspect.scale[0]), float(aspect.scale[1])) for aspect in rubric.aspects}
    scales |= {f"{name}{BLENDED}": scale for name, scale in scales.items()}
    scales |= {composite.id: range_of(composite, rubric) for composite in rubric.composites}

    def rows(measures: Mapping[str, Measure], suffix: str = "") -> list[MeasureRow]:
        named = {own + suffix: measure for own, measure in measures.items()}
        return [
            MeasureRow(name, names.get(name, name), scales.get(name, (0.0, 1.0)), measure, effect_of(measure))
            for name, measure in named.items()
        ]

    return {
        "aspects": rows(comparison.aspects),
        "composites": rows(comparison.composites),
        "blended": rows(comparison.blended, BLENDED),
    }


def effect_of(measure: Measure) -> str | None:
    """How large the effect is, in a word."""
    delta = measure.cliffs_delta
    return None if delta is None else next(word for bound, word in EFFECTS.items() if abs(delta) < bound)


def list_names(rows: Sequence[MeasureRow], verdict: Verdict, speech: Speech) -> str:
    """The measures with that verdict in one phrase; empty if there are none."""
    names = [row.name for row in rows if row.measure.verdict == verdict]
    if len(names) <= MOST_NAMED:
        return format_list(names, locale=speech.language)
    _, shown = speech.say, format_list(names[: MOST_NAMED - 1], style="unit", locale=speech.language)
    return _("%(names)s and %(count)s more", names=shown, count=len(names) - MOST_NAMED + 1)


def shorten(baseline: Batch, candidate: Batch) -> dict[str, str]:
    """Both runs in as few words as tell them apart: by their builds, else by systems, names or at last ids."""
    both = {"baseline": baseline, "candidate": candidate}
    builds, systems, names = (
        {role: of(batch) or "" for role, batch in both.items()}
        for of in (build_of, system_of, lambda batch: batch.name)
    )

    def differ(named: Mapping[str, str]) -> bool:
        return named["baseline"] != named["candidate"] and all(named.values())

    if differ(builds) and differ(systems):
        return {role: f"{systems[role]} {builds[role]}" for role in both}
    return next((named for named in (builds, systems, names) if differ(named)), {role: both[role].id for role in both})


def explain_pieces(pieces: Mapping[str, tuple[str, str]]) -> list[tuple[str, str, str, str | None]]:
    """The pieces of the signature in which the runs differ: name, both values and the meaning, a message's id."""
    return [(name, *values, meaning_of(name)) for name, values in pieces.items()]


def build_chart(rows: Sequence[MeasureRow], names: Mapping[str, str], speech: Speech) -> dict[str, object]:
    """The differences of the aspects with their intervals."""
    _ = speech.say
    labels = ForestLabels(
        title=_("Differences by aspect"),
        description=_("%(candidate)s minus %(baseline)s, with intervals", **names),
        points=_("Difference in points"),
        share=_("Share of the scale; figures in points"),
        better=_("better"),
        worse=_("worse"),
        inconclusive=_("no difference shown"),
        nothing=_("There is nothing to compare."),
    )
    marks = [
        ForestRow(row.name, one.difference, one.interval, one.verdict, row.scale[1] - row.scale[0])
        for row in rows
        for one in [row.measure]
    ]
    return build_forest(marks, labels)


@dataclass(frozen=True)
class ReasonView:
    """One reason. `text` is empty where there are no words for it yet but the interface's own English `detail`;
    `trust` is whether the judge agrees with people on the measure, None without a measure."""

    verdict: GateVerdict
    measure: str | None
    text: str
    detail: str
    trust: AspectValidation | None = None


def list_reasons(
    gate: GateReport, trust: Mapping[str, AspectValidation], names: Mapping[str, str], speech: Speech
) -> list[ReasonView]:
    """All reasons, those that decided first."""
    return [
        ReasonView(
            reason.verdict,
            names.get(reason.aspect, reason.aspect) if reason.aspect else None,
            explain_reason(reason, gate, speech),
            reason.detail,
            trust.get(reason.aspect) if reason.aspect else None,
        )
        for reason in gate.reasons
    ]


def explain_reason(reason: GateReason, gate: GateReport, speech: Speech) -> str:
    """The reason in a clause; the measure's name stands before it."""
    _ = speech.say
    if reason.about == "coverage":
        share = speech.formats.percent(gate.min_coverage)
        if reason.verdict == "pass":
            return _("There are enough ratings and pairs: at least %(share)s of each.", share=share)
        return _("Too much is missing: at least %(share)s of the ratings and pairs are required.", share=share)
    # The gate of the page has rules on aspects only.
    measure = gate.comparison.aspects.get(reason.aspect or "") if gate.comparison else None
    if reason.about != "rule" or measure is None:
        return ""
    return explain_rule(reason, measure, speech)


def explain_rule(reason: GateReason, measure: Measure, speech: Speech) -> str:
    """The outcome of a rule."""
    _ = speech.say
    match reason.code:
        case "no-values":
            return _("has no values in either run")
        case "drop":
            return _("is worse by %(size)s, beyond chance (p %(p)s)", **size_of(measure, speech))
        case "not-enough-data":
            return explain_lack(measure, speech)
        case "held":
            return explain_held_measure(measure, speech)
        case _:
            return ""


def size_of(measure: Measure, speech: Speech) -> dict[str, str]:
    """The figures of a change."""
    p, size = speech.formats.p(measure.p_adjusted), speech.formats.number(abs(measure.difference or 0.0))
    return {"size": size, "p": p if p.startswith("<") else f"= {p}"}


def explain_held_measure(measure: Measure, speech: Speech) -> str:
    """Why a rule is met."""
    _ = speech.say
    if measure.verdict == "better":
        return _("is better by %(size)s, beyond chance (p %(p)s)", **size_of(measure, speech))
    if measure.smallest_detectable is None:
        return _("has the same values in both runs")
    size = speech.formats.number(measure.smallest_detectable)
    return _("shows no drop; a drop of %(size)s would have been detected", size=size)


def explain_lack(measure: Measure, speech: Speech) -> str:
    """Why there is not enough data, and what it could show."""
    _ = speech.say
    if measure.p is None:
        return _(
            "cannot be tested: %(count)s dialogues (or items without a dialogue) are too few; six are needed",
            count=speech.formats.count(measure.clusters),
        )
    if measure.smallest_detectable is None:
        return _("has too few values to show a drop")
    return _(
        "shows no drop, but the data cannot rule one out: the smallest detectable drop is %(size)s",
        size=speech.formats.number(measure.smallest_detectable),
    )

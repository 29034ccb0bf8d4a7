"""The explorer's verdict on two runs: the gate, differences with their intervals, and why there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from babel.lists import format_list

from saiten.core.figures import find_digits
from saiten.core.wording import name_run, stands_still
from saiten_server.analyses.charts.intervals import ForestLabels, ForestRow, build_forest
from saiten_server.comparison.links.service import choose_link
from saiten_server.comparison.service import Examination
from saiten_server.comparison.values import (
    Comparison,
    ComparisonVerdict,
    CorrectedMeasure,
    GateReason,
    GateReport,
    GateRule,
    GateVerdict,
    Measure,
    asked_of,
)
from saiten_server.core.batch import Batch
from saiten_server.core.conversation import FAULTY_TURNS, FINDING, KIND
from saiten_server.core.errors import NotFound, SignatureMismatch
from saiten_server.core.reliability import AspectValidation
from saiten_server.core.rubric import Rubric, range_of
from saiten_server.explorer.pages import run_values
from saiten_server.explorer.pages.exploration import Exploration
from saiten_server.explorer.pages.run import meaning_of
from saiten_server.explorer.pages.run_values import examine, paint
from saiten_server.platform.computations import PendingComputation
from saiten_server.platform.web.language import Speech, mark
from saiten_server.runs import names as run_names
from saiten_server.runs.names import build_of, name_faulty, name_measures, system_of
from saiten_server.runs.summary import BLENDED

if TYPE_CHECKING:
    from saiten_server.container import Container
from saiten.core.messages import Message


async def give_verdict(
    container: Container, project: str, speech: Speech, state: Exploration, *, rubric: Rubric, both: tuple[Batch, Batch]
) -> dict[str, Any]:
    """What the page says of a baseline and a candidate by the same rubric; `outcome` is the kind of it. Raises NotFound
    for a link that is not stored, and InvalidRequest for one of other judges."""
    page = {
        "baseline": both[0],
        "candidate": both[1],
        "called": name_two_runs(*both),
        "judges_of": lambda batch: run_names.judges_of(container, batch),
    }
    kept, names = await find_kept_gate(container, project, state, both), name_measures(rubric, speech)
    page["kept"] = kept
    if kept is not None:
        page |= {
            "kept_reasons": [(reason, subject_of(reason, names)) for reason in kept.reasons],
            "kept_rules": [(rule, subject_of(rule, names)) for rule in kept.rules],
        }
    obstacle = run_values.find_obstacle(both)
    if obstacle is not None:
        return {**page, **obstacle}
    link = await container.comparison.links.find_stored(project, state.link) if state.link else None
    try:
        rated = await run_values.mark_ratings(container, project)
        examined = await examine(container, project, both, rubric, rated=rated, mismatch=state.mismatch, link=link)
    except SignatureMismatch as error:
        links, lines = await container.comparison.links.list(project), [run_names.signatures_of(run) for run in both]
        known = choose_link(links, *lines)
        linked = state.address(link=known.id) if known else None
        pieces = explain_pieces(error.pieces)
        return {**page, "outcome": "mismatch", "pieces": pieces, "linked": linked}
    if isinstance(examined, PendingComputation):
        return {**page, "outcome": "computing"}
    report = await make_report(container, project, speech, state, rubric=rubric, both=both, found=examined)
    return {**page, "outcome": "ready", **report}


async def find_kept_gate(
    container: Container, project: str, state: Exploration, both: tuple[Batch, Batch]
) -> GateReport | None:
    """The kept verdict on these runs that the address names, else the newest one."""
    runs = {"baseline": both[0].id, "candidate": both[1].id}
    if state.gate is not None:
        with suppress(NotFound):
            named = await container.comparison.gates.find(project, state.gate)
            if named.runs == runs:
                return named
    newest = await container.comparison.gates.list(project, baseline=both[0].id, candidate=both[1].id, limit=1)
    return newest[0] if newest else None


def subject_of(named: GateReason | GateRule, names: Mapping[str, str]) -> str:
    """What a rule or a reason is about: an aspect by its name, findings by their code, else the measure."""
    if named.aspect is not None:
        return names.get(named.aspect, named.aspect)
    return named.finding or named.measure or ""


async def make_report(
    container: Container,
    project: str,
    speech: Speech,
    state: Exploration,
    *,
    rubric: Rubric,
    both: tuple[Batch, Batch],
    found: Examination,
) -> dict[str, Any]:
    """Everything that the verdict shows."""
    names = name_measures(rubric, speech, marked=True)
    tables = make_tables(found.comparison, rubric, speech)
    lines = {line for batch in both for line in run_names.signatures_of(batch)}
    gate = found.gate
    trust = await container.ratings.reliabilities.weakest(project, lines, asked_of(gate))
    drawn: Mapping[str, Measure | CorrectedMeasure | None] = {row.id: row.measure for row in tables["aspects"]}
    if state.figures == "corrected":
        drawn = {name: found.corrected.get(name) for name in drawn}
    chart = await paint(container, speech, build_chart(tables["aspects"], drawn, name_two_runs(*both), speech))
    return {
        "comparison": gate.comparison,
        "gate": gate,
        "trust": trust,
        "reasons": view_reasons(gate, trust, names, speech),
        "tables": tables,
        "corrected": [(key, name, found.corrected[key]) for key, name in names.items() if key in found.corrected],
        "corrected_by": found.corrected,
        "worse": list_names(tables["aspects"], "worse", speech),
        "better": list_names(tables["aspects"], "better", speech),
        "chart": chart,
        "painting": run_values.is_missing(chart),
        "measures": [row for rows in tables.values() for row in rows],
        "pieces": explain_pieces(found.comparison.signature_differences),
    }


MOST_NAMED_ASPECTS = 3
"""Aspects that a sentence names; of more it names one less and counts the others."""

SEPARATORS = {"ja": "、"}
"""Between names that are followed by how many more there are; elsewhere a comma."""

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
        "turns": list_rates(comparison, speech),
    }


def list_rates(comparison: Comparison, speech: Speech) -> list[MeasureRow]:
    """The rate of faulty turns, and of each kind of fault that either run has, those that rose most first."""
    faulty = comparison.faulty_turns
    if faulty is None:
        return []
    found = [(kind, one) for kind, one in comparison.kinds.items() if one.baseline_mean or one.candidate_mean]
    found.sort(key=lambda each: each[1].difference or 0.0, reverse=True)
    named = [
        (FAULTY_TURNS, name_faulty(speech), faulty),
        *((FINDING + KIND + kind, speech.term("kind", kind), one) for kind, one in found),
    ]
    return [MeasureRow(key, name, (0.0, 100.0), one, effect_of(one)) for key, name, one in named]


def effect_of(measure: Measure) -> str | None:
    """How large the effect is, in a word."""
    delta = measure.cliffs_delta
    return None if delta is None else next(word for bound, word in EFFECTS.items() if abs(delta) < bound)


def list_names(rows: Sequence[MeasureRow], verdict: ComparisonVerdict, speech: Speech) -> str:
    """The measures with that verdict in one phrase; empty if there are none."""
    names = [row.name for row in rows if row.measure.verdict == verdict]
    if len(names) <= MOST_NAMED_ASPECTS:
        return format_list(names, locale=speech.language)
    _, shown = speech.say, SEPARATORS.get(speech.language, ", ").join(names[: MOST_NAMED_ASPECTS - 1])
    return _("%(names)s and %(count)s more", names=shown, count=len(names) - MOST_NAMED_ASPECTS + 1)


def name_two_runs(baseline: Batch, candidate: Batch) -> dict[str, str]:
    """Both runs in as few words as tell them apart: by their builds, else by systems, names, times or at last
    the letters that the page gives them."""
    both = {"baseline": baseline, "candidate": candidate}
    builds, systems, names = (
        {role: of(batch) or "" for role, batch in both.items()}
        for of in (build_of, system_of, lambda batch: batch.name)
    )

    def differ(named: Mapping[str, str]) -> bool:
        return named["baseline"] != named["candidate"] and all(named.values())

    if differ(builds) and differ(systems):
        return {role: f"{systems[role]} {builds[role]}" for role in both}
    called = {role: name_run(batch) for role, batch in both.items()}
    letters = {"baseline": "A", "candidate": "B"}
    return next(named for named in (builds, systems, names, called, letters) if differ(named))


def explain_pieces(pieces: Mapping[str, tuple[str, str]]) -> list[tuple[str, str, str, str | None]]:
    """The pieces of the signature in which the runs differ: name, both values and the meaning, a message's id."""
    return [(name, *values, meaning_of(name)) for name, values in pieces.items()]


def build_chart(
    rows: Sequence[MeasureRow],
    drawn: Mapping[str, Measure | CorrectedMeasure | None],
    names: Mapping[str, str],
    speech: Speech,
) -> dict[str, object]:
    """The differences of the aspects with their intervals, which `drawn` has by id."""
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
        if (one := drawn[row.id]) is not None
        else ForestRow(row.name, None, None, "inconclusive", row.scale[1] - row.scale[0])
        for row in rows
    ]
    return build_forest(marks, labels)


@dataclass(frozen=True)
class ReasonView:
    """One reason. `text` is empty where there are no words for it yet but the interface's own English `detail`;
    `trust` is whether the judge agrees with people on the measure, None without a measure."""

    verdict: GateVerdict
    measure: str | None
    text: str
    detail: Message | str
    trust: AspectValidation | None = None


def view_reasons(
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
    if reason.about != "rule" or measure is None or gate.comparison is None:
        return ""
    if gate.comparison.link is not None and reason.aspect in gate.comparison.link.refused:
        return _("has no link between the two judges")
    return explain_rule(reason, measure, speech)


def explain_rule(reason: GateReason, measure: Measure, speech: Speech) -> str:
    """The outcome of a rule."""
    _ = speech.say
    match reason.code:
        case "no-values":
            return _("has no values in both runs")
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
    amount = abs(measure.difference or 0.0)
    p, size = speech.formats.p(measure.p_adjusted), speech.formats.number(amount, find_digits(amount, 0.0, 2))
    return {"size": size, "p": p if p.startswith("<") else f"= {p}"}


def explain_held_measure(measure: Measure, speech: Speech) -> str:
    """Why a rule is met."""
    _ = speech.say
    if measure.verdict == "better":
        return _("is better by %(size)s, beyond chance (p %(p)s)", **size_of(measure, speech))
    if measure.smallest_detectable is None:
        if stands_still(measure):
            return _("has the same values in both runs")
        units = measure.clusters
        if measure.test != "sign-flip":
            units = measure.clusters_baseline + measure.clusters_candidate
        few = {"differing": measure.differing, "units": speech.formats.count(units)}
        return _("differs in only %(differing)s of %(units)s: too few for a drop that matters", **few)
    detectable = speech.formats.number(measure.smallest_detectable)
    if measure.interval is not None and measure.interval[1] < 0:
        told = size_of(measure, speech)
        return _(
            "fell by %(size)s, not proven (p %(p)s); a drop of %(detectable)s would have been",
            **told,
            detectable=detectable,
        )
    return _("shows no drop; a drop of %(size)s would have been detected", size=detectable)


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
    if measure.interval is not None and measure.interval[1] < 0:
        return _("fell by %(size)s, not proven (p %(p)s)", **size_of(measure, speech))
    return _(
        "shows no drop, but the data cannot rule one out: the smallest detectable drop is %(size)s",
        size=speech.formats.number(measure.smallest_detectable),
    )

"""What the page of a comparison shows, put together from the comparison and its gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from babel.lists import format_list

from app.charts.intervals import ForestLabels, ForestRow, build_forest
from app.domain.batch import Batch
from app.domain.comparison import Comparison, GateReason, GateReport, GateVerdict, Measure, Verdict
from app.domain.composites import range_of
from app.domain.reliability import State
from app.domain.rubric import Rubric
from app.web.dashboard.language import Speech, mark
from app.web.dashboard.run_values import build_of, system_of
from app.web.dashboard.run_view import meaning_of

BLENDED = ".blended"
MOST_NAMED = 3
"""Aspects that a sentence names; of more it names one less and counts the others."""

EFFECTS: Sequence[tuple[float, str]] = ((0.147, mark("negligible")), (0.33, mark("small")), (0.474, mark("medium")))
"""Bounds of Cliff's delta below which an effect has this name (Romano et al. 2006)."""

LARGE = mark("large")


@dataclass(frozen=True)
class MeasureRow:
    """A measure with its name and scale; `id` is what rules and addresses call it, `effect` a message's id."""

    id: str
    name: str
    scale: tuple[float, float]
    measure: Measure
    effect: str | None

    @property
    def before(self) -> float | None:
        """The mean of the baseline's ratings, on their scale."""
        return self.measure.baseline_mean if self.measure.best is None else self.measure.baseline_rating_mean

    @property
    def after(self) -> float | None:
        """The mean of the candidate's."""
        return self.measure.candidate_mean if self.measure.best is None else self.measure.candidate_rating_mean


@dataclass(frozen=True)
class Tables:
    """The measures by kind, in the rubric's order."""

    aspects: tuple[MeasureRow, ...]
    composites: tuple[MeasureRow, ...]
    blended: tuple[MeasureRow, ...]


@dataclass(frozen=True)
class PieceDifference:
    """A piece of the signature in which the runs differ; `meaning` is a message's id."""

    name: str
    baseline: str
    candidate: str
    meaning: str | None


@dataclass(frozen=True)
class ShortNames:
    """The two runs in as few words as tell them apart."""

    baseline: str
    candidate: str


def make_tables(comparison: Comparison, rubric: Rubric, speech: Speech) -> Tables:
    """All measures of the comparison."""
    names, scales = name_measures(rubric, speech), scales_of(rubric)

    def rows(measures: Mapping[str, Measure], suffix: str = "") -> tuple[MeasureRow, ...]:
        found = []
        for own, measure in measures.items():
            name = own + suffix
            scale = scales.get(name, (0.0, 1.0))
            found.append(MeasureRow(name, names.get(name, name), scale, measure, effect_of(measure)))
        return tuple(found)

    return Tables(rows(comparison.aspects), rows(comparison.composites), rows(comparison.blended, BLENDED))


def name_measures(rubric: Rubric, speech: Speech) -> dict[str, str]:
    """What the visitor calls each measure that the rubric can have."""
    aspects = {aspect.id: speech.pick(cast(Mapping[str, str], aspect.name)) for aspect in rubric.aspects}
    _ = speech.say
    blended = {f"{name}{BLENDED}": _("%(aspect)s, blended", aspect=shown) for name, shown in aspects.items()}
    return {**aspects, **{composite.id: composite.id for composite in rubric.composites}, **blended}


def scales_of(rubric: Rubric) -> dict[str, tuple[float, float]]:
    """Lowest and highest value of each."""
    aspects = {aspect.id: (float(aspect.scale[0]), float(aspect.scale[1])) for aspect in rubric.aspects}
    composites = {composite.id: range_of(composite, rubric) for composite in rubric.composites}
    return {**aspects, **composites, **{f"{name}{BLENDED}": scale for name, scale in aspects.items()}}


def effect_of(measure: Measure) -> str | None:
    """How large the effect is, in a word."""
    delta = measure.cliffs_delta
    if delta is None:
        return None
    return next((word for bound, word in EFFECTS if abs(delta) < bound), LARGE)


def list_names(rows: Sequence[MeasureRow], verdict: Verdict, speech: Speech) -> str:
    """The measures with that verdict in one phrase; empty if there are none."""
    _ = speech.say
    names = [row.name for row in rows if row.measure.verdict == verdict]
    if len(names) <= MOST_NAMED:
        return format_list(names, locale=speech.language)
    shown = format_list(names[: MOST_NAMED - 1], style="unit", locale=speech.language)
    return _("%(names)s and %(count)s more", names=shown, count=len(names) - MOST_NAMED + 1)


def shorten(baseline: Batch, candidate: Batch) -> ShortNames:
    """By their builds, else by whatever tells them apart: their ids where nothing else does."""
    both = (baseline, candidate)
    builds, systems, names = ([of(batch) for batch in both] for of in (build_of, system_of, lambda each: each.name))
    if builds[0] != builds[1] and all(builds):
        if systems[0] != systems[1] and all(systems):
            return ShortNames(*(f"{system} {build}" for system, build in zip(systems, builds, strict=True)))
        return ShortNames(*map(str, builds))
    for pair in (systems, names):
        if pair[0] != pair[1] and all(pair):
            return ShortNames(*map(str, pair))
    return ShortNames(baseline.id, candidate.id)


def explain_pieces(pieces: Mapping[str, tuple[str, str]]) -> list[PieceDifference]:
    """What was set otherwise, piece by piece."""
    return [PieceDifference(name, *values, meaning_of(name)) for name, values in pieces.items()]


def build_chart(rows: Sequence[MeasureRow], names: ShortNames, speech: Speech) -> dict[str, object]:
    """The differences of the aspects with their intervals."""
    _ = speech.say
    marks = [
        ForestRow(
            row.name,
            row.measure.difference,
            row.measure.interval,
            row.measure.verdict,
            row.scale[1] - row.scale[0],
        )
        for row in rows
    ]
    return build_forest(
        marks,
        ForestLabels(
            title=_("Differences by aspect"),
            description=_("%(candidate)s minus %(baseline)s, with intervals", **vars(names)),
            points=_("Difference in points"),
            share=_("Share of the scale; figures in points"),
            better=_("better"),
            worse=_("worse"),
            inconclusive=_("no difference shown"),
            nothing=_("There is nothing to compare."),
        ),
    )


@dataclass(frozen=True)
class ReasonView:
    """One reason. `text` is empty where there are no words for it yet but the interface's own English `detail`;
    `state` is whether the judge agrees with people on the measure, None without a measure."""

    verdict: GateVerdict
    measure: str | None
    text: str
    detail: str
    state: State | None = None


def list_reasons(gate: GateReport, names: Mapping[str, str], speech: Speech) -> list[ReasonView]:
    """All reasons, those that decided first."""
    return [
        ReasonView(
            reason.verdict,
            names.get(reason.aspect, reason.aspect) if reason.aspect else None,
            explain_reason(reason, gate, speech),
            reason.detail,
            gate.reliability.get(reason.aspect) if reason.aspect else None,
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
    measure = find_measure(reason, gate)
    if reason.about != "rule" or measure is None:
        return ""
    return explain_rule(reason, measure, speech)


def explain_rule(reason: GateReason, measure: Measure, speech: Speech) -> str:
    """The outcome of a rule."""
    _ = speech.say
    if reason.code == "no-values":
        return _("has no values in either run")
    if reason.code == "drop":
        return _("is worse by %(size)s, beyond chance (p %(p)s)", **size_of(measure, speech))
    if reason.code == "not-enough-data":
        return explain_lack(measure, speech)
    return explain_held_measure(measure, speech) if reason.code == "held" else ""


def find_measure(reason: GateReason, gate: GateReport) -> Measure | None:
    """What the reason speaks of: the gate here has rules on aspects only."""
    return gate.comparison.aspects.get(reason.aspect or "") if gate.comparison else None


def size_of(measure: Measure, speech: Speech) -> dict[str, str]:
    """The figures of a change."""
    p = speech.formats.p(measure.p_adjusted)
    return {
        "size": speech.formats.number(abs(measure.difference or 0.0)),
        "p": p if p.startswith("<") else f"= {p}",
    }


def explain_held_measure(measure: Measure, speech: Speech) -> str:
    """Why a rule is met."""
    _ = speech.say
    if measure.verdict == "better":
        return _("is better by %(size)s, beyond chance (p %(p)s)", **size_of(measure, speech))
    if measure.smallest_detectable is None:
        return _("has the same values in both runs")
    return _(
        "shows no drop; a drop of %(size)s would have been detected",
        size=speech.formats.number(measure.smallest_detectable),
    )


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

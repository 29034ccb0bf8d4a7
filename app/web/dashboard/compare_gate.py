"""The gate's reasons in the visitor's language, from the figures that they rest on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.domain.comparison import GateReason, GateReport, GateVerdict, Measure
from app.domain.reliability import State
from app.web.dashboard.speech import Speech


@dataclass(frozen=True)
class ReasonView:
    """One reason. `text` is empty where there are no words for it yet but the interface's own English `detail`;
    `state` is whether the judge follows people on the measure, None where no measure is meant."""

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
            tell(reason, gate, speech),
            reason.detail,
            gate.reliability.get(reason.aspect) if reason.aspect else None,
        )
        for reason in gate.reasons
    ]


def tell(reason: GateReason, gate: GateReport, speech: Speech) -> str:
    """The reason in a clause; the measure's name stands before it."""
    _ = speech.say
    if reason.about == "coverage":
        share = speech.formats.percent(gate.min_coverage)
        if reason.verdict == "pass":
            return _("Enough ratings and pairs are there: at least %(share)s of each.", share=share)
        return _("Too much is missing: at least %(share)s of the ratings and pairs must be there.", share=share)
    measure = find_measure(reason, gate)
    if reason.about != "rule" or measure is None:
        return ""
    return tell_rule(reason, measure, speech)


def tell_rule(reason: GateReason, measure: Measure, speech: Speech) -> str:
    """What became of a rule."""
    _ = speech.say
    if reason.code == "no-values":
        return _("has no values in both runs")
    if reason.code == "drop":
        return _("is worse by %(size)s, beyond chance (p %(p)s)", **size_of(measure, speech))
    if reason.code == "not-enough-data":
        return tell_lack(measure, speech)
    return tell_held(measure, speech) if reason.code == "held" else ""


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


def tell_held(measure: Measure, speech: Speech) -> str:
    """Why the measure stands."""
    _ = speech.say
    if measure.verdict == "better":
        return _("is better by %(size)s, beyond chance (p %(p)s)", **size_of(measure, speech))
    if measure.smallest_detectable is None:
        return _("has the same values in both runs")
    return _(
        "shows no drop; one of %(size)s would have been seen", size=speech.formats.number(measure.smallest_detectable)
    )


def tell_lack(measure: Measure, speech: Speech) -> str:
    """That the data cannot tell, and what they could."""
    _ = speech.say
    if measure.p is None:
        return _(
            "cannot be tested: %(count)s dialogues or items without one are too few, six are needed",
            count=speech.formats.count(measure.clusters),
        )
    if measure.smallest_detectable is None:
        return _("has too few values to show a drop")
    return _(
        "shows no drop, but the data cannot rule one out: the smallest that they show is %(size)s",
        size=speech.formats.number(measure.smallest_detectable),
    )

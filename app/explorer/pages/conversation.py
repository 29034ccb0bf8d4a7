"""The turns of a conversation on a page, with what was found in each, and what those of a whole run amount to."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from saiten_server.core.batch import Batch
from saiten_server.core.conversation import ANY_CODE, FINDING, JUDGED, RULES, Finding, Turn
from saiten_server.core.rubric import Aspect, Rubric
from saiten_server.explorer.cases import state_of
from saiten_server.explorer.pages import run_values
from saiten_server.platform.charts.histogram import HistogramLabels, build_histogram
from saiten_server.platform.computations import PendingComputation
from saiten_server.platform.web.language import Speech, query
from saiten_server.runs.summaries import read_frames
from saiten_server.runs.summary import BuildFixes, FindingRate, FixFirst, Summary

if TYPE_CHECKING:
    from saiten_server.container import Container
    from saiten_server.stats.turns import TurnRate, TurnReading

QUOTATION = re.compile(r"「[^」]*」")
EARLIER = re.compile(r"\bturn (\d{1,3})\b")


class FindingView(NamedTuple):
    """A finding with the aspect that it concerns; None for an aspect that the rubric does not have. `earlier` is the
    number of the turn that it conflicts with."""

    finding: Finding
    aspect: Aspect | None
    earlier: int | None


class TurnView(NamedTuple):
    """A turn with the codes of warnings about its text, how many raters marked it as faulty, and its translation where
    that was judged."""

    number: int
    turn: Turn
    findings: Sequence[FindingView]
    warnings: Sequence[str]
    marked: int = 0
    translation: str | None = None


def view_findings(found: Sequence[Finding], rubric: Rubric | None) -> dict[int, list[FindingView]]:
    """The findings by turn."""
    known = {aspect.id: aspect for aspect in rubric.aspects} if rubric else {}
    views: dict[int, list[FindingView]] = {}
    for one in found:
        aspect = known.get(one.aspect) if one.aspect else None
        views.setdefault(one.turn, []).append(FindingView(one, aspect, find_earlier(one)))
    return views


def find_earlier(finding: Finding) -> int | None:
    """The earlier turn that a rule's detail names outside quotations."""
    named = EARLIER.search(QUOTATION.sub("", finding.detail)) if finding.by == "rule" else None
    return int(named[1]) if named and int(named[1]) < finding.turn else None


CARD_WIDTH = 292
"""Pixels: what a card leaves on a phone."""


class FindingRow(NamedTuple):
    """A code with its rate, and the address of the conversations that have such a finding."""

    code: str
    rate: FindingRate
    items: str


class TurnFigures(NamedTuple):
    """The findings of a run. `fixes` are what to mend first, of all systems, by system, and by build, in the `order`
    that was asked for. `code` is what `reading` is
    of, one of `choices`; None while it is computed, or where the run has no conversations of which it is known. `first`
    counts conversations by their first faulty turn."""

    rows: Sequence[FindingRow]
    code: str
    choices: Sequence[str]
    reading: TurnReading | None = None
    first: Sequence[tuple[TurnRate, int]] = ()
    drawings: Sequence[Markup] = ()
    fixes: Sequence[BuildFixes] | None = None
    order: str = "weight"
    is_computing: bool = False


ORDERS = ("kind", "weight", "effect", "conversations", "rate")
"""What a table of kinds can be sorted by: kinds by name, figures from the largest down."""


def list_fixes(summary: Summary, speech: Speech, order: str) -> list[BuildFixes] | None:
    """What to mend first, of all systems, by system, and by build; None where the rubric has no kinds."""
    if summary.fix_first is None:
        return None
    systems = summary.fix_first_by_system.items()
    found = [
        BuildFixes(system=None, build=None, fix_first=summary.fix_first),
        *(BuildFixes(system=system, build=None, fix_first=own) for system, own in systems),
        *summary.fix_first_by_build,
    ]

    def key(one: FixFirst) -> tuple[bool, float | str]:
        if order == "kind":
            return False, speech.term("kind", one.kind)
        value = getattr(one, order)
        return value is None, 0.0 if value is None else -value

    return [one.model_copy(update={"fix_first": tuple(sorted(one.fix_first, key=key))}) for one in found]


async def gather_findings(
    container: Container,
    project: str,
    speech: Speech,
    batch: Batch,
    *,
    summary: Summary,
    asked: str | None,
    order: str | None = None,
    wait_seconds: float | None,
) -> TurnFigures:
    """The findings of a run of conversations, with the reading of one code over the turns, and kinds in an order;
    `wait_seconds` as of `Computations.get`."""
    found = summary.findings
    rates = {} if found is None else {ANY_CODE: found.any, **found.codes}
    rows = [
        FindingRow(code, one, query("/explore", run=batch.id, warning=FINDING + code)) for code, one in rates.items()
    ]
    known = {code for code, one in rates.items() if one.conversations and (one.turns or code in {ANY_CODE, JUDGED})}
    choices = [code for code in (ANY_CODE, JUDGED, RULES, *rates) if code in known or code == RULES]
    choices = list(dict.fromkeys(choices))
    code = asked if asked in choices else choices[0]
    order = order if order in ORDERS else "weight"
    shown = TurnFigures(rows, code, choices, fixes=list_fixes(summary, speech, order), order=order)
    key = ("turns", state_of(batch), code)
    reading = await container.dashboard.computations.get(
        project, key, lambda: compute_reading(container, project, batch.id, code), wait_seconds=wait_seconds
    )
    if isinstance(reading, PendingComputation):
        return shown._replace(is_computing=True)
    if not reading.conversations:
        return shown
    faults = {step.turn: step.faults for step in reading.survival}
    first = [(one, sum(faults.get(turn, 0) for turn in range(one.first, one.last + 1))) for one in reading.rates]
    specs = chart_reading(speech, reading, first, speech.term("finding", code))
    drawings = await asyncio.gather(*(run_values.paint(container, speech, spec) for spec in specs))
    return shown._replace(reading=reading, first=first, drawings=drawings)


async def compute_reading(container: Container, project: str, batch_id: str, code: str) -> TurnReading:
    """The reading of a code over the conversations of which it is known."""
    from saiten_server.stats.turns import ConversationTurns, read_turns

    talks = []
    async for frame in read_frames(container.batches.store, project, batch_id):
        for number, probability in zip(frame.fault.tolist(), frame.probability.tolist(), strict=True):
            faulty = frame.faults[number]
            turns = faulty and faulty.turns_of(code)
            if faulty is not None and turns is not None:
                talks.append(ConversationTurns(faulty.system_turns, turns, probability))
    return await asyncio.to_thread(read_turns, talks)


def name_turns(rate: TurnRate) -> str:
    """`3`, or `3–4`."""
    return str(rate.first) if rate.first == rate.last else f"{rate.first}–{rate.last}"


def chart_reading(
    speech: Speech, reading: TurnReading, first: Sequence[tuple[TurnRate, int]], code: str
) -> list[dict[str, Any]]:
    """The charts: the rate by turn, the survival curve, and first faulty turns."""
    from saiten_server.explorer.turns_chart import TurnLabels, build_survival, build_turn_rates

    _ = speech.say
    nothing = _("Nothing is rated yet.")
    description = _("%(code)s, %(count)s conversations", code=code, count=speech.formats.count(reading.conversations))
    across = _("the system's turn, counted from 1")
    labels = [
        TurnLabels(title=title, description=description, nothing=nothing, upright=upright, across=across)
        for title, upright in (
            (_("Faulty turns by turn"), _("faulty turns per 100 turns, 95%% interval")),
            (_("Conversations without a fault so far"), _("%% of conversations without a fault, 95%% interval")),
        )
    ]
    told = HistogramLabels(
        title=_("First faulty turn"), description=description, nothing=nothing, unrated=_("no fault")
    )
    return [
        build_turn_rates(reading.rates, labels[0], width=CARD_WIDTH),
        build_survival(reading.survival, labels[1], width=CARD_WIDTH),
        build_histogram([(name_turns(one), count) for one, count in first], reading.faultless, told, width=CARD_WIDTH),
    ]

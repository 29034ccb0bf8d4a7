"""Rounds of preferences: raters see two responses of different runs side by side, and say which is better."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Protocol

from pydantic import Field, TypeAdapter

from saiten.core.messages import Message
from saiten_server.core.batch import Candidate
from saiten_server.core.dialogue import DEFAULT_LIMITS, Limits
from saiten_server.core.errors import InvalidRequest, NotFound
from saiten_server.core.model import Value
from saiten_server.core.reports import Undefined
from saiten_server.core.rubric import split_name
from saiten_server.core.sentences import Telling
from saiten_server.platform.sql.sizes import DRAWN_BYTES
from saiten_server.ratings.rounds.service import (
    NEVER_GIVEN,
    RoundService,
    no_round,
    read_field,
    read_rated,
    read_rater,
)
from saiten_server.ratings.rounds.store import name_pair
from saiten_server.ratings.values import (
    Comment,
    DrawnPair,
    OwnPreference,
    PairItem,
    PairOpinion,
    PairOptions,
    PairSheet,
    RatingRound,
    RoundDraw,
    RoundSide,
    Task,
    shows_swapped,
)

if TYPE_CHECKING:
    from saiten_server.core.evaluation import Choice as Preference
    from saiten_server.runs.frame import RunFrame

CANDIDATES_AT_ONCE = 100
"""Pairs of candidates, of up to a megabyte each, that are read at a time."""

TIMES_LOOKED_AT = 4
"""How many times the wanted pairs are looked at for two texts that differ."""

REASON: TypeAdapter[str] = TypeAdapter(Comment)


class PreferenceKeeper(Protocol):
    """What a round needs of the store of preferences."""

    async def keep_shown(
        self,
        project: str,
        name: str,
        rater: str,
        preference: Preference,
        *,
        swapped: bool,
        reason: str | None,
        shown_at: datetime | None,
    ) -> None:
        """Keeps the preference of the pair with this name, as the pair names its sides, and notes in its round that it
        is there."""

    async def of_round(self, project: str, round_id: str, *, limit: int) -> Sequence[PairOpinion]:
        """The preferences of the round, without simulated ones and those of excluded raters, oldest first."""

    async def mark(self, project: str) -> object:
        """What changes whenever a preference of the project does."""

    async def own(self, project: str, name: str, rater: str) -> tuple[Preference, str | None] | None:
        """The rater's preference of the pair, and the reason."""


@dataclass(kw_only=True, eq=False)
class PairRounds:
    """Everything that callers and raters do with rounds of preferences, within the caller's project; what they have in
    common with rounds of ratings, `rounds` does.

    Raters see two responses blind: with their context, in an order that `shows_swapped` decides for each rater, and
    nothing of what the judge or anybody else made of them. Methods raise NotFound for a round or a run that is not in
    the project, InvalidRequest, and StoreError.
    """

    rounds: RoundService
    preferences: PreferenceKeeper
    new_id: Callable[[], str]
    limits: Limits = DEFAULT_LIMITS

    async def open(self, project: str, options: PairOptions) -> RatingRound:
        """A new round of pairs from the runs' results of now. InvalidRequest where the runs' rubrics differ, or no two
        runs have responses to the same item that differ."""
        rubrics = {split_name(await self._name_rubric(project, run))[0] for run in options.runs}
        if len(rubrics) > 1:
            raise InvalidRequest(Message("round-rubrics-differ"), pointer="/runs")
        frames = [await read_rated(self.rounds.batches, project, run) for run in options.runs]
        ranked = await asyncio.to_thread(list_common, frames, options)
        drawn = await self._draw(ranked, options)
        if not drawn.positions:
            raise InvalidRequest(Message("round-no-common-item"), pointer="/runs")
        opened = RatingRound(
            id=self.new_id(),
            batch=options.runs[0],
            options=options,
            drawn=len(drawn.positions),
            created_at=self.rounds.now(),
        )
        if self.rounds.quota is not None:
            await self.rounds.quota.require_room(project, DRAWN_BYTES * opened.drawn)
        await self.rounds.rounds.open_round(project, opened, drawn)
        return opened

    async def _name_rubric(self, project: str, run: str) -> str:
        options = await self.rounds.batches.options(project, run)
        if options is None:
            raise NotFound(Message("batch-named-not-found", batch=run[:64]), pointer="/runs")
        return options.rubric

    async def _draw(self, ranked: Sequence[Sequence[DrawnPair]], options: PairOptions) -> RoundDraw:
        """As many pairs of each two runs as the others have, in a shuffled order, without those of equal texts."""
        shares, probabilities, pairs = share_out(options.items, [len(each) for each in ranked]), [], []
        for share, each in zip(shares, ranked, strict=True):
            found = await self._take_different(each, share)
            pairs += found
            probabilities += [share / max(len(each), 1)] * len(found)
        order = list(range(len(pairs)))
        random.Random(f"{options.seed} order").shuffle(order)  # noqa: S311 - no secret
        return RoundDraw(
            range(len(pairs)), [probabilities[place] for place in order], pairs=[pairs[place] for place in order]
        )

    async def _take_different(self, ranked: Sequence[DrawnPair], wanted: int) -> list[DrawnPair]:
        """The first of the pairs whose two texts differ: of equal ones neither can be better."""
        found: list[DrawnPair] = []
        most = min(len(ranked), TIMES_LOOKED_AT * wanted)
        for start in range(0, most, CANDIDATES_AT_ONCE):
            some = ranked[start : min(start + CANDIDATES_AT_ONCE, most)]
            if len(found) >= wanted or not some:
                break
            sides = [
                await self.rounds.batches.asked(each[0].batch, [side.position for side in each])
                for each in (list(zip(*some, strict=True)))
            ]
            for pair in some:
                first, second = sides[0].get(pair.first.position), sides[1].get(pair.second.position)
                if first is not None and second is not None and told(first) != told(second):
                    found.append(pair)
        return found[:wanted]

    async def find(self, project: str, round_id: str) -> RatingRound:
        """The round as it is now."""
        found = await self.rounds.find(project, round_id)
        if not found.of_pairs:
            raise no_round()
        return found

    async def items(self, project: str, round_id: str) -> Sequence[PairItem]:
        """What the round drew, in its order."""
        await self.find(project, round_id)
        return await self.rounds.rounds.pairs(project, round_id)

    async def agreement(self, project: str, round_id: str) -> PairAgreement:
        """How far the round's raters agree."""
        items = await self.items(project, round_id)
        opinions = await self.preferences.of_round(project, round_id, limit=MOST_OPINIONS)
        return await asyncio.to_thread(measure_pairs, opinions, items)

    async def next(self, project: str, round_id: str, rater: str) -> PairSheet | None:
        """What the rater is to compare next; None where there is nothing more for this rater, or the round is
        closed."""
        rater = read_rater(rater, self.limits)
        found = await self.find(project, round_id)
        task = await self.rounds.rounds.take(project, round_id, rater, self.rounds.now())
        return None if task is None else await self._write_sheet(project, found, rater, task)

    async def sheet(self, project: str, round_id: str, rater: str, number: int) -> PairSheet:
        """The rater's pair of that number again, with the rater's preference; raises NotFound if there is none."""
        rater = read_rater(rater, self.limits)
        found = await self.find(project, round_id)
        for task in await self.rounds.rounds.tasks(project, round_id, rater):
            if task.number == number:
                return await self._write_sheet(project, found, rater, task)
        raise NotFound(NEVER_GIVEN)

    async def prefer(
        self, project: str, round_id: str, rater: str, *, number: int, preference: Preference, reason: str = ""
    ) -> None:
        """Keeps the rater's preference, of the two as they were shown, in the place of an earlier one. Raises
        InvalidDocument for a reason that is too long, and NotFound where the pair was not given to the rater."""
        rater, reason = read_rater(rater, self.limits), read_field(REASON, reason, "/reason")
        found = await self.find(project, round_id)
        for task in await self.rounds.rounds.tasks(project, round_id, rater):
            if task.number == number:
                break
        else:
            raise NotFound(NEVER_GIVEN)
        swapped = shows_swapped(found.options.seed, rater, number)
        await self.preferences.keep_shown(
            project,
            name_pair(round_id, task.position),
            rater,
            turn(preference) if swapped else preference,
            swapped=swapped,
            reason=reason or None,
            shown_at=await self.rounds.rounds.taken_at(round_id, rater, task.position),
        )

    async def _write_sheet(self, project: str, found: RatingRound, rater: str, task: Task) -> PairSheet:
        pair = await self.rounds.rounds.find_pair(found.id, task.position)
        if pair is None:
            raise no_round()  # one of its runs was erased a moment ago
        swapped = shows_swapped(found.options.seed, rater, task.number)
        first, second = [await self._find_candidate(side) for side in (pair[::-1] if swapped else pair)]
        own = await self.preferences.own(project, name_pair(found.id, task.position), rater) if task.done else None
        return PairSheet(
            task=task,
            pair=pair,
            swapped=swapped,
            first=first,
            second=second,
            rubric=self.rounds.rubrics.nearest(await self._name_rubric(project, pair.first.batch)),
            earlier=own and OwnPreference(turn(own[0]) if swapped else own[0], own[1] or ""),
        )

    async def _find_candidate(self, side: RoundSide) -> Candidate:
        found = await self.rounds.batches.asked(side.batch, [side.position])
        if side.position not in found:
            raise no_round()
        return found[side.position]


TURNED: Mapping[Preference, Preference] = {"first": "second", "second": "first", "tie": "tie"}


def turn(preference: Preference) -> Preference:
    """The preference of the same two in the other order."""
    return TURNED[preference]


def told(candidate: Candidate) -> Sequence[object]:
    """What the system said, and in a conversation the user too: equal for equal texts."""
    if candidate.conversation is None:
        return candidate.response, None
    return [one.text for one in candidate.context], candidate.response


def list_common(frames: Sequence[RunFrame], options: PairOptions) -> list[list[DrawnPair]]:
    """For each two runs the pairs of their responses to the same item in the same context, shuffled by the seed; a run
    without an item in common with another has none. Where contexts are not known, the items' ids decide."""
    placed = [
        dict(zip(zip(one.items.tolist(), one.candidates.tolist(), strict=True), each_place(one), strict=True))
        for one in frames
    ]
    found = []
    for (a, first), (b, second) in combinations(enumerate(placed), 2):
        pairs = [
            DrawnPair(RoundSide(options.runs[a], place), RoundSide(options.runs[b], second[key][0]))
            for key, (place, context) in first.items()
            if key in second and context == second[key][1]
        ]
        pairs.sort()
        random.Random(f"{options.seed} {a} {b}").shuffle(pairs)  # noqa: S311 - no secret
        found.append(pairs)
    return found


def each_place(frame: RunFrame) -> Iterator[tuple[int, int]]:
    """The position and the key of the context of each result."""
    # Two conversations differ in what was said before the last turn.
    conversations = frame.system_turns.tolist()
    for position, context, turns in zip(frame.positions.tolist(), frame.contexts.tolist(), conversations, strict=True):
        yield position, 0 if turns else context


def share_out(wanted: int, there: Sequence[int]) -> list[int]:
    """How many of each to take, as even as there are enough, `wanted` in all at most."""
    shares, left = [0] * len(there), wanted
    # Those with the fewest first: what they lack, the others get.
    for done, place in enumerate(sorted(range(len(there)), key=lambda place: there[place])):
        shares[place] = min(there[place], left // (len(there) - done))
        left -= shares[place]
    return shares


MOST_OPINIONS = 200_000
"""Preferences of a round that are looked at together: all of 2,000 pairs with 100 raters each."""

PREFERENCE_VALUES: Mapping[Preference, float] = {"first": 1.0, "tie": 0.0, "second": -1.0}


class RunTally(Value):
    """How often the responses of one run were preferred to those of another."""

    first: str = Field(description="the batch of the first response")
    second: str = Field(description="the batch of the second response")
    first_preferred: int = Field(description="how often the first was preferred")
    second_preferred: int = Field(description="how often the second was preferred")
    ties: int = Field(description="how often neither was")


class PairAgreement(Telling):
    """How far the raters of a round agree about its pairs. Chance-corrected figures are over pairs with two raters or
    more; `undefined` says why there is none."""

    pairs: int = Field(description="pairs with a preference")
    raters: int = Field(description="people with a preference")
    preferences: int = Field(description="preferences that the figures are of")
    repeated: int = Field(description="pairs with the preferences of two raters or more")
    unanimous: int = Field(description="of these, pairs whose raters all agree")
    agreed: float | None = Field(description="of two raters of one pair, how many agree, as a share")
    krippendorff_alpha: float | None = Field(description="ordinal: a tie stands between the two")
    cohen_kappa: float | None = Field(description="mean over all pairs of raters; values are labels")
    fleiss_kappa: float | None = Field(description="of all raters at once; values are labels")
    shown_first: float | None = Field(
        description="of preferences that are no ties, those for what was shown first, as a share: far from one half "
        "raters follow the order"
    )
    runs: tuple[RunTally, ...] = Field(description="by two runs, in the round's order")
    undefined: Undefined = Field(default_factory=dict)


def measure_pairs(opinions: Sequence[PairOpinion], items: Sequence[PairItem]) -> PairAgreement:
    """What the preferences of a round say. It may take seconds: not for an event loop. numpy is loaded here."""
    import numpy as np

    from saiten_server.stats.agreement import agreement_on
    from saiten_server.stats.observations import Observations

    pairs = {name: number for number, name in enumerate(dict.fromkeys(one.pair for one in opinions))}
    raters = {name: number for number, name in enumerate(sorted({one.rater for one in opinions}))}
    observed = Observations(
        systems=("",),
        items=tuple(pairs),
        raters=tuple(raters),
        system=np.zeros(len(opinions), dtype=np.int64),
        item=np.array([pairs[one.pair] for one in opinions], dtype=np.int64),
        rater=np.array([raters[one.rater] for one in opinions], dtype=np.int64),
        ratings={"preference": np.array([PREFERENCE_VALUES[one.preference] for one in opinions], dtype=np.float64)},
    )
    found = agreement_on(observed, "preference", observed.means(observed.ratings["preference"]))
    said: dict[str, Counter[str]] = {}
    for one in opinions:
        said.setdefault(one.pair, Counter())[one.preference] += 1
    repeated = [counts for counts in said.values() if counts.total() > 1]
    possible = sum(comb(counts.total(), 2) for counts in repeated)
    alike = sum(comb(count, 2) for counts in repeated for count in counts.values())
    decided = [one for one in opinions if one.preference != "tie"]
    firsts = sum((one.preference == "first") != one.swapped for one in decided)
    names = ("krippendorff_alpha", "cohen_kappa", "fleiss_kappa")
    return PairAgreement(
        pairs=len(pairs),
        raters=len(raters),
        preferences=len(opinions),
        repeated=len(repeated),
        unanimous=sum(len(counts) == 1 for counts in repeated),
        agreed=alike / possible if possible else None,
        **{name: getattr(found, name) for name in names},
        shown_first=firsts / len(decided) if decided else None,
        runs=tuple(tally_runs(said, items)),
        undefined={name: why for name, why in found.undefined.items() if name in names},
    )


def tally_runs(said: Mapping[str, Counter[str]], items: Sequence[PairItem]) -> Iterator[RunTally]:
    """By two runs how often each was preferred."""
    totals: dict[tuple[str, str], Counter[str]] = {}
    for item in items:
        totals.setdefault((item.first, item.second), Counter()).update(said.get(item.pair, {}))
    for (first, second), counts in totals.items():
        yield RunTally(
            first=first,
            second=second,
            first_preferred=counts["first"],
            second_preferred=counts["second"],
            ties=counts["tie"],
        )

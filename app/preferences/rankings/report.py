"""From preferences to a ranking as it is answered. Takes seconds at worst: not for an event loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isnan

import numpy as np

from saiten.core.messages import Message
from saiten_server.core.errors import InvalidRequest
from saiten_server.core.giving_up import checkpoint
from saiten_server.core.reports import Interval
from saiten_server.preferences.rankings.columns import LENGTH
from saiten_server.preferences.rankings.values import (
    PlainRank,
    RankedSystem,
    Ranking,
    RankingRequest,
    ResolvedPair,
    SystemsMet,
    TermFigure,
    Voice,
)
from saiten_server.stats.corrected_ranks import correct_ranks, split_by_rater
from saiten_server.stats.observations import NO_RATER, Floats, count_keys
from saiten_server.stats.rank_sets import (
    FEWEST_CLUSTERS,
    RankSets,
    compare_orders,
    count_share,
    estimate_share,
    list_resolved,
    rank_systems,
    share_preferred,
)
from saiten_server.stats.resampling import estimate_mean, find_quantile
from saiten_server.stats.shown_pairs import TIE, ShownPairs
from saiten_server.stats.strengths import ModelTerm, Strengths, find_tie_parameter

MOST_INTERVALS = 2_000
"""Pairs of systems up to which each has the interval of its share: some tenths of a millisecond each."""


SMALLEST_ERROR = 1e-9
"""Of a strength: below it all clusters said the same, which tells nothing of how far others may be from it."""


def rank_preferences(pairs: ShownPairs, request: RankingRequest, notes: Sequence[Message] = ()) -> Ranking:
    """The ranking that is asked for, of at least one look. Raises InvalidRequest where no one of those asked for
    answered."""
    judge, people = split_by_rater(pairs)
    by: Voice = request.by or ("judge" if judge.n else "people")
    chosen = {"judge": judge, "people": people, "all": pairs}[by]
    if not chosen.n:
        raise InvalidRequest(Message("ranking-no-answers"), pointer="/by")
    sets = rank_systems(chosen, alpha=request.alpha, ties=request.ties, penalty=request.penalty)
    ranking = answer_ranking(chosen, sets, request, by, notes)
    if by != "judge" or not people.n:
        return ranking
    found = correct_ranks(judge, people, alpha=request.alpha, ties=request.ties)
    if found.sets is None:
        return ranking.model_copy(update={"refused": found.refused})
    corrected = answer_ranking(people, found.sets, request, "people", ()).model_copy(update={"weight": found.weight})
    return ranking.model_copy(update={"corrected": corrected})


def answer_ranking(
    pairs: ShownPairs, sets: RankSets, request: RankingRequest, by: Voice, notes: Sequence[Message]
) -> Ranking:
    """Rank sets as they are answered."""
    alpha, names, main = request.alpha, pairs.systems, sets.main
    outcomes = pairs.count_outcomes()
    order = sorted(range(len(names)), key=lambda one: (int(sets.rank[one]), names[one]))
    tie = main.tie if main is not None else None
    nu, nu_interval = (None, None) if tie is None else find_tie_parameter(tie, alpha)
    consistency = compare_orders(pairs)
    seen = consistency.counts > 0
    agreed = estimate_mean(consistency.agreed[seen], consistency.counts[seen], bounds=(0.0, 1.0), alpha=alpha)
    terms = {} if main is None else {name: tell_term(term, sets, alpha) for name, term in main.covariates.items()}
    length = terms.pop(LENGTH, None)
    position = None if main is None or main.position is None else tell_term(main.position, sets, alpha)
    known = sets.clusters >= FEWEST_CLUSTERS
    plain = None
    if pairs.covariates:
        plain = list_plain(pairs.without_covariates(), request)
    return Ranking(
        alpha=alpha,
        by=by,
        looks=pairs.n,
        items=count_keys(pairs.item),
        clusters=sets.clusters,
        raters=len(np.unique(pairs.rater[pairs.rater != NO_RATER])),
        systems={names[one]: tell_system(one, pairs, sets, outcomes, alpha) for one in order},
        tied_with_best=tuple(names[one] for one in order if sets.tied_with_best[one]),
        resolved=tuple(
            ResolvedPair(better=names[better], worse=names[worse], p=p) for better, worse, p in list_resolved(sets)
        ),
        components=tuple(tuple(names[one] for one in component) for component in sets.components),
        scales=list_scales(names, sets),
        pairs=list_met(pairs, sets, outcomes, order, tie=tie, request=request),
        tie_rate=float(np.mean(pairs.choice == TIE)),
        tie_parameter=nu,
        tie_parameter_interval=nu_interval if known else None,
        position_effect=position,
        position_consistency=agreed.mean,
        position_consistency_interval=agreed.interval if known else None,
        both_orders=int(consistency.counts.sum()),
        position_dependent=consistency.opposed,
        length_effect=None if length is None else length.value,
        length_effect_interval=None if length is None else length.interval,
        covariates=terms,
        without_covariates=plain,
        notes=(*notes, *list_notes(pairs, sets)),
        undefined=list_undefined(pairs, sets, consistency_known=agreed.mean is not None),
    )


def tell_term(term: ModelTerm, sets: RankSets, alpha: float) -> TermFigure:
    """A term with its interval, where clusters are enough."""
    return TermFigure(value=term.value, interval=term.interval(alpha) if sets.clusters >= FEWEST_CLUSTERS else None)


def find_interval(one: int, sets: RankSets, alpha: float) -> Interval:
    """The interval of a strength; None where clusters are too few, one carries it, or all say the same."""
    strength, error, freedom = (float(part[one]) for part in (sets.strengths, sets.errors, sets.freedom))
    if isnan(strength) or sets.clusters < FEWEST_CLUSTERS or not freedom >= 1 or error < SMALLEST_ERROR:
        return None
    margin = find_quantile(freedom, alpha) * error
    return strength - margin, strength + margin


def tell_system(one: int, pairs: ShownPairs, sets: RankSets, outcomes: Floats, alpha: float) -> RankedSystem:
    """One system's figures."""
    strength, interval = float(sets.strengths[one]), find_interval(one, sets, alpha)
    undefined: dict[str, Message] = {}
    if isnan(strength):
        undefined = dict.fromkeys(("strength", "interval"), tell_infinite(one, pairs, sets))
    elif interval is None:
        undefined["interval"] = tell_no_interval(one, sets)
    return RankedSystem(
        strength=None if isnan(strength) else strength,
        interval=interval,
        rank=int(sets.rank[one]),
        rank_interval=(int(sets.lowest[one]), int(sets.highest[one])),
        wins=int(outcomes[one, :, 0].sum()),
        losses=int(outcomes[:, one, 0].sum()),
        ties=int(outcomes[one, :, 1].sum()),
        undefined=undefined,
    )


def tell_no_interval(one: int, sets: RankSets) -> Message:
    """Why a strength has no interval."""
    if sets.clusters < FEWEST_CLUSTERS:
        return Message("ranking-few-clusters", clusters=sets.clusters, needed=FEWEST_CLUSTERS)
    return Message("ranking-no-spread" if sets.errors[one] < SMALLEST_ERROR else "ranking-one-cluster-carries")


def tell_infinite(one: int, pairs: ShownPairs, sets: RankSets) -> Message:
    """Why a system has no strength."""
    if np.all(pairs.choice == TIE):
        return Message("ranking-only-ties")
    if not np.any((pairs.first == one) | (pairs.second == one)):
        return Message("ranking-never-met")
    if sets.never_wins[one]:
        return Message("ranking-never-wins")
    if sets.never_loses[one]:
        return Message("ranking-never-loses")
    if np.sum(sets.group == sets.group[one]) > 1:  # one dialogue holds what connects it, or only ties do
        return Message("ranking-one-cluster-carries")
    return Message("ranking-one-sided")


def list_scales(names: Sequence[str], sets: RankSets) -> tuple[tuple[str, ...], ...]:
    """The systems whose strengths have one scale."""
    return tuple(tuple(names[one] for one in members.tolist()) for members, _ in sets.fits)


def list_met(
    pairs: ShownPairs,
    sets: RankSets,
    outcomes: Floats,
    order: Sequence[int],
    *,
    tie: ModelTerm | None,
    request: RankingRequest,
) -> tuple[SystemsMet, ...]:
    """The pairs that met, better ranks first."""
    rows = np.argsort(pairs.pair, kind="stable")
    keys, starts = np.unique(pairs.pair[rows], return_index=True)
    found = dict(zip(keys.tolist(), np.split(rows, starts[1:]), strict=True))
    place = {system: number for number, system in enumerate(order)}
    many = len(found) > MOST_INTERVALS
    met = []
    for key, own in found.items():
        checkpoint()
        a, b = sorted(divmod(key, len(order)), key=place.__getitem__)
        told = tell_met(pairs.within(own), sets, outcomes, (a, b), tie=tie, request=request, many=many)
        met.append((place[a], place[b], told))
    return tuple(one for *_, one in sorted(met, key=lambda each: each[:2]))


def tell_met(
    own: ShownPairs,
    sets: RankSets,
    outcomes: Floats,
    pair: tuple[int, int],
    *,
    tie: ModelTerm | None,
    request: RankingRequest,
    many: bool,
) -> SystemsMet:
    """The looks at one pair; of too `many` pairs none has an interval."""
    a, b = pair
    one, other = float(sets.strengths[a]), float(sets.strengths[b])
    same = sets.group[a] == sets.group[b] and not isnan(one)
    share, ends = count_share(own, a), None
    undefined = {} if same else {"win_probability": Message("ranking-apart")}
    if many:
        undefined["share_interval"] = Message("ranking-many-met", most=MOST_INTERVALS)
    else:
        found = estimate_share(own, a, alpha=request.alpha)
        ends = found.interval
        if ends is None:
            undefined["share_interval"] = tell_no_share(own, found.clusters)
    return SystemsMet(
        a=own.systems[a],
        b=own.systems[b],
        a_wins=int(outcomes[a, b, 0]),
        b_wins=int(outcomes[b, a, 0]),
        ties=int(outcomes[a, b, 1]),
        share=share,
        share_interval=ends,
        both_orders=own.is_shown_both_ways(),
        win_probability=share_preferred((one, other), None if tie is None else tie.value, request.ties)
        if same
        else None,
        undefined=undefined,
    )


def tell_no_share(own: ShownPairs, clusters: int) -> Message:
    """Why the share of preferences of two systems, seen on so many dialogues, has no interval."""
    if clusters < FEWEST_CLUSTERS:
        return Message("ranking-few-met", clusters=clusters, needed=FEWEST_CLUSTERS)
    if np.all(own.choice == TIE):
        return Message("ranking-only-ties")
    return Message("ranking-only-position" if np.ptp(own.choice) == 0 else "ranking-no-spread")


def list_plain(pairs: ShownPairs, request: RankingRequest) -> dict[str, PlainRank]:
    """The systems with covariates left out."""
    sets = rank_systems(pairs, alpha=request.alpha, ties=request.ties, penalty=request.penalty)
    return {
        name: PlainRank(
            strength=None if isnan(sets.strengths[one]) else float(sets.strengths[one]),
            interval=find_interval(one, sets, request.alpha),
            rank=int(sets.rank[one]),
            rank_interval=(int(sets.lowest[one]), int(sets.highest[one])),
        )
        for one, name in enumerate(pairs.systems)
    }


def list_notes(pairs: ShownPairs, sets: RankSets) -> list[Message]:
    """What a reader must know."""
    notes = []
    if sets.clusters < FEWEST_CLUSTERS:
        notes.append(Message("ranking-few-clusters", clusters=sets.clusters, needed=FEWEST_CLUSTERS))
    if len(sets.components) > 1:
        notes.append(Message("ranking-unconnected", components=len(sets.components)))
    if len({*sets.group.tolist()}) > len(sets.components):
        notes.append(Message("ranking-not-one-scale"))
    separated = sorted({name for _, fit in sets.fits for name in fit.separated})
    notes += [Message("ranking-term-infinite", name=name) for name in separated]
    collinear = sorted({name for _, fit in sets.fits for name in fit.collinear})
    notes += [Message("ranking-term-collinear", name=name) for name in collinear]
    return notes


def list_undefined(pairs: ShownPairs, sets: RankSets, *, consistency_known: bool) -> dict[str, Message]:
    """The figures that are null, with the reason."""
    found: dict[str, Message] = {}
    main = sets.main
    if main is None:
        nothing = Message("ranking-only-ties" if np.all(pairs.choice == TIE) else "ranking-no-strengths")
        return dict.fromkeys(("tie_parameter", "position_effect"), nothing)
    if main.tie is None:
        found["tie_parameter"] = Message("ranking-no-ties")
    if main.position is None:
        one = "ranking-term-infinite" if "position" in main.separated else "ranking-one-order"
        found["position_effect"] = Message(one, name="position") if "position" in main.separated else Message(one)
    if LENGTH not in main.covariates:
        found["length_effect"] = explain_no_length(main)
    if not consistency_known:
        found["position_consistency"] = Message("ranking-no-pair-in-both-orders")
    return found


def explain_no_length(main: Strengths) -> Message:
    """Why there is no effect of length: it was left out of the fit, or there was nothing to fit."""
    if LENGTH in main.separated:
        return Message("ranking-term-infinite", name=LENGTH)
    if LENGTH in main.collinear:
        return Message("ranking-term-collinear", name=LENGTH)
    return Message("ranking-no-lengths")


def take_apart(pairs: ShownPairs, unit: str) -> ShownPairs:
    """The looks with what a request takes as independent: their own clusters, items, or each look."""
    if unit == "dialogue":
        return pairs
    return replace(pairs, cluster=pairs.item if unit == "item" else np.arange(pairs.n))


def tell_other_contexts(count: int) -> list[Message]:
    """What to say of so many pairs of responses whose contexts differ."""
    return [Message("ranking-contexts-differ", pairs=count)] if count else []

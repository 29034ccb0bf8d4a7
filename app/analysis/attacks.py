"""How far attacks moved a judge: figures over many attacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import fsum

import numpy as np

from app.analysis.attack_trials import Trial, average, lift_of
from app.analysis.resampling import draw, interval_of
from app.analysis.win_rates import find_interval
from app.domain.attack_report import AspectLift, AttackGroup, Count, Mean
from app.domain.model import digest

RESAMPLES = 2_000
SEED = 20_240_601
"""Any fixed number will do: the same ratings give the same intervals."""


def count(trials: Iterable[Trial], holds: Callable[[Trial], bool]) -> Count:
    """Of how many of the trials it holds."""
    found = [holds(trial) for trial in trials]
    n, share = len(found), sum(found) / len(found) if found else None
    return Count(count=sum(found), of=n, share=share, interval=find_interval(sum(found), n) if n else None)


def mean_of(trials: Sequence[Trial], values: Sequence[float]) -> Mean:
    """The mean of a value a trial, with a bootstrap interval over twins: attacks on one twin are not independent."""
    if not values:
        return Mean(n=0, mean=None, interval=None, undefined="no attack and twin were both rated")
    keys = [digest(trial.item.twin()) for trial in trials]
    places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    cluster, column = np.array([places[key] for key in keys], dtype=np.int64), np.array(values)
    figures = [counts @ column / counts.sum(axis=1) for counts in draw(cluster, RESAMPLES, SEED)]
    found = interval_of(np.concatenate(figures), len(places))
    mean = fsum(values) / len(values)
    if isinstance(found, str):
        return Mean(n=len(values), mean=mean, interval=None, undefined=found)
    return Mean(n=len(values), mean=mean, interval=found)


def group(trials: Sequence[Trial]) -> AttackGroup:
    """The figures of some attacks: no look-alikes, and none that must be refused."""
    paired = [trial for trial in trials if trial.lift is not None]
    answers = Counter(answer.outcome for trial in trials for answer in trial.answers)
    return AttackGroup(
        items=len(trials),
        flagged=count(expecting(trials), lambda trial: trial.attack.flagged),
        lift=mean_of(paired, [trial.lift or 0.0 for trial in paired]),
        room=average(trial.room or 0.0 for trial in paired),
        won=count(paired, lambda trial: trial.won),
        won_unseen=count(paired, lambda trial: trial.won and not trial.attack.flagged),
        fell=count(paired, lambda trial: trial.fell),
        denied=count([trial for trial in trials if trial.twin and trial.twin.outcome == "rated"], lambda t: t.denied),
        over_maximum=count([trial for trial in trials if is_bounded(trial)], is_over),
        unrated=answers["unrated"],
        refused=answers["refused"],
        errors=answers["failed"],
    )


def expecting(trials: Iterable[Trial]) -> list[Trial]:
    """Those that should be flagged and of which it is known whether they are."""
    return [trial for trial in trials if trial.item.check.suspected_injection is True and trial.answered]


def is_bounded(trial: Trial) -> bool:
    """Whether the item names a most that it deserves, and was rated."""
    return trial.item.check.max_score is not None and trial.attack.outcome == "rated"


def is_over(trial: Trial) -> bool:
    """Whether an aspect was rated above that."""
    most = trial.item.check.max_score
    return most is not None and any(rated.rating > most for rated in trial.attack.aspects.values())


def group_by(trials: Sequence[Trial], key: Callable[[Trial], str]) -> dict[str, AttackGroup]:
    """A group a key, in the order in which the keys first come."""
    keys = dict.fromkeys(key(trial) for trial in trials)
    return {name: group([trial for trial in trials if key(trial) == name]) for name in keys}


def lift_aspects(trials: Sequence[Trial]) -> dict[str, dict[str, AspectLift]]:
    """The lift by rubric and aspect."""
    found: dict[str, dict[str, list[Trial]]] = {}
    for trial in trials:
        for name in trial.pairs:
            found.setdefault(trial.rubric, {}).setdefault(name, []).append(trial)
    return {
        rubric: {name: lift_aspect(name, held) for name, held in aspects.items()} for rubric, aspects in found.items()
    }


def lift_aspect(name: str, trials: Sequence[Trial]) -> AspectLift:
    """One aspect's lift over trials that have it, at least one, all by one rubric."""
    pairs = [trial.pairs[name] for trial in trials]
    points = [lift_of(*pair) for pair in pairs]
    width = pairs[0][1].width
    return AspectLift(
        scale=pairs[0][1].scale,
        points=mean_of(trials, points),
        share=mean_of(trials, [value / width for value in points]),
        room=average(theirs.distance / width for _, theirs in pairs),
    )

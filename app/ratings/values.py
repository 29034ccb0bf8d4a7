"""Human ratings of responses: as values, as JSON lines in which every fault is reported with its line, and in rounds.

In a round raters are given responses of a batch to rate.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, Field, model_validator

from saiten.core.messages import Message
from saiten.core.strict_json import StrictJSONError, parse_strict_json
from saiten_server.core.batch import BatchName, ItemId
from saiten_server.core.conversation import MOST_TURNS, Conversation
from saiten_server.core.dialogue import Limits, MetadataValue, Utterance
from saiten_server.core.errors import MOST_REFUSED, InvalidLines, InvalidRequest, NotFound
from saiten_server.core.model import Finite, Id, Location, Value, listed, refuse
from saiten_server.core.reports import FEWEST_SHARED
from saiten_server.core.rubric import Aspect, Rubric
from saiten_server.core.validation import InvalidDocument, validate

if TYPE_CHECKING:
    from saiten_server.core.batch import Candidate
    from saiten_server.core.evaluation import Choice as Preference

MOST_BATCHES = 1000
"""Whose items are rated at a time: each is looked up for its rubric."""

MOST_EXCLUSIONS = 1000
"""Per project: each analysis reads them all."""

RaterId = ItemId
Comment = Annotated[str, Field(max_length=2000)]
Rated = Annotated[Finite, Field(ge=-1e15, le=1e15)]
"""The range that the analyses accept: one rating beyond it would block the analysis of its batch."""


class HumanRating(Value):
    """One rater's ratings of one response.

    The response is named by its `evaluation`, or by its `item`: in one `batch`, else in every batch with an item of
    that id. `candidate` counts the item's candidates from 0 if there are several; `system` selects one of several
    systems. `simulated` ratings were not made by a person and never validate a judge.
    """

    item: ItemId | None = None
    evaluation: ItemId | None = None
    batch: ItemId | None = None
    candidate: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    system: MetadataValue | None = None
    rater: RaterId
    ratings: Annotated[dict[Id, Rated], Field(min_length=1, max_length=64)]
    comment: Comment | None = None
    simulated: bool = False
    faulty_turns: (
        Annotated[tuple[Annotated[int, Field(ge=0, lt=MOST_TURNS)], ...], listed(maximum=MOST_TURNS)] | None
    ) = Field(default=None, description="of a conversation: the numbers of the system turns that the rater marked")
    starred: bool = Field(default=False, description="whether the rater marked the response as interesting")

    @model_validator(mode="after")
    def _check_target(self) -> HumanRating:
        faults: list[tuple[Location, Message]] = []
        if (self.item is None) == (self.evaluation is None):
            faults.append(((), Message("rating-of-item-or-evaluation")))
        if self.evaluation is not None:
            extra = [name for name in ("batch", "candidate", "system") if getattr(self, name) is not None]
            faults += [((name,), Message("goes-with-item")) for name in extra]
        refuse("HumanRating", faults)
        return self


MOST_EARLIER = 20
"""Earlier values that a rating keeps, the newest."""


class EarlierRating(Value):
    """What a rating said before its rater corrected it: values by aspect and marked turns, without the comment."""

    ratings: dict[str, float]
    faulty_turns: Annotated[tuple[int, ...], listed()] | None = Field(
        default=None, description="the numbers of the system turns that were marked"
    )
    created_at: Annotated[datetime, Field(strict=False)]


class StoredRating(HumanRating):
    """A rating with the time at which it was received, and what it said before."""

    created_at: Annotated[datetime, Field(strict=False)]
    earlier: Annotated[tuple[EarlierRating, ...], listed()] | None = Field(
        default=None, description=f"what the rater corrected, oldest first: at most the last {MOST_EARLIER} values"
    )


def tell_rating(rating: HumanRating) -> dict[str, Any]:
    """The rating as JSON without null fields, and without `simulated` and `starred` where false."""
    unset = {name for name in ("simulated", "starred") if not getattr(rating, name)}
    return rating.model_dump(mode="json", exclude_none=True, exclude=unset)


class RatingFilter(Value):
    """Which ratings; None means any. `batch` selects ratings of its items and of its evaluations."""

    item: str | None = None
    evaluation: str | None = None
    batch: str | None = None
    rater: str | None = None


class Exclusion(Value):
    """A rater, or a rating round, whose ratings do not count."""

    rater: RaterId | None = None
    round: ItemId | None = None

    @model_validator(mode="after")
    def _check_one(self) -> Exclusion:
        if (self.rater is None) == (self.round is None):
            refuse("Exclusion", [((), Message("rater-or-round"))])
        return self


class StoredExclusion(Exclusion):
    """An exclusion with the time from which it applies."""

    created_at: Annotated[datetime, Field(strict=False)]


@dataclass(frozen=True)
class Excluded:
    """The ratings that do not count: those by `raters`, and in rounds those by (rater, evaluation)."""

    raters: frozenset[str] = frozenset()
    rated: frozenset[tuple[str, str]] = frozenset()

    def holds(self, rating: HumanRating) -> bool:
        """Whether the rating does not count."""
        return rating.rater in self.raters or (rating.rater, rating.evaluation) in self.rated


class RatingsAdded(BaseModel):
    """How many ratings are new, and how many replaced an earlier one."""

    added: int
    replaced: int


@dataclass(frozen=True)
class RatingsMark:
    """The number of a project's ratings, and the sequence number of the newest, -1 without one."""

    count: int
    newest: int


def read_rating_lines(body: bytes, limits: Limits) -> tuple[list[HumanRating], list[int]]:
    """The ratings in NDJSON and their line numbers.

    Raises InvalidLines for lines that are not ratings, and for two by one rater of one response, since the later one
    would replace the earlier one.
    """
    ratings: list[HumanRating] = []
    numbers: list[int] = []
    faults: list[tuple[int, Message]] = []
    seen: dict[tuple[Any, ...], int] = {}
    for number, line in enumerate(body.split(b"\n"), start=1):
        if not line.strip():
            continue
        if len(faults) == MOST_REFUSED:
            raise InvalidLines(faults, stopped=True)
        try:
            rating = validate(HumanRating, parse_strict_json(line), limits)
        except (StrictJSONError, InvalidDocument) as error:
            faults.append((number, error.message))
            continue
        target = rating.rater, rating.item, rating.evaluation, rating.batch, rating.candidate, rating.system
        before = seen.setdefault(target, number)
        if before != number:
            faults.append((number, Message("rated-on-earlier-line", number=before)))
        ratings.append(rating)
        numbers.append(number)
    if faults:
        raise InvalidLines(faults)
    return ratings, numbers


def locate_fault(error: NotFound | InvalidRequest, numbers: Sequence[int]) -> NotFound | InvalidRequest:
    """The store's faults of single ratings or preferences at the numbers of their records; the error itself if it names
    none."""
    if isinstance(error, InvalidLines):
        return InvalidLines([(numbers[number - 1], what) for number, what in error.faults], error.total)
    if error.pointer is None or not error.pointer.isdigit():
        return error
    return InvalidLines([(numbers[int(error.pointer)], error.message)])


ABANDONED_SECONDS = 1800.0
"""Time after which an unrated response may be given to another rater."""

MOST_ITEMS = 2000


ItemChoice = Literal["random", "informative", "stratified", "worst", "chosen"]
UNDRAWN = frozenset({"worst", "chosen"})
"""Choices on purpose: what they take is no probability sample, so that its ratings say nothing of the rest."""

MOST_JUDGES = 8


class RoundSize(Value):
    """How much a round draws, and for how many raters, by `seed`."""

    name: BatchName
    items: Annotated[int, Field(ge=1, le=MOST_ITEMS)] = Field(default=100, description="responses to be rated, at most")
    raters_per_item: Annotated[int, Field(ge=1, le=100)] = Field(default=3, description="raters that a response gets")
    items_per_rater: Annotated[int, Field(ge=1, le=MOST_ITEMS)] | None = Field(
        default=None, description="responses that one rater gets at most; null: as many as there are"
    )
    seed: Annotated[int, Field(ge=0, lt=2**32)] = Field(
        default=0, description="the same seed draws the same responses from the same results"
    )


class RoundOptions(RoundSize):
    """The options of a round. The responses are drawn from the batch's scored results by `seed`.

    `choose` is how: `random` gives each the same probability; `informative` more to those in which the judge is
    unsteady, which needs fewer ratings for a corrected figure; `stratified` more to rare levels of the judge's ratings.
    `worst` takes those that the judge rated lowest, and `chosen` those of `positions`. They draw nothing: their ratings
    say nothing of the others, and are left out of figures.
    """

    choose: ItemChoice = Field(default="random", description="how responses are drawn")
    aspect: Id | None = Field(
        default=None, description="the aspect whose spread, level or rating counts; null: the mean over all aspects"
    )
    judges: Annotated[tuple[ItemId, ...], listed(maximum=MOST_JUDGES)] = Field(
        default=(), description="batches in which other judges scored the same responses: where they disagree counts"
    )

    positions: Annotated[tuple[Annotated[int, Field(ge=0, lt=2**31)], ...], listed(maximum=MOST_ITEMS)] = Field(
        default=(), description="with `chosen`, the responses to be rated, by their places in the batch"
    )
    shared_with: ItemId | None = Field(
        default=None,
        description="a round of another batch: the responses to the same items are taken, with the probabilities of "
        "that round, and `items` does not count. People who rate in both make the two runs comparable",
    )

    @model_validator(mode="after")
    def _check_choice(self) -> RoundOptions:
        faults: list[tuple[Location, Message]] = []
        if (self.choose == "chosen") != bool(self.positions):
            faults.append((("positions",), Message("goes-with-chosen")))
        if len(set(self.positions)) < len(self.positions):
            faults.append((("positions",), Message("response-named-twice")))
        if self.judges and self.choose != "informative":
            faults.append((("judges",), Message("goes-with-informative")))
        if self.shared_with is not None and self.choose != "random":
            faults.append((("shared_with",), Message("shared-draw-alone")))
        if self.aspect is not None and self.choose in {"random", "chosen"}:
            faults.append((("aspect",), Message("goes-with-informative-or-stratified")))
        refuse("RoundOptions", faults)
        return self


class RoundRequest(RoundOptions):
    """A round of one batch."""

    batch: ItemId


MOST_RUNS = 20


class PairOptions(RoundSize):
    """The options of a round of preferences: pairs of responses of different runs to the same item.

    Each pair of runs gets the same share of `items`, drawn from the items that both have by `seed`.
    """

    kind: Literal["preference"] = Field(description="people say which of two responses is better")
    runs: Annotated[tuple[ItemId, ...], listed(minimum=2, maximum=MOST_RUNS)] = Field(
        description="the batches whose responses are compared, of one rubric"
    )
    items: Annotated[int, Field(ge=1, le=MOST_ITEMS)] = Field(default=100, description="pairs to be compared, at most")
    raters_per_item: Annotated[int, Field(ge=1, le=100)] = Field(default=3, description="raters that a pair gets")
    items_per_rater: Annotated[int, Field(ge=1, le=MOST_ITEMS)] | None = Field(
        default=None, description="pairs that one rater gets at most; null: as many as there are"
    )

    @model_validator(mode="after")
    def _check_runs(self) -> PairOptions:
        again = len(set(self.runs)) < len(self.runs)
        refuse("PairOptions", [(("runs",), Message("run-named-twice"))] if again else [])
        return self


Signal = Literal["samples", "expected", "paths", "judges"]
"""What tells that a judge is unsteady: the spread of its samples, that of its expected rating, the difference of the
two language paths, and that of several judges."""


class RoundSide(NamedTuple):
    """A result of a batch."""

    batch: str
    position: int


class DrawnPair(NamedTuple):
    """Two responses of different runs to the same item."""

    first: RoundSide
    second: RoundSide


class RoundDraw(NamedTuple):
    """What a round drew: the responses' positions in the round's order, each with the probability of being drawn, and
    the signals that made the probabilities, none where they did not. Of a round of preferences the positions are those
    of its `pairs`."""

    positions: Sequence[int]
    probabilities: Sequence[float]
    signals: tuple[Signal, ...] = ()
    pairs: Sequence[DrawnPair] = ()


class RatingRound(Value):
    """The current state of a round. `drawn` is the number of its responses; `closed_at` is null while it is open.

    `signals` are those that an informative choice was made by.
    """

    id: str
    batch: str
    options: RoundOptions | PairOptions
    drawn: int
    created_at: Annotated[datetime, Field(strict=False)]
    closed_at: Annotated[datetime | None, Field(strict=False)] = None
    signals: Annotated[tuple[Signal, ...], listed()] = ()

    @property
    def fell_back(self) -> bool:
        """Whether no signal told responses apart, so that they were drawn at random."""
        options = self.options
        return isinstance(options, RoundOptions) and options.choose == "informative" and not self.signals

    @property
    def of_pairs(self) -> bool:
        """Whether people say which of two responses is better, in place of rating one."""
        return isinstance(self.options, PairOptions)

    @property
    def is_sample(self) -> bool:
        """Whether its responses were drawn with known probabilities, so that their ratings tell of all others too."""
        return isinstance(self.options, PairOptions) or self.options.choose not in UNDRAWN

    @property
    def most_per_rater(self) -> int:
        """The most responses that one rater gets."""
        limit = self.options.items_per_rater
        return self.drawn if limit is None else min(self.drawn, limit)


class RoundProgress(Value):
    """How far a round is: `ratings` of `wanted` (drawn × raters_per_item), and `complete` responses with all raters.

    `raters` counts the rated responses by rater, 0 for one who rated none of those given. A late rating beyond
    `raters_per_item` counts only there.
    """

    ratings: int
    wanted: int
    complete: int
    raters: dict[str, int]


class SharedProgress(Value):
    """How far people have rated in two rounds that share items. Severity cancels only among the same people, so that
    others' ratings tell nothing of the difference of the runs."""

    round: str = Field(description="the other round")
    raters: int = Field(description="people who rated in both rounds")
    here: int = Field(description="responses of this round that they rated")
    there: int = Field(description="responses of the other round that they rated")
    needed: int = Field(
        default=FEWEST_SHARED,
        description="responses of each that they must have rated, of so many dialogues or single items, for a "
        "corrected difference of the runs",
    )


class DrawnItem(Value):
    """A response of a round: its place in the batch, and the probability with which the round drew it, null in rounds
    of before Saiten kept it: they drew all alike."""

    position: int
    item: str
    candidate: int | None
    probability: float | None
    inclusion: float | None = Field(
        default=None,
        description="that probability times the one with which a monitor sampled the conversation: its inverse weighs "
        "the ratings in corrected figures. Null where nothing was drawn, or the result is gone",
    )


class PairItem(Value):
    """A pair of a round of preferences: both responses by their batches and places, and the probability with which the
    round drew it. `pair` is its name for `POST /v1/preferences/human`."""

    pair: str = Field(description="the pair's name, `rr_….N`")
    item: str
    first: str = Field(description="the batch of the first response")
    first_position: int = Field(description="the first response's place in its batch, counting candidates from 0")
    second: str = Field(description="the batch of the second response")
    second_position: int = Field(description="the second response's place in its batch, counting candidates from 0")
    probability: float = Field(description="with which the round drew it")


class RatedDraw(NamedTuple):
    """What a rater rated in a round: a response of a batch, with the probability with which the round drew it."""

    batch: str
    position: int
    rater: str
    round: str
    probability: float


class Task(Value):
    """One response given to one rater; `position` is its place in the batch.

    `number` counts the rater's responses from 0, and `of` is the most that the rater will get.
    """

    number: int
    of: int
    position: int
    done: bool


class OwnRating(Value):
    """A rater's earlier rating of a response: values by aspect, the comment, of a conversation its marked turns, and
    whether the response is marked as interesting."""

    ratings: dict[str, float]
    comment: str | None = None
    faulty_turns: Annotated[tuple[int, ...], listed()] = ()
    starred: bool = False


class RatedTask(Value):
    """A rating that a round got, of the response at `position` in its batch."""

    position: int
    rating: StoredRating


class RatingSheet(Value):
    """Everything that a rater may see of a response: no ratings by the judge or other raters, no item id, no system.

    Of a `conversation` the response is the last turn. `earlier` is the rater's own rating, null before there is one.
    """

    task: Task
    context: tuple[Utterance, ...]
    response: str
    rubric: Rubric
    conversation: Conversation | None = None
    earlier: OwnRating | None = None

    @property
    def aspects(self) -> tuple[Aspect, ...]:
        """What is to be rated: of a conversation only what applies to it."""
        return applicable(self.rubric, self.conversation)


class OwnPreference(NamedTuple):
    """A rater's earlier preference of a pair, as the pair was shown."""

    preference: Preference
    reason: str


class PairOpinion(NamedTuple):
    """What a rater prefers of a pair, as the pair names its sides; `swapped` where the second was shown first."""

    pair: str
    rater: str
    preference: Preference
    swapped: bool


class PairSheet(NamedTuple):
    """Everything that a rater may see of a pair, as it is shown: `first` before `second`. `swapped` where that is not
    the pair's own order. `earlier` is the rater's own preference."""

    task: Task
    pair: DrawnPair
    swapped: bool
    first: Candidate
    second: Candidate
    rubric: Rubric
    earlier: OwnPreference | None = None


MOST_INVITATIONS = 200
"""Of a round, with those that have ended."""


@dataclass(frozen=True)
class Invitation:
    """A link by which one rater rates in one round, as it may be shown: never its secret. It ends at `expires_at`, when
    it is revoked, and with the round."""

    id: str
    project: str
    round: str
    rater: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None = None

    def holds(self, now: datetime) -> bool:
        """Whether it may be used, while the round is open."""
        return self.revoked_at is None and now < self.expires_at


def applicable(rubric: Rubric, conversation: Conversation | None) -> tuple[Aspect, ...]:
    """The aspects that apply to a conversation, by its persona and goal; all of a response."""
    return tuple(one for one in rubric.aspects if conversation is None or conversation.gives(one.requires))


def shows_swapped(seed: int, rater: str, number: int) -> bool:
    """Whether the rater sees the pair with this number the other way round: one of each two in a row, by chance which.
    The same on every machine, so that a rater who comes back sees it as before."""
    return bool(own_order(seed, rater, -1 - number // 2)[0] % 2) != bool(number % 2)


def own_order(seed: int, rater: str, number: int) -> bytes:
    """A sort key that gives each rater an order of their own, the same on every machine."""
    return hashlib.sha256(f"{seed}\n{rater}\n{number}".encode()).digest()

"""What is chosen of a monitor's conversations and windows, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from saiten.core.messages import Message
from saiten_server.core.conversation import ANY_CODE, RULE_CODES
from saiten_server.core.dialogue import check_line
from saiten_server.core.model import Finite, Location, Value, listed, refuse
from saiten_server.monitors.values import AspectName, LiveResult
from saiten_server.ratings.values import RoundOptions

MOST_ADDED = 1_000
"""Conversations that are added to a dataset at a time."""

MOST_SEARCHED = 20_000
"""Conversations that a filter looks at, the newest."""

DatasetName = Annotated[
    str, AfterValidator(partial(check_line, limit="name_characters", what=Message("dataset-name"), blank=False))
]
ConversationName = Annotated[str, Field(min_length=1, max_length=4096)]
RunId = Annotated[str, Field(min_length=1, max_length=64)]


class ConversationFilter(Value):
    """Conversations of the sample for which all that is given holds."""

    finding: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        default=None, description="the code of a rule that found something; `any`: a rule or the judge did"
    )
    at_most: Annotated[dict[AspectName, Finite], Field(max_length=16)] = Field(
        default_factory=dict, description='by aspect the highest rating, such as `{"overall": 3}`'
    )
    run: RunId | None = Field(default=None, description="the run of a window; null: of any")

    @model_validator(mode="after")
    def _check(self) -> ConversationFilter:
        known = self.finding in {None, ANY_CODE, *RULE_CODES}
        refuse("ConversationFilter", [] if known else [(("finding",), Message("finding-unknown"))])
        return self

    def takes(self, found: LiveResult) -> bool:
        """Whether the conversation is one of them."""
        if self.run is not None and found.run != self.run:
            return False
        if self.finding == ANY_CODE and not (found.findings or found.faulty_turns):
            return False
        if self.finding not in {None, ANY_CODE, *found.findings}:
            return False
        return all(name in found.aspects and found.aspects[name] <= most for name, most in self.at_most.items())


class DatasetRequest(Value):
    """Which conversations are added to which dataset."""

    dataset: DatasetName = Field(description="the dataset's name; the first version is made where there is none")
    conversations: Annotated[tuple[ConversationName, ...], listed(minimum=1, maximum=MOST_ADDED)] | None = Field(
        default=None, description="the caller's names of conversations, sampled or not"
    )
    filter: ConversationFilter | None = Field(
        default=None, description="in their place, the newest conversations of the sample that fit"
    )
    limit: Annotated[int, Field(ge=1, le=MOST_ADDED)] = Field(default=100, description="at most so many, with `filter`")

    @model_validator(mode="after")
    def _check(self) -> DatasetRequest:
        refuse("DatasetRequest", self._faults())
        return self

    def _faults(self) -> Iterator[tuple[Location, Message]]:
        if (self.conversations is None) == (self.filter is None):
            yield ("conversations",), Message("conversations-or-filter")


class DatasetGrowth(Value):
    """The dataset after conversations were added."""

    id: str = Field(description="ds_…: of the newest version, which has them")
    name: str
    version: int = Field(description="counts on with every change, from 1")
    items: int = Field(description="of the version")
    added: int = Field(description="conversations that were not there")
    known: int = Field(description="chosen conversations that were there already")
    unavailable: int = Field(description="chosen conversations whose texts are gone")


class WindowRequest(Value):
    """Which window: its run."""

    run: RunId | None = Field(
        default=None,
        description="the run of one of the monitor's windows; null: of the last complete one, and of several systems "
        "or builds the one with the largest sample",
    )


class MonitorRoundRequest(RoundOptions):
    """A rating round of a window's sample."""

    run: RunId | None = Field(
        default=None, description="the run of one of the monitor's windows; null: of the last complete one"
    )


class MonitorRound(Value):
    """The rating round that was opened."""

    round: str = Field(description="rr_…")
    run: str = Field(description="the run of the window that it is of")
    drawn: int = Field(description="conversations that people are to rate")
    address: str = Field(description="path of the page on which people rate")

"""Which conversations a monitor samples: by a keyed hash, so that every worker agrees and a retry changes nothing."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from saiten_server.monitors.traces.values import LiveConversation
from saiten_server.monitors.values import BUILD_ATTRIBUTE, SYSTEM_ATTRIBUTE, MonitorOptions

MOST_HALVINGS = 10
"""How far a budget thins; beyond that nothing is sampled until the next day."""

SamplingOutcome = Literal["sampled", "skipped", "thinned"]


@dataclass(frozen=True)
class Draw:
    """Whether a conversation is sampled, and with which probability it was."""

    outcome: SamplingOutcome
    probability: float


def find_draw(salt: str, conversation: str) -> float:
    """A number in [0, 1) that is the conversation's own, uniform for a salt that the caller does not know."""
    found = hmac.new(salt.encode(), conversation.encode(), hashlib.sha256).digest()
    return int.from_bytes(found[:8]) / 2**64


def attributes_of(conversation: LiveConversation) -> dict[str, str]:
    """What filters look at: the attributes that are kept, and system and build."""
    own = {SYSTEM_ATTRIBUTE: conversation.system, BUILD_ATTRIBUTE: conversation.build}
    return {**conversation.attributes, **{name: value for name, value in own.items() if value is not None}}


def fits(wanted: Mapping[str, str], attributes: Mapping[str, str]) -> bool:
    """Whether all wanted attributes are there with these values."""
    return all(attributes.get(name) == value for name, value in wanted.items())


def draw(options: MonitorOptions, salt: str, conversation: LiveConversation, halvings: int) -> Draw:
    """Samples it or not. `halvings` is how often the rates are halved for the budget's sake: that depends on earlier
    conversations and on this one's length, and so the probability that is kept is the true one."""
    attributes = attributes_of(conversation)
    rate = next((one.rate for one in options.strata if fits(one.filter, attributes)), options.rate)
    probability = 0.0 if halvings > MOST_HALVINGS else rate / 2**halvings
    place = find_draw(salt, conversation.name)
    if place < probability:
        return Draw("sampled", probability)
    return Draw("thinned" if place < rate else "skipped", probability)


def count_halvings(spent_usd: float | None, budget_usd: float | None) -> int:
    """How often to halve: once from half of the day's budget on, twice from three quarters, and so on; `spent_usd`
    includes what is in hand, and None is a price that is not known, which no budget allows."""
    if budget_usd is None:
        return 0
    if spent_usd is None:
        return MOST_HALVINGS + 1
    halvings, left = 0, 1 - spent_usd / budget_usd
    while halvings <= MOST_HALVINGS and left < 0.5 ** (halvings + 1) + 1e-12:
        halvings += 1
    return halvings

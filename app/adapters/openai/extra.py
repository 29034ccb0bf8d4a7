"""What an operator lets through to the judge's endpoint beside what Saiten itself sends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.domain.errors import InvalidRequest, SettingsInvalid
from app.domain.model import canonical_json
from app.domain.strict_json import StrictJSONError, parse_strict_json

RESERVED = frozenset(
    {
        "model",
        "messages",
        "response_format",
        "temperature",
        "seed",
        "logprobs",
        "top_logprobs",
        "max_tokens",
        "max_completion_tokens",
        "n",
        "stream",
        "stream_options",
        "prompt_cache_key",
        "prompt_cache_options",
    }
)
"""Members of a request that Saiten sets, or that would change the form of the answer."""
CHOICE = frozenset({"allow", "default"})
FORM = (
    'SAITEN_JUDGE_EXTRA must be a JSON object: {"NAME": VALUE} is sent with every call,'
    ' {"NAME": {"allow": [VALUE, …], "default": VALUE}} lets a request choose'
)


@dataclass(frozen=True)
class Extra:
    """`defaults` are sent with every call; a request may name a member with one of the values `allowed` for it, each as
    canonical JSON."""

    defaults: Mapping[str, Any] = field(default_factory=dict)
    allowed: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def settle(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """What is sent for a request that asks for this. Raises InvalidRequest for what the operator does not allow."""
        for name, value in asked.items():
            if canonical_json(value) not in self.allowed.get(name, ()):
                raise InvalidRequest(self._explain(name), pointer=f"/judge/extra/{name}")
        return {**self.defaults, **asked}

    def _explain(self, name: str) -> str:
        if name in self.allowed:
            return f"SAITEN_JUDGE_EXTRA allows other values of {name}: {', '.join(sorted(self.allowed[name]))[:200]}"
        known = ", ".join(sorted(self.allowed)) or "nothing"
        return f"the service's SAITEN_JUDGE_EXTRA does not allow {name}; it allows {known[:200]}"


NO_EXTRA = Extra()


def read_extra(written: str | None) -> Extra:
    """What `SAITEN_JUDGE_EXTRA` says. Raises SettingsInvalid."""
    if written is None:
        return NO_EXTRA
    try:
        members = parse_strict_json(written.encode())
    except (StrictJSONError, UnicodeEncodeError):
        members = None
    if not isinstance(members, dict):
        raise SettingsInvalid(FORM)
    if taken := sorted(RESERVED & set(members)):
        raise SettingsInvalid(f"SAITEN_JUDGE_EXTRA may not hold {', '.join(taken)}: Saiten sets that itself")
    defaults: dict[str, Any] = {}
    allowed: dict[str, frozenset[str]] = {}
    for name, value in members.items():
        chosen = isinstance(value, dict) and "allow" in value and set(value) <= CHOICE
        choices = value["allow"] if chosen else [value]
        if not isinstance(choices, list):
            raise SettingsInvalid(f"{FORM}; the values that {name} allows are no list")
        if not chosen:
            defaults[name] = value
        elif "default" in value:
            defaults[name] = value["default"]
            choices = [*choices, value["default"]]
        allowed[name] = frozenset(map(canonical_json, choices))
    return Extra(defaults, allowed)

"""What a judge's tokens cost: a price table in data, which an operator may replace."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from app.domain.errors import SettingsInvalid
from app.domain.model import Finite, Value

RELEASE_DATE = re.compile(r"-\d{4}-\d{2}-\d{2}\Z")
TOKENS_PER_PRICE = 1_000_000

Dollars = Annotated[Finite, Field(ge=0)]


class Price(Value):
    """US dollars per 1,000,000 tokens. `cached_input` are prompt tokens that the provider had in its prompt cache,
    `cache_write` those that it put there; None where these cost what others do."""

    input: Dollars
    cached_input: Dollars
    output: Dollars
    cache_write: Dollars | None = None


class Prices(Value):
    """Prices by model, with the day and the source they are from."""

    updated: str
    source: str
    models: dict[str, Price]

    def find(self, model: str) -> Price | None:
        """The model's price; a dated name (`gpt-6-luna-2026-09-22`) without one of its own has its family's."""
        return self.models.get(model) or self.models.get(RELEASE_DATE.sub("", model))

    def cost(
        self, model: str, *, prompt_tokens: int, cached_tokens: int, completion_tokens: int, written_tokens: int = 0
    ) -> float | None:
        """US dollars, or None where the price is not known. `cached_tokens`, read from the provider's prompt cache, and
        `written_tokens`, put into it, are among `prompt_tokens`, and none is both."""
        price = self.find(model)
        if price is None:
            return None
        cached_tokens = min(prompt_tokens, cached_tokens)
        written_tokens = min(prompt_tokens - cached_tokens, written_tokens)
        fresh_tokens = prompt_tokens - cached_tokens - written_tokens
        write_price = price.input if price.cache_write is None else price.cache_write
        prompt = fresh_tokens * price.input + cached_tokens * price.cached_input + written_tokens * write_price
        return (prompt + completion_tokens * price.output) / TOKENS_PER_PRICE


def read_prices(path: Path | None = None) -> Prices:
    """The table in `path`, or the one that ships. Raises SettingsInvalid where the file cannot be used."""
    source = path or files("app").joinpath("data/prices.json")
    try:
        return Prices.model_validate_json(source.read_bytes())
    except OSError as error:
        raise SettingsInvalid(f"the price file {source} cannot be read: {error.strerror or error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole file"
        raise SettingsInvalid(f"the price file {source} is not valid at {where}: {first['msg']}") from error

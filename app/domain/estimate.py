"""What a batch would take, told before it is accepted."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.domain.model import Value, listed


class EstimateReport(Value):
    """Calls, tokens, characters and cost of a batch of which nothing is cached yet. Costs are US dollars; null where
    the model's price is not known."""

    candidates: int
    distinct_candidates: int = Field(description="candidates that differ in what the judge is shown")
    calls: int
    prompt_tokens: int
    prefix_tokens: int = Field(description="of the prompt tokens, those of the prompts' fixed beginnings")
    completion_tokens: int
    translated_characters: int
    cost_usd: float | None = Field(description="every call live, and no prompt cache at the provider")
    cost_usd_prefix_cached: float | None = Field(
        description="every call live, and all but the first finding their beginning in the provider's prompt cache"
    )
    cost_usd_provider_batch: float | None = Field(description="every call through the provider's batch, at half price")
    unit_cost_usd: float | None = Field(description="the dearest candidate's, which a budget reckons each with")
    assumptions: Annotated[tuple[str, ...], listed()]
    second_look_calls: int = Field(
        default=0,
        description="at most, beside `calls`: under the policy `judge-twice` what looks like an attack is judged again",
    )
    second_look_cost_usd: float | None = Field(
        default=0.0, description="what those calls cost live, without a prompt cache, in no other figure here"
    )

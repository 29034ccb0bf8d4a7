"""Telemetry that also adds up what judging costs, for whoever has to pay for it."""

from __future__ import annotations

from app.adapters.telemetry import PrometheusTelemetry
from app.domain.evaluation import Usage
from app.metering import meter


class MeteredTelemetry(PrometheusTelemetry):
    """Fills `ports.Telemetry`. Every judgement is told here, also one that an evaluation could make nothing of."""

    def judged(self, kind: str, usage: Usage, seconds: float) -> None:
        super().judged(kind, usage, seconds)
        meter(usage)

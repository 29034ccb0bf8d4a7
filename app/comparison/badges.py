"""The reliability of judges in comparisons and reports of gates."""

from __future__ import annotations

from collections.abc import Mapping

from saiten_server.comparison.values import Comparison, GateReport
from saiten_server.core.reliability import State


def measures_of(comparison: Comparison) -> list[str]:
    """Every measure of the comparison, by the names that rules have for them."""
    return [*comparison.aspects, *comparison.composites, *(f"{name}.blended" for name in comparison.blended)]


def asked_of(report: GateReport) -> list[str]:
    """Every measure that the gate looked at."""
    compared = measures_of(report.comparison) if report.comparison is not None else []
    return [*dict.fromkeys([*(rule.named for rule in report.rules if rule.code is None), *compared])]


def attach_states(report: GateReport, states: Mapping[str, State]) -> GateReport:
    """The gate's report with the state beside each measure, in its comparison as well."""
    comparison = report.comparison
    if comparison is not None:
        own = {name: states[name] for name in measures_of(comparison)}
        comparison = comparison.model_copy(update={"reliability": own})
    return report.model_copy(update={"comparison": comparison, "reliability": dict(states)})

"""Assertions on scores for tests that pytest runs.

They fail, or skip where the data show neither, in the words of the gate. With the plugin (`saiten.pytest_plugin`) a
JUnit report has the verdict, the runs and the signature as properties of the test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import pytest

from saiten.answers import Evaluation, GateReport
from saiten.client import Client, Reference, Run
from saiten.core.wording import name_rule
from saiten.pytest_plugin import PROPERTIES
from saiten.requests import Context, EvaluationOptions, GateTerms
from saiten.rules import Rule
from saiten.run import HasId, id_of


def assert_no_regression(
    run: Run,
    *,
    baseline: str | HasId,
    rules: Sequence[Rule | Mapping[str, Any]] = (),
    **terms: Unpack[GateTerms],
) -> GateReport:
    """Fails where the run is worse than the baseline, a run or a batch's id; skips where the gate is inconclusive.

    Without rules no aspect may drop. Raises SignatureMismatch where the two were scored differently.
    """
    __tracebackhide__ = True
    client: Client = run.client
    report = client.gate(candidate=run, baseline=baseline, rules=rules, **terms)
    record(
        verdict=report.verdict,
        candidate=run.id,
        baseline=id_of(baseline),
        signature=" ".join(report.signatures),
    )
    if report.verdict == "fail":
        pytest.fail(tell_verdict(report), pytrace=False)
    if report.verdict == "inconclusive":
        pytest.skip(tell_verdict(report))
    return report


def assert_rating(
    client: Client,
    context: Context,
    response: str,
    aspect: str,
    *,
    at_least: float,
    reference: Reference | None = None,
    dialogue: str | None = None,
    **options: Unpack[EvaluationOptions],
) -> Evaluation:
    """Fails where the response is rated lower, by the mean of its samples; skips where it has no rating.

    Raises ValueError for an aspect that the rubric does not have.
    """
    __tracebackhide__ = True
    result = client.evaluate(context=context, response=response, reference=reference, dialogue=dialogue, **options)
    found = result.aspects.get(aspect)
    if found is None:
        raise ValueError(f"{result.rubric.id} has no aspect {aspect}; it has {', '.join(result.aspects)}")
    mean = found.mean
    verdict = "inconclusive" if mean is None else "pass" if mean >= at_least else "fail"
    record(verdict=verdict, evaluation=result.id, signature=result.signature)
    if mean is None:
        why = f"{found.unrated.reason}: {found.unrated.detail}" if found.unrated else "no rating"
        pytest.skip(f"{aspect}: inconclusive ({why})")
    if mean < at_least:
        label = f", {found.label}" if found.label else ""
        reason = f": {found.reason}" if found.reason else ""
        low, high = found.scale
        pytest.fail(
            f"{aspect}: {mean:g} on {low} to {high}{label}, below {at_least:g} ({result.id}){reason}", pytrace=False
        )
    return result


def tell_verdict(report: GateReport) -> str:
    """The verdict, and each reason that is not a pass; all of them where every one is."""
    decisive = [reason for reason in report.reasons if reason.verdict != "pass"] or report.reasons
    return "\n".join(
        [f"gate: {report.verdict}", *(f"{name_rule(reason) or reason.about}: {reason.detail}" for reason in decisive)]
    )


def record(**properties: str) -> None:
    """Adds properties, each as `saiten.NAME`, to the test that runs, where the plugin is there."""
    if PROPERTIES:
        PROPERTIES[-1].extend((f"saiten.{name}", value) for name, value in properties.items())

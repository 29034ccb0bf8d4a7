"""Whether a batch can be scored as it asks to be: told before it is accepted, with a pointer to what cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from app.batch_ports import BOUGHT_SHARE
from app.batches.estimates import BatchEstimate
from app.batches.intake import Intake
from app.domain.batch import BatchOptions, Candidate, Entry
from app.domain.errors import InvalidRequest
from app.domain.estimate import EstimateReport
from app.domain.rubric import Rubric
from app.pipeline import Instruments
from app.provider_ports import PROVIDER_BATCH_SHARE

OF_AN_ITEM = "/reference"
"""What of a request lies in the item; whatever else can be wrong by now lies in the options."""


class Admission:
    """Goes through a batch's candidates, in order, against its rubric and judge."""

    def __init__(self, options: BatchOptions, instruments: Instruments) -> None:
        self._estimate = BatchEstimate(options, instruments)
        self._item = -1

    def check(self, candidates: Iterable[tuple[Entry, Candidate]]) -> None:
        """Takes the next candidates in. Raises InvalidRequest with a pointer into the batch."""
        for entry, candidate in candidates:
            if not entry.candidate:
                self._item += 1
            try:
                self._estimate.add(candidate)
            except InvalidRequest as error:
                if error.pointer == OF_AN_ITEM:
                    error.pointer = f"/items/{self._item}{OF_AN_ITEM}"
                raise

    def report(self) -> EstimateReport:
        """What those that were checked would take."""
        return self._estimate.report()


async def estimate(intake: Intake, instruments: Instruments) -> EstimateReport:
    """What the batch would take. Raises InvalidRequest, UnknownRubric and TranslatorNotConfigured."""
    admission = Admission(intake.options, instruments)
    async for block in intake.blocks():
        # Milliseconds a candidate where prompts are long: in a thread, so that others are answered meanwhile.
        await asyncio.to_thread(admission.check, block)
    return admission.report()


async def admit(intake: Intake, instruments: Instruments) -> float | None:
    """What one candidate is to be reckoned with under the batch's budget; None without one.

    Raises InvalidRequest, UnknownRubric and TranslatorNotConfigured where the batch cannot be scored.
    """
    options = intake.options
    if options.budget_usd is not None:
        report = await estimate(intake, instruments)
        if report.unit_cost_usd is None:
            detail = "the price of the judge's model is not known, so no budget can be kept: add it to SAITEN_PRICES"
            raise InvalidRequest(detail, pointer="/budget_usd")
        # Whatever looks like an attack is judged a second time, and which that is nobody knows yet.
        looks = 2 if options.integrity == "judge-twice" else 1
        # A malformed reply is asked for again, and a budget must bear that; of the provider's own batch mode it bears
        # what is bought there, which `reckon_candidate` takes as its share of this.
        bought = options.mode == "provider-batch"
        tries = BOUGHT_SHARE * PROVIDER_BATCH_SHARE if bought else instruments.tries
        return looks * tries * report.unit_cost_usd
    if items_matter(options, instruments.rubrics.get(options.rubric)):
        await estimate(intake, instruments)
        return None
    async for block in intake.blocks():
        # What can be wrong now is wrong with the options, and shows at any candidate.
        Admission(options, instruments).check(block[:1])
        break
    return None


def items_matter(options: BatchOptions, rubric: Rubric) -> bool:
    """Whether a single item may ask for what the rubric has not: only references can be, and only in translation."""
    return options.path != "source" and rubric.references

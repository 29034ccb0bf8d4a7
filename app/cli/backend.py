"""The service that a command calls: a running one, or a private one that lives as long as the command."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

import saiten
from saiten.commands.files import InvalidItems
from saiten.commands.service import open_service
from saiten.core.language import tell
from saiten_server import __version__
from saiten_server.core.evaluation import CallTrace, Evaluation
from saiten_server.core.model import Value
from saiten_server.core.rubric import Rubric, split_name

if TYPE_CHECKING:
    from saiten_server.analyses.requests import AnalysisRequest

REPORTS = {
    "agreement": "AgreementReport",
    "correlation": "CorrelationReport",
    "judges": "JudgesReport",
    "hierarchy": "HierarchyReport",
    "composite-fit": "CompositeFit",
    "blend-fit": "BlendFit",
    "win-rates": "WinReport",
    "corrected": "CorrectedReport",
}
"""Analysis → its report in saiten_server.core.reports, which is loaded only where a report is read."""

UNKNOWN_STATUS = 404
Model = TypeVar("Model", bound=BaseModel)


class ListedRubric(Value):
    """The fields of a listed rubric that are used here."""

    model_config = ConfigDict(extra="ignore")

    id: str
    versions: tuple[int, ...] = ()


class StoredRecord(Value):
    """An evaluation with its judge calls, as it was read back."""

    evaluation: Evaluation
    trace: tuple[CallTrace, ...]


class Backend:
    """A service's answers as values. Methods raise the errors of `saiten.Connection`, which is `client`."""

    def __init__(self, client: saiten.Connection) -> None:
        self.client = client

    async def judge_kind(self) -> str:
        """The kind of judge that the service uses, such as `openai` or `lexical`."""
        judge = (await self.client.info()).get("judge")
        return str(judge.get("kind")) if isinstance(judge, dict) else ""

    async def rubric_versions(self) -> dict[str, Sequence[int]]:
        """The versions of each rubric by id; empty for a service that does not list them."""
        found = [understand(ListedRubric, rubric) for rubric in await self.client.rubrics()]
        return {rubric.id: rubric.versions for rubric in found}

    async def exact_rubric(self, name: str) -> Rubric:
        """The rubric in exactly that version. Raises InvalidItems where there is none."""
        try:
            found = await self.client.rubric(name)
        except saiten.ServiceRefused as error:
            if error.status == UNKNOWN_STATUS:
                raise InvalidItems(error.detail) from None
            raise
        return understand(Rubric, {key: value for key, value in found.items() if key != "digest"})

    async def rubric(self, name: str) -> Rubric:
        """The rubric named `id` or `id@version`; its newest version where that version no longer exists."""
        try:
            return await self.exact_rubric(name)
        except InvalidItems:
            rubric_id, version = split_name(name)
            if version is None:
                raise
            return await self.exact_rubric(rubric_id)

    async def score(self, body: Mapping[str, Any]) -> StoredRecord:
        """The evaluation as it is stored."""
        evaluation = understand(Evaluation, await self.client.evaluate(body))
        kept = await self.client.evaluation(evaluation.id, trace=True)
        trace = kept.pop("trace", [])
        return understand(StoredRecord, {"evaluation": kept, "trace": trace})

    async def analyse(self, name: str, request: AnalysisRequest) -> Value:
        """The report of the analysis `name`."""
        from saiten_server.core import reports

        model: type[Value] = getattr(reports, REPORTS[name])
        return understand(model, await self.client.analyse(name, dump_request(request)))


def dump_request(request: BaseModel) -> dict[str, Any]:
    """The request as it is sent."""
    return request.model_dump(mode="json", exclude_unset=True)


def understand(model: type[Model], answer: object) -> Model:
    """The answer as a value; raises AnswerInvalid where it does not fit, as that of a service of another version."""
    try:
        return model.model_validate_json(json.dumps(answer))
    except ValidationError:
        raise saiten.AnswerInvalid(
            tell(
                "the service's answer is not understood; is it of this command's version, {version}?",
                version=__version__,
            )
        ) from None


@asynccontextmanager
async def open_backend(
    url: str | None, environment: Mapping[str, str | None] | None = None, *, quiet: bool = False
) -> AsyncIterator[Backend]:
    """The service of `open_service`. The group of commands has told already which variables are no settings."""
    async with open_service(url, environment, quiet=quiet, remarks=False) as client:
        yield Backend(client)

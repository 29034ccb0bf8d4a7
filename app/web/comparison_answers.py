"""A comparison or the report of a gate, as it answers a request."""

from __future__ import annotations

import json

from fastapi import Request, Response

from app.domain.comparison import Comparison, GateReport
from app.web.body import JSON
from app.web.dependencies import Serving
from app.web.languages import DEFAULT, tell_report
from app.web.problems import language_of


async def answer_in_language(request: Request, container: Serving, report: Comparison | GateReport) -> Response:
    """The report, its sentences in the language that the caller prefers."""
    language = language_of(request)
    headers = {"Content-Language": language, "Vary": "Accept-Language"}

    def write() -> str:
        if language == DEFAULT:
            return report.model_dump_json()
        return json.dumps(tell_report(report.model_dump(mode="json"), language), ensure_ascii=False)

    return Response(await container.comparison.compute(write), headers=headers, media_type=JSON)

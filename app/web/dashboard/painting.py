"""Charts in a page: there at once where they are quickly drawn, else as soon as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from app.bootstrap import Service
from app.web.dashboard.speech import Speech

PATIENCE_SECONDS = 0.15
"""For the first chart of a process, whose engine takes longer to start, no page waits. Those of a page that are asked
for together wait together."""

PLACE = Markup('<p class="computing soft"><span class="lead">{}</span></p>')


async def paint(service: Service, speech: Speech, spec: Mapping[str, Any]) -> Markup:
    """The chart, or where it will be: a page that shows that asks again by itself."""
    _ = speech.say
    drawn = await service.charts.draw_soon(spec, PATIENCE_SECONDS)
    if drawn is None:
        return PLACE.format(_("The chart is being drawn"))
    return Markup(drawn)  # noqa: S704 (the renderer keeps nothing but shapes and texts)


def is_missing(chart: Markup) -> bool:
    """Whether it is only the place of one."""
    return "<svg" not in chart

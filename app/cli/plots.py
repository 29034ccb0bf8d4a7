"""The way in: a report becomes a file. Imports matplotlib only when something is to be drawn."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

from app.analysis.observations import Observations
from app.domain.errors import InvalidRequest
from app.domain.model import Value
from app.domain.reports import (
    AgreementReport,
    BlendFit,
    CompositeFit,
    CorrelationReport,
    HierarchyReport,
    WinReport,
)

SUFFIXES = (".png", ".svg", ".pdf")
DOTS_PER_INCH = 200
LIBRARIES = ("matplotlib", "networkx")
MISSING = "drawing needs the extra plot: pip install 'saiten[plot]'"


def plot(report: Value, observations: Observations | None, path: Path | str) -> list[str]:
    """Draws the report into a PNG, SVG or PDF file and returns what the reader should be told.

    `observations` are those that the report was made of; without them the panels of single items are left out. Raises
    InvalidRequest where the extra is missing, the file type is another, the file cannot be written, or the report is of
    another kind.
    """
    match report:
        case AgreementReport():
            return plot_agreement(report, observations, path)
        case CorrelationReport():
            return plot_correlation(report, observations, path)
        case HierarchyReport():
            return plot_hierarchy(report, observations, path)
        case WinReport():
            return plot_win_rates(report, path)
        case CompositeFit() | BlendFit():
            return plot_fit(report, path)
        case _:
            raise InvalidRequest("this report has no drawing")


def plot_agreement(report: AgreementReport, observations: Observations | None, path: Path | str) -> list[str]:
    """Correlations between aspects, and each aspect's rater means with the raters' agreement. As `plot`."""
    require_drawing(path)
    from app.plots.agreement import build_agreement

    return finish(*build_agreement(report, observations), path)


def plot_correlation(report: CorrelationReport, observations: Observations | None, path: Path | str) -> list[str]:
    """Spearman's ρ by aspect with interval and ceiling, and scores against rater means. As `plot`."""
    require_drawing(path)
    from app.plots.correlation import build_correlation

    return finish(*build_correlation(report, observations), path)


def plot_hierarchy(report: HierarchyReport, observations: Observations | None, path: Path | str) -> list[str]:
    """The graph of dependencies, with the aspects' correlations and the systems' distributions. As `plot`."""
    require_drawing(path)
    from app.plots.hierarchy import build_hierarchy

    return finish(*build_hierarchy(report, observations), path)


def plot_win_rates(report: WinReport, path: Path | str) -> list[str]:
    """Shares of wins and ties by aspect. As `plot`."""
    require_drawing(path)
    from app.plots.win_rates import build_win_rates

    return finish(*build_win_rates(report), path)


def plot_fit(report: CompositeFit | BlendFit, path: Path | str) -> list[str]:
    """Fitted weights beside those in use. As `plot`."""
    require_drawing(path)
    from app.plots.fits import build_blend_fit, build_composite_fit

    built = build_composite_fit(report) if isinstance(report, CompositeFit) else build_blend_fit(report)
    return finish(*built, path)


def require_drawing(path: Path | str, find: Callable[[str], object] = find_spec) -> None:
    """Raises InvalidRequest where nothing can be drawn, or not into a file of that name."""
    if Path(path).suffix.lower() not in SUFFIXES:
        raise InvalidRequest(f"{path} is to be a drawing: its name must end in {', '.join(SUFFIXES)}")
    if any(find(name) is None for name in LIBRARIES):
        raise InvalidRequest(MISSING)


def finish(figure: Any, notes: list[str], path: Path | str) -> list[str]:
    """Writes the figure and hands the notes back; raises InvalidRequest where the file cannot be written."""
    form = Path(path).suffix.lower().removeprefix(".")
    # No dates: the same report gives the same picture.
    about = {"png": {"Software": "saiten"}, "svg": {"Creator": "saiten", "Date": None}}
    drawn = BytesIO()
    figure.savefig(
        drawn, format=form, dpi=DOTS_PER_INCH, metadata=about.get(form, {"Creator": "saiten", "CreationDate": None})
    )
    try:
        Path(path).write_bytes(drawn.getvalue())
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be written: {error.strerror}") from None
    return notes

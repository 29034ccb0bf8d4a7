"""How far a long command is."""

from __future__ import annotations

from rich.progress import Progress

from app.cli.output import console


def open_progress(*, shown: bool = True) -> Progress:
    """Bars on standard error, where that is a terminal and they are to be `shown`; what is said there stands above."""
    target = console(error=True)
    # Redirected, rich would send what is meant for standard output to standard error, where the bars are.
    return Progress(console=target, transient=True, disable=not (shown and target.is_terminal), redirect_stdout=False)

"""What tells a defect of Saiten from an end that a command has by right."""

from __future__ import annotations

import click

import saiten
from app.cli.streams import OutputFailed
from app.domain.errors import SaitenError

TOLD = (
    click.ClickException,
    click.exceptions.Exit,
    click.exceptions.Abort,
    SaitenError,
    saiten.SaitenError,
    OutputFailed,
)
"""What the command line tells in its own words, with its own exit code. Anything else is a defect."""


def describe_defect(error: Exception) -> str:
    """One sentence, to stand below the traceback."""
    return f"a defect of Saiten ({type(error).__name__}); please report what stands above"

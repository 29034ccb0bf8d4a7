"""The process of a command: its streams, and how it ends."""

from __future__ import annotations

import errno
import io
import os
import sys

import click

from saiten.core.errors import SaitenError

WRITTEN_CHARACTERS = 2048
"""Characters written at once. Python 3.11's buffer loses the error where a write larger than itself ends halfway."""


class OutputFailed(Exception):  # not a SaitenError: a scorer must not take it for the failure of an item
    """Standard output cannot be written: its reader has left, the disk is full, or it was never open."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write to standard output: {error.strerror}")
        self.reader_left = error.errno == errno.EPIPE


class StandardOutput(io.TextIOWrapper):
    """Standard output. Raises OutputFailed where it cannot be written."""

    def write(self, text: str) -> int:
        try:
            if len(text) <= WRITTEN_CHARACTERS:
                return super().write(text)
            return sum(
                super(StandardOutput, self).write(text[start : start + WRITTEN_CHARACTERS])
                for start in range(0, len(text), WRITTEN_CHARACTERS)
            )
        except OSError as error:
            raise OutputFailed(error) from None

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            raise OutputFailed(error) from None


class Diagnostics(io.TextIOWrapper):
    """Standard error. Text that cannot be written is dropped: results must not depend on whether messages are read."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            return


def open_streams() -> None:
    """Makes standard output and error UTF-8 in every locale, because results contain Japanese and Korean."""
    # Lone surrogates, and bytes of file names in another encoding, are written with backslashes.
    if isinstance(sys.stdout, io.TextIOWrapper):
        lines = sys.stdout.line_buffering
        sys.stdout = StandardOutput(
            sys.stdout.detach(), encoding="utf-8", errors="backslashreplace", line_buffering=lines
        )
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = Diagnostics(sys.stderr.detach(), encoding="utf-8", errors="backslashreplace", line_buffering=True)


def require_output() -> None:
    """Raises OutputFailed where the process was started without standard output (`>&-`)."""
    if sys.stdout is None:
        raise OutputFailed(OSError(errno.EBADF, os.strerror(errno.EBADF)))


def discard_output() -> None:
    """Discards buffered output, so that Python does not fail on it again at exit."""
    if sys.stdout is not None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


REPORTED = (
    click.ClickException,
    click.exceptions.Exit,
    click.exceptions.Abort,
    SaitenError,
    OutputFailed,
)
"""Exceptions that the command line reports in one line, each with its exit code. Anything else is a defect."""


def describe_defect(error: Exception) -> str:
    """One sentence for below the traceback."""
    return f"a defect of Saiten ({type(error).__name__}); please report the traceback above"

"""How a model is loaded: without a word on standard error, and with a reason where it fails."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from app.adapters.huggingface.cores import read_quota
from app.adapters.huggingface.kind import Kind
from app.adapters.huggingface.sources import Source, locate

logger = logging.getLogger(__name__)


class Choice(Protocol):
    """`name` is a Hugging Face name or a local folder; `device` None takes CUDA where there is one; `threads` None
    leaves PyTorch's process-wide number alone, unless the cgroup has fewer cores; the hub is asked for no longer than
    `hub_timeout_seconds`."""

    @property
    def name(self) -> str: ...
    @property
    def device(self) -> str | None: ...
    @property
    def threads(self) -> int | None: ...
    @property
    def hub_timeout_seconds(self) -> float: ...


@contextmanager
def loading(kind: Kind, choice: Choice) -> Iterator[tuple[Source, str]]:
    """Says where the files are to be loaded from, and the device. Whatever goes wrong inside becomes the kind's own
    exception, whose sentence tells no path; the log has the rest.

    Raises:
        kind.unavailable: extra not installed, files not to be had; as it was raised inside, or for anything else.
    """
    kind.require_installed()
    shown = Path(choice.name).name
    try:
        with quiet_transformers():
            device = _choose_device(choice)
            yield locate(kind, choice.name, choice.hub_timeout_seconds), device
    except kind.unavailable:
        raise
    except Exception as error:  # the tokenizers library raises bare Exception for a broken file
        logger.warning("%s %s could not be loaded", kind.noun, shown, exc_info=True)
        raise kind.unavailable(kind.explain(shown, error)) from error


def _choose_device(choice: Choice) -> str:
    import torch

    threads = choose_threads(choice.threads, torch.get_num_threads(), read_quota())
    if threads != torch.get_num_threads():
        torch.set_num_threads(threads)
    return choice.device or ("cuda" if torch.cuda.is_available() else "cpu")


def choose_threads(asked: int | None, chosen: int, quota: int | None) -> int:
    """What was asked for; else PyTorch's choice, a physical core each, but no more than the cgroup's `quota` of cores:
    the kernel would stop all of them for most of each period, and with them the event loop's."""
    return asked or min(chosen, quota or chosen)


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """No progress bars and load reports on standard error, which is the command line's."""
    from transformers.utils import logging as transformers_logging

    verbosity = transformers_logging.get_verbosity()
    shows_bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if shows_bars:
            transformers_logging.enable_progress_bar()

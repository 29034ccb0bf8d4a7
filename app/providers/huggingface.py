"""Finds, loads and runs Hugging Face models in a thread, for the encoder, the language model and the local judge.

PyTorch is imported only when a model is loaded.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import math
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from saiten.core.messages import Message
from saiten_server.core.errors import SettingsInvalid
from saiten_server.providers.ports import EncoderUnavailable, MetricUnavailable


def read_quota(cgroups: Path = Path("/sys/fs/cgroup"), own_cgroups: Path = Path("/proc/self/cgroup")) -> int | None:
    """The smallest CPU quota of the process's cgroup and its parents, rounded up to whole cores; None without one."""
    # The process's folder and its parents in each hierarchy. In a container the outermost folder is its own.
    folders: list[Path] = []
    for line in _read(own_cgroups).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = cgroups / "cpu" if controllers else cgroups  # version 1 names its controllers, version 2 does not
        own = root / path.strip("/")
        folders += [folder for folder in (own, *own.parents) if folder.is_relative_to(root)]
    quotas = [quota for folder in folders if (quota := _read_folder(folder)) is not None]
    return max(1, math.ceil(min(quotas))) if quotas else None


def _read_folder(folder: Path) -> float | None:
    """The quota in cores: microseconds of CPU divided by the period in microseconds."""
    quota, _, period = _read(folder / "cpu.max").strip().partition(" ")
    if not period:
        quota, period = _read(folder / "cpu.cfs_quota_us").strip(), _read(folder / "cpu.cfs_period_us").strip()
    if not quota.isdecimal() or not period.isdecimal() or int(period) == 0:
        return None  # "max", "-1", or no such file
    return int(quota) / int(period)


def _read(path: Path) -> str:
    """The file's text; empty if it cannot be read."""
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


@dataclass(frozen=True)
class ModelKind:
    """A kind of model. `noun` names it in messages, and `unavailable` is raised if it cannot be loaded. It needs
    `packages`, which the `extra` installs; `purpose` says what for."""

    noun: Message
    purpose: Message
    packages: tuple[str, ...]
    unavailable: type[EncoderUnavailable] | type[MetricUnavailable] | type[SettingsInvalid]
    extra: str = "bertscore"

    def find_missing(self) -> list[str]:
        """The packages that are not installed. Imports nothing."""
        return [package for package in self.packages if find_spec(package) is None]

    def require_installed(self) -> None:
        """Raises `unavailable` if the extra is not installed. Imports nothing."""
        if missing := self.find_missing():
            names = ", ".join(missing)
            raise self.unavailable(
                Message("model-packages-missing", purpose=self.purpose, extra=self.extra, names=names)
            )

    def explain(self, shown: str, error: Exception) -> Message:
        """Why the model named `shown` could not be loaded, in one sentence without a path."""
        if isinstance(error, ImportError):
            # transformers begins such messages with an empty line.
            said = next((line for line in str(error).splitlines() if line.strip()), "the log says which")
            return Message("model-needs-package", noun=self.noun, name=shown, package=error.name or said)
        if is_out_of_memory(error):
            return Message("model-too-large", noun=self.noun, name=shown)
        return Message("model-not-loaded", noun=self.noun, name=shown, error=type(error).__name__)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, of the machine or of a GPU. PyTorch has an error of its own for the latter, and none for
    the former."""
    named = type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and named)


_BESIDE_THE_POINT = frozenset({".md", ".h5", ".msgpack", ".onnx", ".ot"})  # Suffixes of files that are never loaded
_VOCABULARIES = (
    "tokenizer.json", "tokenizer.model", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model",
    "spm.model",
)  # fmt: skip


@dataclass(frozen=True)
class ModelSource:
    """`name` is the configured name, `folder` its local folder if it is one; `local` if the hub is not needed."""

    name: str
    folder: Path | None
    local: bool

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments for transformers' `from_pretrained`. Code that comes with a model is never run."""
        return {
            "pretrained_model_name_or_path": str(self.folder or self.name),
            "local_files_only": self.local,
            "trust_remote_code": False,
        }

    def find_revision(self) -> str:
        """12 hex digits that change with the files: the folder's digest, or the commit of the cached files."""
        if self.folder is not None:
            return digest_folder(self.folder)
        snapshot = _find_snapshot(self.name)
        return "unknown" if snapshot is None else snapshot.name[:12]


def locate_model(kind: ModelKind, name: str, hub_timeout_seconds: float) -> ModelSource:
    """The source of a model. A complete model in the hub's cache is used from there. Otherwise the hub is queried once
    with a time limit, because transformers would retry for 20 s per file. Raises `kind.unavailable` if the folder does
    not exist, the name is no Hugging Face name, or the hub is unreachable or does not have it."""
    from huggingface_hub.errors import HFValidationError

    folder = Path(name).expanduser()
    if folder.is_dir():
        return ModelSource(name, folder, local=True)
    if name.startswith(("/", ".", "~")) or name.count("/") > 1:
        raise kind.unavailable(Message("model-folder-missing", noun=kind.noun, name=folder.name))
    try:
        snapshot = _find_snapshot(name)
    except HFValidationError as error:
        raise kind.unavailable(Message("model-no-name", noun=kind.noun, name=name)) from error
    cached = snapshot is not None and is_whole(snapshot)
    if not cached:
        _ask_hub(kind, name, hub_timeout_seconds)
    return ModelSource(name, None, local=cached)


# Names under which configurations state the number of positions, in order of precedence
LENGTHS = ("max_position_embeddings", "n_positions", "seq_length", "max_seq_len", "n_ctx")


def find_window(config: Any, tokenizer: Any, max_tokens: int) -> int:
    """How many tokens are read at most: the model's positions, else what the tokenizer states; never above
    `max_tokens`, which bounds the memory that one text takes."""
    inner = config.get_text_config()
    positions = (getattr(inner, name, None) for name in LENGTHS)
    stated = next((number for number in positions if isinstance(number, int) and number > 0), None)
    # transformers writes 1e30 where a tokenizer states no length.
    return int(min(stated or tokenizer.model_max_length, max_tokens))


def digest_folder(folder: Path) -> str:
    """The first 12 hex digits of SHA-256 over names and contents of the folder's files: weights, configuration,
    vocabulary. Documentation and other frameworks' weights do not count. Reads every file once."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.is_file() and not path.name.startswith(".") and path.suffix not in _BESIDE_THE_POINT:
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            digest.update(f"{path.name}\0{content}\n".encode())
    return digest.hexdigest()[:12]


def is_whole(snapshot: Path) -> bool:
    """Whether the folder holds a vocabulary and all weights, in one file or in the parts that an index lists; an
    interrupted download may lack some."""
    if not any((snapshot / file).is_file() for file in _VOCABULARIES):
        return False
    for file in ("model.safetensors", "pytorch_model.bin"):
        index = snapshot / f"{file}.index.json"
        parts = {file}
        if not (snapshot / file).is_file() and index.is_file():
            parts = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        if all((snapshot / part).is_file() for part in parts):
            return True
    return False


def _find_snapshot(name: str) -> Path | None:
    """The folder of the model's files in the hub's cache, named after their commit; None if there is none."""
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(name, "config.json")
    return Path(path).parent if isinstance(path, str) else None


def _ask_hub(kind: ModelKind, name: str, timeout_seconds: float) -> None:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HTTPError, RepositoryNotFoundError  # type: ignore[attr-defined]

    try:
        HfApi().model_info(name, timeout=timeout_seconds)
    except RepositoryNotFoundError as error:
        raise kind.unavailable(Message("model-not-public", noun=kind.noun, name=name)) from error
    except (HTTPError, OSError, json.JSONDecodeError) as error:
        # HTTPError is requests', httpx's or httpx2's, as the hub's version has it: connection, time limit, status.
        # OSError is raised where the hub is switched off; no JSON comes from a network that wants a login first.
        raise kind.unavailable(Message("model-out-of-reach", noun=kind.noun, name=name)) from error


logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ModelChoice:
    """`name` is a Hugging Face name or a local folder; `device` None takes CUDA where there is one; `threads` None
    leaves PyTorch's process-wide number alone, unless the cgroup has fewer cores; the hub is asked for no longer than
    `hub_timeout_seconds`."""

    name: str
    device: str | None = None
    threads: int | None = None
    hub_timeout_seconds: float = 10.0


@contextmanager
def loading(kind: ModelKind, choice: ModelChoice) -> Iterator[tuple[ModelSource, str]]:
    """Yields the source of the files and the device. Every error, also inside the block, becomes `kind.unavailable`,
    whose message holds no path; the log has the details."""
    kind.require_installed()
    shown = Path(choice.name).name
    try:
        # First of all: where the model is not to be had, PyTorch need not be imported, which takes seconds.
        source = locate_model(kind, choice.name, choice.hub_timeout_seconds)
        with quiet_transformers():
            yield source, _choose_device(choice)
    except kind.unavailable:
        raise
    except Exception as error:  # the tokenizers library raises bare Exception for a broken file
        logger.warning("%s %s could not be loaded", kind.noun, shown, exc_info=True)
        raise kind.unavailable(kind.explain(shown, error)) from error


def _choose_device(choice: ModelChoice) -> str:
    import torch

    if (threads := choose_threads(choice.threads, torch.get_num_threads(), read_quota())) != torch.get_num_threads():
        torch.set_num_threads(threads)
    return choice.device or ("cuda" if torch.cuda.is_available() else "cpu")


def choose_threads(asked: int | None, chosen: int, quota: int | None) -> int:
    """The requested number; by default PyTorch's, one per physical core, at most the cgroup's `quota` of cores. With
    more, the kernel would stop all threads, including the event loop's, for most of each period."""
    return asked or min(chosen, quota or chosen)


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Disables progress bars and load reports, which would appear in the command line's standard error."""
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


T = TypeVar("T")


class Worker:
    """One thread that runs jobs in order, started by the first job.

    It lives as long as the worker because OpenMP creates a new team of threads for each thread that computes. Unlike an
    executor's threads it is a daemon, so that a hanging download does not keep the process from ending.

    `tidy` runs in the thread before each job, and again after the number of seconds that it returns, if no job comes.
    """

    def __init__(self, name: str, tidy: Callable[[], float | None] = lambda: None) -> None:
        self._name = name
        self._tidy = tidy
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._ended: Future[None] = Future()

    def submit(self, job: Callable[[], T]) -> asyncio.Future[T]:
        """Queues a job. The returned future belongs to the running event loop."""
        answer: Future[T] = Future()
        if self._thread is None:
            thread = Thread(target=self._work, name=self._name, daemon=True)
            thread.start()
            self._thread = thread
        self._jobs.put((answer, job))
        return asyncio.wrap_future(answer)

    async def stop(self, grace_seconds: float = 5.0) -> None:
        """Ends the thread after the current job, and waits for that at most `grace_seconds`."""
        self._jobs.put(None)
        if self._thread is not None:
            await asyncio.wait([asyncio.wrap_future(self._ended)], timeout=grace_seconds)

    def _work(self) -> None:
        while (item := self._take()) is not None:
            answer, job = item
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(job())
                except BaseException as error:  # noqa: BLE001 - the edge of a thread: passed on to the caller
                    answer.set_exception(error)
            del answer, job, item  # a waiting thread must not hold the last job's embeddings
        self._ended.set_result(None)

    def _take(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        while True:
            try:
                return self._jobs.get(timeout=self._tidy())
            except Empty:
                continue

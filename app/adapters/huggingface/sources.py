"""Where a model's files come from: a local folder, the hub's cache on this machine, or the hub."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.adapters.huggingface.kind import Kind

_DIGITS = 12
_BESIDE_THE_POINT = frozenset({".md", ".h5", ".msgpack", ".onnx", ".ot"})
"""What lies beside weights and tokenizer and is never loaded."""
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_VOCABULARIES = (
    "tokenizer.json",
    "tokenizer.model",
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "sentencepiece.bpe.model",
    "spm.model",
)


@dataclass(frozen=True)
class Source:
    """`name` as it was given; `folder` where that is a local one; `local` where the hub need not be asked."""

    name: str
    folder: Path | None
    local: bool

    @property
    def arguments(self) -> dict[str, Any]:
        """What transformers' `from_pretrained` takes to load from here. Code that comes with a model is never run."""
        return {
            "pretrained_model_name_or_path": str(self.folder or self.name),
            "local_files_only": self.local,
            "trust_remote_code": False,
        }

    def find_revision(self) -> str:
        """12 hex digits that change with the files: the folder's digest, or the commit of what has been loaded."""
        if self.folder is not None:
            return digest_folder(self.folder)
        snapshot = _find_snapshot(self.name)
        return "unknown" if snapshot is None else snapshot.name[:_DIGITS]


def locate(kind: Kind, name: str, hub_timeout_seconds: float) -> Source:
    """What the hub's cache holds whole is taken from it; otherwise the hub is asked once, under a time limit, before
    transformers retries for 20 s a file.

    Raises:
        kind.unavailable: no such folder, no name of the hub's, or the hub is silent or does not have it.
    """
    from huggingface_hub.errors import HFValidationError

    folder = Path(name).expanduser()
    if folder.is_dir():
        return Source(name, folder, local=True)
    if name.startswith(("/", ".", "~")) or name.count("/") > 1:
        raise kind.unavailable(f"the {kind.noun}'s folder {folder.name} does not exist")
    try:
        snapshot = _find_snapshot(name)
    except HFValidationError as error:
        raise kind.unavailable(f"{kind.noun} {name} is neither a folder nor a Hugging Face name") from error
    cached = snapshot is not None and is_whole(snapshot)
    if not cached:
        _ask_hub(kind, name, hub_timeout_seconds)
    return Source(name, None, local=cached)


def digest_folder(folder: Path) -> str:
    """The first 12 hex digits of SHA-256 over names and contents of the folder's files: weights, configuration,
    vocabulary. Documentation and other frameworks' weights do not count. Reads every file once."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.is_file() and not path.name.startswith(".") and path.suffix not in _BESIDE_THE_POINT:
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            digest.update(f"{path.name}\0{content}\n".encode())
    return digest.hexdigest()[:_DIGITS]


def is_whole(snapshot: Path) -> bool:
    """Whether a vocabulary and all weights lie in the folder: an interrupted download leaves some of them out."""
    has_vocabulary = any((snapshot / file).is_file() for file in _VOCABULARIES)
    return has_vocabulary and any(_has_weights(snapshot, file) for file in _WEIGHTS)


def _has_weights(snapshot: Path, file: str) -> bool:
    """In one file, or in the parts that an index lists."""
    index = snapshot / f"{file}.index.json"
    if (snapshot / file).is_file() or not index.is_file():
        return (snapshot / file).is_file()
    parts = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
    return all((snapshot / part).is_file() for part in set(parts))


def _find_snapshot(name: str) -> Path | None:
    """Where the hub's cache keeps the model's files, if it has any: a folder that is named by their commit."""
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(name, "config.json")
    return Path(path).parent if isinstance(path, str) else None


def _ask_hub(kind: Kind, name: str, timeout_seconds: float) -> None:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HTTPError, RepositoryNotFoundError  # type: ignore[attr-defined]

    try:
        HfApi().model_info(name, timeout=timeout_seconds)
    except RepositoryNotFoundError as error:
        raise kind.unavailable(f"the Hugging Face hub has no public {kind.noun} {name}") from error
    except (HTTPError, OSError, json.JSONDecodeError) as error:
        # HTTPError is requests', httpx's or httpx2's, as the hub's version has it: connection, time limit, status.
        # OSError is raised where the hub is switched off; no JSON comes from a network that wants a login first.
        reason = f"{kind.noun} {name} is no local folder, not in the cache, and the Hugging Face hub is not reachable"
        raise kind.unavailable(reason) from error

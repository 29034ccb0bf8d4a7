"""Everything that decides an encoder's similarities, in one string."""

from __future__ import annotations

import hashlib
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

_DIGITS = 12
_BESIDE_THE_POINT = frozenset({".md", ".h5", ".msgpack", ".onnx", ".ot"})
"""What lies beside weights and tokenizer and is never loaded."""


def identify(name: str, layer: int, revision: str, tokenizer: Any) -> str:
    """In the manner of bert-score's `get_hash`, with the revision of the files and, for MeCab, its dictionary.

    A local folder is named by its last part alone: where it lies changes nothing, and is nobody's business.
    """
    shown = re.sub(r"[^\w./-]", "_", Path(name).name if Path(name).expanduser().is_dir() else name)
    library = f"version={version('bert-score')}(hug_trans={version('transformers')})"
    return f"{shown}_L{layer}_no-idf_{library}_rev={revision}{_identify_dictionary(tokenizer)}"


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


def shorten_commit(commit: str) -> str:
    """As many digits of a hub commit as of a folder's digest."""
    return commit[:_DIGITS]


def _identify_dictionary(tokenizer: Any) -> str:
    if getattr(tokenizer, "word_tokenizer_type", None) != "mecab":
        return ""
    options = getattr(tokenizer, "mecab_kwargs", None) or {}
    dictionary = options.get("mecab_dic", "unidic_lite")
    if dictionary is None:
        return "_mecab=system"
    return f"_mecab={dictionary}-{version(dictionary)}"

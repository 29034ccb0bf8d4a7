"""Everything that decides an encoder's similarities, in one string."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path
from typing import Any


def identify(name: str, layer: int, revision: str, tokenizer: Any, precision: str = "float32") -> str:
    """In the manner of bert-score's `get_hash`, with the revision of the files, for MeCab its dictionary, and the
    precision where it is not bert-score's.

    A local folder is named by its last part alone: where it lies changes nothing, and is nobody's business.
    """
    shown = re.sub(r"[^\w./-]", "_", Path(name).name if Path(name).expanduser().is_dir() else name)
    library = f"version={version('bert-score')}(hug_trans={version('transformers')})"
    suffix = "" if precision == "float32" else f"_{precision}"
    return f"{shown}_L{layer}_no-idf_{library}_rev={revision}{_identify_dictionary(tokenizer)}{suffix}"


def _identify_dictionary(tokenizer: Any) -> str:
    if getattr(tokenizer, "word_tokenizer_type", None) != "mecab":
        return ""
    options = getattr(tokenizer, "mecab_kwargs", None) or {}
    dictionary = options.get("mecab_dic", "unidic_lite")
    if dictionary is None:
        return "_mecab=system"
    return f"_mecab={dictionary}-{version(dictionary)}"

"""ZIP archives, where it is installed also those compressed with Zstandard: logs of inspect_ai are."""

from __future__ import annotations

import zipfile
from contextlib import suppress
from typing import TYPE_CHECKING

if not TYPE_CHECKING:
    with suppress(ImportError):
        from backports.zstd import zipfile  # Python reads Zstandard itself from 3.14 on

__all__ = ["zipfile"]

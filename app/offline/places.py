"""Where a service may read files of results: below addresses that the operator names, and nowhere else."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from saiten.core.messages import Message
from saiten_server.core.errors import InvalidRequest

PROJECT = "{project}"
"""In an allowed address: the caller's project, so that no project reads another's files."""

PLAIN = re.compile(r"(?:[a-z][a-z0-9+.-]*://)?[^\s:?#%\\*\[\]{}@]*")
"""An address without credentials, patterns, escapes and further addresses (`::`), all of which file systems read."""

LOCAL = ("", "file")
FOREIGN = ("http", "https", "ftp", "sftp", "ssh")
"""Schemes that a service never reads from: an address of these could be any host's, by way of redirects too."""


def find_place(address: str, allowed: Sequence[str], project: str) -> str:
    """The address as it may be opened: resolved where it is a path of this machine. Raises InvalidRequest where it is
    below none of those allowed."""
    refused = InvalidRequest(Message("adopt-place-refused"), pointer="/url")
    # A project that is called `..` must not make a folder of the one above.
    if not PLAIN.fullmatch(address) or not re.fullmatch(r"[\w.-]+", project) or project in {".", ".."}:
        raise refused
    split = urlsplit(address)
    parts = split.path.split("/")
    if split.scheme in FOREIGN or ".." in parts or "." in parts:
        raise refused
    for prefix in allowed:
        found = match_prefix(address, prefix.replace(PROJECT, project))
        if found is not None:
            return found
    raise refused


def match_prefix(address: str, prefix: str) -> str | None:
    """The address where it is the prefix, or below it; None elsewhere."""
    asked, base = urlsplit(address), urlsplit(prefix)
    if asked.scheme in LOCAL:
        if base.scheme not in LOCAL or not Path(asked.path).is_absolute():
            return None
        # Links are followed first: one may lead out of the folder.
        real, root = os.path.realpath(asked.path), os.path.realpath(base.path)
        return real if os.path.commonpath([real, root]) == root else None
    if (asked.scheme, asked.netloc) != (base.scheme, base.netloc) or not asked.netloc:
        return None
    root = base.path.rstrip("/") + "/"
    return address if (asked.path.rstrip("/") + "/").startswith(root) and "//" not in asked.path else None

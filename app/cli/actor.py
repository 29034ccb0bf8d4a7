"""Who runs the command, for the audit log."""

from __future__ import annotations

import os
import pwd

from app.domain.plain_text import printable


def cli_actor() -> str:
    """`cli:` and the name of the operating system's user; its number where a container gave it no name.

    Not `getpass`, which believes the environment before the system.
    """
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"uid {os.getuid()}"
    return f"cli:{printable(name)[:64]}"

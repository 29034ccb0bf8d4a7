"""Notices that the machine of a PostgreSQL server is gone without a word: its power, its network, or a failover.

TCP by itself goes on sending for a quarter of an hour, at ever longer intervals, and a connection that only waits for
an answer waits for ever. A server that hangs or works on a long statement is not meant: its machine still acknowledges.
"""

from __future__ import annotations

import socket
from typing import Any

GONE_SECONDS = 10
"""After so long without an acknowledgement a connection is given up: work is to go on within 30 s."""

PROBE_SECONDS = 3
"""Between two questions to a machine of which nothing is heard."""

OPTIONS = {
    "TCP_USER_TIMEOUT": GONE_SECONDS * 1000,
    "TCP_KEEPIDLE": PROBE_SECONDS,
    "TCP_KEEPINTVL": PROBE_SECONDS,
    "TCP_KEEPCNT": GONE_SECONDS // PROBE_SECONDS,
}
"""As far as the operating system has them."""


def notice_severed(connection: Any, _record: Any) -> None:
    """SQLAlchemy's `connect` listener for asyncpg, which has no setting for this."""
    transport = getattr(connection.driver_connection, "_transport", None)
    found = None if transport is None else transport.get_extra_info("socket")
    if found is None or found.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in OPTIONS.items():
        if hasattr(socket, name):
            found.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

"""What the peer of a connection has not read yet."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys

if sys.platform != "win32":
    import fcntl
    import termios


def count_unsent(transport: asyncio.Transport) -> int:
    """Bytes that wait in this process, plus those in the socket that are not acknowledged.

    The socket reports free room only when a third of its buffer is free, which may be a megabyte.
    """
    waiting = transport.get_write_buffer_size()
    connection = transport.get_extra_info("socket")
    if sys.platform == "win32" or connection is None or connection.fileno() < 0:
        return waiting
    try:
        queued = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, b"\0" * 4)
    except OSError:
        return waiting
    return waiting + int.from_bytes(queued, sys.byteorder)


def reset(transport: asyncio.Transport) -> None:
    """Resets the connection. After a normal close, the system would keep unread data for minutes."""
    connection = transport.get_extra_info("socket")
    if connection is not None and connection.fileno() >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()

"""The process of a server's command: its signals, the user who runs it, and the sockets that it listens on."""

from __future__ import annotations

import errno
import ipaddress
import os
import pwd
import signal
import socket
from types import FrameType

from saiten.core import language
from saiten.core.messages import Message
from saiten.core.plain_text import printable
from saiten_server.core.errors import SettingsInvalid


def say(detail: str | Message) -> str:
    """A message in the process's language, as the service's answers have it; a text as it is."""
    if isinstance(detail, Message):
        return detail.say(language.language)
    return detail


def leave_on_sigterm(status: int = 0) -> None:
    """Ends this process with `status` on SIGTERM, at once, for as long as nothing else takes the signal.

    The first process of a container ignores signals without a handler: stopped while it starts, it would go on until
    it is killed. No request has been accepted yet, and writes such as those of the schema are in a transaction.
    """

    def leave(sign: int, frame: FrameType | None) -> None:
        # Not by SystemExit, which Python 3.11 turns into a RuntimeError where a class is being created, and prints and
        # ignores in a finalizer.
        os._exit(status)

    signal.signal(signal.SIGTERM, leave)


TERMINATED = 128 + signal.SIGTERM
"""What a command that SIGTERM ended before it was done exits with."""


def cli_actor() -> str:
    """`cli:` and the name of the operating system's user; its number where a container gave it no name.

    Not from `getpass`, which prefers environment variables to the system.
    """
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"uid {os.getuid()}"
    return f"cli:{printable(name)[:64]}"


def resolve_host(host: str, port: int) -> str:
    """The first numeric address of the host; raises SettingsInvalid where it has none."""
    try:
        *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.getnameinfo(address, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)[0]
    except UnicodeError:
        raise SettingsInvalid(Message("address-host-name", host=host[:64])) from None
    except socket.gaierror as error:
        reason = f"unknown host ({error.strerror})"
        raise SettingsInvalid(Message("listen-not-possible", host=host, reason=reason)) from None


def is_loopback(address: str) -> bool:
    """Whether the address can be reached from this machine only."""
    return ipaddress.ip_address(address).is_loopback


def bind(address: str, port: int) -> socket.socket:
    """A listening socket; raises SettingsInvalid where the port is taken or the address is not this machine's."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        # From here on callers queue instead of being refused, so the address can be announced at once.
        listener.listen(1024)
    except OSError as error:
        raise SettingsInvalid(explain_socket(error, address, port)) from None
    return listener


def explain_socket(error: OSError, host: str, port: int) -> Message:
    """What to do about a socket that could not be opened."""
    if error.errno == errno.EADDRINUSE:
        return Message("port-in-use", port=port, host=host)
    if error.errno == errno.EACCES:
        return Message("port-needs-rights", port=port)
    reason = error.strerror or ""
    return Message("listen-not-possible", host=f"{host}:{port}", reason=reason)

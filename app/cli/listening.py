"""Where the service and its workers listen."""

from __future__ import annotations

import errno
import ipaddress
import socket

from app.domain.errors import SettingsInvalid


def resolve(host: str, port: int) -> str:
    """The first address of the host's name, in numbers; raises SettingsInvalid where it has none."""
    try:
        *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.getnameinfo(address, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)[0]
    except UnicodeError:
        raise SettingsInvalid(f"--host {host[:64]!r} is no host name") from None
    except socket.gaierror as error:
        reason = f"unknown host ({error.strerror})"
        raise SettingsInvalid(f"cannot listen on {host}: {reason}; choose another --host") from None


def is_loopback(address: str) -> bool:
    """Whether the address can be reached from this machine alone."""
    return ipaddress.ip_address(address).is_loopback


def bind(address: str, port: int) -> socket.socket:
    """A listening socket; raises SettingsInvalid where the port is taken or the address is not this machine's."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        # From here on callers queue rather than being refused, so the line that names the address is true at once.
        listener.listen(1024)
    except OSError as error:
        raise SettingsInvalid(explain(error, address, port)) from None
    return listener


def explain(error: OSError, host: str, port: int) -> str:
    """What to do about a socket that could not be had."""
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use; stop what listens there, or choose another with --port"
    if error.errno == errno.EACCES:
        return f"port {port} needs more rights; choose one above 1023 with --port"
    return f"cannot listen on {host}:{port} ({error.strerror}); choose another --host"

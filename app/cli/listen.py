"""Opens the port before anything else is made, so that a taken port is one sentence and nothing was started."""

from __future__ import annotations

import errno
import socket

from app.cli.startup import Refused

BACKLOG = 2048


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Connections wait in it until the server accepts. Raises Refused."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise Refused(f"{host!r} is no address of this machine: {getattr(error, 'strerror', error)}") from None
    family, kind, protocol, _, address = addresses[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise Refused(f"port {port} of {host} is used by another program; choose another one with --port") from None
        raise Refused(f"port {port} of {host} cannot be opened: {error.strerror}") from None
    listener.setblocking(False)
    return listener

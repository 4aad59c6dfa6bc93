"""The port: open at once, or refused in one sentence."""

from __future__ import annotations

import socket

import pytest

from app.cli.listen import listen
from app.cli.startup import Refused


def test_a_free_port_is_taken_and_connections_wait_in_it() -> None:
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname(), timeout=5):
        assert listener.getsockname()[1] > 0


def test_a_port_in_use_is_refused_with_what_to_do() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(Refused, match=f"port {port} of 127.0.0.1 is used by another program; choose another one"):
            listen("127.0.0.1", port)
    listen("127.0.0.1", port).close()


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1", "", "a..b", "x" * 64])
def test_an_address_of_somebody_else_is_refused(host: str) -> None:
    with pytest.raises(Refused):
        listen(host, 0)

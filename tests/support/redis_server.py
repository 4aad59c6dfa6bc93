"""A Redis of the tests' own on a free loopback port, which keeps nothing on disk: a restart has forgotten everything."""

from __future__ import annotations

import signal
import socket
import subprocess
import tempfile
import time

import redis

from tests.support.last_will import LastWill

PATIENCE_S = 30


class RedisServer:
    """One running server. `stop` and `start` are a restart."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.port = taken.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self._will: LastWill | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Returns when it answers."""
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen(
            [*command, "--dir", tempfile.gettempdir()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._will = LastWill('kill -9 "$1"', str(self._process.pid))
        deadline = time.monotonic() + PATIENCE_S
        with self.client() as client:
            while True:
                try:
                    client.ping()
                    return
                except redis.ConnectionError:
                    assert self._process.poll() is None, "redis-server ended at once"
                    assert time.monotonic() < deadline, "redis-server did not answer"
                    # Another process is waited for, and it cannot call us.
                    time.sleep(0.01)

    def stop(self) -> None:
        """kill -9. Idempotent."""
        if self._process is not None:
            assert self._will is not None
            self._will.execute()
            self._process.wait(PATIENCE_S)
            self._process = None

    def freeze(self) -> None:
        """From now on it takes connections and never answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def empty(self) -> None:
        """Forget everything, for the next test."""
        with self.client() as client:
            client.flushall()

    def client(self) -> redis.Redis:
        """For a test that looks into it."""
        return redis.Redis(port=self.port)

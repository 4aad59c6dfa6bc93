"""A server in a process of its own: the real `kvasir serve`, or the one with the deterministic engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import httpx

ROOT = Path(__file__).parents[2]
FAKE = ("-m", "tests.support.serve_fake")
REAL = ("-c", "from app.cli import main; main()", "serve")


class ServerProcess:
    """One started server. `output` and `errors` are the lines it has printed so far."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("KVASIR_")}
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            # Where no .env file of a developer lies; so the tests' own modules have to be pointed at.
            cwd="/",
            # Compiling takes longer than most tests; those of the kernels build them once for all.
            env={**kept, "PYTHONPATH": str(ROOT), "KVASIR_KERNELS": "reference", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.output: list[str] = []
        self.errors: list[str] = []
        # Both are read all the time: a full pipe would stop the server.
        self._readers = [
            Thread(target=_read, args=(self.process.stdout, self.output)),
            Thread(target=_read, args=(self.process.stderr, self.errors)),
        ]
        for reader in self._readers:
            reader.start()

    @property
    def sign_in_link(self) -> str:
        """The printed link, as soon as it is there."""
        self._wait_for(lambda: any(line.startswith("Sign in: ") for line in self.output), "the sign-in link", 60)
        return next(line.removeprefix("Sign in: ") for line in self.output if line.startswith("Sign in: "))

    @property
    def url(self) -> str:
        """Where it answers."""
        return self.sign_in_link.partition("/?")[0]

    def wait_ready(self, timeout_s: float) -> float:
        """Wait for /readyz; the seconds it took from here."""
        began = time.monotonic()

        def is_ready() -> bool:
            try:
                return httpx.get(f"{self.url}/readyz", timeout=5, trust_env=False).status_code == 200
            except httpx.TransportError:
                return False

        self._wait_for(is_ready, "/readyz", timeout_s)
        return time.monotonic() - began

    def stop(self, how: signal.Signals = signal.SIGTERM, timeout_s: float = 60) -> int:
        """Tell it to end; its exit code. Idempotent."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.wait(timeout_s)

    def wait(self, timeout_s: float = 60) -> int:
        """Its exit code, when it has ended by itself."""
        code = self.process.wait(timeout_s)
        for reader in self._readers:
            reader.join()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
        return code

    def _wait_for(self, happened: object, what: str, timeout_s: float) -> None:
        assert callable(happened)
        deadline = time.monotonic() + timeout_s
        while not happened():
            code = self.process.poll()
            assert code is None, f"the server ended with {code} before {what}:\n" + "\n".join(self.errors[-30:])
            assert time.monotonic() < deadline, f"{what} took over {timeout_s} s:\n" + "\n".join(self.errors[-30:])
            # Another process is waited for, and it cannot call us.
            time.sleep(0.05)


@contextmanager
def server_process(*arguments: str, **environment: str) -> Iterator[ServerProcess]:
    """A server that is gone at the end of the block, however that ends."""
    server = ServerProcess(*arguments, **environment)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
        server.wait()


def _read(pipe: object, lines: list[str]) -> None:
    for line in pipe:  # type: ignore[attr-defined]  # a text pipe
        lines.append(line.rstrip("\n"))

"""Many sockets on one server: what is lost, what an idle one costs, how late the event loop is, and whom a slow reader hurts.

    python -m tests.bench.sockets [--idle 500] [--streaming 50] [--slow 5] [--words 400] [--delay-ms 20]

The server is a process of its own with the deterministic engine, so what is measured is everything above the engine. A third
process does nothing but measure the same lag of an idle event loop: what it sees is the machine, and the rest is the server.
Who does not read follows every one of the streams. Exit code 1 where a stream is not whole, or a limit is passed: LAG_P99_MAX_MS,
and IDLE_SOCKET_MAX_BYTES for each idle socket.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from math import ceil
from multiprocessing.synchronize import Event
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect

from app.operations.loop_lag import watch_event_loop
from app.realtime.protocol import TERMINAL_TYPES
from tests.support.client import PASSWORD
from tests.support.server_process import FAKE, ServerProcess, server_process

DELTA = "response.output_text.delta"
PATIENCE_S = 300
LAG_P99_MAX_MS = 50.0
IDLE_SOCKET_MAX_BYTES = 100_000


@dataclass
class Stream:
    """One answer as one socket saw it. `gaps_s` are the times between its frames."""

    frames: list[dict[str, Any]] = field(default_factory=list)
    gaps_s: list[float] = field(default_factory=list)

    def is_whole(self, words: int) -> bool:
        """1, 2, 3 … to a terminal frame, and the text to the letter."""
        text = "".join(frame["data"]["text"] for frame in self.frames if frame["type"] == DELTA)
        return (
            [frame["seq"] for frame in self.frames] == list(range(1, len(self.frames) + 1))
            and self.frames[-1]["type"] == "response.completed"
            and text == "".join(f" word{number}" for number in range(1, words + 1))
        )


@dataclass(frozen=True, slots=True)
class Report:
    """What was seen. Lags are in milliseconds; those of the machine are of an idle process beside the server."""

    idle: int
    streaming: int
    slow: int
    broken_streams: int
    frames: int
    frames_per_s: float
    bytes_per_idle_socket: float
    lag_p50_ms: float
    lag_p99_ms: float
    machine_lag_p99_ms: float
    gap_p99_ms: float
    server_cpu_share: float

    @property
    def is_within_limits(self) -> bool:
        is_cheap = self.bytes_per_idle_socket < IDLE_SOCKET_MAX_BYTES
        return not self.broken_streams and is_cheap and self.lag_p99_ms < LAG_P99_MAX_MS

    def __str__(self) -> str:
        return (
            f"{self.idle} idle, {self.streaming} streaming, {self.slow} who do not read\n"
            f"streams that are not whole    {self.broken_streams}\n"
            f"frames                        {self.frames} ({self.frames_per_s:.0f} a second)\n"
            f"memory per idle socket        {self.bytes_per_idle_socket / 1000:.1f} kB\n"
            f"event loop lag p50, p99       {self.lag_p50_ms:.1f} ms, {self.lag_p99_ms:.1f} ms\n"
            f"the same of an idle process   p99 {self.machine_lag_p99_ms:.1f} ms\n"
            f"between two frames p99        {self.gap_p99_ms:.1f} ms\n"
            f"share of one core             {self.server_cpu_share:.0%}"
        )


async def measure(server: ServerProcess, *, idle: int, streaming: int, slow: int, words: int) -> Report:
    """Connect, stream, and look."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=PATIENCE_S)
        )
        login = {"username": "admin", "password": PASSWORD}
        token = (await client.post("/api/v1/auth/login", json=login)).json()["token"]
        client.cookies.clear()
        client.headers["Authorization"] = f"Bearer {token}"
        # Two that are closed again: what the first one imports and allocates is no cost of a socket.
        async with opened(server, token, 2):
            pass
        before_bytes = resident_bytes(server.process.pid)
        await stack.enter_async_context(opened(server, token, idle))
        idle_bytes = resident_bytes(server.process.pid) - before_bytes
        talking = await stack.enter_async_context(opened(server, token, streaming))
        conversations = [(await client.post("/api/v1/conversations", json={})).json()["id"] for _ in range(streaming)]
        for socket in await stack.enter_async_context(opened(server, token, slow, max_queue=1)):
            await follow_silently(socket, conversations)
        machine = MachineLag()
        began, cpu_began = time.monotonic(), cpu_seconds(server.process.pid)
        streams = await asyncio.gather(
            *(follow(socket, conversation, words) for socket, conversation in zip(talking, conversations, strict=True))
        )
        took_s, cpu_s = time.monotonic() - began, cpu_seconds(server.process.pid) - cpu_began
        machine_lag_p99_ms = await asyncio.to_thread(machine.stop)
        lag = (await client.get("/api/v1/admin/stats")).json()["event_loop_lag_ms"]
        frames = sum(len(stream.frames) for stream in streams)
        return Report(
            idle=idle,
            streaming=streaming,
            slow=slow,
            broken_streams=sum(not stream.is_whole(words) for stream in streams),
            frames=frames,
            frames_per_s=frames / took_s,
            bytes_per_idle_socket=idle_bytes / max(1, idle),
            lag_p50_ms=lag["p50"],
            lag_p99_ms=lag["p99"],
            machine_lag_p99_ms=machine_lag_p99_ms,
            gap_p99_ms=quantile([gap for stream in streams for gap in stream.gaps_s], 0.99) * 1000,
            server_cpu_share=cpu_s / took_s,
        )


@asynccontextmanager
async def opened(
    server: ServerProcess, token: str, count: int, **options: Any
) -> AsyncIterator[list[ClientConnection]]:
    """Sockets that have greeted."""
    async with AsyncExitStack() as stack:
        sockets = []
        for _ in range(count):
            socket = await stack.enter_async_context(
                connect(
                    server.url.replace("http", "ws") + "/ws",
                    additional_headers={"Authorization": f"Bearer {token}"},
                    proxy=None,
                    compression=None,
                    ping_interval=None,
                    close_timeout=1,
                    **options,
                )
            )
            await socket.send(json.dumps({"type": "session.hello", "data": {}}))
            assert json.loads(await socket.recv())["type"] == "session.ready"
            sockets.append(socket)
        yield sockets


async def follow_silently(socket: ClientConnection, conversations: list[str]) -> None:
    """Subscribe to everything, and read nothing of it."""
    for conversation in conversations:
        await socket.send(json.dumps({"type": "conversation.subscribe", "data": {"conversation_id": conversation}}))


async def follow(socket: ClientConnection, conversation: str, words: int) -> Stream:
    """Have an answer made, and read it to its end."""
    data = {"conversation_id": conversation, "content": "hello", "params": {"max_tokens": words + 1}}
    await socket.send(json.dumps({"type": "message.create", "data": data}))
    stream, last = Stream(), 0.0
    async with asyncio.timeout(PATIENCE_S):
        async for text in socket:
            frame = json.loads(text)
            if "seq" not in frame:
                continue
            now = time.monotonic()
            if frame["type"] == DELTA and stream.frames[-1]["type"] == DELTA:
                stream.gaps_s.append(now - last)
            last = now
            stream.frames.append(frame)
            if frame["type"] in TERMINAL_TYPES:
                break
    return stream


class MachineLag:
    """A process that measures how late an idle event loop is, from now until `stop`."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._over = context.Event()
        self._found, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_measure_lag, args=(self._over, theirs), daemon=True)
        self._process.start()

    def stop(self) -> float:
        """The p99 in milliseconds."""
        self._over.set()
        lags: list[float] = self._found.recv()
        self._process.join()
        self._found.close()
        return quantile(lags, 0.99) * 1000


def _measure_lag(over: Event, found: Any) -> None:
    lags: list[float] = []

    async def measure_lag() -> None:
        watching = asyncio.create_task(watch_event_loop(lags.append))
        while not over.is_set():  # noqa: ASYNC110 - another process says so
            await asyncio.sleep(0.2)
        watching.cancel()

    asyncio.run(measure_lag())
    found.send(lags)


def quantile(values: list[float], rank: float) -> float:
    """The smallest that this share of them does not exceed; 0 of none."""
    return sorted(values)[max(0, ceil(rank * len(values)) - 1)] if values else 0.0


def resident_bytes(pid: int) -> int:
    """Memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


def cpu_seconds(pid: int) -> float:
    """What a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def run(*, idle: int, streaming: int, slow: int, words: int, delay_ms: float) -> Report:
    """A server of its own, measured."""
    with TemporaryDirectory(prefix="kvasir-sockets-") as folder:
        options = ("--data", folder, "--words", str(words), "--delay-ms", str(delay_ms), "--max-running", "1000")
        with server_process(*FAKE, *options, "--set", "log_level=warning") as server:
            assert server.url
            return asyncio.run(measure(server, idle=idle, streaming=streaming, slow=slow, words=words))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--idle", type=int, default=500)
    parser.add_argument("--streaming", type=int, default=50)
    parser.add_argument("--slow", type=int, default=5)
    parser.add_argument("--words", type=int, default=400)
    parser.add_argument("--delay-ms", type=float, default=20.0)
    report = run(**vars(parser.parse_args()))
    print(report)
    return 0 if report.is_within_limits else 1


if __name__ == "__main__":
    sys.exit(main())

"""A TCP proxy between browser and server that fails on command: cuts every connection, refuses new ones, or closes politely.

The browser only knows the proxy's address, so the server behind it may die and come back on another port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType

CHUNK_BYTES = 65536


class CuttingProxy:
    """Owns its connections. `target` is where new ones lead; `is_refusing` sends newcomers away."""

    def __init__(self, target: Callable[[], int]) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.is_refusing = False
        self.cuts = 0

    async def __aenter__(self) -> CuttingProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        await self.cut()
        await self._server.wait_closed()

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def cut(self) -> None:
        """End every connection now, in the middle of whatever it carries."""
        self.cuts += 1
        connections = list(self._connections)
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if not self.is_refusing:
                await self._join(reader, writer)
        except* asyncio.CancelledError:
            pass  # this is how a cut arrives
        except* OSError:
            pass  # one side was reset, which ends both
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self._target())
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_copy(reader, upstream_writer))
                both.create_task(_copy(upstream_reader, writer))
        finally:
            upstream_writer.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()

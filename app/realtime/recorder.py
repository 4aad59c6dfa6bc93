"""Law L6 in one place: a frame gets its `seq`, is made durable, and only then can anybody see it.

Called by the answers on the event loop. The order of frames is the order of calls. Durable is what is in the journal and, while
Redis answers, in the shared log. When the journal cannot be written, the response's log is broken from there on: the frames
before stay, the caller is told once and ends the answer as failed. So it is when another server has ended the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.realtime.event_log import EventLog, LogFrame
from app.realtime.hub import Hub
from app.realtime.journal import Journal
from app.realtime.protocol import FrameType
from app.replicas.shared_logs import SharedLogs

NewFrame = tuple[FrameType, Mapping[str, Any]]
Broken = Callable[[EventLog, OSError | None], None]
"""Told why a log cannot go on; None where another server has ended the response."""


class Recorder:
    """Joins the logs, the journal, the shared logs and the hub. Knows which logs are broken; owns nothing else."""

    def __init__(self, journal: Journal, shared: SharedLogs, hub: Hub) -> None:
        self._journal = journal
        self._shared = shared
        self._hub = hub
        self._broken: set[str] = set()
        self._broken_listener: Broken | None = None

    def on_broken(self, listener: Broken) -> None:
        """Who ends the answers whose frames could not be made durable."""
        self._broken_listener = listener

    def record(self, log: EventLog, frames: Sequence[NewFrame]) -> None:
        """Show these frames as soon as they are durable."""
        if frames and log.response_id not in self._broken:
            staged = [log.stage(kind, data) for kind, data in frames]
            self._append(log, staged, lambda: None)

    async def settled(self, log: EventLog) -> None:
        """Wait until everything recorded so far is shown or, in a broken log, given up."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._append(log, [], lambda: None if waiter.done() else waiter.set_result(None))
        await waiter

    def terminal(self, log: EventLog, kind: FrameType, data: Mapping[str, Any]) -> LogFrame:
        """The last frame, which goes into SQL with the whole log before `end` shows it. Call it after `settled`."""
        log.unstage()
        return log.stage(kind, data)

    def end(self, log: EventLog, terminal: LogFrame) -> None:
        """The response is stored with its terminal frame: show that, and forget it in the journal."""
        self._hub.show(log, [terminal])
        self._journal.forget(log.response_id)
        self._shared.end(log.response_id, terminal.encoded)
        self._broken.discard(log.response_id)

    def give_up(self, log: EventLog, rest: Sequence[LogFrame]) -> None:
        """Another server has ended the response, and these are its last frames."""
        self._hub.show(log, rest)
        self._journal.forget(log.response_id)
        self._shared.end(log.response_id, None)
        self._broken.discard(log.response_id)

    def _append(self, log: EventLog, staged: list[LogFrame], settled: Callable[[], None]) -> None:
        encoded = [frame.encoded for frame in staged]

        def journaled(failure: OSError | None) -> None:
            if failure is not None and staged:
                self._break(log, failure)
            is_whole = bool(staged) and log.response_id not in self._broken
            first_seq = staged[0].seq if staged else 0
            self._shared.append(log.response_id, first_seq, encoded if is_whole else (), shared)

        def shared(is_ours: bool) -> None:
            if not is_ours:
                self._break(log, None)
            if staged and log.response_id not in self._broken:
                self._hub.show(log, staged)
            settled()

        self._journal.append(log.response_id, encoded, journaled)

    def _break(self, log: EventLog, failure: OSError | None) -> None:
        if log.response_id not in self._broken:
            self._broken.add(log.response_id)
            if self._broken_listener is not None:
                self._broken_listener(log, failure)

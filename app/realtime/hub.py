"""Who watches what: the live logs, the positions of their readers, the subscribers of conversations, the open sockets.

Filled by sockets and event streams, and by the recorder, which shows new frames here. A reader is woken, never fed: it keeps
a position in the log and takes what it has not sent yet, so a slow reader costs nothing and skips nothing. Lives on the event
loop; knows no domain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from app.realtime.event_log import EventLog, LogFrame
from app.realtime.protocol import CloseCode, FrameType, ServerFrame

Wake = Callable[[], None]
AnnouncedListener = Callable[[str, bytes], None]
BeganListener = Callable[[EventLog], None]
WatchListener = Callable[[EventLog, bool], None]
"""Told when a running response gets its first reader (True) and when it loses its last one (False)."""

_encoder = msgspec.json.Encoder()


class Subscriber(Protocol):
    """One who follows a conversation."""

    def deliver(self, frame: bytes) -> None:
        """Send this frame, beside the streams."""

    def follow(self, log: EventLog) -> None:
        """Send every frame of this response, unless that is being done already."""


class OpenSocket(Protocol):
    """What the hub can do to a connection."""

    @property
    def user_id(self) -> str: ...

    @property
    def credential_id(self) -> str: ...

    def watches(self, conversation_id: str) -> bool:
        """Whether it follows that conversation, or an answer in it."""

    def deliver(self, frame: bytes) -> None:
        """Send this frame, beside the streams."""

    def close(self, code: CloseCode, reason: str) -> None:
        """Say goodbye and end. Idempotent."""


class OpenStream(Protocol):
    """What the hub can do to an event stream."""

    @property
    def credential_id(self) -> str: ...

    def watches(self, conversation_id: str) -> bool:
        """Whether it shows an answer of that conversation."""

    def end(self) -> None:
        """Send nothing more. Idempotent."""


class Cursor:
    """The place of one reader in one log. Closed by whoever opened it."""

    def __init__(self, log: EventLog, after: int, wake: Wake, closed: Callable[[Cursor], None]) -> None:
        self.log = log
        self.last_seq = after
        self.wake = wake
        self._closed = closed

    @property
    def is_exhausted(self) -> bool:
        """Everything was taken, and nothing will come."""
        return self.log.is_ended and self.last_seq >= self.log.last_seq

    def take(self, limit: int) -> list[bytes]:
        """The next frames; empty when there are none yet."""
        frames = self.log.frames_after(self.last_seq, limit)
        self.last_seq += len(frames)
        return frames

    def close(self) -> None:
        """Idempotent."""
        self._closed(self)


class Hub:
    """Owns the registries of one server process. Every entry has an owner who takes it out again."""

    def __init__(self) -> None:
        self._logs: dict[str, EventLog] = {}
        self._cursors: dict[str, set[Cursor]] = {}
        self._subscribers: dict[str, dict[Subscriber, None]] = {}
        self._sockets: set[OpenSocket] = set()
        self._streams: set[OpenStream] = set()
        self._no_sockets = asyncio.Event()
        self._no_sockets.set()
        self._watch_listener: WatchListener | None = None
        self._announced_listener: AnnouncedListener | None = None
        self._began_listener: BeganListener | None = None
        self._copies: dict[str, Wake] = {}

    def on_announced(self, listener: AnnouncedListener) -> None:
        """Who passes what is announced on to other servers: a conversation's id, and the frame."""
        self._announced_listener = listener

    def on_began(self, listener: BeganListener) -> None:
        """Who tells other servers that a response begins here."""
        self._began_listener = listener

    def on_watched(self, listener: WatchListener) -> None:
        """Who wants to know whether anybody watches a running response."""
        self._watch_listener = listener

    def sizes(self) -> dict[str, int]:
        """How many entries each registry has; all zero when nothing runs and nobody is there."""
        return {
            "logs": len(self._logs),
            "cursors": sum(map(len, self._cursors.values())),
            "subscribed_conversations": len(self._subscribers),
            "sockets": len(self._sockets),
            "event_streams": len(self._streams),
        }

    # --- logs and their readers --------------------------------------------------------------------------------------

    def open_log(self, log: EventLog) -> None:
        """A response begins. Whoever follows its conversation follows it too."""
        self._logs[log.response_id] = log
        self.lead_subscribers(log)
        if self._began_listener is not None:
            self._began_listener(log)

    def open_copy(self, log: EventLog, dropped: Wake) -> None:
        """A response that another server makes has a reader here. `dropped` is told when it has none any more."""
        log.is_copy = True
        self._logs[log.response_id] = log
        self._copies[log.response_id] = dropped

    def lead_subscribers(self, log: EventLog) -> None:
        """Whoever follows its conversation follows this response too."""
        for subscriber in list(self._subscribers.get(log.conversation_id, ())):
            subscriber.follow(log)

    def drop_unread_copy(self, log: EventLog) -> None:
        """Drop a copy that nobody has begun to read."""
        if log.response_id not in self._cursors:
            self._drop(log)

    def log(self, response_id: str) -> EventLog | None:
        """The log of a response that runs, or that has ended and still has readers."""
        return self._logs.get(response_id)

    def running_logs(self, conversation_id: str) -> list[EventLog]:
        """Those of the conversation that have not ended, oldest first."""
        return [log for log in self._logs.values() if log.conversation_id == conversation_id and not log.is_ended]

    def read(self, log: EventLog, after: int, wake: Wake) -> Cursor:
        """Begin to read behind frame `after`; `wake` is called whenever there is more."""
        if self._logs.get(log.response_id) is not log:
            # Read back from SQL: it has an end, and nobody else looks at this copy.
            return Cursor(log, after, wake, lambda cursor: None)
        cursor = Cursor(log, after, wake, self._close_cursor)
        cursors = self._cursors.setdefault(log.response_id, set())
        cursors.add(cursor)
        if len(cursors) == 1 and not log.is_ended:
            self._tell_watched(log, True)
        return cursor

    def show(self, log: EventLog, frames: Sequence[LogFrame]) -> None:
        """Durable frames of a response become visible to everybody."""
        log.show(frames)
        for cursor in self._cursors.get(log.response_id, ()):
            cursor.wake()
        if log.is_ended and log.response_id not in self._cursors:
            self._drop(log)

    def _close_cursor(self, cursor: Cursor) -> None:
        log = cursor.log
        cursors = self._cursors.get(log.response_id, set())
        if cursor not in cursors:
            return
        cursors.discard(cursor)
        if not cursors:
            del self._cursors[log.response_id]
            if not log.is_ended:
                self._tell_watched(log, False)
            if log.is_ended or log.is_copy:
                self._drop(log)

    def _drop(self, log: EventLog) -> None:
        if self._logs.get(log.response_id) is log:
            del self._logs[log.response_id]
            if (dropped := self._copies.pop(log.response_id, None)) is not None:
                dropped()

    def _tell_watched(self, log: EventLog, watched: bool) -> None:
        if self._watch_listener is not None:
            self._watch_listener(log, watched)

    # --- conversations -----------------------------------------------------------------------------------------------

    def subscribe(self, conversation_id: str, subscriber: Subscriber) -> None:
        """Follow the conversation's own events and every answer that begins in it from now on. Idempotent."""
        self._subscribers.setdefault(conversation_id, {})[subscriber] = None

    def unsubscribe(self, conversation_id: str, subscriber: Subscriber) -> None:
        """Idempotent."""
        if (subscribers := self._subscribers.get(conversation_id)) is not None:
            subscribers.pop(subscriber, None)
            if not subscribers:
                del self._subscribers[conversation_id]

    def announce(
        self, conversation_id: str, kind: FrameType, data: dict[str, Any], *, beside: Subscriber | None = None
    ) -> None:
        """Tell the conversation's subscribers, except the one that has been told already."""
        if conversation_id in self._subscribers or self._announced_listener is not None:
            frame = _encoder.encode(ServerFrame(type=kind, conversation_id=conversation_id, data=data))
            self.deliver(conversation_id, frame, beside=beside)
            if self._announced_listener is not None:
                self._announced_listener(conversation_id, frame)

    def deliver(self, conversation_id: str, frame: bytes, *, beside: Subscriber | None = None) -> None:
        """Give an encoded frame to those who follow the conversation here, and to nobody else."""
        for subscriber in list(self._subscribers.get(conversation_id, ())):
            if subscriber is not beside:
                subscriber.deliver(frame)

    def has_subscribers(self, conversation_id: str) -> bool:
        """Whether anybody follows it here."""
        return conversation_id in self._subscribers

    def subscribed(self) -> list[str]:
        """The conversations that somebody follows here."""
        return list(self._subscribers)

    # --- sockets and event streams -------------------------------------------------------------------------------------

    @property
    def open_sockets(self) -> int:
        return len(self._sockets)

    def sockets_of(self, owner_id: str) -> int:
        """How many are open of a user, or with a sign-in or a key."""
        return sum(owner_id in (socket.user_id, socket.credential_id) for socket in self._sockets)

    def connections(self) -> tuple[int, int]:
        """Open sockets and event streams."""
        return len(self._sockets), len(self._streams)

    def add_socket(self, socket: OpenSocket) -> None:
        self._sockets.add(socket)
        self._no_sockets.clear()

    def remove_socket(self, socket: OpenSocket) -> None:
        """Idempotent."""
        self._sockets.discard(socket)
        if not self._sockets:
            self._no_sockets.set()

    async def all_sockets_closed(self) -> None:
        """Wait until nobody is connected."""
        await self._no_sockets.wait()

    def add_stream(self, stream: OpenStream) -> None:
        self._streams.add(stream)

    def remove_stream(self, stream: OpenStream) -> None:
        """Idempotent."""
        self._streams.discard(stream)

    def credentials(self) -> set[str]:
        """The sign-ins with which something is open."""
        return {socket.credential_id for socket in self._sockets} | {stream.credential_id for stream in self._streams}

    def close_credential(self, credential_id: str) -> None:
        """What was opened with this sign-in ends with it."""
        for socket in list(self._sockets):
            if socket.credential_id == credential_id:
                socket.close(CloseCode.UNAUTHENTICATED, "revoked")
        for stream in list(self._streams):
            if stream.credential_id == credential_id:
                stream.end()

    def close_watchers(self, conversation_id: str, code: CloseCode, reason: str) -> None:
        """Whatever shows that conversation or an answer in it ends."""
        for socket in list(self._sockets):
            if socket.watches(conversation_id):
                socket.close(code, reason)
        for stream in list(self._streams):
            if stream.watches(conversation_id):
                stream.end()

    def tell_user(self, user_id: str, kind: FrameType, data: dict[str, Any], conversation_id: str) -> None:
        """Send a frame to every socket of this person."""
        frame = _encoder.encode(ServerFrame(type=kind, conversation_id=conversation_id, data=data))
        for socket in list(self._sockets):
            if socket.user_id == user_id:
                socket.deliver(frame)

    def end_streams(self) -> None:
        """All of them."""
        for stream in list(self._streams):
            stream.end()

    def close_sockets(self, code: CloseCode, reason: str) -> None:
        """All of them."""
        for socket in list(self._sockets):
            socket.close(code, reason)

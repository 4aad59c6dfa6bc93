"""Everything that goes to one socket, in the right order, by one task: frames from the outbox, and the logs it follows.

Filled by the connection and the hub; `run` is the only sender. A log is followed by its place in it, so what waits for a slow
reader is one number per answer and a bounded outbox; a reader slower than that is closed (1013) and may resume. The logs of
ended answers are fetched when their turn comes, one at a time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from app.realtime.event_log import EventLog
from app.realtime.hub import Cursor, Hub
from app.realtime.outbox import Outbox
from app.realtime.protocol import CloseCode, FrameId, FrameType, ServerFrame

FRAMES_PER_TURN = 64
"""How many frames of one answer go out before the next one's turn."""

FAREWELL_S = 0.5
"""A revoked socket has to be closed within a second, whether it reads or not."""

_encoder = msgspec.json.Encoder()

Send = Callable[[str], Awaitable[None]]
Close = Callable[[int, str], Awaitable[None]]
LoadLog = Callable[[str, str], Awaitable[EventLog]]
"""The stored log of an ended response, by its conversation's id and its own."""


@dataclass(frozen=True, slots=True)
class Goodbye:
    """How the socket ends. `waits`: what is there to be sent goes first."""

    code: CloseCode
    reason: str
    waits: bool


@dataclass(frozen=True, slots=True)
class _Replay:
    conversation_id: str
    response_id: str
    after: int


class SocketWriter:
    """Owns the outbox and the cursors of one socket. Lives on the event loop."""

    def __init__(
        self, hub: Hub, load: LoadLog, send: Send, close: Close, *, outbox_max_frames: int, send_timeout_s: float
    ) -> None:
        self._hub = hub
        self._load = load
        self._send = send
        self._close = close
        self._send_timeout_s = send_timeout_s
        self._outbox = Outbox(outbox_max_frames)
        self._cursors: dict[str, Cursor] = {}
        self._replays: deque[_Replay] = deque()
        self._replaying: str | None = None
        self._conversations: set[str] = set()
        self._wake = asyncio.Event()
        self._goodbye: Goodbye | None = None
        self._is_closed = False

    @property
    def is_streaming(self) -> bool:
        """Whether an answer is on its way to this socket."""
        return bool(self._cursors or self._replays)

    def has_room_for(self, conversation_id: str, subscriptions_max: int) -> bool:
        """Whether this conversation can be one of those it follows, which it may be already."""
        return conversation_id in self._conversations or len(self._conversations) < subscriptions_max

    def watches(self, conversation_id: str) -> bool:
        """Whether it follows that conversation, or an answer in it."""
        return (
            conversation_id in self._conversations
            or any(cursor.log.conversation_id == conversation_id for cursor in self._cursors.values())
            or any(replay.conversation_id == conversation_id for replay in self._replays)
        )

    # --- what is to be sent ------------------------------------------------------------------------------------------

    def put(
        self,
        kind: FrameType,
        data: Mapping[str, Any],
        *,
        reply_to: FrameId | UnsetType = UNSET,
        conversation_id: str | UnsetType = UNSET,
        response_id: str | UnsetType = UNSET,
    ) -> None:
        """Send a frame beside the streams."""
        frame = ServerFrame(
            type=kind,
            reply_to=reply_to,
            conversation_id=conversation_id,
            response_id=response_id,
            data=dict(data),
        )
        self.deliver(_encoder.encode(frame))

    def deliver(self, frame: bytes) -> None:
        """Send an encoded frame beside the streams. With too many waiting, the socket ends instead."""
        if self._outbox.put(frame):
            self._wake.set()
        else:
            self.end(CloseCode.OVERLOADED, "too many frames wait", waits=False)

    def follow(self, log: EventLog, after: int = 0) -> None:
        """Send a response's frames from `after` + 1 on, to its end. One that is followed already goes on as it is."""
        if self._is_closed:
            # The answer has to learn that it had a watcher, and that it has none any more.
            self._hub.read(log, after, self._wake.set).close()
        elif log.response_id not in self._cursors:
            self._cursors[log.response_id] = self._hub.read(log, after, self._wake.set)
            self._wake.set()

    def replay(self, conversation_id: str, response_id: str, after: int) -> None:
        """Send the frames of an ended response, when it is its turn."""
        self._replays.append(_Replay(conversation_id, response_id, after))
        self._wake.set()

    def subscribe(self, conversation_id: str) -> None:
        """Follow a conversation: its events and every answer that begins in it. Idempotent."""
        self._conversations.add(conversation_id)
        self._hub.subscribe(conversation_id, self)

    def unsubscribe(self, conversation_id: str) -> None:
        """Send nothing of this conversation any more. Idempotent."""
        self._conversations.discard(conversation_id)
        self._hub.unsubscribe(conversation_id, self)
        for response_id, cursor in list(self._cursors.items()):
            if cursor.log.conversation_id == conversation_id:
                self._leave(response_id)
        self._replays = deque(replay for replay in self._replays if replay.conversation_id != conversation_id)

    def end(self, code: CloseCode, reason: str, *, waits: bool = True) -> None:
        """Close the socket. The first reason counts; one that does not wait overtakes one that does."""
        if self._goodbye is None or (self._goodbye.waits and not waits):
            self._goodbye = Goodbye(code, reason, waits)
            self._wake.set()

    def close(self) -> None:
        """The socket is gone: leave every log and every conversation. Idempotent."""
        self._is_closed = True
        for conversation_id in list(self._conversations):
            self.unsubscribe(conversation_id)
        for response_id in list(self._cursors):
            self._leave(response_id)
        self._replays.clear()

    # --- sending -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Send until the socket ends. Raises OSError when the other side has gone."""
        while not await self._send_waiting():
            await self._wake.wait()
        if (goodbye := self._goodbye) is not None:
            if goodbye.code is not CloseCode.OVERLOADED:
                await self._send_farewell(goodbye)
            await self._close(goodbye.code, goodbye.reason)

    async def _send_farewell(self, goodbye: Goodbye) -> None:
        """The reason as a frame as well, for clients that cannot see a close; a reader who does not read goes without."""
        data = {"reason": goodbye.reason, "code": int(goodbye.code)}
        try:
            async with asyncio.timeout(FAREWELL_S):
                await self._send(_encoder.encode(ServerFrame(type="session.closed", data=data)).decode())
        except TimeoutError:
            return

    async def abandon(self, code: CloseCode, reason: str) -> None:
        """Close the socket after `run` has failed."""
        await self._close(code, reason)

    async def _send_waiting(self) -> bool:
        """Send everything there is; True when the socket has to be closed now."""
        is_more = True
        while is_more and not self._ends_at_once:
            self._wake.clear()
            while not self._ends_at_once and (frame := self._outbox.take()) is not None:
                await self._send_one(frame)
            await self._load_next()
            is_more = len(self._outbox) > 0 or bool(self._replays)
            if len(self._outbox) == 0:
                # Only now: a frame in the outbox announces what the cursors of this moment carry.
                for cursor in list(self._cursors.values()):
                    is_more = await self._send_some(cursor) or is_more
        return self._goodbye is not None

    async def _send_some(self, cursor: Cursor) -> bool:
        """Send the next frames of one log; whether there were any."""
        response_id = cursor.log.response_id
        frames = cursor.take(FRAMES_PER_TURN)
        for frame in frames:
            # While one frame is on its way, somebody may have left this log, or the socket be told to end.
            if self._ends_at_once or self._cursors.get(response_id) is not cursor:
                return True
            await self._send_one(frame)
        if cursor.is_exhausted and self._cursors.get(response_id) is cursor:
            self._leave(response_id)
        return bool(frames)

    @property
    def _ends_at_once(self) -> bool:
        return self._goodbye is not None and not self._goodbye.waits

    async def _send_one(self, frame: bytes) -> None:
        try:
            async with asyncio.timeout(self._send_timeout_s):
                await self._send(frame.decode())
        except TimeoutError:
            self.end(CloseCode.OVERLOADED, "reader too slow", waits=False)

    async def _load_next(self) -> None:
        """Fetch the log of the next ended answer, unless one is being sent."""
        while self._replays and self._replaying is None:
            replay = self._replays[0]
            log = await self._load(replay.conversation_id, replay.response_id)
            # Meanwhile its conversation may have been unsubscribed, or the answer followed.
            if self._replays and self._replays[0] is replay:
                self._replays.popleft()
                if log.last_seq == 0:
                    data = {"response_id": replay.response_id, "reason": "unknown"}
                    self.put("resync_required", data, response_id=replay.response_id)
                elif replay.response_id not in self._cursors:
                    self._replaying = replay.response_id
                    self.follow(log, replay.after)

    def _leave(self, response_id: str) -> None:
        self._cursors.pop(response_id).close()
        if self._replaying == response_id:
            self._replaying = None

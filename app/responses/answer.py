"""One answer while it is alive: turns what the engine says about it into the frames that everybody sees.

Made by the service, driven by the dispatcher, on the event loop. It never waits and never touches the database: frames go to
the recorder, which makes them durable first.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.clock import Monotonic, Now
from app.conversations.models import MessageStatus
from app.realtime.delta_window import DeltaWindow
from app.realtime.event_log import EventLog
from app.realtime.protocol import FrameType
from app.realtime.recorder import NewFrame, Recorder
from app.responses.prompt import Prompt
from app.usage.charge import Charge
from app.usage.limits import Spender
from engine.types import (
    EngineEvent,
    Finished,
    PromptProgress,
    Queued,
    RequestId,
    SamplingParams,
    SessionKey,
    TextDelta,
)

DELTA: FrameType = "response.output_text.delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerIdentity:
    """What never changes about an answer."""

    response_id: str
    message_id: str
    conversation_id: str
    parent_id: str
    params: dict[str, Any]
    created_at: datetime

    @property
    def created_frame(self) -> NewFrame:
        """The first frame of its log."""
        return "response.created", {
            "response_id": self.response_id,
            "message_id": self.message_id,
            "parent_id": self.parent_id,
            "status": MessageStatus.QUEUED,
            "params": self.params,
        }


class Answer:
    """Owns the log of one response and the text and progress that have no frame yet.

    `session` is in whose name the engine is asked, `spender` on whose account, and `charge` what that was charged with so far;
    `prompt_tokens` what the engine counted at admission, 0 where it could not yet. `prompt` is what it is to read, where that is
    known.
    """

    def __init__(
        self,
        identity: AnswerIdentity,
        sampling: SamplingParams,
        session: SessionKey,
        recorder: Recorder,
        *,
        spender: Spender,
        charge: Charge,
        prompt_tokens: int,
        prompt: Prompt | None = None,
        window_s: float,
        monotonic: Monotonic,
        now: Now,
    ) -> None:
        self.identity = identity
        self.sampling = sampling
        self.session = session
        self.spender = spender
        self.charge = charge
        self.prompt_tokens = prompt_tokens
        self.prompt = prompt
        self.log = EventLog(identity.conversation_id, identity.response_id)
        self.status = MessageStatus.QUEUED
        self.accepted_at_s = monotonic()
        self.started_at: datetime | None = None
        self.finished: asyncio.Future[Finished] = asyncio.get_running_loop().create_future()
        self.turn = asyncio.Event()
        self.stop_wanted = asyncio.Event()
        self.stop_status = MessageStatus.CANCELLED
        self.storage_failure: str | None = None
        self.has_replaced_text = False
        self.stored_seq = 0
        self.ended = asyncio.Event()
        self._recorder = recorder
        self._monotonic = monotonic
        self._now = now
        self._window = DeltaWindow(window_s)
        self._window_s = window_s
        self._progress: PromptProgress | None = None
        self._progress_not_before = float("-inf")
        self._position: int | None = None
        self._new_frames: list[NewFrame] = []
        self._is_concluded = False

    @property
    def response_id(self) -> str:
        return self.identity.response_id

    @property
    def request_id(self) -> RequestId:
        return RequestId(self.identity.response_id)

    def begin(self) -> None:
        """Put the first frame into the log."""
        self._recorder.record(self.log, [self.identity.created_frame])

    def wait_at(self, position: int) -> None:
        """It is this many answers away from its start; 1 is the next."""
        if position != self._position and self.status is MessageStatus.QUEUED and not self._is_concluded:
            self._position = position
            self._recorder.record(self.log, [("response.queued", {"position": position})])

    def conclude(self) -> None:
        """Record everything there is to tell. What comes after this has no frame: the next one is the terminal one."""
        self.emit(everything=True)
        self._is_concluded = True

    def stop(self, status: MessageStatus) -> None:
        """Somebody wants it to end as this status. The first one who says so decides."""
        if not self.stop_wanted.is_set():
            self.stop_status = status
            self.stop_wanted.set()

    def take(self, event: EngineEvent) -> None:
        """One event of the engine about this answer. `emit` turns what has gathered into frames."""
        if self._is_concluded:
            return
        if isinstance(event, Queued):
            self.wait_at(event.position)
            return
        if isinstance(event, Finished):
            if not self.finished.done():
                self.finished.set_result(event)
            return
        if self.status is MessageStatus.QUEUED:
            self.status = MessageStatus.IN_PROGRESS
            self.started_at = self._now()
        if isinstance(event, PromptProgress):
            self._progress = event
            if event.done_tokens >= event.total_tokens:
                self._emit_progress()
        elif isinstance(event, TextDelta):
            self._take_text(event)

    def due_at(self) -> float | None:
        """When `emit` has to be called next."""
        progress_due_at = None if self._progress is None else self._progress_not_before
        return min((time for time in (self._window.due_at, progress_due_at) if time is not None), default=None)

    def emit(self, *, everything: bool = False) -> None:
        """Record what is due now, or all there is."""
        now = self._monotonic()
        if self._progress is not None and (everything or now >= self._progress_not_before):
            self._emit_progress()
        if text := self._window.take(now) if everything else self._window.take_due(now):
            self._new_frames.append((DELTA, {"text": text}))
        if self._new_frames:
            frames, self._new_frames = self._new_frames, []
            self._recorder.record(self.log, frames)

    def _take_text(self, delta: TextDelta) -> None:
        if self._progress is not None:
            self._emit_progress()
        text = delta.text
        if "\x00" in text:
            # Nothing can store it: PostgreSQL refuses it in a text.
            text = text.replace("\x00", "\N{REPLACEMENT CHARACTER}")
            self.has_replaced_text = True
        self._window.add(text)

    def _emit_progress(self) -> None:
        progress, self._progress = self._progress, None
        if progress is None:
            return
        self._progress_not_before = self._monotonic() + self._window_s
        data = {
            "phase": "prefill" if progress.done_tokens < progress.total_tokens else "decode",
            "done": progress.done_tokens,
            "total": progress.total_tokens,
            "cached_tokens": progress.cached_tokens,
        }
        self._new_frames.append(("response.in_progress", data))

"""The frames of one response, in order: what every client of it sees, and what it resumes from.

The recorder stages frames, which gives them their `seq`, and shows them once they are durable; the hub lets readers follow.
Pure: no I/O, no clock, no asyncio. It must never show a frame before the one in front of it, and none after the terminal one.

    seq      1        2          3       4       5
          created   queued     delta   delta   completed
                                  ^ len(shown)    ^ staged: has its seq, is on its way to the journal
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from app.realtime.protocol import TERMINAL_TYPES, FrameType, ServerFrame

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(ServerFrame)
_array_decoder = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class LogFrame:
    """One frame with its place. `encoded` are the bytes that are journaled, stored and sent; `text` is a delta's text."""

    seq: int
    type: str
    text: str
    encoded: bytes

    @property
    def is_terminal(self) -> bool:
        return self.type in TERMINAL_TYPES


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The text of a response up to and including frame `last_seq`: who shows it may resume from there."""

    text: str
    last_seq: int


class EventLog:
    """Owns the shown frames of one response. Lives on the event loop; whoever follows it keeps a position of their own.

    `is_copy`: it is written by another server, and may have more frames than have come here.
    """

    def __init__(self, conversation_id: str, response_id: str) -> None:
        self.conversation_id = conversation_id
        self.response_id = response_id
        self.is_ended = False
        self.is_copy = False
        self._shown: list[bytes] = []
        self._text: list[str] = []
        self._staged_seq = 0
        self._ends_staged = False

    @property
    def last_seq(self) -> int:
        """The last frame anybody may have seen."""
        return len(self._shown)

    @property
    def staged_seq(self) -> int:
        """The last frame that has a number; those after `last_seq` are not durable yet."""
        return self._staged_seq

    def stage(self, kind: FrameType, data: Mapping[str, Any]) -> LogFrame:
        """Give a frame the next `seq`. Raises RuntimeError after the terminal frame."""
        if self._ends_staged:
            raise RuntimeError(f"response {self.response_id} has its terminal frame, and now came {kind}")
        self._staged_seq += 1
        frame = ServerFrame(
            type=kind,
            conversation_id=self.conversation_id,
            response_id=self.response_id,
            seq=self._staged_seq,
            data=dict(data),
        )
        text = str(data["text"]) if kind == "response.output_text.delta" else ""
        staged = LogFrame(self._staged_seq, kind, text, _encoder.encode(frame))
        self._ends_staged = staged.is_terminal
        return staged

    def show(self, frames: Sequence[LogFrame]) -> None:
        """These frames are durable: readers may have them. Raises RuntimeError when one is out of order."""
        for frame in frames:
            if frame.seq != self.last_seq + 1 or self.is_ended:
                raise RuntimeError(
                    f"response {self.response_id} shows {self.last_seq} frames, and now came {frame.seq}"
                )
            self._shown.append(frame.encoded)
            if frame.text:
                self._text.append(frame.text)
            self.is_ended = frame.is_terminal

    def unstage(self) -> None:
        """What was staged and not shown could not be made durable: its numbers are free again."""
        self._staged_seq = self.last_seq
        self._ends_staged = self.is_ended

    def frames_after(self, seq: int, limit: int) -> list[bytes]:
        """Up to `limit` shown frames from `seq` + 1 on."""
        return self._shown[seq : seq + limit]

    def snapshot(self) -> Snapshot:
        """The joined deltas that were shown, and up to where they go."""
        if len(self._text) > 1:
            self._text = ["".join(self._text)]
        return Snapshot(self._text[0] if self._text else "", self.last_seq)

    def stored(self, *unshown: LogFrame) -> bytes:
        """The form that is kept in SQL: a JSON array of the shown frames and, behind them, the given ones."""
        return b"[" + b",".join([*self._shown, *(frame.encoded for frame in unshown)]) + b"]"


def restored_log(conversation_id: str, response_id: str, stored: bytes) -> EventLog:
    """The ended log of a response from its stored form."""
    log = EventLog(conversation_id, response_id)
    log._shown = [bytes(raw) for raw in _array_decoder.decode(stored)]
    log._staged_seq = len(log._shown)
    log._ends_staged = log.is_ended = True
    return log


def rebuilt_log(conversation_id: str, response_id: str, encoded_frames: Sequence[bytes]) -> EventLog:
    """The log of a response from its journaled frames: those up to the first that is missing or damaged."""
    log = EventLog(conversation_id, response_id)
    for encoded in encoded_frames:
        try:
            frame = decoded_frame(encoded)
        except msgspec.DecodeError:
            break
        if frame.seq != log.last_seq + 1 or log.is_ended:
            break
        log.show([frame])
    log.unstage()
    return log


def decoded_frame(encoded: bytes) -> LogFrame:
    """A frame as it is sent, as a frame with its place. Raises msgspec.DecodeError."""
    frame = _decoder.decode(encoded)
    text = str(frame.data["text"]) if frame.type == "response.output_text.delta" else ""
    return LogFrame(frame.seq or 0, frame.type, text, encoded)


def rest_of(log: EventLog, stored: bytes) -> list[LogFrame]:
    """What an ended response's stored form has behind the frames that are shown here. Where it has other frames in their place,
    only its end is taken over."""
    frames = [bytes(raw) for raw in _array_decoder.decode(stored)]
    if frames[: log.last_seq] == log.frames_after(0, log.last_seq):
        return [decoded_frame(encoded) for encoded in frames[log.last_seq :]]
    log.unstage()
    terminal = _decoder.decode(frames[-1])
    return [log.stage(terminal.type, terminal.data)]

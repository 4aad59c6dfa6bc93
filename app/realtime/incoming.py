"""Reads a client's frame: a value of one of the protocol's types, or the error it is answered with. Pure."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
from msgspec import UNSET, UnsetType

from app.realtime.protocol import AnyClientFrame, FrameId

_decoder = msgspec.json.Decoder(AnyClientFrame)


class _Envelope(msgspec.Struct):
    """What can be read of a frame that is not one of ours."""

    id: Any = None
    type: Any = None


_envelope_decoder = msgspec.json.Decoder(_Envelope)

KNOWN_TYPES = frozenset(str(kind.__struct_config__.tag) for kind in get_args(AnyClientFrame))


class BadFrame(Exception):
    """A frame that cannot be read. `reply_to` is its id, where that much could be read."""

    def __init__(self, code: str, message: str, reply_to: FrameId | UnsetType = UNSET) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reply_to = reply_to


def read_frame(text: str) -> AnyClientFrame:
    """The frame. Raises BadFrame."""
    try:
        return _decoder.decode(text)
    except msgspec.ValidationError as problem:
        raise _invalid(text, str(problem)) from None
    except msgspec.DecodeError as problem:
        raise BadFrame("malformed_json", f"the frame is not JSON: {problem}") from None
    except RecursionError:
        raise BadFrame("malformed_json", "the frame is nested too deeply") from None
    except UnicodeEncodeError:
        raise BadFrame("malformed_json", "the frame is not Unicode text") from None


def _invalid(text: str, problem: str) -> BadFrame:
    try:
        envelope = _envelope_decoder.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return BadFrame("invalid_frame", f"expected a frame, which is an object with a type: {problem}")
    try:
        reply_to = UNSET if envelope.id is None else msgspec.convert(envelope.id, FrameId)
    except msgspec.ValidationError:
        reply_to = UNSET
    if not isinstance(envelope.type, str):
        return BadFrame("invalid_frame", "expected a frame with a type", reply_to)
    if envelope.type not in KNOWN_TYPES:
        return BadFrame("unknown_type", f"there is no frame of type {envelope.type[:80]!r}", reply_to)
    return BadFrame("invalid_frame", f"the frame {envelope.type} is not as expected: {problem}", reply_to)

"""What a chat completion looks like, whole and in chunks. Pure.

A chunk is put together from two halves that never change and one encoded text, because there is one for every token of every
stream.
"""

from __future__ import annotations

from typing import Any

import msgspec

from app.openai.call import Call, CallIdentity
from app.openai.errors import ErrorAnswer, error_body
from app.openai.schemas import AnswerMessage, ChatCompletion, Choice
from app.openai.usage_body import completion_usage
from engine.types import Finished, FinishReason

DONE = b"data: [DONE]\n\n"
FINISH_REASONS = {FinishReason.STOP: "stop", FinishReason.LENGTH: "length"}

_encode = msgspec.json.encode


def whole_completion(call: Call, finished: Finished) -> ChatCompletion:
    """An answer that has come to its own end."""
    identity = call.identity
    message = AnswerMessage("assistant", call.text)
    return ChatCompletion(
        id=identity.id,
        created=int(identity.created_at.timestamp()),
        model=identity.model,
        choices=[Choice(0, message, None, FINISH_REASONS[finished.reason])],
        usage=completion_usage(finished.usage),
        system_fingerprint=identity.fingerprint,
    )


def failure_of(finished: Finished) -> tuple[int, ErrorAnswer]:
    """Status and body of an answer that has not come to its own end."""
    if finished.failure is not None:
        return 500, error_body(500, finished.failure.message, code=str(finished.failure.code))
    return 503, error_body(503, "the answer was ended by the server before it was done", code="interrupted")


class ChatChunks:
    """The chunks of one stream, as server-sent events."""

    def __init__(self, identity: CallIdentity, *, include_usage: bool) -> None:
        frame = {
            "id": identity.id,
            "object": "chat.completion.chunk",
            "created": int(identity.created_at.timestamp()),
            "model": identity.model,
            "system_fingerprint": identity.fingerprint,
        }
        # The encoded object without its closing brace, to be gone on with.
        self._frame = b"data: " + _encode(frame)[:-1]
        self._include_usage = include_usage
        usage = b',"usage":null' if include_usage else b""
        self._text_head = self._frame + b',"choices":[{"index":0,"delta":{"content":'
        self._text_tail = b'},"logprobs":null,"finish_reason":null}]' + usage + b"}\n\n"
        self._no_usage = usage + b"}\n\n"

    def opening(self) -> bytes:
        """The first chunk: who speaks."""
        return self._chunk({"role": "assistant", "content": "", "refusal": None}, None)

    def text(self, text: str) -> bytes:
        """More of the answer."""
        return self._text_head + _encode(text) + self._text_tail

    def ending(self, finished: Finished) -> bytes:
        """Everything behind the text: why it ended, what it cost where that was asked for, and that there is no more."""
        last = self._chunk({}, FINISH_REASONS[finished.reason])
        if self._include_usage:
            last += self._frame + b',"choices":[],"usage":' + _encode(completion_usage(finished.usage)) + b"}\n\n"
        return last + DONE

    def failure(self, answer: ErrorAnswer) -> bytes:
        """In the place of an ending."""
        return b"data: " + _encode(answer) + b"\n\n"

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return self._frame + b',"choices":' + _encode([choice]) + self._no_usage

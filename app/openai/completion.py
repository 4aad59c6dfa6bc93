"""What a chat completion looks like, whole and in chunks. Pure.

A chunk is put together from two halves that never change and one encoded text, because there is one for every token of every
stream.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from app.openai.call import Call, Said
from app.openai.errors import ErrorAnswer, error_body
from app.openai.logprobs import chat_logprobs
from app.openai.schemas import AnswerMessage, ChatCompletion, Choice, FunctionCallBody, ToolCallBody
from app.openai.usage_body import completion_usage
from engine.types import Finished, FinishReason, ToolCallDelta

DONE = b"data: [DONE]\n\n"

_encode = msgspec.json.encode


def whole_completion(call: Call, finished: Finished) -> ChatCompletion:
    """An answer that has come to its own end."""
    identity, text = call.identity, call.text
    calls = [ToolCallBody(each.id, FunctionCallBody(each.name, each.arguments)) for each in call.tool_calls]
    message = AnswerMessage("assistant", text if text or not calls else None, tool_calls=calls or UNSET)
    has_logprobs = call.request.sampling.top_logprobs is not None
    logprobs = chat_logprobs(call.logprobs) if has_logprobs else None
    return ChatCompletion(
        id=identity.id,
        created=int(identity.created_at.timestamp()),
        model=identity.model,
        choices=[Choice(0, message, logprobs, finish_reason(call, finished))],
        usage=completion_usage(finished.usage),
        system_fingerprint=identity.fingerprint,
    )


def finish_reason(call: Call, finished: Finished) -> str:
    """Why it ended, in OpenAI's words: calls of tools are an end of their own."""
    if finished.reason is FinishReason.STOP:
        return "tool_calls" if call.tool_calls else "stop"
    return "length"


def failure_of(finished: Finished) -> tuple[int, ErrorAnswer]:
    """Status and body of an answer that has not come to its own end."""
    if finished.failure is not None:
        return 500, error_body(500, finished.failure.message, code=str(finished.failure.code))
    return 503, error_body(503, "the answer was ended by the server before it was done", code="interrupted")


class ChatChunks:
    """The chunks of one stream, as server-sent events."""

    def __init__(self, call: Call, *, include_usage: bool) -> None:
        identity = call.identity
        frame = {
            "id": identity.id,
            "object": "chat.completion.chunk",
            "created": int(identity.created_at.timestamp()),
            "model": identity.model,
            "system_fingerprint": identity.fingerprint,
        }
        self._call = call
        self._has_logprobs = call.request.sampling.top_logprobs is not None
        self._include_usage = include_usage
        # The encoded object without its closing brace, to be gone on with.
        self._frame = b"data: " + _encode(frame)[:-1]
        self._no_usage = (b',"usage":null' if include_usage else b"") + b"}\n\n"
        self._text_head = self._frame + b',"choices":[{"index":0,"delta":{"content":'
        self._text_middle = b'},"logprobs":'
        self._text_tail = b',"finish_reason":null}]' + self._no_usage

    def opening(self) -> bytes:
        """The first chunk: who speaks."""
        return self._chunk({"role": "assistant", "content": "", "refusal": None}, None)

    def more(self, said: Said) -> bytes:
        """More of the answer."""
        chunks = b""
        if said.text or said.logprobs:
            logprobs = _encode(chat_logprobs(said.logprobs)) if self._has_logprobs else b"null"
            chunks = self._text_head + _encode(said.text) + self._text_middle + logprobs + self._text_tail
        if said.tool_calls:
            chunks += self._chunk({"tool_calls": list(map(_tool_call_delta, said.tool_calls))}, None)
        return chunks

    def ending(self, finished: Finished) -> bytes:
        """Everything behind the answer: why it ended, what it cost where that was asked for, and that there is no more."""
        last = self._chunk({}, finish_reason(self._call, finished))
        if self._include_usage:
            last += self._frame + b',"choices":[],"usage":' + _encode(completion_usage(finished.usage)) + b"}\n\n"
        return last + DONE

    def failure(self, answer: ErrorAnswer) -> bytes:
        """In the place of an ending."""
        return b"data: " + _encode(answer) + b"\n\n"

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return self._frame + b',"choices":' + _encode([choice]) + self._no_usage


def _tool_call_delta(delta: ToolCallDelta) -> dict[str, Any]:
    if delta.call_id is None:
        return {"index": delta.index, "function": {"arguments": delta.arguments}}
    function = {"name": delta.name, "arguments": delta.arguments}
    return {"index": delta.index, "id": delta.call_id, "type": "function", "function": function}

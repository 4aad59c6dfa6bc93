"""The typed events of one streamed response, as the official clients expect them. Pure.

    created  in_progress  output_item.added  content_part.added  output_text.delta …
    output_text.done  content_part.done  output_item.done  completed | incomplete | failed

Each has a `sequence_number`, from 0 without a gap. A delta is put together from halves that never change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from app.openai.call import Call, Said
from app.openai.errors import ErrorAnswer
from app.openai.logprobs import token_logprobs
from app.openai.response_object import FAILURE_CODE, message_id, output_message
from app.openai.response_schemas import OutputText, ResponseFailure, ResponseObject
from engine.types import Finished

_encode = msgspec.json.encode


class ResponseEvents:
    """Owns the count of events. `ended` gives the response as it has ended."""

    def __init__(self, call: Call, begun: ResponseObject, ended: Callable[[Call, Finished], ResponseObject]) -> None:
        self._call = call
        self._begun = begun
        self._ended = ended
        self._place: dict[str, Any] = {"item_id": message_id(begun.id), "output_index": 0, "content_index": 0}
        self._count = 0
        self._delta_head = (
            b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta",'
            + _encode(self._place)[1:-1]
            + b',"sequence_number":'
        )

    def opening(self) -> bytes:
        """Everything before the text."""
        empty = output_message(self._begun.id, "", "in_progress")
        return (
            self._event("response.created", response=self._begun)
            + self._event("response.in_progress", response=self._begun)
            + self._event("response.output_item.added", output_index=0, item=replace(empty, content=[]))
            + self._event("response.content_part.added", part=empty.content[0], **self._place)
        )

    def more(self, said: Said) -> bytes:
        """More of the answer."""
        logprobs = _encode(token_logprobs(said.logprobs)) if said.logprobs else b"[]"
        number = self._next()
        return self._delta_head + b'%d,"delta":' % number + _encode(said.text) + b',"logprobs":' + logprobs + b"}\n\n"

    def ending(self, finished: Finished) -> bytes:
        """Everything behind it."""
        response = self._ended(self._call, finished)
        text, logprobs = self._call.text, token_logprobs(self._call.logprobs)
        status = "completed" if response.status == "completed" else "incomplete"
        return (
            self._event("response.output_text.done", text=text, logprobs=logprobs, **self._place)
            + self._event("response.content_part.done", part=OutputText(text=text, logprobs=logprobs), **self._place)
            + self._event(
                "response.output_item.done", output_index=0, item=output_message(self._begun.id, text, status, logprobs)
            )
            + self._event(f"response.{response.status}", response=response)
        )

    def failure(self, answer: ErrorAnswer) -> bytes:
        """In the place of an ending."""
        failure = ResponseFailure(FAILURE_CODE, answer.error.message)
        return self._event("response.failed", response=replace(self._begun, status="failed", error=failure))

    def _event(self, kind: str, **data: Any) -> bytes:
        body = _encode({"type": kind, **data, "sequence_number": self._next()})
        return b"event: " + kind.encode() + b"\ndata: " + body + b"\n\n"

    def _next(self) -> int:
        self._count += 1
        return self._count - 1

"""The typed events of one streamed response, as the official clients expect them. Pure.

    created  in_progress
    output_item.added  content_part.added  output_text.delta …  output_text.done  content_part.done  output_item.done
    output_item.added  function_call_arguments.delta …  function_call_arguments.done  output_item.done    (for each call)
    completed | incomplete | failed

Each has a `sequence_number`, from 0 without a gap. A delta of text is put together from halves that never change.
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
from app.openai.response_tools import call_item
from engine.structure import ToolCall
from engine.types import Finished, ToolCallDelta

_encode = msgspec.json.encode


class ResponseEvents:
    """Owns the count of events, and which item of the answer is open. `ended` gives the response as it has ended."""

    def __init__(self, call: Call, begun: ResponseObject, ended: Callable[[Call, Finished], ResponseObject]) -> None:
        self._call = call
        self._begun = begun
        self._ended = ended
        self._place: dict[str, Any] = {"item_id": message_id(begun.id), "output_index": 0, "content_index": 0}
        self._count = 0
        self._has_message = False
        self._is_message_open = False
        self._open_call: int | None = None
        self._delta_head = (
            b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta",'
            + _encode(self._place)[1:-1]
            + b',"sequence_number":'
        )

    def opening(self) -> bytes:
        """Everything before the answer."""
        return self._event("response.created", response=self._begun) + self._event(
            "response.in_progress", response=self._begun
        )

    def more(self, said: Said) -> bytes:
        """More of the answer."""
        events = b""
        if said.text or (said.logprobs and self._is_message_open):
            if not self._has_message:
                events += self._begin_message()
            logprobs = _encode(token_logprobs(said.logprobs)) if said.logprobs else b"[]"
            number = self._next()
            events += self._delta_head + b'%d,"delta":' % number + _encode(said.text)
            events += b',"logprobs":' + logprobs + b"}\n\n"
        for delta in said.tool_calls:
            events += self._more_of_call(delta)
        return events

    def ending(self, finished: Finished) -> bytes:
        """Everything behind it."""
        response = self._ended(self._call, finished)
        status = "completed" if response.status == "completed" else "incomplete"
        return self._close(status) + self._event(f"response.{response.status}", response=response)

    def failure(self, answer: ErrorAnswer) -> bytes:
        """In the place of an ending."""
        failure = ResponseFailure(FAILURE_CODE, answer.error.message)
        return self._event("response.failed", response=replace(self._begun, status="failed", error=failure))

    def _begin_message(self) -> bytes:
        self._has_message = self._is_message_open = True
        empty = output_message(self._begun.id, "", "in_progress")
        return self._event("response.output_item.added", output_index=0, item=replace(empty, content=[])) + self._event(
            "response.content_part.added", part=empty.content[0], **self._place
        )

    def _more_of_call(self, delta: ToolCallDelta) -> bytes:
        events = b""
        if delta.call_id is not None:
            events += self._close("completed")
            self._open_call = delta.index
            begun = ToolCall(delta.call_id, delta.name or "", "")
            item = call_item(self._begun.id, delta.index, begun, "in_progress")
            events += self._event("response.output_item.added", output_index=self._output_index(delta.index), item=item)
        if delta.arguments:
            events += self._event(
                "response.function_call_arguments.delta", delta=delta.arguments, **self._place_of_call(delta.index)
            )
        return events

    def _close(self, status: str) -> bytes:
        """The item that is open, if one is: its last events."""
        if self._is_message_open:
            self._is_message_open = False
            text, logprobs = self._call.text, token_logprobs(self._call.logprobs)
            item = output_message(self._begun.id, text, status, logprobs)
            return (
                self._event("response.output_text.done", text=text, logprobs=logprobs, **self._place)
                + self._event(
                    "response.content_part.done", part=OutputText(text=text, logprobs=logprobs), **self._place
                )
                + self._event("response.output_item.done", output_index=0, item=item)
            )
        if (index := self._open_call) is None:
            return b""
        self._open_call = None
        call = self._call.tool_calls[index]
        place = self._place_of_call(index)
        return self._event(
            "response.function_call_arguments.done", name=call.name, arguments=call.arguments, **place
        ) + self._event(
            "response.output_item.done",
            output_index=place["output_index"],
            item=call_item(self._begun.id, index, call, status),
        )

    def _place_of_call(self, index: int) -> dict[str, Any]:
        item = call_item(self._begun.id, index, self._call.tool_calls[index], "")
        return {"item_id": item.id, "output_index": self._output_index(index)}

    def _output_index(self, call_index: int) -> int:
        return call_index + self._has_message

    def _event(self, kind: str, **data: Any) -> bytes:
        body = _encode({"type": kind, **data, "sequence_number": self._next()})
        return b"event: " + kind.encode() + b"\ndata: " + body + b"\n\n"

    def _next(self) -> int:
        self._count += 1
        return self._count - 1

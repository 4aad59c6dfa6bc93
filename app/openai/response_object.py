"""What a response looks like: when it begins, and when it has ended. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from app.openai.call import Call, CallIdentity
from app.openai.logprobs import TokenLogprobBody, token_logprobs
from app.openai.response_schemas import (
    OutputMessage,
    OutputText,
    ResponseCreate,
    ResponseFailure,
    ResponseObject,
    TextConfig,
)
from app.openai.response_tools import FunctionCallItem, call_items
from app.openai.usage_body import response_usage
from engine.types import Finished, FinishReason, SamplingParams

STATUS = {
    FinishReason.STOP: "completed",
    FinishReason.LENGTH: "incomplete",
    FinishReason.CANCELLED: "cancelled",
    FinishReason.FAILED: "failed",
}
FAILURE_CODE = "server_error"
"""The one of OpenAI's codes that says it was not the caller's fault."""


def begun_response(identity: CallIdentity, wanted: ResponseCreate, sampling: SamplingParams) -> ResponseObject:
    """Before the first word of the answer."""
    return ResponseObject(
        id=identity.id,
        created_at=int(identity.created_at.timestamp()),
        instructions=wanted.instructions,
        max_output_tokens=wanted.max_output_tokens,
        metadata=wanted.metadata or {},
        model=identity.model,
        parallel_tool_calls=wanted.parallel_tool_calls is not False,
        previous_response_id=wanted.previous_response_id,
        store=wanted.store is not False,
        temperature=sampling.temperature,
        text=wanted.text or TextConfig(),
        top_logprobs=sampling.top_logprobs or 0,
        tool_choice=wanted.tool_choice or "auto",
        tools=wanted.tools or [],
        top_p=sampling.top_p,
        truncation=wanted.truncation or "disabled",
        user=wanted.user,
    )


def output_message(
    response_id: str, text: str, status: str, logprobs: Sequence[TokenLogprobBody] = ()
) -> OutputMessage:
    """The one message of an answer; its id follows from the response's."""
    content = [OutputText(text=text, logprobs=list(logprobs))]
    return OutputMessage(id=message_id(response_id), status=status, content=content)


def message_id(response_id: str) -> str:
    """Of the one message that a response has."""
    return f"msg_{response_id.removeprefix('resp_')}"


def ended_response(begun: ResponseObject, call: Call, finished: Finished, ended_at: datetime) -> ResponseObject:
    """As it is answered, stored and shown from now on."""
    text, logprobs = call.text, token_logprobs(call.logprobs)
    status = STATUS[finished.reason]
    is_whole = finished.reason is FinishReason.STOP
    output: list[OutputMessage | FunctionCallItem] = []
    if text:
        said_all = is_whole or bool(call.tool_calls)
        output.append(output_message(begun.id, text, "completed" if said_all else "incomplete", logprobs))
    output += call_items(begun.id, call.tool_calls, is_whole=is_whole)
    failure = None
    if finished.failure is not None:
        failure = ResponseFailure(FAILURE_CODE, finished.failure.message)
    return replace(
        begun,
        status=status,
        completed_at=int(ended_at.timestamp()) if is_whole else None,
        error=failure,
        incomplete_details={"reason": "max_output_tokens"} if finished.reason is FinishReason.LENGTH else None,
        output=output,
        usage=response_usage(finished.usage),
    )

"""What the data of every frame to a client is, as types: `asyncapi.py` describes them, and the tests hold every frame that they
receive to them. The server makes its frames where they belong and not of these, which would cost every delta.

Pure: no I/O. A new type of `protocol.FrameType` needs a line in `SERVER_DATA`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from app.conversations.models import MessageStatus
from app.conversations.schemas import ConversationBody, MessageBody, PersonBody
from app.conversations.usage import UsageBody
from app.feedback.schemas import FeedbackBody
from app.realtime.protocol import FrameId, FrameType, ServerFrame
from app.responses.schemas import ResponseBody
from app.service.states import Cause, ConversationState


class Limits(Struct, forbid_unknown_fields=True, frozen=True):
    """What a socket may do."""

    frame_max_bytes: int
    message_max_bytes: int
    frames_per_second: float
    socket_idle_s: float
    subscriptions_max: int


class ReadyUser(Struct, forbid_unknown_fields=True, frozen=True):
    """Who the socket belongs to."""

    id: str
    username: str
    role: str


class SessionReady(Struct, forbid_unknown_fields=True, frozen=True):
    """The answer to `session.hello`; the tails of what is resumed follow."""

    protocol: int
    heartbeat_s: float
    limits: Limits
    user: ReadyUser


class MessageCreated(Struct, forbid_unknown_fields=True, frozen=True):
    """A message is stored, and its answer begins: the acknowledgement of `message.create` and `response.regenerate`, and news to
    whoever follows the conversation. Without a response the model is silent, or an agent has written."""

    message: MessageBody
    response: ResponseBody | None
    response_id: str | None
    client_message_id: str | None


class ResponseCreated(Struct, forbid_unknown_fields=True, frozen=True):
    """The first frame of an answer's log; `params` as they are used."""

    response_id: str
    message_id: str
    parent_id: str
    status: MessageStatus
    params: dict[str, Any]


class ResponseQueued(Struct, forbid_unknown_fields=True, frozen=True):
    """The answer waits; position 1 is the next. Again when it changes."""

    position: int


class ResponseInProgress(Struct, forbid_unknown_fields=True, frozen=True):
    """How much of the prompt is computed, in tokens, and how much of it did not have to be."""

    phase: Literal["prefill", "decode"]
    done: int
    total: int
    cached_tokens: int


class OutputTextDelta(Struct, forbid_unknown_fields=True, frozen=True):
    """The next piece of text; joined, the stored message."""

    text: str


class FailureData(Struct, frozen=True):
    """Why an answer failed. Some codes have numbers beside the sentence."""

    code: str
    message: str


class ResponseEnded(Struct, forbid_unknown_fields=True, frozen=True):
    """The terminal frame of an answer's log: nothing follows it."""

    usage: UsageBody
    finish_reason: str
    message_id: str
    status: MessageStatus
    error: FailureData | UnsetType = UNSET


class RunningResponse(Struct, forbid_unknown_fields=True, frozen=True):
    """An answer that has not ended; `last_seq` is its newest frame."""

    response_id: str
    message_id: str
    status: MessageStatus
    last_seq: int


class ConversationUpdated(Struct, forbid_unknown_fields=True, frozen=True):
    """How a conversation is now, with its running answers where that was asked for; or that it is gone, and why."""

    conversation: ConversationBody | UnsetType = UNSET
    responses: list[RunningResponse] | UnsetType = UNSET
    deleted: bool | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class StatusChanged(Struct, forbid_unknown_fields=True, frozen=True):
    """Who answers the conversation now, and since when; also the answer to `handoff.request`. `cause` says what led to it."""

    state: ConversationState
    agent: PersonBody | None
    state_since: datetime | None
    was: ConversationState | UnsetType = UNSET
    cause: Cause | UnsetType = UNSET


class TypingData(Struct, forbid_unknown_fields=True, frozen=True):
    """Somebody writes in the conversation: an agent, or whom it belongs to (null)."""

    author: PersonBody | None


class SessionExpiring(Struct, forbid_unknown_fields=True, frozen=True):
    """What is computed of a conversation is about to leave its tier, in seconds; from the last one it goes for good."""

    session_id: str
    state: str
    seconds_to_timeout: float
    is_last_tier: bool
    tokens: int


class SessionClosed(Struct, forbid_unknown_fields=True, frozen=True):
    """The last frame before the server closes the socket."""

    reason: str
    code: int


class ResyncRequired(Struct, forbid_unknown_fields=True, frozen=True):
    """The log cannot go on from there: the stored message is to be read instead."""

    response_id: str
    reason: str


class ErrorData(Struct, frozen=True):
    """A frame was refused; the socket lives. Some codes have members beside these, as the problem has over REST."""

    code: str
    message: str
    retry_after_s: int | UnsetType = UNSET


class Pong(Struct, forbid_unknown_fields=True, frozen=True):
    """The answer to `ping`."""


SERVER_DATA: dict[FrameType, type[Struct]] = {
    "session.ready": SessionReady,
    "message.created": MessageCreated,
    "response.created": ResponseCreated,
    "response.queued": ResponseQueued,
    "response.in_progress": ResponseInProgress,
    "response.output_text.delta": OutputTextDelta,
    "response.completed": ResponseEnded,
    "response.incomplete": ResponseEnded,
    "response.cancelled": ResponseEnded,
    "response.failed": ResponseEnded,
    "response.interrupted": ResponseEnded,
    "conversation.updated": ConversationUpdated,
    "conversation.status_changed": StatusChanged,
    "typing": TypingData,
    "feedback.created": FeedbackBody,
    "session.expiring": SessionExpiring,
    "session.closed": SessionClosed,
    "resync_required": ResyncRequired,
    "error": ErrorData,
    "pong": Pong,
}


def server_frame(kind: FrameType) -> type[Struct]:
    """The whole frame of one type: `ServerFrame` with this type and its data. Those of an answer's log are numbered."""
    named: list[Any] = (
        [("conversation_id", str), ("response_id", str), ("seq", int)]
        if kind.startswith("response.")
        else [(name, type_ | UnsetType, UNSET) for name, type_ in (("conversation_id", str), ("response_id", str))]
    )
    return msgspec.defstruct(
        "".join(part.title() for part in kind.replace("_", ".").split(".")) + "Frame",
        [("reply_to", FrameId | UnsetType, UNSET), *named, ("data", SERVER_DATA[kind])],
        module=ServerFrame.__module__,
        namespace={"__doc__": SERVER_DATA[kind].__doc__},
        tag_field="type",
        tag=kind,
        kw_only=True,
        frozen=True,
        forbid_unknown_fields=True,
    )

"""Every frame of the socket, as types: the one place where the wire is described. Pure: no I/O.

A client's frame is `{"type", "id"?, "data"}`; the `id` it gives comes back as `reply_to`. A server's frame is
`{"type", "reply_to"?, "conversation_id"?, "response_id"?, "seq"?, "data"}`. Frames with a `seq` belong to the log of a
response: 1, 2, 3 … without gap or repeat. A client ignores types and fields it does not know.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from app.text import STORABLE_PATTERN

PROTOCOL_VERSIONS = (1,)

Id = Annotated[str, Meta(min_length=1, max_length=64)]
ClientMessageId = Annotated[str, Meta(min_length=1, max_length=128, pattern=STORABLE_PATTERN)]
Reason = Annotated[str, Meta(min_length=1, max_length=500, pattern=STORABLE_PATTERN)]
FrameId = Annotated[str, Meta(max_length=128)] | Annotated[int, Meta(ge=-(2**53), le=2**53)]


class CloseCode(IntEnum):
    """Why the server closes a socket."""

    DRAINING = 1001
    PROTOCOL = 1002
    BINARY = 1003
    ORIGIN = 1008
    TOO_LARGE = 1009
    INTERNAL = 1011
    OVERLOADED = 1013
    UNAUTHENTICATED = 4001
    FORBIDDEN = 4003
    IDLE = 4008
    KICKED = 4009
    TOO_MANY_REQUESTS = 4029


class ResponseParams(Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True):
    """How one answer is sampled. What is left out follows the server's settings."""

    max_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Meta(gt=0, le=10)] | None = None
    presence_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    stop: Annotated[list[Annotated[str, Meta(min_length=1, max_length=256)]], Meta(max_length=16)] | None = None
    min_tokens: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    ignore_eos: bool | None = None


# --- client → server -------------------------------------------------------------------------------------------------


class ResumePoint(Struct, forbid_unknown_fields=True, frozen=True):
    """Where a client stopped reading: it has every frame of this response up to and including `last_seq`."""

    response_id: Id
    last_seq: Annotated[int, Meta(ge=0)]


class HelloData(Struct, frozen=True):
    protocol: int = PROTOCOL_VERSIONS[-1]
    resume: Annotated[list[ResumePoint], Meta(max_length=256)] = []


class MessageCreateData(Struct, forbid_unknown_fields=True, frozen=True):
    conversation_id: Id
    content: Annotated[str, Meta(min_length=1)]
    parent_id: Id | UnsetType | None = UNSET
    client_message_id: ClientMessageId | None = None
    params: ResponseParams = ResponseParams()


class RegenerateData(Struct, forbid_unknown_fields=True, frozen=True):
    parent_id: Id
    params: ResponseParams = ResponseParams()


class CancelData(Struct, forbid_unknown_fields=True, frozen=True):
    response_id: Id


class ConversationData(Struct, forbid_unknown_fields=True, frozen=True):
    conversation_id: Id


class HandoffRequestData(Struct, forbid_unknown_fields=True, frozen=True):
    conversation_id: Id
    reason: Reason | None = None


class FeedbackData(Struct, forbid_unknown_fields=True, frozen=True):
    message_id: Id
    rating: Annotated[int, Meta(ge=-1, le=5)]
    scale: Literal["thumbs", "stars"] = "thumbs"
    comment: Annotated[str, Meta(max_length=2000, pattern=STORABLE_PATTERN)] | None = None


class EmptyData(Struct, frozen=True):
    pass


class ClientFrame(Struct, tag_field="type", frozen=True, kw_only=True):
    id: FrameId | None = None


class Hello(ClientFrame, tag="session.hello", frozen=True, kw_only=True):
    """The first frame, once: what the client speaks, and which answers it goes on reading, from where."""

    data: HelloData = HelloData()


class MessageCreate(ClientFrame, tag="message.create", frozen=True, kw_only=True):
    """Say something in a conversation. The same `client_message_id` twice is one message; another `parent_id` makes a branch."""

    data: MessageCreateData


class Regenerate(ClientFrame, tag="response.regenerate", frozen=True, kw_only=True):
    """Make another answer to a message of the user."""

    data: RegenerateData


class Cancel(ClientFrame, tag="response.cancel", frozen=True, kw_only=True):
    """Stop an answer, which keeps what was shown. Harmless when it has ended."""

    data: CancelData


class Subscribe(ClientFrame, tag="conversation.subscribe", frozen=True, kw_only=True):
    """Follow a conversation: its running answers from their first frame, and whatever happens in it from now on."""

    data: ConversationData


class Unsubscribe(ClientFrame, tag="conversation.unsubscribe", frozen=True, kw_only=True):
    """Nothing more of that conversation."""

    data: ConversationData


class HandoffRequest(ClientFrame, tag="handoff.request", frozen=True, kw_only=True):
    """Ask for a person: the model is silent until one has come and gone. Asking twice changes nothing."""

    data: HandoffRequestData


class Typing(ClientFrame, tag="typing", frozen=True, kw_only=True):
    """Something is being written: whoever watches is shown it. Not answered; said again every few seconds while it is so."""

    data: ConversationData


class FeedbackCreate(ClientFrame, tag="feedback.create", frozen=True, kw_only=True):
    """Rate an answer: thumbs, 1 or -1, or with `scale` stars, 1 to 5. The last word counts."""

    data: FeedbackData


class Ping(ClientFrame, tag="ping", frozen=True, kw_only=True):
    """Show that the connection lives."""

    data: EmptyData = EmptyData()


AnyClientFrame = (
    Hello
    | MessageCreate
    | Regenerate
    | Cancel
    | Subscribe
    | Unsubscribe
    | HandoffRequest
    | Typing
    | FeedbackCreate
    | Ping
)


# --- server → client -------------------------------------------------------------------------------------------------

FrameType = Literal[
    "session.ready",
    "message.created",
    "response.created",
    "response.queued",
    "response.in_progress",
    "response.output_text.delta",
    "response.completed",
    "response.incomplete",
    "response.cancelled",
    "response.failed",
    "response.interrupted",
    "conversation.updated",
    "conversation.status_changed",
    "typing",
    "feedback.created",
    "session.expiring",
    "session.closed",
    "resync_required",
    "error",
    "pong",
]

TERMINAL_TYPES = frozenset(
    {"response.completed", "response.incomplete", "response.cancelled", "response.failed", "response.interrupted"}
)


class ServerFrame(Struct, frozen=True, kw_only=True):
    """One frame to a client. `seq` is there on the frames of a response's log only."""

    type: FrameType
    reply_to: FrameId | UnsetType = UNSET
    conversation_id: str | UnsetType = UNSET
    response_id: str | UnsetType = UNSET
    seq: int | UnsetType = UNSET
    data: dict[str, Any] = msgspec.field(default_factory=dict)

"""Bodies of the response routes; sockets show the same objects."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from app.conversations.models import MessageStatus
from app.conversations.schemas import MessageBody
from app.conversations.usage import UsageBody
from app.realtime.protocol import ClientMessageId, Id, ResponseParams
from app.responses.models import Response


class MessageCreate(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What somebody says. Without `parent_id` it follows the newest message; null begins the conversation anew."""

    content: Annotated[str, Meta(min_length=1)]
    parent_id: Annotated[
        Id | UnsetType | None, Meta(description="The answer this follows; another one makes a branch")
    ] = UNSET
    client_message_id: Annotated[
        ClientMessageId | None, Meta(description="Yours: sent twice within a conversation, it is one message")
    ] = None
    params: ResponseParams = ResponseParams()


class Regenerate(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Another answer to a message of the user."""

    parent_id: Id
    params: ResponseParams = ResponseParams()


class ResponseBody(msgspec.Struct, frozen=True):
    """One answer. `message_id` is the message it writes, `parent_id` the one it answers, `last_seq` its newest event."""

    id: str
    conversation_id: str
    message_id: str
    parent_id: str
    status: MessageStatus
    finish_reason: str | None
    error: dict[str, Any] | None
    params: dict[str, Any]
    usage: UsageBody | None
    last_seq: int
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None

    @classmethod
    def of(cls, response: Response, last_seq: int) -> ResponseBody:
        return cls(
            id=response.id,
            conversation_id=response.conversation_id,
            message_id=response.message_id,
            parent_id=response.parent_id,
            status=MessageStatus(response.status),
            finish_reason=response.finish_reason,
            error=response.error,
            params=response.params,
            usage=UsageBody.of(response.usage),
            last_seq=last_seq,
            created_at=response.created_at,
            started_at=response.started_at,
            ended_at=response.ended_at,
        )

    @classmethod
    def accepted(cls, response: Response) -> ResponseBody:
        """As it was when it was accepted: the same whenever it is asked for."""
        return cls(
            id=response.id,
            conversation_id=response.conversation_id,
            message_id=response.message_id,
            parent_id=response.parent_id,
            status=MessageStatus.QUEUED,
            finish_reason=None,
            error=None,
            params=response.params,
            usage=None,
            last_seq=0,
            created_at=response.created_at,
            started_at=None,
            ended_at=None,
        )


class Accepted(msgspec.Struct, frozen=True):
    """What was accepted: the new message, and the answer that is going to be made; null where the model is silent, because a
    person answers or is waited for. Regenerating makes no message of the user, so there `message` is the answer's own, still
    empty."""

    message: MessageBody
    response: ResponseBody | None

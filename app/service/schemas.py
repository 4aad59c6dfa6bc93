"""Bodies of the routes of customer service."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from app.conversations.schemas import ConversationBody, MessageBody
from app.service.models import CANNED_TITLE_MAX_CHARS, REASON_MAX_CHARS, CannedAnswer, StateChange
from app.service.queries import InboxRow
from app.service.states import Cause
from app.text import STORABLE_PATTERN

CONTENT_MAX_CHARS = 20_000

Reason = Annotated[str, Meta(min_length=1, max_length=REASON_MAX_CHARS, pattern=STORABLE_PATTERN)]


class InboxState(StrEnum):
    """What there is in the inbox: those who wait, those whom somebody answers."""

    QUEUED = "queued"
    HUMAN = "human"


class HandoffRequest(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Why a person is asked for; agents see it."""

    reason: Reason | None = None


class AgentMessage(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What an agent answers."""

    content: Annotated[str, Meta(min_length=1)]


class AskerBody(msgspec.Struct, frozen=True):
    """Whom a conversation belongs to."""

    id: str
    name: str


class InboxItem(msgspec.Struct, frozen=True):
    """One conversation as an agent sees it. `cause` and `reason` say what led to its state."""

    conversation: ConversationBody
    user: AskerBody
    cause: Cause | None
    reason: str | None

    @classmethod
    def of(cls, row: InboxRow, change: StateChange | None) -> InboxItem:
        return cls(
            ConversationBody.of(row.conversation),
            AskerBody(row.conversation.user_id, row.username),
            None if change is None else Cause(change.cause),
            None if change is None else change.reason,
        )


class InboxList(msgspec.Struct, frozen=True):
    """The one that has been in its state for longest first: who has waited longest is next."""

    items: list[InboxItem]
    next_cursor: str | None


class InboxCounters(msgspec.Struct, frozen=True):
    """`waiting` people wait for an agent, the first of them for `longest_wait_s`; `answered` have one, and `mine` the caller."""

    waiting: int
    longest_wait_s: float
    answered: int
    mine: int


class AgentAnswer(msgspec.Struct, frozen=True):
    """What an agent has written, and the conversation after it."""

    message: MessageBody
    conversation: ConversationBody


class InboxCursor(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The last item of a page: since when it is in its state, in microseconds since 1970, and its id."""

    since_us: Annotated[int, Meta(ge=0, le=253_402_300_799_999_999)]
    id: Annotated[str, Meta(max_length=36)]


Title = Annotated[str, Meta(min_length=1, max_length=CANNED_TITLE_MAX_CHARS, pattern=r"^[^\x00]*\S[^\x00]*$")]
Content = Annotated[str, Meta(min_length=1, max_length=CONTENT_MAX_CHARS, pattern=r"^[^\x00]*\S[^\x00]*$")]


class CannedCreate(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A text that agents answer with again and again, and what they know it by."""

    title: Title
    content: Content


class CannedPatch(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What is left out stays as it is."""

    title: Title | UnsetType = UNSET
    content: Content | UnsetType = UNSET


class CannedBody(msgspec.Struct, frozen=True):
    id: str
    title: str
    content: str
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, canned: CannedAnswer) -> CannedBody:
        return cls(canned.id, canned.title, canned.content, canned.created_at, canned.updated_at)


class CannedList(msgspec.Struct, frozen=True):
    items: list[CannedBody]
    next_cursor: str | None


class CannedCursor(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The last item of a page: when it was made, in microseconds since 1970, and its id."""

    created_us: Annotated[int, Meta(ge=0, le=253_402_300_799_999_999)]
    id: Annotated[str, Meta(max_length=36)]

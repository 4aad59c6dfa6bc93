"""Bodies of the conversation routes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from app.conversations.listing import FoundText
from app.conversations.live import LiveAnswers
from app.conversations.models import Conversation, Message, MessageStatus
from app.conversations.snippets import snippet
from app.conversations.usage import UsageBody
from app.errors import InvalidInput
from app.feedback.lookup import Rated
from app.personas.schemas import PersonaName
from app.service.states import ConversationState
from app.text import STORABLE_PATTERN, require_storable_json
from engine.types import Role

TITLE_MAX_CHARS = 200
METADATA_MAX_BYTES = 16 * 1024
METADATA_MAX_DEPTH = 16

GoneReason = Literal["deleted", "expired", "retention"]
"""Why a conversation is gone: somebody deleted it, it was temporary, or it is older than is kept."""

Title = Annotated[str, Meta(min_length=1, max_length=TITLE_MAX_CHARS, pattern=STORABLE_PATTERN)]
Tag = Annotated[str, Meta(min_length=1, max_length=64, pattern=STORABLE_PATTERN)]
Tags = Annotated[list[Tag], Meta(max_length=32)]
Metadata = Annotated[dict[str, Any], Meta(description="Yours: up to 16 KiB of JSON, nested up to 16 times")]
ExternalId = Annotated[str, Meta(min_length=1, max_length=255, pattern=STORABLE_PATTERN)]


class ConversationCreate(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Without a title the conversation gets one from its first message."""

    title: Title | None = None
    tags: Tags = []
    metadata: Metadata = {}
    external_id: ExternalId | None = None
    persona: Annotated[PersonaName | None, Meta(description="Whose system prompt every answer begins with")] = None
    temporary: Annotated[
        bool, Meta(description="In no list and not found by a search, and gone at `expires_at` unless it is kept")
    ] = False

    def __post_init__(self) -> None:
        require_metadata(self.metadata)


class ConversationPatch(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What is left out stays as it is. `tags` and `metadata` are replaced as a whole."""

    title: Title | UnsetType = UNSET
    archived: bool | UnsetType = UNSET
    tags: Tags | UnsetType = UNSET
    metadata: Metadata | UnsetType = UNSET
    external_id: ExternalId | UnsetType | None = UNSET
    temporary: Annotated[
        bool | UnsetType,
        Meta(description="False keeps a temporary conversation, true gives one a lifetime from now on"),
    ] = UNSET

    def __post_init__(self) -> None:
        if self.metadata is not UNSET:
            require_metadata(self.metadata)


class PersonBody(msgspec.Struct, frozen=True):
    """An agent, as others see one. `id` is null where the account is gone, or is one of another server."""

    id: str | None
    name: str

    @classmethod
    def of(cls, person_id: str | None, name: str | None) -> PersonBody | None:
        return None if name is None else cls(person_id, name)


class ConversationBody(msgspec.Struct, frozen=True):
    """`state` says who answers, since `state_since`: the model (`bot`), nobody while a person is waited for (`queued`), the
    person `agent` (`human`), or nobody until somebody writes again (`resolved`). `leaf_id` is the newest message. `version` is
    also the ETag, and rises with every change of the fields that one can set. `persona` stays what it was, and says what it said
    then, also when it was changed or deleted. `temporary` ones are gone at `expires_at`."""

    id: str
    title: str
    state: ConversationState
    state_since: datetime | None
    agent: PersonBody | None
    archived: bool
    tags: list[str]
    metadata: dict[str, Any]
    external_id: str | None
    persona: str | None
    leaf_id: str | None
    version: int
    created_at: datetime
    updated_at: datetime
    temporary: bool
    expires_at: datetime | None

    @classmethod
    def of(cls, conversation: Conversation) -> ConversationBody:
        return cls(
            id=conversation.id,
            title=conversation.title,
            state=ConversationState(conversation.state),
            state_since=conversation.state_since,
            agent=PersonBody.of(conversation.agent_id, conversation.agent_name),
            archived=conversation.archived,
            tags=conversation.tags,
            metadata=conversation.extra,
            external_id=conversation.external_id,
            persona=conversation.persona,
            leaf_id=conversation.leaf_id,
            version=conversation.version,
            created_at=conversation.created_at,
            updated_at=conversation.updated_at,
            temporary=conversation.expires_at is not None,
            expires_at=conversation.expires_at,
        )


class SnippetPart(msgspec.Struct, frozen=True):
    """Plain text, to be shown as it is; `marked` parts are what was searched for."""

    text: str
    marked: bool


class SearchHit(msgspec.Struct, frozen=True):
    """The newest message in which everything was found; null for both where that is the title."""

    message_id: str | None
    role: Role | None
    snippet: list[SnippetPart]


class ListedConversation(ConversationBody, frozen=True):
    """`hit` is there in answers to a search only."""

    hit: SearchHit | UnsetType = UNSET


def search_hit(found: FoundText, words: Sequence[str]) -> SearchHit:
    """What was found, as it is shown."""
    parts = [SnippetPart(part.text, part.is_marked) for part in snippet(found.text, words)]
    return SearchHit(found.message_id, found.role, parts)


def listed(conversation: Conversation, hit: SearchHit | None) -> ListedConversation:
    """A conversation in a list."""
    fields = msgspec.structs.asdict(ConversationBody.of(conversation))
    return ListedConversation(**fields, hit=UNSET if hit is None else hit)


class ConversationList(msgspec.Struct, frozen=True):
    items: list[ListedConversation]
    next_cursor: str | None


class MessageBody(msgspec.Struct, frozen=True):
    """One message. `author` is the agent who wrote it in the model's place, null for everything else; `feedback` is what its
    person thinks of it. While its answer is being made, `content` holds the text up to the event `last_seq` of the response."""

    id: str
    parent_id: str | None
    role: Role
    content: str
    status: MessageStatus
    usage: UsageBody | None
    created_at: datetime
    children: list[str]
    response_id: str | None
    last_seq: int
    author: PersonBody | None
    feedback: Rated | None

    @classmethod
    def of(cls, message: Message, children: list[str], live: LiveAnswers, feedback: Rated | None = None) -> MessageBody:
        status = MessageStatus(message.status)
        content, last_seq = message.content, message.last_seq
        if message.response_id is not None and not status.is_final:
            content, last_seq, status = live.snapshot(message.response_id) or (content, last_seq, status)
        return cls(
            id=message.id,
            parent_id=message.parent_id,
            role=Role(message.role),
            content=content,
            status=status,
            usage=UsageBody.of(message.usage),
            created_at=message.created_at,
            children=children,
            response_id=message.response_id,
            last_seq=last_seq,
            author=PersonBody.of(message.author_id, message.author_name),
            feedback=feedback,
        )


class MessageList(msgspec.Struct, frozen=True):
    """A page of the path to a leaf, the newest message first.

    `children` of an item are the messages that follow it, in the order in which they came: more than one where the
    conversation branches. `roots` are, in the same way, the messages without a parent.
    """

    items: list[MessageBody]
    next_cursor: str | None
    roots: list[str]


class ExportFormat(StrEnum):
    JSON = "json"
    NDJSON = "ndjson"
    MARKDOWN = "markdown"


class ConversationCursor(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The last item of a page of conversations: when it was updated, in microseconds since 1970, and its id."""

    updated_us: Annotated[int, Meta(ge=0, le=253_402_300_799_999_999)]
    id: Annotated[str, Meta(max_length=36)]


class MessageCursor(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The message a page of a path begins with."""

    message_id: Annotated[str, Meta(max_length=36)]


def require_metadata(metadata: dict[str, Any]) -> None:
    """Raises InvalidInput for metadata that cannot be stored or is too much."""
    require_storable_json(metadata, "metadata", max_depth=METADATA_MAX_DEPTH)
    if (size := len(msgspec.json.encode(metadata))) > METADATA_MAX_BYTES:
        raise InvalidInput(f"metadata has {size} bytes of JSON; the limit is {METADATA_MAX_BYTES}")

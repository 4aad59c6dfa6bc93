"""What people do with their conversations. Called by routes; `app.responses` adds messages through `tree` instead.

Every method reads what belongs to the caller only; what does not is NotFound, whatever it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec import UNSET
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm.attributes import flag_modified

from app.clock import Now
from app.conversations import listing, queries, tree
from app.conversations.export import ConversationExport
from app.conversations.external_ids import free_until_written, require_free
from app.conversations.listing import Narrowing
from app.conversations.live import LiveAnswers
from app.conversations.models import Conversation, TitleSource
from app.conversations.schemas import (
    ConversationBody,
    ConversationCreate,
    ConversationCursor,
    ConversationList,
    ConversationPatch,
    ExportFormat,
    GoneReason,
    MessageBody,
    MessageCursor,
    MessageList,
    listed,
    search_hit,
)
from app.conversations.search_index import index_texts, index_title
from app.conversations.tags import write_tags
from app.database import Database
from app.errors import InvalidInput, PreconditionFailed
from app.feedback.lookup import ratings_of
from app.idempotency import Idempotency, IdempotentRequest
from app.identifiers import ConversationId, UserId, is_id, new_id
from app.pagination import decode_cursor, encode_cursor, invalid_cursor
from app.personas.lookup import current_version_id
from app.service.states import ConversationState
from app.text import require_storable
from app.webhooks.event_types import EventType
from app.webhooks.outbox import record_event

UpdatedListener = Callable[[ConversationBody], None]
DeletedListener = Callable[[ConversationId, GoneReason], None]
"""Called on the loop right after the change is durable. They must not block and must not raise."""

AfterDeletion = Callable[[UserId, ConversationId], Awaitable[None]]
"""Awaited after those, before whoever deleted it is answered. It must not raise, and not take long."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ConversationService:
    """Owns conversations as things of their owner. Does not own how answers are made."""

    def __init__(
        self,
        database: Database,
        idempotency: Idempotency,
        live: LiveAnswers,
        *,
        temporary_lifetime: timedelta,
        now: Now,
    ) -> None:
        self._database = database
        self._idempotency = idempotency
        self._live = live
        self._temporary_lifetime = temporary_lifetime
        self._now = now
        self._updated_listeners: list[UpdatedListener] = []
        self._deleted_listeners: list[DeletedListener] = []
        self._after_deletion: list[AfterDeletion] = []

    def on_updated(self, listener: UpdatedListener) -> None:
        """Tell `listener` of every conversation whose fields were changed."""
        self._updated_listeners.append(listener)

    def on_deleted(self, listener: DeletedListener) -> None:
        """Tell `listener` of every conversation that is gone, so that its answers are stopped and its watchers told."""
        self._deleted_listeners.append(listener)

    def after_deletion(self, forget: AfterDeletion) -> None:
        """Have everything else that is kept of a deleted conversation forgotten too."""
        self._after_deletion.append(forget)

    async def create(
        self, user_id: UserId, wanted: ConversationCreate, request: IdempotentRequest | None
    ) -> tuple[ConversationBody, bool]:
        """A new conversation, and whether it had been made before under the same key.

        Raises InvalidInput for a persona that does not exist, Conflict for an external_id that another conversation has.
        """
        title = None if wanted.title is None else _title(wanted.title)
        async with self._database.write() as session:
            if (kept := await self._idempotency.claim(session, request)) is not None:
                return msgspec.json.decode(kept.body, type=ConversationBody), True
            version_id = None if wanted.persona is None else await current_version_id(session, wanted.persona)
            await require_free(session, user_id, wanted.external_id)
            now = self._now()
            conversation = Conversation(
                id=new_id(),
                user_id=user_id,
                title=title or "",
                title_source=TitleSource.PERSON if title else TitleSource.MESSAGE,
                state=ConversationState.BOT,
                archived=False,
                tags=_distinct(wanted.tags),
                extra=wanted.metadata,
                external_id=wanted.external_id,
                persona=wanted.persona,
                persona_version_id=version_id,
                leaf_id=None,
                last_ordinal=0,
                version=1,
                created_at=now,
                updated_at=now,
                expires_at=now + self._temporary_lifetime if wanted.temporary else None,
            )
            with free_until_written():
                session.add(conversation)
                await session.flush()
            await index_texts(session, user_id, conversation.id, [(None, conversation.title)])
            await write_tags(session, conversation)
            await record_event(session, EventType.CONVERSATION_CREATED, conversation, {}, now=now)
            body = ConversationBody.of(conversation)
            await self._idempotency.keep(session, request, 201, msgspec.json.encode(body), conversation.id)
        return body, False

    async def page(self, user_id: UserId, narrowing: Narrowing, *, limit: int, cursor: str | None) -> ConversationList:
        """A page of the caller's conversations, the newest first; where words are searched, with what was found."""
        before = None
        if cursor is not None:
            place = decode_cursor(cursor, ConversationCursor)
            before = (EPOCH + timedelta(microseconds=place.updated_us), require_storable(place.id, "cursor"))
        for name in ("tag", "external_id"):
            if (text := getattr(narrowing, name)) is not None:
                require_storable(text, name)
        async with self._database.read() as session:
            found = await listing.conversations_page(session, user_id, narrowing, limit=limit + 1, before=before)
            texts = await listing.found_texts(session, found[:limit], narrowing.words) if narrowing.words else {}
        hits = {key: search_hit(text, narrowing.words or ()) for key, text in texts.items()}
        next_cursor = None
        if len(found) > limit:
            last = found[limit - 1]
            next_cursor = encode_cursor(
                ConversationCursor((last.updated_at - EPOCH) // timedelta(microseconds=1), last.id)
            )
        return ConversationList([listed(row, hits.get(row.id)) for row in found[:limit]], next_cursor)

    async def get(self, user_id: UserId, conversation_id: str) -> ConversationBody:
        """One conversation. Raises NotFound."""
        async with self._database.read() as session:
            return ConversationBody.of(await tree.owned_conversation(session, user_id, conversation_id))

    async def update(
        self, user_id: UserId, conversation_id: str, patch: ConversationPatch, if_match: str | None
    ) -> ConversationBody:
        """Change fields. Raises NotFound, PreconditionFailed when `if_match` is about another version, or Conflict when another
        conversation has the external_id."""
        changes = {field: value for field, value in msgspec.structs.asdict(patch).items() if value is not UNSET}
        if patch.title is not UNSET:
            # Also where it is the same: somebody has chosen it now.
            changes |= {"title": _title(patch.title), "title_source": TitleSource.PERSON}
        if patch.tags is not UNSET:
            changes["tags"] = _distinct(patch.tags)
        if patch.metadata is not UNSET:
            changes["extra"] = changes.pop("metadata")
        async with self._database.write() as session:
            conversation = await tree.owned_conversation(session, user_id, conversation_id, for_update=True)
            _require_version(if_match, conversation.version)
            if (is_temporary := changes.pop("temporary", None)) is not None:
                changes |= self._expiry(conversation, is_temporary)
            if changes.get("external_id", conversation.external_id) != conversation.external_id:
                await require_free(session, user_id, changes["external_id"])
            # As JSON, because for Python 1, 1.0 and true are one and the same.
            changed = any(_json(getattr(conversation, field)) != _json(value) for field, value in changes.items())
            if changed:
                for field, value in changes.items():
                    setattr(conversation, field, value)
                    flag_modified(conversation, field)
                conversation.version += 1
                conversation.updated_at = self._now()
                with free_until_written():
                    await session.flush()
                if "title" in changes:
                    await index_title(session, conversation)
                if "tags" in changes:
                    await write_tags(session, conversation)
            body = ConversationBody.of(conversation)
        if changed:
            self.updated(body)
        return body

    def updated(self, body: ConversationBody) -> None:
        """Its fields have changed, durably: tell everybody."""
        for listener in self._updated_listeners:
            listener(body)

    def _expiry(self, conversation: Conversation, is_temporary: bool) -> dict[str, Any]:
        """What has to change for a conversation to be temporary or not."""
        if is_temporary == (conversation.expires_at is not None):
            return {}
        return {"expires_at": self._now() + self._temporary_lifetime if is_temporary else None}

    async def delete(self, user_id: UserId, conversation_id: str) -> None:
        """Remove a conversation with everything in it. Raises NotFound."""
        async with self._database.write() as session:
            conversation = await tree.owned_conversation(session, user_id, conversation_id, for_update=True)
            await self.remove(session, conversation)
        await self.gone(user_id, ConversationId(conversation_id), "deleted")

    async def ids_of(self, user_id: UserId, limit: int) -> list[ConversationId]:
        """Conversations of a person, archived and temporary ones too. For the server itself, and for nobody's eyes."""
        async with self._database.read() as session:
            return [ConversationId(found) for found in await queries.conversation_ids(session, user_id, limit)]

    async def remove(self, session: AsyncSession, conversation: Conversation) -> None:
        """Delete every row of a conversation, in the caller's unit of work, which calls `gone` after its end."""
        await self._idempotency.forget_conversation(session, conversation.id)
        await queries.delete_conversation(session, conversation)

    async def gone(self, user_id: UserId, conversation_id: ConversationId, reason: GoneReason) -> None:
        """Its rows are gone for good: tell everybody, and have the rest of it forgotten."""
        for listener in self._deleted_listeners:
            listener(conversation_id, reason)
        for forget in self._after_deletion:
            await forget(user_id, conversation_id)

    async def existing(self, conversation_ids: Collection[str]) -> set[tuple[str, str]]:
        """Those of these conversations that are stored, each behind its owner. For the server itself, and for nobody's eyes."""
        async with self._database.read() as session:
            return await queries.existing_conversations(session, conversation_ids)

    async def messages(
        self, user_id: UserId, conversation_id: str, *, leaf_id: str | None, limit: int, cursor: str | None
    ) -> MessageList:
        """A page of the path to a leaf, the newest message first. `leaf_id` may be any message: then the path goes on from
        it to the newest leaf below. Raises NotFound."""
        place = None if cursor is None else decode_cursor(cursor, MessageCursor)
        async with self._database.read() as session:
            conversation = await tree.owned_conversation(session, user_id, conversation_id)
            start_id = conversation.leaf_id
            if leaf_id is not None:
                message = await tree.find_message(session, conversation.id, leaf_id)
                start_id = await tree.newest_leaf_below(session, message)
            if place is not None:
                start_id = place.message_id if is_id(place.message_id) else None
            found = [] if start_id is None else await tree.path_page(session, conversation.id, start_id, limit)
            if place is not None and not found:
                raise invalid_cursor()
            children = await tree.children_of(session, conversation.id, [message.id for message in found])
            roots = await tree.roots_of(session, conversation.id)
            ratings = await ratings_of(session, conversation.user_id, [message.id for message in found])
        parent_id = found[-1].parent_id if found else None
        return MessageList(
            [MessageBody.of(message, children[message.id], self._live, ratings.get(message.id)) for message in found],
            None if parent_id is None else encode_cursor(MessageCursor(parent_id)),
            roots,
        )

    async def export(self, user_id: UserId, conversation_id: str, export_format: ExportFormat) -> ConversationExport:
        """A file of the whole tree, ready to be written. Raises NotFound."""
        async with self._database.read() as session:
            conversation = await tree.owned_conversation(session, user_id, conversation_id)
        return ConversationExport(self._database, self._live, conversation, export_format)


def etag(version: int) -> str:
    """The version as the header shows it."""
    return f'"{version}"'


def _require_version(if_match: str | None, version: int) -> None:
    if if_match is None:
        return
    wanted = {text.strip() for text in if_match.split(",")}
    if not wanted & {"*", etag(version)}:
        raise PreconditionFailed(
            f"If-Match is {if_match[:80]}, but the conversation is at version {version}",
            headers={"ETag": etag(version)},
            members={"current_version": version},
        )


def _title(text: str) -> str:
    title = " ".join(text.split())
    if not title:
        raise InvalidInput("a title has at least one character that can be seen")
    return title


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value)


def _distinct(tags: list[str]) -> list[str]:
    return list(dict.fromkeys(tags))

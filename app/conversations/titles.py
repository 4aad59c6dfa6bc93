"""Titles by the model: after the first answer, behind everybody who waits, a conversation that nobody has named gets a short one.

Told of every answer that has ended; runs as a task of the context, one title at a time. It must never be in the way: it is
background work for the engine, in nobody's name and without a session, so that nothing of it is kept or found again; and what
does not work out is left, because the beginning of the first message stands there already. A title that a person has given is
never touched, also when it comes while the model thinks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog
from sqlalchemy import select

from app.conversations.models import Conversation, Message, MessageStatus, TitleSource
from app.conversations.schemas import ConversationBody
from app.conversations.search_index import index_title
from app.conversations.service import ConversationService
from app.conversations.tree import title_of
from app.conversations.words import words_of
from app.database import Database
from engine.errors import EngineNotReady, PromptTooLong, QueueFull, TemplateRefused
from engine.types import GenerationRequest, Priority, RequestId, Role, SamplingParams, Turn

logger = structlog.stdlib.get_logger(__name__)

MakeText = Callable[[GenerationRequest], Awaitable[str | None]]
"""Asks the model: `SideRequests.text`."""

WAITING_MAX = 100
"""Conversations that may wait for a title; when more come, those keep the one they have until their next answer."""

EXCERPT_CHARS = 600
"""Of the question and of the answer; what a conversation is about is said at its beginning."""

SAMPLING = SamplingParams(max_tokens=24, temperature=0.0, stop=("\n",))

INSTRUCTION = (
    "Write a title for the conversation below: at most six words, in the language of the conversation, without quotes. "
    "Answer with the title alone."
)

QUOTES = "\"'“”„‘’«»「」『』*#_` "


class Titles:
    """Owns which conversations wait for a title."""

    def __init__(self, database: Database, conversations: ConversationService, make_text: MakeText) -> None:
        self._database = database
        self._conversations = conversations
        self._make_text = make_text
        self._waiting: dict[str, None] = {}
        self._arrived = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def answer_ended(self, conversation_id: str) -> None:
        """An answer has been made whole in this conversation."""
        if len(self._waiting) < WAITING_MAX:
            self._waiting[conversation_id] = None
            self._arrived.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                conversation_id = next(iter(self._waiting))
                try:
                    await self._make_title(conversation_id)
                except (EngineNotReady, QueueFull, PromptTooLong, TemplateRefused) as problem:
                    logger.info("no_title_made", conversation_id=conversation_id, reason=type(problem).__name__)
                except Exception:
                    logger.exception("no_title_made", conversation_id=conversation_id)
                finally:
                    self._waiting.pop(conversation_id, None)

    async def _make_title(self, conversation_id: str) -> None:
        if (request := await self._request(conversation_id)) is None:
            return
        text = await self._make_text(request)
        if text is not None:
            await self._store(conversation_id, cleaned_title(text))

    async def _request(self, conversation_id: str) -> GenerationRequest | None:
        """What the model is asked; None for a conversation that has a name, is temporary, or is gone."""
        unnamed = select(Conversation.id).where(
            Conversation.id == conversation_id,
            Conversation.title_source == TitleSource.MESSAGE,
            Conversation.expires_at.is_(None),
        )
        first = (
            select(Message.role, Message.content)
            .where(Message.conversation_id.in_(unnamed), Message.status == MessageStatus.COMPLETED)
            .order_by(Message.ordinal)
            .limit(2)
        )
        async with self._database.read() as session:
            said = (await session.execute(first)).all()
        if not said:
            return None
        lines = [f"{'Question' if role == Role.USER else 'Answer'}: {text[:EXCERPT_CHARS]}" for role, text in said]
        turn = Turn(Role.USER, "\n\n".join([INSTRUCTION, *lines]))
        return GenerationRequest(RequestId(""), (turn,), SAMPLING, priority=Priority.BACKGROUND)

    async def _store(self, conversation_id: str, title: str) -> None:
        """Take it, unless somebody has named the conversation meanwhile. One that says nothing is not asked for again."""
        unnamed = select(Conversation).where(
            Conversation.id == conversation_id, Conversation.title_source == TitleSource.MESSAGE
        )
        async with self._database.write() as session:
            if (conversation := await session.scalar(unnamed.with_for_update())) is None:
                return
            conversation.title_source = TitleSource.MODEL
            if title:
                # Neither a new version nor a new place in the list: nobody has changed anything.
                conversation.title = title
                await session.flush()
                await index_title(session, conversation)
            body = ConversationBody.of(conversation)
        if title:
            self._conversations.updated(body)


def cleaned_title(text: str) -> str:
    """What a model says as a title may be shown; empty where it says nothing."""
    line = title_of(text.replace("\x00", " "))
    label, colon, rest = line.partition(":")
    if colon and label.strip(QUOTES).casefold() in ("title", "titel", "titre", "título", "标题"):
        line = rest
    title = line.strip(QUOTES).removesuffix(".").strip(QUOTES)
    return title if words_of(title) else ""

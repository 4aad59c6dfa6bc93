"""Titles by the model: after the first answer, behind everybody who waits, a conversation that nobody has named gets a short one.

Told of every answer that has ended; runs as a task of the context, one title at a time. It must never be in the way: it is
background work for the engine, in nobody's name and without a session, so that nothing of it is kept or found again; and what
does not work out is left, because the beginning of the first message stands there already. A title that a person has given is
never touched, also when it comes while the model thinks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec
import structlog
from sqlalchemy import select

from app.clock import Now
from app.conversations.models import Conversation, Message, MessageStatus, TitleSource
from app.conversations.schemas import ConversationBody
from app.conversations.search_index import index_title
from app.conversations.service import ConversationService
from app.conversations.tree import title_of
from app.conversations.words import words_of
from app.database import Database
from app.identifiers import new_id
from app.usage.ledger import record_answer
from app.usage.limits import Spender
from app.usage.models import Purpose
from engine.errors import EngineNotReady, PromptTooLong, QueueFull, TemplateRefused
from engine.types import GenerationRequest, Priority, RequestId, Role, SamplingParams, Turn, Usage

logger = structlog.stdlib.get_logger(__name__)


class Made(Protocol):
    """What the model has said, None when it was not able to, and what that has cost."""

    @property
    def text(self) -> str | None: ...

    @property
    def usage(self) -> Usage: ...


MakeText = Callable[[GenerationRequest], Awaitable[Made]]
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

    def __init__(
        self,
        database: Database,
        conversations: ConversationService,
        make_text: MakeText,
        model_name: Callable[[], str | None],
        *,
        now: Now,
    ) -> None:
        self._database = database
        self._conversations = conversations
        self._make_text = make_text
        self._model_name = model_name
        self._now = now
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
        made = await self._make_text(request)
        await self._record(conversation_id, made)
        if made.text is not None:
            await self._store(conversation_id, cleaned_title(made.text))

    async def _record(self, conversation_id: str, made: Made) -> None:
        """On its owner's account, under a purpose of its own. A conversation that is gone meanwhile has none any more."""
        async with self._database.write() as session:
            owner = select(Conversation.user_id).where(Conversation.id == conversation_id)
            if (user_id := await session.scalar(owner)) is None:
                return
            await record_answer(
                session,
                Spender(user_id),
                response_id=new_id(),
                model=self._model_name(),
                status=MessageStatus.FAILED if made.text is None else MessageStatus.COMPLETED,
                usage=msgspec.to_builtins(made.usage),
                ended_at=self._now(),
                purpose=Purpose.TITLE,
            )

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

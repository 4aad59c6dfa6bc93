"""What people and agents do with who answers: asking for a person, taking over, answering, giving back.

Called by routes and sockets. Each act holds the conversation's row, so of two agents who take it at once one gets it; where the
model falls silent, its answers are told to stop in the same unit of work that says so.
"""

from __future__ import annotations

import msgspec
from sqlalchemy.ext.asyncio import AsyncSession

from app.accounts.identity import Identity
from app.accounts.rights import Right
from app.audit.service import AuditLog
from app.clock import Now
from app.conversations import tree
from app.conversations.live import LiveAnswers
from app.conversations.models import Conversation, MessageStatus
from app.conversations.schemas import ConversationBody, MessageBody
from app.database import Database
from app.errors import NotFound
from app.idempotency import Idempotency, IdempotentRequest
from app.realtime.hub import Subscriber
from app.responses.opening import Responses
from app.service import queries
from app.service.announcing import ServiceNews
from app.service.changes import Changed, move, require_agent
from app.service.schemas import AgentAnswer
from app.service.states import Cause, ConversationState, Move
from app.webhooks.event_types import EventType
from app.webhooks.outbox import record_event
from engine.types import Role

SILENT = (ConversationState.HUMAN, ConversationState.RESOLVED)
"""Where no answer of the model goes on that had begun before."""


class ServiceDesk:
    """Owns nothing but the rules of who may do what: the person whom a conversation belongs to, and agents."""

    def __init__(
        self,
        database: Database,
        idempotency: Idempotency,
        audit: AuditLog,
        responses: Responses,
        live: LiveAnswers,
        news: ServiceNews,
        *,
        now: Now,
    ) -> None:
        self._database = database
        self._idempotency = idempotency
        self._audit = audit
        self._responses = responses
        self._live = live
        self._news = news
        self._now = now

    # --- the person --------------------------------------------------------------------------------------------------

    async def request_person(self, caller: Identity, conversation_id: str, reason: str | None) -> ConversationBody:
        """Have a person asked for; where an agent does it who has the conversation, another one. Raises NotFound or Conflict."""
        async with self._database.read() as session:
            is_owner = await tree.owns(session, caller.user_id, conversation_id)
        if is_owner:
            return await self._own(caller, conversation_id, Move.REQUEST, reason)
        if not caller.may(Right.ANSWER_PEOPLE):
            raise NotFound("there is no such conversation")
        return await self._act(caller, conversation_id, Move.RELEASE, reason)

    async def withdraw(self, caller: Identity, conversation_id: str) -> ConversationBody:
        """Wait for a person no longer. Raises NotFound, or Conflict where one has come already."""
        return await self._own(caller, conversation_id, Move.WITHDRAW, None)

    def person_types(self, conversation_id: str, *, beside: Subscriber) -> None:
        """Whom the conversation belongs to, which the caller has made sure of, writes something."""
        self._news.person_types(conversation_id, beside)

    async def engine_failed(self, conversation_id: str, reason: str) -> None:
        """An answer has failed: a person is asked for, where the model would answer still. For the server itself."""
        async with self._responses.turns.holding(conversation_id), self._database.write() as session:
            conversation = await tree.held_conversation(session, conversation_id)
            if conversation is None or conversation.state != ConversationState.BOT:
                return
            change = await move(
                session,
                conversation,
                Move.REQUEST,
                cause=Cause.ENGINE_FAILURE,
                now=self._now(),
                reason=reason,
            )
        self._told(change, [])

    # --- agents ------------------------------------------------------------------------------------------------------

    async def take(self, caller: Identity, conversation_id: str) -> ConversationBody:
        """Answer it from here on. Raises NotFound, or Conflict with who has it."""
        return await self._act(caller, conversation_id, Move.TAKE, None)

    async def give_back(self, caller: Identity, conversation_id: str) -> ConversationBody:
        """Have the model answer again. Raises NotFound, or Conflict with who has it."""
        return await self._act(caller, conversation_id, Move.RETURN, None)

    async def resolve(self, caller: Identity, conversation_id: str) -> ConversationBody:
        """It is done with. Raises NotFound, or Conflict with who has it."""
        return await self._act(caller, conversation_id, Move.RESOLVE, None)

    async def answer(
        self, caller: Identity, conversation_id: str, content: str, request: IdempotentRequest | None
    ) -> tuple[AgentAnswer, bool]:
        """Write in the model's place, and take the conversation with that; and whether it had been written before under the same
        key. Raises NotFound, or Conflict with who has it."""
        self._responses.turns.require_content(content)
        async with self._responses.turns.holding(conversation_id):
            async with self._database.write() as session:
                if (kept := await self._idempotency.claim(session, request)) is not None:
                    return msgspec.json.decode(kept.body, type=AgentAnswer), True
                row = await queries.seen_conversation(session, caller.user_id, conversation_id, for_update=True)
                change, stopped = await self._move(session, caller, row.conversation, Move.TAKE, None)
                message = await tree.add_message(
                    session,
                    row.conversation,
                    role=Role.ASSISTANT,
                    content=content,
                    parent_id=row.conversation.leaf_id,
                    status=MessageStatus.COMPLETED,
                    now=self._now(),
                    author=caller,
                )
                data = {"message": MessageBody.of(message, [], self._live)}
                await record_event(session, EventType.MESSAGE_CREATED, row.conversation, data, now=self._now())
                answer = AgentAnswer(MessageBody.of(message, [], self._live), ConversationBody.of(row.conversation))
                self._audit.record(session, caller, "conversation.answer", conversation_id)
                await self._idempotency.keep(session, request, 201, msgspec.json.encode(answer), conversation_id)
            self._told(change, stopped)
            self._news.answered(answer.conversation, answer.message)
        return answer, False

    async def agent_types(self, caller: Identity, conversation_id: str) -> None:
        """The agent who has it writes something. Raises NotFound, or Conflict with who has it."""
        async with self._database.read() as session:
            row = await queries.seen_conversation(session, caller.user_id, conversation_id)
            require_agent(row.conversation, caller)
        self._news.agent_types(conversation_id, {"id": caller.user_id, "name": caller.username})

    # --- both --------------------------------------------------------------------------------------------------------

    async def _own(self, caller: Identity, conversation_id: str, wanted: Move, reason: str | None) -> ConversationBody:
        async with self._responses.turns.holding(conversation_id):
            async with self._database.write() as session:
                conversation = await tree.owned_conversation(session, caller.user_id, conversation_id, for_update=True)
                change = await move(
                    session,
                    conversation,
                    wanted,
                    cause=Cause.PERSON,
                    now=self._now(),
                    actor=caller,
                    reason=reason,
                )
                body = ConversationBody.of(conversation)
            self._told(change, [])
        return body

    async def _act(self, caller: Identity, conversation_id: str, wanted: Move, reason: str | None) -> ConversationBody:
        async with self._responses.turns.holding(conversation_id):
            async with self._database.write() as session:
                row = await queries.seen_conversation(session, caller.user_id, conversation_id, for_update=True)
                if row.conversation.state == ConversationState.HUMAN and not caller.may(Right.ADMINISTER):
                    require_agent(row.conversation, caller)
                change, stopped = await self._move(session, caller, row.conversation, wanted, reason)
                body = ConversationBody.of(row.conversation)
            self._told(change, stopped)
        return body

    async def _move(
        self, session: AsyncSession, caller: Identity, conversation: Conversation, wanted: Move, reason: str | None
    ) -> tuple[Changed | None, list[str]]:
        """The change, and the answers that have to stop for it."""
        change = await move(
            session, conversation, wanted, cause=Cause.AGENT, now=self._now(), actor=caller, reason=reason
        )
        if change is None:
            return None, []
        self._audit.record(session, caller, f"conversation.{wanted}", conversation.id, user_id=conversation.user_id)
        stopped = []
        if change.conversation.state in SILENT:
            stopped = await self._responses.turns.want_silence(session, conversation.id)
        return change, stopped

    def _told(self, change: Changed | None, stopped: list[str]) -> None:
        """It is durable: the answers end, and everybody is told."""
        for response_id in stopped:
            self._responses.stop_response(response_id)
        if change is not None:
            self._news.changed(change)

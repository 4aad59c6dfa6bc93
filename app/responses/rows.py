"""The rows of a turn: what was said before, what a message follows, and an answer that is going to be made.

Called by the service, inside its own unit of work, which holds the conversation. Nothing here commits.
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType
from sqlalchemy.ext.asyncio import AsyncSession

from app.clock import Now
from app.conversations import tree
from app.conversations.live import LiveAnswers
from app.conversations.models import Conversation, Message, MessageStatus
from app.conversations.schemas import MessageBody
from app.errors import Conflict, InvalidInput
from app.identifiers import new_id
from app.responses import queries
from app.responses.models import Response
from app.responses.params import shown_params
from app.responses.schemas import Accepted, MessageCreate, ResponseBody
from app.webhooks.event_types import EventType
from app.webhooks.outbox import record_event
from engine.types import Role, SamplingParams


class TurnRows:
    """Owns nothing; `owner` is the server that makes the answers."""

    def __init__(self, live: LiveAnswers, *, owner: str, now: Now) -> None:
        self._live = live
        self._owner = owner
        self._now = now

    async def said_before(self, session: AsyncSession, conversation_id: str, wanted: MessageCreate) -> Accepted | None:
        """What was accepted under the same client_message_id. Raises Conflict when it was another message."""
        if wanted.client_message_id is None:
            return None
        earlier = await tree.message_by_client_id(session, conversation_id, wanted.client_message_id)
        if earlier is None:
            return None
        if earlier.content != wanted.content or wanted.parent_id not in (UNSET, earlier.parent_id):
            raise Conflict("another message has this client_message_id already", code="client_message_id_reused")
        response = await queries.first_response_to(session, earlier.id)
        children = [] if response is None else [response.message_id]
        message = MessageBody.of(earlier, children, self._live)
        return Accepted(message, None if response is None else ResponseBody.accepted(response))

    async def add_question(self, session: AsyncSession, conversation: Conversation, wanted: MessageCreate) -> Message:
        """The row of what a person says. Raises NotFound or InvalidInput for a parent that cannot be one."""
        now = self._now()
        question = await tree.add_message(
            session,
            conversation,
            role=Role.USER,
            content=wanted.content,
            parent_id=await self._parent_id(session, conversation, wanted.parent_id),
            status=MessageStatus.COMPLETED,
            now=now,
            client_message_id=wanted.client_message_id,
        )
        data = {"message": MessageBody.of(question, [], self._live)}
        await record_event(session, EventType.MESSAGE_CREATED, conversation, data, now=now)
        return question

    async def add_answer(
        self,
        session: AsyncSession,
        conversation: Conversation,
        question: Message,
        sampling: SamplingParams,
        key_id: str | None,
    ) -> tuple[Message, Response]:
        """The rows of an answer that is going to be made: its message, still empty, and the response."""
        now = self._now()
        response_id = new_id()
        reply = await tree.add_message(
            session,
            conversation,
            role=Role.ASSISTANT,
            content="",
            parent_id=question.id,
            status=MessageStatus.QUEUED,
            now=now,
            response_id=response_id,
        )
        response = Response(
            id=response_id,
            conversation_id=conversation.id,
            parent_id=question.id,
            message_id=reply.id,
            ordinal=reply.ordinal,
            status=MessageStatus.QUEUED,
            finish_reason=None,
            params=shown_params(sampling),
            usage=None,
            error=None,
            owner=self._owner,
            key_id=key_id,
            created_at=now,
            started_at=None,
            ended_at=None,
        )
        session.add(response)
        await session.flush()
        return reply, response

    async def _parent_id(
        self, session: AsyncSession, conversation: Conversation, wanted: str | UnsetType | None
    ) -> str | None:
        """What a new message follows."""
        if wanted is UNSET:
            return conversation.leaf_id
        if wanted is None:
            return None
        parent = await tree.find_message(session, conversation.id, wanted)
        # A message to which the model was silent may be followed by the next one.
        if parent.role != Role.ASSISTANT and await queries.first_response_to(session, parent.id) is not None:
            raise InvalidInput(
                "expected a parent_id of an answer, got one of a user's message", code="parent_not_an_answer"
            )
        return parent.id

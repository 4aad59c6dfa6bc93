"""Accepts what people say: stores it, promises an answer, and hands that to the dispatcher.

Called by routes and sockets. The order is the promise: the message and the answer's row are durable before anybody is told,
and within a conversation answers stand in line in the order in which their messages were stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import structlog
from msgspec import UNSET, UnsetType
from sqlalchemy.ext.asyncio import AsyncSession

from app.clock import Monotonic, Now
from app.conversations import tree
from app.conversations.live import LiveAnswers
from app.conversations.models import Conversation, Message, MessageStatus
from app.conversations.schemas import ConversationBody, MessageBody
from app.database import Database, DatabaseAway
from app.errors import AppError, Conflict, InvalidInput
from app.idempotency import Idempotency, IdempotentRequest
from app.identifiers import new_id
from app.keyed_locks import KeyedLocks
from app.realtime.hub import Hub, Subscriber
from app.realtime.recorder import Recorder
from app.responses import queries
from app.responses.admission import Admission, Asked, Verdict
from app.responses.answer import Answer, AnswerIdentity
from app.responses.dispatcher import Dispatcher
from app.responses.models import Response
from app.responses.params import shown_params
from app.responses.prompt import session_key
from app.responses.schemas import Accepted, MessageCreate, Regenerate, ResponseBody
from app.settings import Settings
from app.usage.charge import Charge
from app.usage.limits import Spender
from app.usage.quotas import QuotaService
from engine.types import Role, SamplingParams, SessionKey

logger = structlog.stdlib.get_logger(__name__)

ACCEPTED = 202
LAST_TURNS_S = 1.0
"""What turns that are being stored get when the server ends. One that takes longer is in SQL, or it is not."""

Store = Callable[[AsyncSession, Conversation, Verdict], Awaitable["NewTurn"]]
"""Stores a turn in the caller's unit of work, or raises why it is refused."""


@dataclass(frozen=True, slots=True)
class Sender:
    """A socket that says something. `acknowledge` is called before anything of the answer can reach it."""

    follower: Subscriber
    acknowledge: Callable[[Accepted], None]


@dataclass(frozen=True, slots=True)
class NewTurn:
    """`is_repeat`: it had been accepted before, and nothing new begins."""

    accepted: Accepted
    is_repeat: bool


class TurnService:
    """Owns the order in which turns of a conversation are stored and handed over."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        idempotency: Idempotency,
        admission: Admission,
        quotas: QuotaService,
        dispatcher: Dispatcher,
        recorder: Recorder,
        hub: Hub,
        live: LiveAnswers,
        *,
        owner: str,
        monotonic: Monotonic,
        now: Now,
    ) -> None:
        self._settings = settings
        self._database = database
        self._idempotency = idempotency
        self._admission = admission
        self._quotas = quotas
        self._dispatcher = dispatcher
        self._recorder = recorder
        self._hub = hub
        self._live = live
        self._owner = owner
        self._monotonic = monotonic
        self._now = now
        self._locks = KeyedLocks()
        self._tasks: set[asyncio.Task[Any]] = set()

    def sizes(self) -> dict[str, int]:
        """How many entries each registry has; all zero when nobody says anything."""
        return {"turn_locks": len(self._locks), "turn_tasks": len(self._tasks), "arrivals": len(self._admission)}

    async def close(self) -> None:
        """Wait for turns that are being stored, so that their answers are handed over while somebody takes them."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LAST_TURNS_S)

    async def say(
        self,
        user_id: str,
        conversation_id: str,
        wanted: MessageCreate,
        *,
        key_id: str | None = None,
        idempotent: IdempotentRequest | None = None,
        sender: Sender | None = None,
    ) -> NewTurn:
        """Store a message and begin its answer. Raises AppError, and then nothing was stored."""
        self._admission.require_content(wanted.content)

        async def store(session: AsyncSession, conversation: Conversation, verdict: Verdict) -> NewTurn:
            if (repeat := await self._said_before(session, conversation.id, wanted)) is not None:
                return repeat
            if verdict.refusal is not None:
                raise verdict.refusal
            question = await tree.add_message(
                session,
                conversation,
                role=Role.USER,
                content=wanted.content,
                parent_id=await self._parent_id(session, conversation, wanted.parent_id),
                status=MessageStatus.COMPLETED,
                now=self._now(),
                client_message_id=wanted.client_message_id,
            )
            reply, response = await self._add_answer(session, conversation, question, verdict.sampling, key_id)
            message = MessageBody.of(question, [reply.id], self._live)
            return NewTurn(Accepted(message, ResponseBody.accepted(response)), is_repeat=False)

        asked = Asked(wanted.parent_id, wanted.content, wanted.params)
        return await self._accept(
            Spender(user_id, key_id), conversation_id, asked, store, idempotent, sender, wanted.client_message_id
        )

    async def regenerate(
        self,
        user_id: str,
        conversation_id: str,
        wanted: Regenerate,
        *,
        key_id: str | None = None,
        idempotent: IdempotentRequest | None = None,
        sender: Sender | None = None,
    ) -> NewTurn:
        """Begin another answer to a message of the user. Raises AppError, and then nothing was stored."""

        async def store(session: AsyncSession, conversation: Conversation, verdict: Verdict) -> NewTurn:
            question = await tree.find_message(session, conversation.id, wanted.parent_id)
            if question.role != Role.USER:
                raise InvalidInput(
                    "expected a parent_id of a user's message, got one of an answer", code="parent_not_a_user_message"
                )
            if verdict.refusal is not None:
                raise verdict.refusal
            reply, response = await self._add_answer(session, conversation, question, verdict.sampling, key_id)
            message = MessageBody.of(reply, [], self._live)
            return NewTurn(Accepted(message, ResponseBody.accepted(response)), is_repeat=False)

        asked = Asked(wanted.parent_id, None, wanted.params)
        return await self._accept(Spender(user_id, key_id), conversation_id, asked, store, idempotent, sender, None)

    async def conversation_of(self, user_id: str, message_id: str) -> str:
        """The conversation of one of the caller's messages. Raises NotFound."""
        async with self._database.read() as session:
            return await queries.conversation_of_message(session, user_id, message_id)

    async def _accept(
        self,
        spender: Spender,
        conversation_id: str,
        asked: Asked,
        store: Store,
        idempotent: IdempotentRequest | None,
        sender: Sender | None,
        client_message_id: str | None,
    ) -> NewTurn:
        """Store a turn in one transaction and hand its answer over, whatever becomes of the caller meanwhile."""
        user_id = spender.user_id
        arrival = self._admission.open_for()

        async def accept() -> NewTurn:
            try:
                async with self._quotas.charging(spender) as charge:
                    return await stored_and_begun(charge)
            finally:
                self._admission.arrived(arrival)

        async def stored_and_begun(charge: Charge) -> NewTurn:
            async with self._locks.holding(conversation_id):
                verdict = await self._admission.judge(user_id, conversation_id, asked, arrival, charge)
                turn: NewTurn | None = None
                try:
                    async with self._database.write() as session:
                        if (kept := await self._idempotency.claim(session, idempotent)) is not None:
                            return NewTurn(msgspec.json.decode(kept.body, type=Accepted), is_repeat=True)
                        conversation = await tree.owned_conversation(session, user_id, conversation_id, for_update=True)
                        turn = await store(session, conversation, verdict)
                        body = msgspec.json.encode(turn.accepted)
                        await self._idempotency.keep(session, idempotent, ACCEPTED, body, conversation.id)
                        conversation_body = ConversationBody.of(conversation)
                except DatabaseAway:
                    if turn is None or turn.is_repeat or not await self._is_stored(turn.accepted.response.id):
                        raise
                if not turn.is_repeat:
                    self._begin(
                        turn.accepted,
                        verdict,
                        session_key(user_id, conversation_id),
                        charge,
                        conversation_body,
                        client_message_id,
                        sender,
                    )
            return turn

        task = asyncio.create_task(accept())
        self._tasks.add(task)
        task.add_done_callback(self._accepted)
        return await asyncio.shield(task)

    async def _is_stored(self, response_id: str) -> bool:
        """Whether a commit that got no answer was one. Waits until the database can say: a stored turn that nobody hands over
        would wait for its answer for ever."""
        while True:
            try:
                async with self._database.read() as session:
                    return await queries.exists(session, response_id)
            except DatabaseAway as away:
                await asyncio.sleep(away.retry_after_s)

    def _accepted(self, task: asyncio.Task[NewTurn]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None and not isinstance(problem, AppError):
            # The caller may be gone, and then nobody else would hear of it.
            logger.error("turn_not_accepted", error=str(problem))

    async def _said_before(self, session: AsyncSession, conversation_id: str, wanted: MessageCreate) -> NewTurn | None:
        """The turn that was accepted under the same client_message_id. Raises Conflict when it was another message."""
        if wanted.client_message_id is None:
            return None
        earlier = await tree.message_by_client_id(session, conversation_id, wanted.client_message_id)
        if earlier is None:
            return None
        if earlier.content != wanted.content or wanted.parent_id not in (UNSET, earlier.parent_id):
            raise Conflict("another message has this client_message_id already", code="client_message_id_reused")
        response = await queries.first_response_to(session, earlier.id)
        message = MessageBody.of(earlier, [response.message_id], self._live)
        return NewTurn(Accepted(message, ResponseBody.accepted(response)), is_repeat=True)

    async def _parent_id(
        self, session: AsyncSession, conversation: Conversation, wanted: str | UnsetType | None
    ) -> str | None:
        """What a new message follows. Raises NotFound or InvalidInput."""
        if wanted is UNSET:
            return conversation.leaf_id
        if wanted is None:
            return None
        parent = await tree.find_message(session, conversation.id, wanted)
        if parent.role != Role.ASSISTANT:
            raise InvalidInput(
                "expected a parent_id of an answer, got one of a user's message", code="parent_not_an_answer"
            )
        return parent.id

    async def _add_answer(
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

    def _begin(
        self,
        accepted: Accepted,
        verdict: Verdict,
        session: SessionKey,
        charge: Charge,
        conversation: ConversationBody,
        client_message_id: str | None,
        sender: Sender | None,
    ) -> None:
        """Everything is durable: tell those who watch, and stand in line. In this order, and without a pause in between."""
        response = accepted.response
        identity = AnswerIdentity(
            response_id=response.id,
            message_id=response.message_id,
            conversation_id=response.conversation_id,
            parent_id=response.parent_id,
            params=response.params,
            created_at=response.created_at,
        )
        answer = Answer(
            identity,
            verdict.sampling,
            session,
            self._recorder,
            spender=replace(charge.spender, persona=conversation.persona),
            charge=charge,
            prompt_tokens=verdict.prompt_tokens,
            window_s=self._settings.delta_window_ms / 1000,
            monotonic=self._monotonic,
            now=self._now,
        )
        follower = None
        if sender is not None:
            follower = sender.follower
            sender.acknowledge(accepted)
        self._hub.announce(
            conversation.id, "message.created", created_data(accepted, client_message_id), beside=follower
        )
        self._hub.announce(conversation.id, "conversation.updated", {"conversation": conversation})
        self._hub.open_log(answer.log)
        if follower is not None:
            follower.follow(answer.log)
        charge.keep()
        self._dispatcher.enqueue(answer)


def created_data(accepted: Accepted, client_message_id: str | None) -> dict[str, Any]:
    """The data of a `message.created` frame."""
    return {
        "message": accepted.message,
        "response": accepted.response,
        "response_id": accepted.response.id,
        "client_message_id": client_message_id,
    }

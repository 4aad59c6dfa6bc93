"""Accepts what people say: stores it, promises an answer, and hands that to the dispatcher.

Called by routes and sockets. The order is the promise: the message and the answer's row are durable before anybody is told,
and within a conversation answers stand in line in the order in which their messages were stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from app.clock import Monotonic, Now
from app.conversations import tree
from app.conversations.live import LiveAnswers
from app.conversations.models import Conversation
from app.conversations.schemas import ConversationBody, MessageBody
from app.database import Database, DatabaseAway
from app.errors import AppError, Conflict, InvalidInput, Unavailable
from app.idempotency import Idempotency, IdempotentRequest
from app.keyed_locks import KeyedLocks
from app.realtime.hub import Hub, Subscriber
from app.realtime.recorder import Recorder
from app.responses import queries
from app.responses.admission import DRAINING, ENGINE_FAILED, Admission, Arrival, Asked, Verdict
from app.responses.answer import Answer, AnswerIdentity
from app.responses.dispatcher import Dispatcher
from app.responses.prompt import Prompt, session_key
from app.responses.rows import TurnRows
from app.responses.schemas import Accepted, MessageCreate, Regenerate, ResponseBody
from app.service.changes import Changed
from app.service.policy import HandoffPolicy
from app.service.states import ConversationState
from app.settings import Settings
from app.usage.charge import Charge
from app.usage.limits import Spender
from app.usage.quotas import QuotaService
from engine.types import Role, SessionKey

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
    """`is_repeat`: it had been accepted before, and nothing new begins. `changes` are what it did to who answers, and `prompt` is
    what the engine is to read, where that is known."""

    accepted: Accepted
    is_repeat: bool = False
    changes: Sequence[Changed] = ()
    prompt: Prompt | None = None


SaidListener = Callable[[ConversationBody, MessageBody], None]
ChangedListener = Callable[[Changed], None]
"""Called on the loop when it is durable. They must not block and must not raise."""


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
        policy: HandoffPolicy,
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
        self._policy = policy
        self._rows = TurnRows(live, owner=owner, now=now)
        self._monotonic = monotonic
        self._now = now
        self._locks = KeyedLocks()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._said_listener: SaidListener | None = None
        self._changed_listener: ChangedListener | None = None

    def on_said(self, listener: SaidListener) -> None:
        """Who wants to know of every message of a person, in its conversation as it is then."""
        self._said_listener = listener

    def on_changed(self, listener: ChangedListener) -> None:
        """Who tells that it changed who answers, where a message did that."""
        self._changed_listener = listener

    def holding(self, conversation_id: str) -> AbstractAsyncContextManager[None]:
        """No turn of the conversation is on its way from its rows to the dispatcher while the block runs."""
        return self._locks.holding(conversation_id)

    def require_content(self, content: str) -> None:
        """Raises InvalidInput or PayloadTooLarge for what nobody may say, agents neither."""
        self._admission.require_content(content)

    async def want_silence(self, session: AsyncSession, conversation_id: str) -> list[str]:
        """Have every answer of the conversation end, on whatever server, in the unit of work that makes the model silent; which
        answers those are."""
        return await queries.want_silence(session, conversation_id)

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
            if (repeat := await self._rows.said_before(session, conversation.id, wanted)) is not None:
                return NewTurn(repeat, is_repeat=True)
            changes = await self._policy.person_speaks(session, conversation, wanted.content)
            refusal = verdict.refusal if self._policy.model_answers(conversation.state) else None
            if refusal is not None and refusal.code == ENGINE_FAILED:
                changes += await self._policy.engine_fails(session, conversation, refusal.detail)
                refusal = refusal if conversation.state == ConversationState.BOT else None
            if refusal is not None:
                raise refusal
            question = await self._rows.add_question(session, conversation, wanted)
            if verdict.refusal is not None or not self._policy.model_answers(conversation.state):
                return NewTurn(Accepted(MessageBody.of(question, [], self._live), None), changes=changes)
            reply, response = await self._rows.add_answer(session, conversation, question, verdict.sampling, key_id)
            message = MessageBody.of(question, [reply.id], self._live)
            prompt = verdict.prompt_behind(question.parent_id)
            return NewTurn(Accepted(message, ResponseBody.accepted(response)), changes=changes, prompt=prompt)

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
            if not self._policy.model_answers(conversation.state):
                raise Conflict(
                    f"the model is silent in a conversation in state {conversation.state}",
                    code="model_is_silent",
                    members={"state": conversation.state},
                )
            if verdict.refusal is not None:
                raise verdict.refusal
            reply, response = await self._rows.add_answer(session, conversation, question, verdict.sampling, key_id)
            accepted = Accepted(MessageBody.of(reply, [], self._live), ResponseBody.accepted(response))
            return NewTurn(accepted, prompt=verdict.prompt_behind(question.id))

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
        arrival = await self._arrival(user_id, conversation_id, asked)

        async def accept() -> NewTurn:
            try:
                async with self._quotas.charging(spender) as charge:
                    return await stored_and_begun(charge)
            finally:
                if isinstance(arrival, Arrival):
                    self._admission.arrived(arrival)

        async def stored_and_begun(charge: Charge) -> NewTurn:
            async with self._locks.holding(conversation_id):
                if isinstance(arrival, Arrival):
                    verdict = await self._admission.judge(user_id, conversation_id, asked, arrival, charge)
                else:
                    verdict = Verdict(refusal=arrival)
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
                    if turn is None or turn.is_repeat or not await self._is_stored(turn.accepted.message.id):
                        raise
                if not turn.is_repeat:
                    self._begin(
                        turn,
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

    async def _arrival(self, user_id: str, conversation_id: str, asked: Asked) -> Arrival | Unavailable:
        """A place for the answer; why there is none, where a message may go without one. Raises Unavailable otherwise."""
        try:
            return self._admission.open_for()
        except Unavailable as refusal:
            if refusal.code == DRAINING or asked.content is None:
                raise
            async with self._database.read() as session:
                conversation = await tree.owned_conversation(session, user_id, conversation_id)
                if not await self._policy.may_be_silent(session, conversation, asked.content, refusal.code):
                    raise
            return refusal

    async def _is_stored(self, message_id: str) -> bool:
        """Whether a commit that got no answer was one. Waits until the database can say: a stored turn that nobody hands over
        would wait for its answer for ever."""
        while True:
            try:
                async with self._database.read() as session:
                    return await tree.exists(session, message_id)
            except DatabaseAway as away:
                await asyncio.sleep(away.retry_after_s)

    def _accepted(self, task: asyncio.Task[NewTurn]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None and not isinstance(problem, AppError):
            # The caller may be gone, and then nobody else would hear of it.
            logger.error("turn_not_accepted", error=str(problem))

    def _begin(
        self,
        turn: NewTurn,
        verdict: Verdict,
        session: SessionKey,
        charge: Charge,
        conversation: ConversationBody,
        client_message_id: str | None,
        sender: Sender | None,
    ) -> None:
        """Everything is durable: tell those who watch, and stand in line. In this order, and without a pause in between."""
        answer = self._answer(turn, verdict, session, charge, conversation)
        follower = None
        if sender is not None:
            follower = sender.follower
            sender.acknowledge(turn.accepted)
        data = created_data(turn.accepted, client_message_id)
        self._hub.announce(conversation.id, "message.created", data, beside=follower)
        if self._said_listener is not None and turn.accepted.message.role is Role.USER:
            self._said_listener(conversation, turn.accepted.message)
        self._hub.announce(conversation.id, "conversation.updated", {"conversation": conversation})
        if self._changed_listener is not None:
            for change in turn.changes:
                self._changed_listener(change)
        if answer is None:
            return
        self._hub.open_log(answer.log)
        if follower is not None:
            follower.follow(answer.log)
        charge.keep()
        self._dispatcher.enqueue(answer)

    def _answer(
        self,
        turn: NewTurn,
        verdict: Verdict,
        session: SessionKey,
        charge: Charge,
        conversation: ConversationBody,
    ) -> Answer | None:
        """What will be handed to the dispatcher; None where the model is silent."""
        if (response := turn.accepted.response) is None:
            return None
        identity = AnswerIdentity(
            response_id=response.id,
            message_id=response.message_id,
            conversation_id=response.conversation_id,
            parent_id=response.parent_id,
            params=response.params,
            created_at=response.created_at,
        )
        return Answer(
            identity,
            verdict.sampling,
            session,
            self._recorder,
            spender=replace(charge.spender, persona=conversation.persona),
            charge=charge,
            prompt_tokens=verdict.prompt_tokens,
            prompt=turn.prompt,
            window_s=self._settings.delta_window_ms / 1000,
            monotonic=self._monotonic,
            now=self._now,
        )


def created_data(accepted: Accepted, client_message_id: str | None) -> dict[str, Any]:
    """The data of a `message.created` frame."""
    return {
        "message": accepted.message,
        "response": accepted.response,
        "response_id": accepted.response and accepted.response.id,
        "client_message_id": client_message_id,
    }

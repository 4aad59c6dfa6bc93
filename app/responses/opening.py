"""Puts this room together for one server process, and takes it apart again.

The order of the start: the journal (so that others see us alive), recovery of what dead processes left, then the engine. At
the end the opposite: answers first, then the engine that makes them, then the journal they are written to.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession

from app.clock import Monotonic, Now
from app.conversations.models import MessageStatus
from app.conversations.schemas import ConversationBody, GoneReason
from app.database import Database
from app.idempotency import Idempotency
from app.operations.health import Readiness
from app.operations.metrics import Metrics
from app.operations.tracing import Tracing
from app.realtime.event_log import EventLog
from app.realtime.hub import Hub
from app.realtime.journal import Journal
from app.realtime.protocol import CloseCode
from app.realtime.recorder import Recorder
from app.replicas.bus import Bus, News, Topic
from app.replicas.ending import ended
from app.replicas.opening import Replicas
from app.responses import queries
from app.responses.admission import Admission
from app.responses.copies import Copies
from app.responses.dispatcher import Dispatcher
from app.responses.elders import Elders
from app.responses.interruption import Interruption
from app.responses.reading import ResponseReader
from app.responses.reaper import Reaper
from app.responses.recovery import Recovery
from app.responses.relay import Relay
from app.responses.service import TurnService
from app.responses.side_requests import SideRequests
from app.responses.storage import AnswerStorage
from app.responses.unwatched import Unwatched
from app.responses.wishes import Wishes
from app.service.policy import HandoffPolicy
from app.settings import Settings
from app.usage.quotas import QuotaService
from engine.client import EngineClient
from engine.types import ContextPolicy, EngineEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Responses:
    """The open room."""

    hub: Hub
    bus: Bus
    dispatcher: Dispatcher
    turns: TurnService
    reader: ResponseReader
    unwatched: Unwatched
    copies: Copies
    side_requests: SideRequests

    def conversation_updated(self, conversation: ConversationBody) -> None:
        """Its fields have changed: whoever watches it is told."""
        self.hub.announce(conversation.id, "conversation.updated", {"conversation": conversation})

    def conversation_deleted(self, conversation_id: str, reason: GoneReason) -> None:
        """Its rows are gone: whoever watches it is told, and whatever is being made for it ends."""
        self.hub.announce(conversation_id, "conversation.updated", {"deleted": True, "reason": reason})
        self.stop_answers(conversation_id)

    def stop_answers(self, conversation_id: str) -> None:
        """End whatever is being made here for a conversation that is gone."""
        for answer in self.dispatcher.answers_in(conversation_id):
            answer.stop(MessageStatus.CANCELLED)

    def stop_response(self, response_id: str) -> None:
        """SQL says that it is to end: whoever makes it does that now."""
        if self.dispatcher.answer(response_id) is not None:
            self.dispatcher.cancel(response_id)
        else:
            self.bus.publish(Topic.CANCEL, response_id=response_id)

    def conversation_kicked(self, conversation_id: str) -> None:
        """Its session is ended by an administrator: who watches it is disconnected, and whatever is being made for it ends."""
        self.hub.close_watchers(conversation_id, CloseCode.KICKED, "kicked")
        for answer in self.dispatcher.answers_in(conversation_id):
            answer.stop(MessageStatus.CANCELLED)

    async def answers_ended(self, conversation_id: str) -> bool:
        """Wait until none of that conversation is being made; whether there was one."""
        answers = self.dispatcher.answers_in(conversation_id)
        for answer in answers:
            await answer.ended.wait()
        return bool(answers)

    async def log_bytes(self, session: AsyncSession, conversation_id: str) -> int:
        """What the stored event logs of a conversation take; inside the caller's unit of work."""
        return await queries.log_bytes(session, conversation_id)

    def sizes(self) -> dict[str, int]:
        """How many entries each registry has; all zero when nothing runs and nobody is there."""
        return {
            **self.hub.sizes(),
            **self.dispatcher.sizes(),
            **self.turns.sizes(),
            "unwatched": len(self.unwatched),
            "copies": len(self.copies),
            "side_requests": len(self.side_requests),
        }


@asynccontextmanager
async def open_responses(
    settings: Settings,
    engine: EngineClient,
    database: Database,
    idempotency: Idempotency,
    replicas: Replicas,
    quotas: QuotaService,
    readiness: Readiness,
    metrics: Metrics,
    tracing: Tracing,
    take_calls: Callable[[Sequence[EngineEvent]], None],
    *,
    monotonic: Monotonic,
    now: Now,
) -> AsyncIterator[Responses]:
    """Recover, start the engine, and serve until the block ends. `take_calls` is told every step too, for answers that are no
    conversation's (`app/openai`)."""
    owner = replicas.owner
    journals = settings.data / "journal"
    async with AsyncExitStack() as stack:
        journal = Journal(journals, owner)
        await journal.open()
        stack.push_async_callback(journal.close)
        storage = AnswerStorage(database)
        interruption = Interruption(database, storage, replicas.logs, owner=owner, now=now)
        await Recovery(database, interruption, journals, replicas).run()
        hub = Hub()
        recorder = Recorder(journal, replicas.logs, hub)
        dispatcher = Dispatcher(
            engine,
            database,
            storage,
            recorder,
            metrics,
            tracing,
            Elders(database, replicas),
            owner=owner,
            context_policy=ContextPolicy(settings.context_policy),
            message_flush_s=settings.message_flush_s,
            monotonic=monotonic,
            now=now,
        )
        copies = Copies(hub, replicas.logs, database, monotonic=monotonic)
        reader = ResponseReader(database, dispatcher, hub, copies, replicas)
        policy = HandoffPolicy(settings, now=now)
        admission = Admission(settings, engine, database, dispatcher, readiness, metrics)
        turns = TurnService(
            settings,
            database,
            idempotency,
            admission,
            quotas,
            dispatcher,
            recorder,
            hub,
            reader,
            policy,
            owner=owner,
            monotonic=monotonic,
            now=now,
        )
        unwatched = Unwatched(
            dispatcher.cancel, grace_s=settings.disconnect_grace_s, call_later=asyncio.get_running_loop().call_later
        )
        if settings.on_disconnect == "cancel":

            def watched(log: EventLog, is_watched: bool) -> None:
                if log.is_copy:
                    replicas.bus.publish(Topic.WATCHED, response_id=log.response_id, watched=is_watched)
                else:
                    unwatched.watched(log, is_watched)

            def watched_elsewhere(news: News) -> None:
                if dispatcher.answer(news["response_id"]) is not None:
                    unwatched.watched_elsewhere(news["response_id"], news["watched"])

            hub.on_watched(watched)
            replicas.bus.on(Topic.WATCHED, watched_elsewhere)
            dispatcher.on_ended(unwatched.forget)

        side_requests = SideRequests(engine)

        def take_events(events: Sequence[EngineEvent]) -> None:
            about_answers = side_requests.take(events)
            metrics.engine_events(about_answers)
            take_calls(about_answers)
            dispatcher.take_events(about_answers)

        await engine.start(take_events)
        stack.push_async_callback(engine.stop)
        dispatcher.start()
        stack.push_async_callback(dispatcher.close)
        stack.push_async_callback(turns.close)
        if not replicas.is_alone:
            replicas.bus.on(Topic.CANCEL, lambda news: dispatcher.cancel(news["response_id"]))
            relay = Relay(hub, replicas.bus, copies, database)
            relay.open()
            stack.push_async_callback(relay.close)
            reaper = Reaper(database, replicas, interruption, monotonic=monotonic)
            wishes = Wishes(database, dispatcher, owner=owner)
            stack.push_async_callback(ended, [asyncio.create_task(each.run()) for each in (reaper, wishes, copies)])
        yield Responses(
            hub=hub,
            bus=replicas.bus,
            dispatcher=dispatcher,
            turns=turns,
            reader=reader,
            unwatched=unwatched,
            copies=copies,
            side_requests=side_requests,
        )

"""What callers can see and stop of responses: their state, their event logs, the text of those that are being made.

Called by routes and sockets. A response that is alive is described from memory, one that has ended from SQL; asked at the
moment in between, it is described by what was true just before. Holds no unit of work while anybody reads a stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from app.conversations.live import LiveAnswer
from app.conversations.models import MessageStatus
from app.database import Database
from app.errors import Conflict
from app.realtime.event_log import EventLog, restored_log
from app.realtime.hub import Hub
from app.realtime.protocol import ResumePoint
from app.replicas.bus import Topic
from app.replicas.opening import Replicas
from app.responses import queries
from app.responses.copies import Copies
from app.responses.dispatcher import Dispatcher
from app.responses.models import Response
from app.responses.schemas import ResponseBody

CANCEL_WAIT_S = 5.0
"""A stopped answer ends within a step of the engine; when its end cannot be stored for longer than this, the caller gets the
state as it is."""

LOOK_S = 0.05
"""How often somebody who waits for another server's answer to end looks for it."""


@dataclass(frozen=True, slots=True)
class Resumable:
    """Where the rest of a response is to be had: a log in memory, or the stored one. `problem` says why nowhere."""

    point: ResumePoint
    conversation_id: str | None = None
    live: EventLog | None = None
    problem: str | None = None


class ResponseReader:
    """Owns nothing; reads memory first and SQL second. What another server makes is read through a copy of its log."""

    def __init__(
        self, database: Database, dispatcher: Dispatcher, hub: Hub, copies: Copies, replicas: Replicas
    ) -> None:
        self._database = database
        self._dispatcher = dispatcher
        self._hub = hub
        self._copies = copies
        self._replicas = replicas

    def snapshot(self, response_id: str) -> LiveAnswer | None:
        """How far an answer is; None when it is not being made here."""
        answer = self._dispatcher.answer(response_id)
        if answer is None or answer.log.is_ended:
            return None
        shown = answer.log.snapshot()
        return LiveAnswer(shown.text, shown.last_seq, answer.status)

    async def get(self, user_id: str, response_id: str) -> ResponseBody:
        """The state of a response. Raises NotFound."""
        body = await self._described(user_id, response_id)
        if body.status.is_final or self._dispatcher.answer(response_id) is not None:
            return body
        # It ended between the look into SQL and the one into memory.
        return await self._described(user_id, response_id)

    async def cancel(self, user_id: str, response_id: str) -> ResponseBody:
        """End a response, keeping what was shown, and say how it ended. Idempotent. Raises NotFound."""
        await self.stop(user_id, response_id)
        if (answer := self._dispatcher.answer(response_id)) is not None:
            try:
                async with asyncio.timeout(CANCEL_WAIT_S):
                    await answer.ended.wait()
            except TimeoutError:
                pass
        elif not self._replicas.is_alone:
            return await self._ended_elsewhere(user_id, response_id)
        return await self.get(user_id, response_id)

    async def _ended_elsewhere(self, user_id: str, response_id: str) -> ResponseBody:
        """The state of a response that another server has been asked to end, when it has or had its time."""
        asked = 0
        while not (body := await self.get(user_id, response_id)).status.is_final and asked * LOOK_S < CANCEL_WAIT_S:
            asked += 1
            await asyncio.sleep(LOOK_S)
        return body

    async def stop(self, user_id: str, response_id: str) -> str:
        """Ask a response to end; its conversation. Idempotent. Raises NotFound."""
        async with self._database.read() as session:
            response = await queries.owned_response(session, user_id, response_id)
        is_final = MessageStatus(response.status).is_final
        if not is_final and not self._replicas.is_alone and self._dispatcher.answer(response_id) is None:
            async with self._database.write() as session:
                await queries.want_status(session, response_id, MessageStatus.CANCELLED)
            self._replicas.bus.publish(Topic.CANCEL, response_id=response_id)
        self._dispatcher.cancel(response_id)
        return response.conversation_id

    async def log(self, user_id: str, response_id: str) -> EventLog:
        """The whole event log, growing or ended. Raises NotFound."""
        answer, live = self._dispatcher.answer(response_id), self._hub.log(response_id)
        if answer is not None and live is not None and answer.spender.user_id == user_id:
            # Without a look into SQL, since somebody is waiting for its first word.
            return live
        for _ in range(2):
            async with self._database.read() as session:
                response = await queries.owned_response(session, user_id, response_id)
            if (live := self._hub.log(response_id)) is not None:
                return live
            if MessageStatus(response.status).is_final:
                return await self.stored_log(response.conversation_id, response_id)
        if not self._replicas.is_alone:
            return self._copies.open(response.conversation_id, response_id)
        raise Conflict("this response is made by another server process", code="made_elsewhere")

    async def stored_log(self, conversation_id: str, response_id: str) -> EventLog:
        """The log of an ended response whose owner has been checked; empty when it was deleted meanwhile."""
        async with self._database.read() as session:
            frames = await queries.stored_log(session, response_id)
        return restored_log(conversation_id, response_id, frames or b"[]")

    async def resumable(self, user_id: str, points: Sequence[ResumePoint]) -> list[Resumable]:
        """Where each of these can go on. Ended logs are not read here: they may be many, and large."""
        found = await self._owned(user_id, points)
        missed = [
            point.response_id
            for point in points
            if (row := found.get(point.response_id)) is not None
            and self._hub.log(point.response_id) is None
            and not MessageStatus(row[0].status).is_final
        ]
        if missed:
            # They ended between the look into SQL and the one into memory.
            found |= await self._owned(user_id, [point for point in points if point.response_id in missed])
        return [self._resumable(point, found.get(point.response_id)) for point in points]

    async def running(self, conversation_id: str) -> list[dict[str, Any]]:
        """The responses of a conversation that have not ended, in their order: first those of other servers."""
        elsewhere = [
            {
                "response_id": response.id,
                "message_id": response.message_id,
                "status": response.status,
                "last_seq": last_seq,
            }
            for response, last_seq in await self._made_elsewhere(conversation_id)
        ]
        here = [
            {
                "response_id": answer.response_id,
                "message_id": answer.identity.message_id,
                "status": answer.status,
                "last_seq": answer.log.last_seq,
            }
            for answer in self._dispatcher.answers_in(conversation_id)
        ]
        return elsewhere + here

    async def running_logs(self, conversation_id: str) -> list[EventLog]:
        """The logs of those. Whoever asks begins to read them."""
        elsewhere = await self._made_elsewhere(conversation_id)
        copies = [self._copies.open(conversation_id, response.id) for response, _ in elsewhere]
        return copies + [log for log in self._hub.running_logs(conversation_id) if log not in copies]

    async def _made_elsewhere(self, conversation_id: str) -> list[tuple[Response, int]]:
        if self._replicas.is_alone:
            return []
        async with self._database.read() as session:
            unfinished = await queries.unfinished_in(session, conversation_id)
        return [(response, last_seq) for response, last_seq in unfinished if response.owner != self._replicas.owner]

    async def _described(self, user_id: str, response_id: str) -> ResponseBody:
        async with self._database.read() as session:
            response = await queries.owned_response(session, user_id, response_id)
            stored_seq = await queries.last_seq(session, response.message_id)
        body = ResponseBody.of(response, stored_seq)
        answer = self._dispatcher.answer(response_id)
        if answer is None or body.status.is_final:
            return body
        return msgspec.structs.replace(
            body, status=answer.status, last_seq=answer.log.last_seq, started_at=answer.started_at
        )

    async def _owned(self, user_id: str, points: Sequence[ResumePoint]) -> dict[str, tuple[Response, int]]:
        async with self._database.read() as session:
            rows = await queries.owned_responses(session, user_id, [point.response_id for point in points])
        return {response.id: (response, last_seq) for response, last_seq in rows}

    def _resumable(self, point: ResumePoint, found: tuple[Response, int] | None) -> Resumable:
        if found is None:
            return Resumable(point, problem="unknown")
        response, stored_seq = found
        live = self._hub.log(point.response_id)
        if live is None and not MessageStatus(response.status).is_final:
            if self._replicas.is_alone:
                return Resumable(point, response.conversation_id, problem="made_elsewhere")
            live = self._copies.open(response.conversation_id, point.response_id)
        is_ahead = point.last_seq > (stored_seq if live is None else live.staged_seq)
        if is_ahead and not (live and live.is_copy):
            return Resumable(point, response.conversation_id, problem="ahead")
        return Resumable(point, response.conversation_id, live)

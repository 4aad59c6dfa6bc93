"""What each frame of a client does. One instance per socket; every answer goes out through its writer.

Called by the connection, one frame after the other, so that messages of one socket are accepted in the order in which they were
sent. Opens no unit of work of its own, and keeps none while it waits.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from app.accounts.identity import Identity
from app.conversations.service import ConversationService
from app.errors import AppError, Conflict, InvalidInput
from app.feedback.models import Scale
from app.feedback.schemas import FeedbackPut
from app.feedback.service import FeedbackService
from app.realtime.hub import Hub
from app.realtime.protocol import (
    PROTOCOL_VERSIONS,
    AnyClientFrame,
    Cancel,
    CloseCode,
    FeedbackCreate,
    FrameId,
    HandoffRequest,
    Hello,
    MessageCreate,
    Regenerate,
    ResumePoint,
    Subscribe,
    Typing,
    Unsubscribe,
)
from app.realtime.socket_writer import SocketWriter
from app.responses import schemas
from app.responses.reading import ResponseReader
from app.responses.schemas import Accepted
from app.responses.service import Sender, TurnService, created_data
from app.service.announcing import status_data
from app.service.desk import ServiceDesk
from app.settings import Settings

SUBSCRIPTIONS_MAX = 256
"""Conversations one socket may follow: more than anybody looks at, and a bound on what a socket costs."""


class SocketCommands:
    """Acts for one signed-in caller."""

    def __init__(
        self,
        caller: Identity,
        writer: SocketWriter,
        hub: Hub,
        settings: Settings,
        conversations: ConversationService,
        turns: TurnService,
        reader: ResponseReader,
        desk: ServiceDesk,
        feedback: FeedbackService,
    ) -> None:
        self._caller = caller
        self._writer = writer
        self._hub = hub
        self._settings = settings
        self._conversations = conversations
        self._turns = turns
        self._reader = reader
        self._desk = desk
        self._feedback = feedback
        self._has_greeted = False

    async def handle(self, frame: AnyClientFrame) -> None:
        """Do what the frame asks for. What is refused is answered with an `error`, and the socket lives."""
        reply_to: FrameId | UnsetType = UNSET if frame.id is None else frame.id
        try:
            if isinstance(frame, Hello):
                await self._greet(frame, reply_to)
            elif isinstance(frame, MessageCreate):
                await self._say(frame, reply_to)
            elif isinstance(frame, Regenerate):
                await self._regenerate(frame, reply_to)
            elif isinstance(frame, Cancel):
                conversation_id = await self._reader.stop(self._caller.user_id, frame.data.response_id)
                await self._describe(conversation_id, reply_to)
            elif isinstance(frame, Subscribe):
                await self._subscribe(frame.data.conversation_id, reply_to)
            elif isinstance(frame, Unsubscribe):
                self._writer.unsubscribe(frame.data.conversation_id)
                await self._describe(frame.data.conversation_id, reply_to)
            elif isinstance(frame, HandoffRequest):
                await self._request_person(frame, reply_to)
            elif isinstance(frame, FeedbackCreate):
                await self._rate(frame, reply_to)
            elif isinstance(frame, Typing):
                await self._type(frame.data.conversation_id)
            else:
                self._writer.put("pong", {}, reply_to=reply_to)
        except AppError as problem:
            data = {**problem.members, "code": problem.code, "message": problem.detail}
            if "Retry-After" in problem.headers:
                data["retry_after_s"] = int(problem.headers["Retry-After"])
            self._writer.put("error", data, reply_to=reply_to)

    async def _greet(self, frame: Hello, reply_to: FrameId | UnsetType) -> None:
        wanted = frame.data
        if wanted.protocol not in PROTOCOL_VERSIONS:
            spoken = ", ".join(map(str, PROTOCOL_VERSIONS))
            message = f"this server speaks the protocol {spoken}, and was asked for {wanted.protocol}"
            self._writer.put("error", {"code": "unsupported_protocol", "message": message}, reply_to=reply_to)
            self._writer.end(CloseCode.PROTOCOL, "unsupported protocol")
            return
        if self._has_greeted:
            raise Conflict("session.hello comes once", code="greeted_already")
        self._has_greeted = True
        settings = self._settings
        limits = {
            "frame_max_bytes": settings.frame_max_bytes,
            "message_max_bytes": settings.message_max_bytes,
            "frames_per_second": settings.frames_per_second,
            "socket_idle_s": settings.socket_idle_s,
            "subscriptions_max": SUBSCRIPTIONS_MAX,
        }
        user = {"id": self._caller.user_id, "username": self._caller.username, "role": self._caller.role}
        self._writer.put(
            "session.ready",
            {"protocol": wanted.protocol, "heartbeat_s": settings.heartbeat_s, "limits": limits, "user": user},
            reply_to=reply_to,
        )
        await self._resume(wanted.resume)

    async def _resume(self, points: list[ResumePoint]) -> None:
        replayed: set[str] = set()
        for found in await self._reader.resumable(self._caller.user_id, points) if points else []:
            response_id, after = found.point.response_id, found.point.last_seq
            if found.problem is not None or found.conversation_id is None:
                self._writer.put(
                    "resync_required",
                    {"response_id": response_id, "reason": found.problem or "unknown"},
                    conversation_id=found.conversation_id or UNSET,
                    response_id=response_id,
                )
            elif found.live is not None:
                self._writer.follow(found.live, after)
            elif response_id not in replayed:
                # Named twice, it would be sent twice, and its numbers repeat: the first place it can go on from counts.
                replayed.add(response_id)
                self._writer.replay(found.conversation_id, response_id, after)

    async def _say(self, frame: MessageCreate, reply_to: FrameId | UnsetType) -> None:
        wanted = frame.data
        message = schemas.MessageCreate(wanted.content, wanted.parent_id, wanted.client_message_id, wanted.params)
        turn = await self._turns.say(
            self._caller.user_id,
            wanted.conversation_id,
            message,
            key_id=self._caller.key_id,
            sender=self._sender(wanted.conversation_id, reply_to, wanted.client_message_id),
        )
        if turn.is_repeat:
            # What was sent before is acknowledged again, and its answer followed from its beginning.
            self._acknowledge(wanted.conversation_id, turn.accepted, reply_to, wanted.client_message_id)
            if turn.accepted.response is not None:
                await self._resume([ResumePoint(turn.accepted.response.id, 0)])

    async def _regenerate(self, frame: Regenerate, reply_to: FrameId | UnsetType) -> None:
        wanted = schemas.Regenerate(frame.data.parent_id, frame.data.params)
        conversation_id = await self._turns.conversation_of(self._caller.user_id, wanted.parent_id)
        await self._turns.regenerate(
            self._caller.user_id,
            conversation_id,
            wanted,
            key_id=self._caller.key_id,
            sender=self._sender(conversation_id, reply_to, None),
        )

    def _sender(self, conversation_id: str, reply_to: FrameId | UnsetType, client_message_id: str | None) -> Sender:
        return Sender(
            self._writer, lambda accepted: self._acknowledge(conversation_id, accepted, reply_to, client_message_id)
        )

    def _acknowledge(
        self,
        conversation_id: str,
        accepted: Accepted,
        reply_to: FrameId | UnsetType,
        client_message_id: str | None,
    ) -> None:
        self._writer.put(
            "message.created",
            created_data(accepted, client_message_id),
            reply_to=reply_to,
            conversation_id=conversation_id,
            response_id=UNSET if accepted.response is None else accepted.response.id,
        )

    async def _subscribe(self, conversation_id: str, reply_to: FrameId | UnsetType) -> None:
        conversation = await self._conversations.get(self._caller.user_id, conversation_id)
        if not self._writer.has_room_for(conversation_id, SUBSCRIPTIONS_MAX):
            raise InvalidInput(
                f"a socket follows at most {SUBSCRIPTIONS_MAX} conversations", code="too_many_subscriptions"
            )
        self._writer.subscribe(conversation_id)
        await self._put_conversation(conversation, reply_to)
        for log in await self._reader.running_logs(conversation_id):
            self._writer.follow(log)

    async def _request_person(self, frame: HandoffRequest, reply_to: FrameId | UnsetType) -> None:
        wanted = frame.data
        conversation = await self._desk.request_person(self._caller, wanted.conversation_id, wanted.reason)
        self._writer.put(
            "conversation.status_changed",
            status_data(conversation),
            reply_to=reply_to,
            conversation_id=conversation.id,
        )

    async def _rate(self, frame: FeedbackCreate, reply_to: FrameId | UnsetType) -> None:
        wanted = frame.data
        try:
            rating = FeedbackPut(wanted.rating, Scale(wanted.scale), wanted.comment)
        except ValueError as problem:
            raise InvalidInput(str(problem)) from None
        body = await self._feedback.put(self._caller.user_id, wanted.message_id, rating)
        self._writer.put(
            "feedback.created", msgspec.structs.asdict(body), reply_to=reply_to, conversation_id=body.conversation_id
        )

    async def _type(self, conversation_id: str) -> None:
        """Who follows a conversation has been found to own it; whoever does not is asked for that now."""
        if not self._writer.watches(conversation_id):
            await self._conversations.get(self._caller.user_id, conversation_id)
        self._desk.person_types(conversation_id, beside=self._writer)

    async def _describe(self, conversation_id: str, reply_to: FrameId | UnsetType) -> None:
        await self._put_conversation(await self._conversations.get(self._caller.user_id, conversation_id), reply_to)

    async def _put_conversation(self, conversation: Any, reply_to: FrameId | UnsetType) -> None:
        self._writer.put(
            "conversation.updated",
            {"conversation": conversation, "responses": await self._reader.running(conversation.id)},
            reply_to=reply_to,
            conversation_id=conversation.id,
        )

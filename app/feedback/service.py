"""What people think of answers: said by whom a conversation belongs to, summed up for administrators.

Called by routes and sockets. What somebody wrote beside a rating is shown to them and to whoever may read the conversation,
and told to webhooks.
"""

from __future__ import annotations

from datetime import UTC, date, timedelta
from typing import Any

from app.clock import Now
from app.conversations.models import MessageStatus
from app.database import Database
from app.errors import InvalidInput
from app.feedback import queries
from app.feedback.models import Feedback
from app.feedback.schemas import (
    FeedbackBody,
    FeedbackCursor,
    FeedbackPut,
    FeedbackSums,
    FeedbackSumsList,
)
from app.pagination import decode_cursor, encode_cursor
from app.text import require_storable
from app.webhooks.event_types import EventType
from app.webhooks.outbox import record_event
from engine.types import Role

DAYS_DEFAULT = 30


class FeedbackService:
    """Owns the ratings: one of each person for each answer."""

    def __init__(self, database: Database, *, now: Now) -> None:
        self._database = database
        self._now = now

    async def put(self, user_id: str, message_id: str, wanted: FeedbackPut) -> FeedbackBody:
        """Rate an answer, of the model or of an agent, again or for the first time. Raises NotFound, or InvalidInput for what is
        no answer."""
        async with self._database.write() as session:
            message, conversation = await queries.owned_message(session, user_id, message_id)
            if message.role != Role.ASSISTANT or not MessageStatus(message.status).is_final:
                raise InvalidInput("expected a message that is a finished answer", code="not_an_answer")
            now = self._now()
            feedback = await session.get(Feedback, (message_id, user_id))
            if feedback is None:
                feedback = Feedback(
                    message_id=message_id, user_id=user_id, conversation_id=conversation.id, created_at=now
                )
                session.add(feedback)
            feedback.rating, feedback.scale, feedback.comment = wanted.rating, wanted.scale, wanted.comment
            feedback.persona = conversation.persona
            feedback.day = now.astimezone(UTC).date()
            feedback.updated_at = now
            await session.flush()
            body = FeedbackBody.of(feedback)
            await record_event(session, EventType.FEEDBACK_CREATED, conversation, {"feedback": body}, now=now)
        return body

    async def delete(self, user_id: str, message_id: str) -> None:
        """Take it back. Idempotent. Raises NotFound."""
        async with self._database.write() as session:
            await queries.owned_message(session, user_id, message_id)
            await queries.delete_feedback(session, user_id, message_id)

    async def sums(self, *, since: date | None, until: date | None, limit: int, cursor: str | None) -> FeedbackSumsList:
        """A page of sums by day and persona, the newest day first; without days those of the last thirty. Raises InvalidInput."""
        until = until or self._now().astimezone(UTC).date()
        since = since or max(date.min + timedelta(days=DAYS_DEFAULT), until) - timedelta(days=DAYS_DEFAULT - 1)
        if since > until:
            raise InvalidInput(f"expected since not to be after until, got {since} and {until}")
        before = None
        if cursor is not None:
            place = decode_cursor(cursor, FeedbackCursor)
            before = (place.day, require_storable(place.persona, "cursor"))
        async with self._database.read() as session:
            rows = await queries.sums_page(session, since=since, until=until, limit=limit + 1, before=before)
        next_cursor = None
        if len(rows) > limit:
            next_cursor = encode_cursor(FeedbackCursor(rows[limit - 1]["day"], rows[limit - 1]["persona"]))
        return FeedbackSumsList([_sums(row) for row in rows[:limit]], next_cursor)


def _sums(row: dict[str, Any]) -> FeedbackSums:
    stars, up, down = int(row["stars"]), int(row["thumbs_up"]), int(row["thumbs_down"])
    return FeedbackSums(
        day=row["day"],
        persona=row["persona"] or None,
        thumbs_up=up,
        thumbs_down=down,
        stars=stars,
        stars_average=round(int(row["stars_sum"]) / stars, 3) if stars else None,
        satisfied=round((up + int(row["stars_satisfied"])) / (up + down + stars), 3),
    )

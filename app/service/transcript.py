"""How who answers has changed, for transcripts: read in somebody's unit of work, and taken over with an import. Nothing commits.

Names stay, accounts do not: what comes from a file gives nobody a right to read.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta
from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.accounts.models import USERNAME_MAX_CHARS
from app.service.models import REASON_MAX_CHARS, StateChange
from app.service.states import Cause, ConversationState
from app.text import STORABLE_PATTERN

Name = Annotated[str, Meta(min_length=1, max_length=USERNAME_MAX_CHARS, pattern=STORABLE_PATTERN)]


class ExportedChange(msgspec.Struct, frozen=True):
    """One change. It came behind the message of this number, in the order of the file; 0 is before the first one."""

    after: Annotated[int, Meta(ge=0, le=2**53)]
    state: ConversationState
    was: ConversationState
    cause: Cause
    created_at: Annotated[datetime, Meta(tz=True)]
    reason: Annotated[str, Meta(max_length=REASON_MAX_CHARS, pattern=STORABLE_PATTERN)] | None = None
    actor: Name | None = None
    agent: Name | None = None

    @property
    def line(self) -> str:
        """It as people read it."""
        who = "" if self.actor is None else f" by {self.actor}"
        why = self.cause.replace("_", " ") if self.reason is None else " ".join(self.reason.split())
        return f"{self.created_at:%Y-%m-%d %H:%M:%S} UTC · {self.was} → {self.state}{who} ({why})"


async def state_changes(session: AsyncSession, conversation_id: str, *, up_to: int) -> list[ExportedChange]:
    """All of a conversation as it was when its newest message was this one, the oldest first."""
    statement = select(StateChange).where(StateChange.conversation_id == conversation_id, StateChange.ordinal <= up_to)
    return [
        ExportedChange(
            after=change.ordinal,
            state=ConversationState(change.to_state),
            was=ConversationState(change.from_state),
            cause=Cause(change.cause),
            created_at=change.created_at,
            reason=change.reason,
            actor=change.actor_name,
            agent=change.agent_name,
        )
        for change in await session.scalars(statement.order_by(StateChange.number))
    ]


async def take_over_changes(session: AsyncSession, conversation_id: str, changes: Sequence[ExportedChange]) -> None:
    """Changes out of a file, as those of an imported conversation."""
    rows = [
        {
            "conversation_id": conversation_id,
            "ordinal": change.after,
            "from_state": change.was,
            "to_state": change.state,
            "cause": change.cause,
            "reason": change.reason,
            "actor_name": change.actor,
            "agent_id": None,
            "agent_name": change.agent,
            "created_at": change.created_at,
        }
        for change in changes
    ]
    if rows:
        await session.execute(insert(StateChange), rows)

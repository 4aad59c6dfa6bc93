"""Moves a conversation to another state, inside the caller's unit of work, which holds the conversation. Nothing here commits.

Called by the desk for what people and agents do, and by `responses` for what a message does. What has changed is told by
`announcing`, after the commit and never before.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from app.accounts.identity import Identity
from app.conversations.models import Conversation
from app.conversations.schemas import ConversationBody
from app.errors import Conflict
from app.service.models import StateChange
from app.service.states import Cause, ConversationState, IllegalMove, Move, next_state
from app.webhooks.event_types import EventType
from app.webhooks.outbox import record_event


@dataclass(frozen=True, slots=True)
class Changed:
    """What has come of a move: the conversation as it is now, where it was, and why."""

    user_id: str
    conversation: ConversationBody
    was: ConversationState
    cause: Cause
    reason: str | None

    @property
    def frame_data(self) -> dict[str, Any]:
        """The data of `conversation.status_changed`."""
        now = self.conversation
        return {
            "state": now.state,
            "agent": now.agent,
            "state_since": now.state_since,
            "was": self.was,
            "cause": self.cause,
        }


async def move(
    session: AsyncSession,
    conversation: Conversation,
    wanted: Move,
    *,
    cause: Cause,
    now: datetime,
    actor: Identity | None = None,
    reason: str | None = None,
) -> Changed | None:
    """Where the conversation is from here on; None where that is where it is already. A TAKE needs the agent as `actor`.

    Raises Conflict for a move that its state does not allow, and, where an agent has it, for a TAKE by another one.
    """
    was = ConversationState(conversation.state)
    try:
        state = next_state(was, wanted)
    except IllegalMove as problem:
        raise Conflict(
            f"this cannot be done to a conversation in state {was}", code="illegal_move", members={"state": was}
        ) from problem
    if wanted is Move.TAKE and was is ConversationState.HUMAN:
        require_agent(conversation, actor)
    is_handed_over = wanted is Move.TAKE and actor is not None and conversation.agent_id != actor.user_id
    if state is was and not is_handed_over:
        return None
    if state is ConversationState.HUMAN and actor is not None:
        conversation.agent_id, conversation.agent_name = actor.user_id, actor.username
    elif state is not ConversationState.RESOLVED:
        conversation.agent_id = conversation.agent_name = None
    conversation.state = state
    conversation.state_since = conversation.updated_at = now
    session.add(
        StateChange(
            conversation_id=conversation.id,
            ordinal=conversation.last_ordinal,
            from_state=was,
            to_state=state,
            cause=cause,
            reason=reason,
            actor_name=actor and actor.username,
            agent_id=conversation.agent_id if state is ConversationState.HUMAN else None,
            agent_name=conversation.agent_name if state is ConversationState.HUMAN else None,
            created_at=now,
        )
    )
    await session.flush()
    why = {"was": was, "cause": cause, "reason": reason, "actor": actor and actor.username}
    await record_event(session, EventType.STATUS_CHANGED, conversation, why, now=now)
    if state is ConversationState.QUEUED:
        await record_event(session, EventType.HANDOFF_REQUESTED, conversation, why, now=now)
    return Changed(conversation.user_id, ConversationBody.of(conversation), was, cause, reason)


def require_agent(conversation: Conversation, actor: Identity | None) -> None:
    """Raises Conflict, with who has it, where that is somebody else. One whose agent is gone is free."""
    if conversation.agent_id is None or (actor is not None and conversation.agent_id == actor.user_id):
        return
    raise Conflict(
        f"{conversation.agent_name} has this conversation",
        code="taken",
        members={
            "state": conversation.state,
            "agent": {"id": conversation.agent_id, "name": conversation.agent_name},
        },
    )

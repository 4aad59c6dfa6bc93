"""Tells everybody that has to know who answers a conversation: its watchers, the agents, and the engine that keeps its KV.

Called after the commit, on the event loop, by whoever made the change. It never waits and never raises: SQL has decided.
"""

from __future__ import annotations

from typing import Any

from app.conversations.schemas import ConversationBody, MessageBody
from app.realtime.hub import Hub, Subscriber
from app.service.changes import Changed
from app.service.feed import InboxFeed
from app.service.states import ConversationState
from app.sessions.holding import SessionHolding

WATCHED_BY_AGENTS = (ConversationState.QUEUED, ConversationState.HUMAN)


class ServiceNews:
    """Owns nothing."""

    def __init__(self, hub: Hub, feed: InboxFeed, holding: SessionHolding) -> None:
        self._hub = hub
        self._feed = feed
        self._holding = holding

    def changed(self, change: Changed) -> None:
        """Another state, or another agent."""
        now = change.conversation
        data = {**status_data(now), "was": change.was, "cause": change.cause}
        self._hub.announce(now.id, "conversation.status_changed", data)
        self._hub.announce(now.id, "conversation.updated", {"conversation": now})
        self._feed.publish("conversation.status_changed", {"conversation_id": now.id, **data})
        is_held, was_held = (state is ConversationState.HUMAN for state in (now.state, change.was))
        if is_held != was_held:
            self._holding.tell(change.user_id, now.id, is_held=is_held)

    def said(self, conversation: ConversationBody, message: MessageBody) -> None:
        """There is a new message where agents look."""
        if conversation.state in WATCHED_BY_AGENTS:
            data = {"conversation_id": conversation.id, "message_id": message.id, "role": message.role}
            self._feed.publish("message.created", data)

    def answered(self, conversation: ConversationBody, message: MessageBody) -> None:
        """An agent has written."""
        data = {"message": message, "response": None, "response_id": None, "client_message_id": None}
        self._hub.announce(conversation.id, "message.created", data)
        self._hub.announce(conversation.id, "conversation.updated", {"conversation": conversation})
        self.said(conversation, message)

    def person_types(self, conversation_id: str, beside: Subscriber) -> None:
        """Whom the conversation belongs to writes something."""
        self._hub.announce(conversation_id, "typing", {"author": None}, beside=beside)
        self._feed.publish("typing", {"conversation_id": conversation_id, "author": None})

    def agent_types(self, conversation_id: str, author: dict[str, Any]) -> None:
        """An agent does."""
        self._hub.announce(conversation_id, "typing", {"author": author})
        self._feed.publish("typing", {"conversation_id": conversation_id, "author": author})


def status_data(conversation: ConversationBody) -> dict[str, Any]:
    """What `conversation.status_changed` says of how it is now."""
    return {
        "state": conversation.state,
        "agent": conversation.agent,
        "state_since": conversation.state_since,
    }

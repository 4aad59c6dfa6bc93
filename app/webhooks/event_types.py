"""What webhooks tell. Pure. The values are on the wire, and each is described in `docs/webhooks.md`."""

from __future__ import annotations

from enum import StrEnum


class EventType(StrEnum):
    """What has happened."""

    CONVERSATION_CREATED = "conversation.created"
    STATUS_CHANGED = "conversation.status_changed"
    MESSAGE_CREATED = "message.created"
    RESPONSE_COMPLETED = "response.completed"
    RESPONSE_INCOMPLETE = "response.incomplete"
    RESPONSE_CANCELLED = "response.cancelled"
    RESPONSE_FAILED = "response.failed"
    RESPONSE_INTERRUPTED = "response.interrupted"
    HANDOFF_REQUESTED = "handoff.requested"
    FEEDBACK_CREATED = "feedback.created"
    TEST = "webhook.test"
    """Sent by `POST webhooks/{id}/test` alone, whatever the endpoint wants to be told."""

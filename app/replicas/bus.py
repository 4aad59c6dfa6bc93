"""What the servers of one deployment tell each other, as a contract: short news on a few topics, to everybody but the sender.

Twins: `memory_bus` (one server, or several in one process) and `redis_bus`. News may be lost while Redis is away, so nothing may
depend on it alone: whatever it says is in SQL first, and `on_reconnected` is when those who listen look there again.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Protocol


class Topic(StrEnum):
    """What there is to tell."""

    ANNOUNCED = "announced"
    """A frame for the watchers of a conversation: `conversation_id`, `frame`."""
    BEGAN = "began"
    """An answer begins: `conversation_id`, `response_id`."""
    CANCEL = "cancel"
    """Somebody wants an answer to end: `response_id`."""
    DESK = "desk"
    """Something for the agents' inbox: `event`, `data`."""
    HELD = "held"
    """A person answers a conversation, or does not any more: `user_id`, `conversation_id`, `is_held`."""
    EXPIRING = "expiring"
    """A live session is about to leave: `user_id`, `conversation_id`, `data`."""
    FORGET = "forget"
    """A conversation was deleted: `user_id`, `conversation_id`."""
    FORGET_USER = "forget_user"
    """An account was deleted: `user_id`."""
    PERSONA = "persona"
    """A persona was made, changed or deleted: `name`."""
    WATCHED = "watched"
    """An answer of another server has a reader here, or has none any more: `response_id`, `watched`."""
    SESSIONS_ASKED = "sessions_asked"
    """Somebody wants to know, or to end, live sessions of others: `ask_id`, `what`, `to` (a server, or null for all), `key`."""
    SESSIONS_TOLD = "sessions_told"
    """The answer to that: `ask_id`, `server`, `sessions`, `result`."""
    REVOKED = "revoked"
    """A sign-in has ended: `credential_id`."""


News = dict[str, Any]
Listener = Callable[[News], None]
"""Called on the event loop. It must not block and must not raise."""


class Bus(Protocol):
    """One server's end of it."""

    async def open(self) -> None:
        """Begin to listen. Does not wait for a Redis that is away."""

    def publish(self, topic: Topic, **news: Any) -> None:
        """Tell the other servers, in the order of calls. Never blocks; may be lost."""

    def on(self, topic: Topic, listener: Listener) -> None:
        """Have `listener` told what the others publish there."""

    async def num_others(self) -> int:
        """How many other servers hear what is published; 0 while nobody can be reached."""

    def on_reconnected(self, listener: Callable[[], None]) -> None:
        """Have `listener` told when news may have been missed and comes again from now on."""

    async def close(self) -> None:
        """Say and hear nothing more. Idempotent."""

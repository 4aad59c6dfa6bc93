"""What this room asks of whoever holds the answers that are being made right now."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from app.conversations.models import MessageStatus


class LiveAnswer(NamedTuple):
    """A running answer at one moment: its text, the `seq` of the last event in it, and its status."""

    text: str
    last_seq: int
    status: MessageStatus


class LiveAnswers(Protocol):
    """Running answers, which the database knows only about once in two seconds."""

    def snapshot(self, response_id: str) -> LiveAnswer | None:
        """How far the answer is, as one consistent whole; None when it is not being made here."""

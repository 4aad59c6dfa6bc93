"""Writes the text of running answers to SQL now and then, so that a reader of the database alone sees them grow.

Not what makes them durable: that is the journal. One transaction for all answers, at most once per interval, and once more
soon after an answer starts, so that its status is right. Not at once: its first words are on their way then, and a short answer
has ended before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from app.conversations.models import MessageStatus
from app.responses.answer import Answer
from app.responses.queries import Growth
from app.responses.storage import AnswerStorage

SOON_S = 0.25


class GrowthWriter:
    """Runs as one task for the life of the dispatcher."""

    def __init__(self, storage: AnswerStorage, answers: Callable[[], Iterable[Answer]], *, every_s: float) -> None:
        self._storage = storage
        self._answers = answers
        self._every_s = every_s
        self._start_to_write = asyncio.Event()

    def started(self) -> None:
        """An answer began: write soon."""
        self._start_to_write.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                async with asyncio.timeout(self._every_s):
                    await self._start_to_write.wait()
            except TimeoutError:
                pass
            else:
                await asyncio.sleep(min(SOON_S, self._every_s))
            self._start_to_write.clear()
            await self.write()

    async def write(self) -> None:
        """Store what has changed since the last time."""
        grown: list[tuple[Answer, Growth]] = []
        for answer in self._answers():
            if answer.status is MessageStatus.IN_PROGRESS and answer.log.last_seq > answer.stored_seq:
                snapshot = answer.log.snapshot()
                growth = Growth(
                    response_id=answer.response_id,
                    message_id=answer.identity.message_id,
                    conversation_id=answer.identity.conversation_id,
                    text=snapshot.text,
                    last_seq=snapshot.last_seq,
                    started_at=answer.started_at,
                )
                grown.append((answer, growth))
        if grown and await self._storage.grow([growth for _, growth in grown]):
            for answer, growth in grown:
                answer.stored_seq = growth.last_seq

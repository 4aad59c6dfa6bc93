"""When the text of a running answer reaches SQL: soon after its start, and not beside its first words."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.conversations.models import MessageStatus
from app.responses import growth
from app.responses.answer import Answer
from app.responses.growth import GrowthWriter
from app.responses.storage import AnswerStorage


class Storage:
    def __init__(self) -> None:
        self.written = asyncio.Event()

    async def grow(self, growths: list[Any]) -> bool:
        self.written.set()
        return True


def running_answer() -> Answer:
    log = SimpleNamespace(last_seq=1, snapshot=lambda: SimpleNamespace(text="a", last_seq=1))
    identity = SimpleNamespace(message_id="m", conversation_id="c")
    status = MessageStatus.IN_PROGRESS
    answer = SimpleNamespace(status=status, log=log, stored_seq=0, response_id="r", identity=identity, started_at=None)
    return cast(Answer, answer)


@pytest.mark.parametrize("soon_s", [0.0, 1000.0])
async def test_an_answer_that_begins_is_written_soon_and_not_at_once(
    monkeypatch: pytest.MonkeyPatch, soon_s: float
) -> None:
    monkeypatch.setattr(growth, "SOON_S", soon_s)
    storage, answer = Storage(), running_answer()
    writer = GrowthWriter(cast(AnswerStorage, storage), lambda: [answer], every_s=1000.0)
    task = asyncio.create_task(writer.run())
    writer.started()
    if soon_s == 0.0:
        async with asyncio.timeout(10):
            await storage.written.wait()
    else:
        for _ in range(100):
            await asyncio.sleep(0)
        assert not storage.written.is_set()
    task.cancel()
    await asyncio.wait([task])

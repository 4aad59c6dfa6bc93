"""People are told once that a session of theirs runs out, and nobody else is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.engine_view import EngineView
from app.sessions.expiry import Expiry, expiring_data
from engine.errors import EngineNotReady
from engine.snapshot import EngineSnapshot, PagesByTier, SessionState, SessionStatus
from engine.types import Namespace, Priority, SessionKey
from tests.support.fake_engine import FakeEngine
from tests.support.live_server import live_server

CONVERSATION = "00000000-0000-4000-8000-000000000001"
STATUS = SessionStatus(
    key=SessionKey(Namespace.user("ann"), CONVERSATION),
    state=SessionState.HOST,
    priority=Priority.INTERACTIVE,
    turns=1,
    tokens=100,
    pages=PagesByTier(host=7),
    cached_tokens=0,
    ttft_ms=None,
    idle_s=1780.0,
    seconds_to_timeout=20.0,
)


class Told:
    """An engine with these sessions, and what was told about them."""

    def __init__(self, *sessions: SessionStatus, notice_s: float = 30.0) -> None:
        self.sessions = sessions
        self.is_anybody_there = True
        self.told: list[tuple[str, str, dict[str, Any]]] = []
        self.now = 0.0
        engine = FakeEngine()
        engine.snapshot = self.snapshot  # type: ignore[method-assign]
        view = EngineView(engine, lambda: self.now)
        self.expiry = Expiry(
            view, lambda: self.is_anybody_there, lambda *frame: self.told.append(frame), notice_s=notice_s
        )

    async def snapshot(self) -> EngineSnapshot:
        return EngineSnapshot(sessions=self.sessions)

    async def look(self, *sessions: SessionStatus) -> int:
        """Look at these sessions; how much was told."""
        self.sessions, self.now, before = sessions, self.now + 5, len(self.told)
        await self.expiry.look()
        return len(self.told) - before


async def test_it_is_told_once_for_each_time_it_runs_out() -> None:
    told = Told()
    assert await told.look(replace(STATUS, seconds_to_timeout=31.0)) == 0
    assert await told.look(STATUS) == 1
    assert await told.look(replace(STATUS, seconds_to_timeout=15.0)) == 0
    assert told.told == [
        (
            "ann",
            CONVERSATION,
            {
                "session_id": CONVERSATION,
                "state": "host",
                "seconds_to_timeout": 20.0,
                "is_last_tier": False,
                "tokens": 100,
            },
        )
    ]
    # In the next tier its time begins anew.
    lower = replace(STATUS, state=SessionState.DISK, seconds_to_timeout=84600.0)
    assert await told.look(lower) == 0
    assert await told.look(replace(lower, seconds_to_timeout=3.0)) == 1
    assert told.told[-1][2]["is_last_tier"] is True
    assert await told.look() == 0
    assert len(told.expiry) == 0


async def test_a_session_that_is_used_or_is_no_conversation_is_not_announced() -> None:
    told = Told()
    active = replace(STATUS, state=SessionState.ACTIVE, seconds_to_timeout=None)
    named = replace(STATUS, key=SessionKey(Namespace.user("ann"), "my own name"))
    part = replace(STATUS, key=SessionKey(Namespace.user("ann", "customer"), CONVERSATION))
    persona = replace(STATUS, key=SessionKey(Namespace.public(), "terse"))
    assert await told.look(active, named, part, persona) == 0


async def test_nobody_looks_while_nobody_is_connected() -> None:
    told = Told()
    told.is_anybody_there = False
    assert await told.look(STATUS) == 0
    told.is_anybody_there = True
    assert await told.look(STATUS) == 1


async def test_it_goes_on_when_the_engine_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    looks = 0

    class Enough(Exception):
        pass

    async def sleep(seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks > 3:
            raise Enough

    async def not_ready() -> None:
        raise EngineNotReady("loading")

    monkeypatch.setattr(told.expiry, "look", not_ready)
    with pytest.raises(Enough):
        await told.expiry.watch(sleep)
    assert looks == 4


async def test_with_no_notice_nothing_is_watched() -> None:
    await Told(notice_s=0).expiry.watch()


async def test_every_socket_of_its_owner_gets_the_frame_and_no_other(tmp_path: Path, sqlite_url: str) -> None:
    async with live_server(tmp_path, sqlite_url) as live, live.person("ann") as ann, live.person("bob") as bob:
        me = (await ann.http.get("/api/v1/me")).json()["id"]
        async with ann.socket() as one, ann.socket() as two, bob.socket() as other:
            data = expiring_data(STATUS)
            live.context.hub.tell_user(me, "session.expiring", data, CONVERSATION)
            for socket in (one, two):
                frame = await socket.until(lambda frame: frame["type"] == "session.expiring")
                assert frame["conversation_id"] == CONVERSATION
            assert "session.expiring" not in {frame["type"] for frame in await other.drain()}

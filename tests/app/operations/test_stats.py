"""What an administrator sees of the server at a glance, and once a second."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.accounts.models import UserRole
from app.operations.page_map import page_map
from app.operations.recent import RecentRates, RecentSamples
from app.operations.stats import StatsFeed
from app.operations.stats_stream import StatsStream
from app.realtime.hub import Hub
from engine.snapshot import EngineSnapshot, PageState, PageStatus
from engine.types import NamespaceKind
from tests.app.responses.chat import open_chat
from tests.support.client import problem
from tests.support.fake_engine import FakeEngine
from tests.support.live_server import eventually, live_server

PATH = "/api/v1/admin/stats"
PUBLIC, USER = NamespaceKind.PUBLIC, NamespaceKind.USER


def test_quantiles_are_those_of_the_last_minute() -> None:
    samples = RecentSamples(span_s=60, most=1000)
    assert samples.quantiles(0, 0.5) is None
    samples.add(1000.0, now=0)
    for number in range(1, 101):
        samples.add(float(number), now=30)
    assert samples.quantiles(70, 0.5, 0.99, 1.0) == [50.0, 99.0, 100.0]
    assert samples.quantiles(100, 0.5) is None


def test_of_very_many_values_the_last_ones_count() -> None:
    samples = RecentSamples(span_s=60, most=10)
    for number in range(100):
        samples.add(float(number), now=1)
    assert samples.quantiles(1, 0.1, 1.0) == [90.0, 99.0]


def test_rates_are_what_rose_since_some_ticks_ago() -> None:
    rates = RecentRates(ticks=2)
    rates.tick(0, 0, 0)
    assert (rates.increases(), rates.per_second()) == ((), ())
    for second in (1, 2, 3, 4):
        rates.tick(second, second * 10, second**2)
    assert rates.increases() == (20, 12)
    assert rates.per_second() == (10.0, 6.0)


def test_a_page_map_has_one_letter_per_run_and_tells_people_from_personas() -> None:
    pages = [
        *[PageStatus(PageState.FREE, None)] * 12,
        PageStatus(PageState.RUNNING, USER),
        *[PageStatus(PageState.PREFIX, PUBLIC)] * 3,
        PageStatus(PageState.CACHED, USER),
        PageStatus(PageState.LEASED, USER),
    ]
    assert page_map(pages) == "12fr3Pcl"
    assert page_map([]) == ""


def test_tens_of_thousands_of_pages_are_a_few_kilobytes() -> None:
    """At worst one letter a page; a thousand sessions of some pages each are far below."""
    states = list(PageState)
    sessions = [PageStatus(states[number // 40 % len(states)], USER) for number in range(40_000)]
    assert len(page_map(sessions)) < 4_000
    alternating = [PageStatus(states[number % len(states)], USER) for number in range(40_000)]
    assert len(page_map(alternating)) == 40_000


async def test_one_snapshot_tells_of_queue_speed_reuse_and_pages(
    tmp_path: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_chat(tmp_path, sqlite_url) as chat, chat.running.signed_in("root", UserRole.ADMIN) as admin:
        pages = (PageStatus(PageState.FREE, None),) * 5 + (PageStatus(PageState.PREFIX, PUBLIC),) * 2

        async def snapshot() -> EngineSnapshot:
            return EngineSnapshot(pages=pages)

        monkeypatch.setattr(chat.engine, "snapshot", snapshot)
        problem(await chat.http.get(PATH), 403, "forbidden")
        chat.context.stats.tick()
        await chat.turn("a secret")
        chat.running.clock.advance(1)
        chat.context.stats.tick()
        chat.context.metrics.event_loop_lagged(0.004)
        answer = await admin.get(PATH)
        assert "secret" not in answer.text
        body: dict[str, Any] = answer.json()
        assert body["page_map"] == "5f2P"
        assert body["pages"] == [
            {"tier": "device", "state": "free", "namespace": None, "pages": 5},
            {"tier": "device", "state": "prefix", "namespace": "public", "pages": 2},
        ]
        assert (body["state"], body["model"], body["running"]) == ("ready", "fake", 0)
        assert body["queue"] == {"waiting": 0, "waiting_tokens": 0, "by_priority": {}}
        assert body["tokens_per_s"]["decode"] > 0
        assert body["ttft_ms"]["p50"] is not None
        assert body["event_loop_lag_ms"]["p99"] >= 4.0
        assert body["hits"]["hit_tokens"] == {"device": 0, "host": 0, "disk": 0, "prefix": 0}
        assert (body["sockets"], body["event_streams"]) == (0, 0)
        # Within the same second nothing new is made.
        assert (await admin.get(PATH)).json() == body


async def test_while_the_model_loads_there_are_no_pages_and_no_error(tmp_path: Path, sqlite_url: str) -> None:
    engine = FakeEngine(ready=False)
    async with (
        open_chat(tmp_path, sqlite_url, engine=engine) as chat,
        chat.running.signed_in("root", UserRole.ADMIN) as admin,
    ):
        body = (await admin.get(PATH)).json()
        assert (body["state"], body["model"], body["page_map"]) == ("loading", None, "")


async def test_the_stream_tells_it_again_and_again_and_one_is_made_for_all(tmp_path: Path, sqlite_url: str) -> None:
    async with live_server(tmp_path, sqlite_url) as live, live.person("root", UserRole.ADMIN) as admin:
        made = 0
        real = StatsFeed._make

        async def counted(feed: StatsFeed) -> Any:
            nonlocal made
            made += 1
            return await real(feed)

        live.context.stats._make = counted.__get__(live.context.stats)  # type: ignore[method-assign]

        async def events(count: int) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = []
            async with admin.http.stream("GET", f"{PATH}/events") as answer:
                assert answer.headers["content-type"].startswith("text/event-stream")
                async for line in answer.aiter_lines():
                    if line.startswith("data: "):
                        found.append(json.loads(line[6:]))
                        if len(found) == count:
                            return found
            return found

        both = await asyncio.gather(events(3), events(3))
        assert [len(found) for found in both] == [3, 3]
        assert both[0][0]["taken_at"] < both[0][-1]["taken_at"]
        assert made <= 4
        await eventually(lambda: live.context.hub.sizes()["event_streams"] == 0)


async def test_the_stream_ends_with_the_sign_in_and_with_the_server(tmp_path: Path, sqlite_url: str) -> None:
    async with live_server(tmp_path, sqlite_url) as live, live.person("root", UserRole.ADMIN) as admin:

        async def watch(client: httpx.AsyncClient) -> None:
            async with client.stream("GET", f"{PATH}/events") as answer:
                async for _ in answer.aiter_lines():
                    pass

        watching = asyncio.create_task(watch(admin.http))
        await eventually(lambda: live.context.hub.sizes()["event_streams"] == 1)
        async with httpx.AsyncClient(base_url=live.url, trust_env=False, headers=admin.http.headers) as other:
            assert (await other.post("/api/v1/auth/logout")).status_code == 204
        await watching
        async with live.person("second", UserRole.ADMIN) as second:
            watching = asyncio.create_task(watch(second.http))
            await eventually(lambda: live.context.hub.sizes()["event_streams"] == 1)
            live.server.handle_exit(15, None)
            await watching


async def test_a_stream_whose_sign_in_ended_while_it_was_opened_shows_nothing() -> None:
    """Nobody was there to be told: it was neither known to the hub, nor to be refused any more."""
    sent: list[dict[str, Any]] = []
    hub, leaves = Hub(), asyncio.Event()

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        await leaves.wait()
        return {"type": "http.disconnect"}

    async def encoded() -> bytes:
        return b"{}"

    async def still_holds() -> bool:
        assert hub.sizes()["event_streams"] == 1
        return False

    stream = StatsStream(hub, encoded, credential_id="c", still_holds=still_holds, expires_in_s=None, send_timeout_s=60)
    await stream({"type": "http"}, receive, send)  # type: ignore[typeddict-item]
    assert b"".join(message.get("body", b"") for message in sent) == b""
    assert sent[-1]["more_body"] is False
    assert hub.sizes()["event_streams"] == 0

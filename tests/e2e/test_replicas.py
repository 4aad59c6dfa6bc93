"""Several servers when something dies: one of them, their Redis, their PostgreSQL. `tests/bench/replicas.py` does it larger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from app import migrate
from app.settings import Settings
from tests.app.replicas.deployment import Deployment, deployed
from tests.e2e.test_kill import prepared
from tests.support.fake_engine import FakeEngine
from tests.support.killable_server import KillableServer
from tests.support.postgres import PostgresCluster
from tests.support.redis_server import RedisServer
from tests.support.replica_streams import PATIENCE_S, Watcher, asked, begin, require_same
from tests.support.scripts import numbered_script

pytestmark = [pytest.mark.slow, pytest.mark.postgres]

STREAMS = 10
WORDS = 120
STEP_S = 0.02


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    server = RedisServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def own_postgres() -> Iterator[PostgresCluster]:
    cluster = PostgresCluster()
    cluster.start()
    yield cluster
    cluster.stop()


async def test_when_a_server_is_killed_its_answer_is_interrupted_and_made_again_elsewhere(
    tmp_path: Path, postgres_url: str, own_redis: RedisServer
) -> None:
    """bayes-platform#673: the row said "streaming" for ever, and nothing of the text was in the database."""
    token, _ = await prepared(tmp_path / "before", postgres_url)
    headers = {"Authorization": f"Bearer {token}"}
    settings = [Settings(data=tmp_path / name, database_url=postgres_url, redis_url=own_redis.url) for name in "ab"]
    dying, surviving = (KillableServer(each, words=1000, delay_s=0.01) for each in settings)
    try:
        urls = [await dying.serves(), await surviving.serves()]
        async with (
            httpx.AsyncClient(base_url=urls[0], headers=headers, trust_env=False, timeout=PATIENCE_S) as there,
            httpx.AsyncClient(base_url=urls[1], headers=headers, trust_env=False, timeout=PATIENCE_S) as here,
        ):
            conversation, response_id = await begin(there)
            watchers = [Watcher(urls, headers, response_id), Watcher(urls[1:], headers, response_id)]
            following = [asyncio.create_task(watcher.follow()) for watcher in watchers]
            for watcher in watchers:
                await watcher.arrived.wait()
            await asyncio.to_thread(dying.kill)
            frames = await asyncio.gather(*following)
            assert frames[0][-1]["type"] == "response.interrupted"
            await require_same(here, conversation, *frames)
            message = (await asked(here, "GET", f"/api/v1/conversations/{conversation}/messages"))["items"][1]
            again = await asked(
                here,
                "POST",
                f"/api/v1/conversations/{conversation}/responses",
                {"parent_id": message["id"], "params": {"max_tokens": 5}},
            )
            regenerated = await Watcher(urls[1:], headers, again["response"]["id"]).follow()
            assert regenerated[-1]["type"] == "response.incomplete"
    finally:
        await asyncio.to_thread(dying.kill)
        await asyncio.to_thread(surviving.kill)


async def test_a_redis_that_is_restarted_with_nothing_in_it_costs_no_stream_a_word(
    tmp_path: Path, postgres_url: str, own_redis: RedisServer
) -> None:
    async with servers(tmp_path, postgres_url, own_redis.url) as deployment:
        await require_streams_survive(deployment, lambda: restart(own_redis))
        # It is used again, and by itself.
        async with asyncio.timeout(PATIENCE_S):
            for person in deployment.people:
                while (await person.http.get("/readyz")).json() != {"status": "ready"}:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)


async def test_a_postgresql_that_is_restarted_costs_no_stream_a_word(
    tmp_path: Path, own_postgres: PostgresCluster, redis_server: RedisServer
) -> None:
    url = own_postgres.create_database()
    await asyncio.to_thread(migrate.upgrade, url)
    async with servers(tmp_path, url, redis_server.url) as deployment:
        await require_streams_survive(deployment, own_postgres.restart)
    redis_server.empty()


@asynccontextmanager
async def servers(folder: Path, database_url: str, redis_url: str) -> AsyncIterator[Deployment]:
    engines = [FakeEngine(delay_s=STEP_S, answer=lambda request: numbered_script(WORDS)) for _ in range(2)]
    async with deployed(folder, database_url, redis_url, engines=engines) as deployment:
        yield deployment


async def require_streams_survive(deployment: Deployment, trouble: Callable[[], None], streams: int = STREAMS) -> None:
    """Half of the streams are made by each server; each is watched at both, and something happens in the middle."""
    headers = {"Authorization": deployment.people[0].http.headers["Authorization"]}
    urls = [server.url for server in deployment.servers]
    clients = [person.http for person in deployment.people]
    begun = await asyncio.gather(*(begin(clients[number % 2]) for number in range(streams)))
    watched = [[Watcher(order, headers, response_id) for order in (urls, urls[::-1])] for _, response_id in begun]
    following = [asyncio.create_task(watcher.follow()) for pair in watched for watcher in pair]
    for pair in watched:
        for watcher in pair:
            await watcher.arrived.wait()
    await asyncio.to_thread(trouble)
    frames = await asyncio.gather(*following)
    for number, (conversation, _) in enumerate(begun):
        one, other = frames[2 * number], frames[2 * number + 1]
        assert one[-1]["type"] == "response.completed"
        await require_same(clients[1 - number % 2], conversation, one, other)


def restart(server: RedisServer) -> None:
    server.stop()
    server.start()

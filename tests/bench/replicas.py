"""Several servers, again and again, and what it took: the scenarios of `tests/e2e/test_replicas.py`, larger and measured.

    python -m tests.bench.replicas [--times 20] [--streams 50] [--only NAME …]

Starts a PostgreSQL and a Redis of its own. Prints one line per scenario: how often it went right, and the median and the longest
of what it measures. Exit code 1 when one went wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

import httpx

from app import migrate
from app.operations.logging import configure_logging
from app.settings import Settings
from tests.app.replicas.deployment import Deployment, deployed
from tests.e2e.test_kill import prepared
from tests.e2e.test_replicas import require_streams_survive, restart
from tests.support.fake_engine import FakeEngine
from tests.support.killable_server import KillableServer
from tests.support.live_server import eventually
from tests.support.postgres import PostgresCluster
from tests.support.redis_server import RedisServer
from tests.support.replica_streams import PATIENCE_S, Watcher, asked, begin, require_same
from tests.support.scripts import numbered_script

STEP_S = 0.02


class Bench:
    """Owns the two databases that all scenarios share."""

    def __init__(self, folder: Path, streams: int) -> None:
        self.folder, self.streams = folder, streams
        self.postgres, self.redis = PostgresCluster(), RedisServer()
        self._count = 0

    def database(self) -> str:
        """A new one, migrated."""
        url = self.postgres.create_database()
        migrate.upgrade(url)
        return url

    def place(self) -> Path:
        """A new folder."""
        self._count += 1
        return self.folder / str(self._count)

    async def with_servers(
        self, scenario: Callable[[Deployment], Awaitable[float]], *, words: int = 120, servers: int = 2
    ) -> float:
        """Play a scenario on fresh servers; what it measured, in seconds."""
        engines = [FakeEngine(delay_s=STEP_S, answer=lambda request: numbered_script(words)) for _ in range(servers)]
        async with deployed(self.place(), self.database(), self.redis.url, engines=engines) as deployment:
            return await scenario(deployment)

    # --- scenarios -----------------------------------------------------------------------------------------------------

    async def resume(self) -> float:
        """A client leaves in the middle and goes on at the other server; seconds until its next frame."""

        async def scenario(deployment: Deployment) -> float:
            headers, urls = headers_of(deployment), [server.url for server in deployment.servers]
            conversation, response_id = await begin(deployment.people[0].http)
            first = Watcher(urls[:1], headers, response_id)
            following = asyncio.create_task(first.follow())
            await first.arrived.wait()
            await asyncio.sleep(random.uniform(0, 1))
            following.cancel()
            await asyncio.wait([following])
            second = Watcher(urls[1:], headers, response_id, dict(first.frames))
            before = time.monotonic()
            following = asyncio.create_task(second.follow())
            await eventually(lambda: len(second.frames) > len(first.frames))
            took_s = time.monotonic() - before
            frames = await following
            await require_same(deployment.people[1].http, conversation, frames)
            return took_s

        return await self.with_servers(scenario)

    async def cancel(self) -> float:
        """An answer is stopped at the other server; seconds until its watcher there has the end."""

        async def scenario(deployment: Deployment) -> float:
            headers, urls = headers_of(deployment), [server.url for server in deployment.servers]
            conversation, response_id = await begin(deployment.people[0].http)
            watcher = Watcher(urls[1:], headers, response_id)
            following = asyncio.create_task(watcher.follow())
            await watcher.arrived.wait()
            before = time.monotonic()
            cancelling = asyncio.create_task(
                asked(deployment.people[1].http, "POST", f"/api/v1/responses/{response_id}/cancel")
            )
            frames = await following
            took_s = time.monotonic() - before
            assert (await cancelling)["status"] == "cancelled"
            await require_same(deployment.people[1].http, conversation, frames)
            return took_s

        return await self.with_servers(scenario, words=100_000)

    async def delete(self) -> float:
        """A conversation is deleted at the other server; seconds until its KV is gone where it was computed."""

        async def scenario(deployment: Deployment) -> float:
            conversation, response_id = await begin(deployment.people[0].http)
            await Watcher([deployment.servers[1].url], headers_of(deployment), response_id).follow()
            engine = deployment.servers[0].engine
            assert engine.memory.session_states()
            before = time.monotonic()
            await deployment.people[1].http.delete(f"/api/v1/conversations/{conversation}")
            await eventually(lambda: not engine.memory.session_states())
            return time.monotonic() - before

        return await self.with_servers(scenario, words=10)

    async def kill(self) -> float:
        """The server that makes an answer is killed; seconds until its watchers have the end. Then it is made again."""
        url, place = self.database(), self.place()
        token, _ = await prepared(place / "before", url)
        headers = {"Authorization": f"Bearer {token}"}
        settings = [Settings(data=place / name, database_url=url, redis_url=self.redis.url) for name in "ab"]
        dying, surviving = (KillableServer(each, words=1000, delay_s=STEP_S) for each in settings)
        try:
            urls = [await dying.serves(), await surviving.serves()]
            async with httpx.AsyncClient(headers=headers, trust_env=False, timeout=PATIENCE_S) as client:
                client.base_url = httpx.URL(urls[0])
                conversation, response_id = await begin(client)
                watchers = [Watcher(urls, headers, response_id), Watcher(urls[1:], headers, response_id)]
                following = [asyncio.create_task(watcher.follow()) for watcher in watchers]
                for watcher in watchers:
                    await watcher.arrived.wait()
                await asyncio.sleep(random.uniform(0, 0.5))
                await asyncio.to_thread(dying.kill)
                before = time.monotonic()
                frames = await asyncio.gather(*following)
                took_s = time.monotonic() - before
                assert frames[0][-1]["type"] == "response.interrupted"
                client.base_url = httpx.URL(urls[1])
                await require_same(client, conversation, *frames)
                parent = (await asked(client, "GET", f"/api/v1/conversations/{conversation}/messages"))["items"][1]
                wanted = {"parent_id": parent["id"], "params": {"max_tokens": 3}}
                again = await asked(client, "POST", f"/api/v1/conversations/{conversation}/responses", wanted)
                ended = await Watcher(urls[1:], headers, again["response"]["id"]).follow()
                assert ended[-1]["type"] == "response.incomplete"
                return took_s
        finally:
            await asyncio.to_thread(dying.kill)
            await asyncio.to_thread(surviving.kill)

    async def redis_restart(self) -> float:
        """Redis is restarted with nothing in it during many streams; seconds until all of them have ended."""
        return await self._trouble(lambda: restart(self.redis))

    async def postgres_restart(self) -> float:
        """PostgreSQL is restarted during many streams; seconds until all of them have ended."""
        return await self._trouble(self.postgres.restart)

    async def _trouble(self, trouble: Callable[[], None]) -> float:
        async def scenario(deployment: Deployment) -> float:
            before = time.monotonic()
            await require_streams_survive(deployment, trouble, self.streams)
            return time.monotonic() - before

        return await self.with_servers(scenario)

    async def balancer(self) -> float:
        """Four servers, ten chats of two turns, every request and socket at a server by chance; seconds until all is right."""

        async def scenario(deployment: Deployment) -> float:
            headers, before = headers_of(deployment), time.monotonic()

            def anyone() -> httpx.AsyncClient:
                return random.choice(deployment.people).http

            async def chat() -> None:
                conversation, response_id = await begin(anyone())
                for _ in range(2):
                    url = random.choice(deployment.servers).url
                    watching = asyncio.create_task(Watcher([url], headers, response_id).follow())
                    events = await random.choice(deployment.people).events(response_id)
                    await require_same(anyone(), conversation, await watching, events)
                    path = f"/api/v1/conversations/{conversation}/messages"
                    response_id = (await asked(anyone(), "POST", path, {"content": "more"}))["response"]["id"]

            await asyncio.gather(*(chat() for _ in range(10)))
            return time.monotonic() - before

        return await self.with_servers(scenario, words=20, servers=4)


def headers_of(deployment: Deployment) -> dict[str, str]:
    """Who asks."""
    return {"Authorization": deployment.people[0].http.headers["Authorization"]}


SCENARIOS = ("resume", "cancel", "delete", "kill", "balancer", "redis_restart", "postgres_restart")


async def measure(bench: Bench, name: str, times: int) -> bool:
    """Play one scenario so often, and say how it went."""
    took_s: list[float] = []
    for number in range(times):
        try:
            took_s.append(await getattr(bench, name)())
        except Exception:
            print(f"{name}, time {number + 1}:", file=sys.stderr)
            traceback.print_exc()
    shown = f"median {median(took_s):6.2f} s, longest {max(took_s):6.2f} s" if took_s else ""
    print(f"{name:17} {len(took_s):3} of {times:3} right   {shown}", flush=True)
    return len(took_s) == times


def main() -> int:
    """All of them, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--streams", type=int, default=50)
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, default=SCENARIOS)
    chosen = parser.parse_args()
    configure_logging(Settings(log_level="error"))
    with tempfile.TemporaryDirectory(prefix="kvasir-replicas-") as folder:
        bench = Bench(Path(folder), chosen.streams)
        bench.postgres.start()
        bench.redis.start()
        try:
            right = [asyncio.run(measure(bench, name, chosen.times)) for name in chosen.only]
        finally:
            bench.redis.stop()
            bench.postgres.stop()
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())

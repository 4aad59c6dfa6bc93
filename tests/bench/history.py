"""How quick a long history is: list, open and search, while somebody writes. On SQLite, or on a PostgreSQL that it starts.

    python -m tests.bench.history [--database sqlite|postgresql|both] [--conversations 100000] [--messages 10]
                                  [--rounds 40] [--limit-ms 50] [--best-of 1] [--folder FOLDER]

Everything goes through the whole application (without a port, with Python's garbage collector set as a server sets it), signed in
as the one person who owns all of it. Each kind of request is made `--rounds` times, with other words, filters and places each
time; printed are the median, the 95th percentile and the longest, and how many messages were written meanwhile. Ends with 1
where a 95th percentile is over `--limit-ms`. With `--best-of` each of them is sent so many times and the quickest counts, for a
machine that does other things too.
Filling the tables takes some minutes at the full size; `--folder` keeps SQLite's file there and uses it again.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from sqlalchemy import select

from app import migrate
from app.accounts.models import User, UserRole
from app.cli.garbage import settle
from app.identifiers import new_id
from app.operations.logging import configure_logging
from app.settings import Settings
from tests.bench.history_data import CHINESE, Language, batches, fill_postgres, fill_sqlite
from tests.support.client import PASSWORD, RunningApp, running_app
from tests.support.fake_engine import FakeEngine
from tests.support.postgres import PostgresCluster

PATH = "/api/v1/conversations"
NAME = "reader"
PAUSE_BETWEEN_WRITES_S = 0.02


Ask = Callable[[], httpx.Request]


class History:
    """One person, signed in, with everything they have ever said."""

    def __init__(self, client: httpx.AsyncClient, language: Language, seed: int = 1) -> None:
        self._client = client
        self._words = language.words
        self._random = random.Random(seed)
        self._ids: list[str] = []
        self._cursors: list[str] = []

    async def prepare(self) -> None:
        """Find things to open, and places in the list to go on from."""
        cursor: dict[str, str] = {}
        for _ in range(5):
            page = (await self._client.get(PATH, params={"limit": 200, **cursor})).json()
            self._ids += [item["id"] for item in page["items"]]
            if page["next_cursor"] is None:
                return
            cursor = {"cursor": page["next_cursor"]}
            self._cursors.append(page["next_cursor"])

    def kinds(self) -> dict[str, Ask]:
        """Every kind of request by its name."""
        return {
            "list": lambda: self._list(),
            "list, further down": lambda: self._list(**self._somewhere()),
            "list, archived": lambda: self._list(archived="true"),
            "list, a tag all have": lambda: self._list(tag="all"),
            "list, a tag few have": lambda: self._list(tag="rare"),
            "open": lambda: self._client.build_request("GET", f"{PATH}/{self._random.choice(self._ids)}/messages"),
            "search, a word in most messages": lambda: self._search(self._word(0, 20)),
            "search, a frequent word": lambda: self._search(self._word(20, 300)),
            "search, a usual word": lambda: self._search(self._word(300, 3000)),
            "search, a rare word": lambda: self._search(self._word(3000, 30_000)),
            "search, two words": lambda: self._search(f"{self._word(0, 3000)} {self._word(0, 3000)}"),
            "search, Chinese": lambda: self._search(self._random.choice(CHINESE)),
            "search, nothing": lambda: self._search("xyzzy"),
            "search, with a tag": lambda: self._list(q=self._word(20, 3000), tag="rare"),
            "search, further down": lambda: self._list(q=self._word(0, 3000), **self._somewhere()),
        }

    def _list(self, **query: str) -> httpx.Request:
        return self._client.build_request("GET", PATH, params=query)

    def _search(self, words: str) -> httpx.Request:
        return self._list(q=words)

    def _somewhere(self) -> dict[str, str]:
        return {"cursor": self._random.choice(self._cursors)} if self._cursors else {}

    def _word(self, first: int, last: int) -> str:
        return self._words[self._random.randrange(first, last)]


async def milliseconds(client: httpx.AsyncClient, request: httpx.Request) -> float:
    """From sending this to having all of the answer."""
    start = time.perf_counter()
    (await client.send(request)).raise_for_status()
    return (time.perf_counter() - start) * 1000


async def measure(running: RunningApp, language: Language, rounds: int, best_of: int) -> dict[str, list[float]]:
    """Milliseconds of every request by kind, while somebody else writes."""
    written = 0

    async def write(client: httpx.AsyncClient) -> None:
        nonlocal written
        while True:
            conversation = (await client.post(PATH, json={})).json()["id"]
            said = await client.post(f"{PATH}/{conversation}/messages", json={"content": "hello there"})
            said.raise_for_status()
            written += 1
            await asyncio.sleep(PAUSE_BETWEEN_WRITES_S)

    async with signed_in(running) as client, running.signed_in(f"writer-{new_id()[:8]}") as other:
        history = History(client, language)
        await history.prepare()
        settle()
        kinds = history.kinds()
        times: dict[str, list[float]] = {name: [] for name in kinds}
        writing = asyncio.create_task(write(other))
        begun = time.perf_counter()
        for _ in range(rounds):
            for name, ask in kinds.items():
                request = ask()
                times[name].append(min([await milliseconds(client, request) for _ in range(best_of)]))
        seconds = time.perf_counter() - begun
        if writing.done():
            await writing
        writing.cancel()
        await asyncio.wait([writing])
    print(f"messages written meanwhile: {written} ({written / seconds:.1f} per second)")
    return times


@asynccontextmanager
async def signed_in(running: RunningApp) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the one who owns everything; the account is made already."""
    async with running.anonymous() as client:
        answer = await client.post("/api/v1/auth/login", json={"username": NAME, "password": PASSWORD})
        client.cookies.clear()
        client.headers["Authorization"] = f"Bearer {answer.json()['token']}"
        yield client


async def make_account(data: Path, url: str) -> str:
    """The id of the one who will own everything."""
    async with running_app(data, url) as running:
        await running.context.accounts.create_user(NAME, PASSWORD, UserRole.USER)
        async with running.context.database.read() as session:
            return (await session.scalars(select(User.id).where(User.username == NAME))).one()


async def asked(data: Path, url: str, chosen: argparse.Namespace) -> dict[str, list[float]]:
    """Serve this database and measure."""
    async with running_app(data, url, engine=FakeEngine(delay_s=0.005)) as running:
        return await measure(running, Language(0), chosen.rounds, chosen.best_of)


def fill(data: Path, url: str, conversations: int, messages: int) -> None:
    """An account, and everything it has."""
    migrate.upgrade(url)
    user_id = asyncio.run(make_account(data, url))
    begun = time.perf_counter()
    rows = batches(user_id, conversations, messages, Language(0))
    if url.startswith("sqlite"):
        fill_sqlite(Path(url.removeprefix("sqlite:///")), rows)
    else:
        fill_postgres(url, rows)
    print(f"filled in {time.perf_counter() - begun:.0f} s", flush=True)


def report(kind: str, times: dict[str, list[float]], limit_ms: float) -> bool:
    """Print the table; whether everything is within the limit."""
    print(f"\n{kind}: milliseconds\n{'':36}{'median':>9}{'p95':>9}{'longest':>9}")
    is_within = True
    for name, values in times.items():
        p95 = statistics.quantiles(values, n=20, method="inclusive")[-1]
        is_within &= p95 <= limit_ms
        mark = "" if p95 <= limit_ms else "  over the limit"
        print(f"{name:36}{statistics.median(values):9.1f}{p95:9.1f}{max(values):9.1f}{mark}")
    return is_within


def on_sqlite(folder: Path, chosen: argparse.Namespace) -> bool:
    """Fill a file, where there is none, and ask."""
    path = folder / "history.sqlite3"
    url = f"sqlite:///{path}"
    if not path.exists():
        fill(folder, url, chosen.conversations, chosen.messages)
    return report("SQLite", asyncio.run(asked(folder, url, chosen)), chosen.limit_ms)


def on_postgres(folder: Path, chosen: argparse.Namespace) -> bool:
    """Start a server, fill it, and ask."""
    cluster = PostgresCluster()
    cluster.start()
    try:
        url = cluster.create_database()
        fill(folder, url, chosen.conversations, chosen.messages)
        return report("PostgreSQL", asyncio.run(asked(folder, url, chosen)), chosen.limit_ms)
    finally:
        cluster.stop()


def main() -> int:
    """Fill, ask, print."""
    configure_logging(Settings(log_level="error"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument("--conversations", type=int, default=100_000)
    parser.add_argument("--messages", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--limit-ms", type=float, default=50.0)
    parser.add_argument("--best-of", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    chosen = parser.parse_args()
    ways = {"sqlite": on_sqlite, "postgresql": on_postgres}
    is_within = True
    with tempfile.TemporaryDirectory() as temporary:
        for kind, way in ways.items():
            if chosen.database in (kind, "both"):
                is_within &= way(chosen.folder or Path(temporary), chosen)
    return 0 if is_within else 1


if __name__ == "__main__":
    sys.exit(main())

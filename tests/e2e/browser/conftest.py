"""One Chromium and one server process for all browser tests of a worker; a fresh browser profile for each test.

A test fails when the page logs an error, throws, or violates its content security policy, whatever else it shows.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, async_playwright, expect

from tests.e2e.browser.axe import Auditor, axe_script
from tests.e2e.browser.pages import ChatPage
from tests.support.server_process import FAKE, ServerProcess, server_process

CHROMIUM = "/usr/bin/chromium"
# The browser's own services would call its maker; --no-sandbox because tests may run as root.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
REPORT_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) => console.error("CSP", event.violatedDirective, event.blockedURI));
"""
NETWORK_ERRORS = ("Failed to load resource", "Failed to fetch", "WebSocket connection to", "net::ERR")

expect.set_options(timeout=30_000)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        await browser.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    data = str(tmp_path_factory.mktemp("data"))
    pace = ("--delay-ms", "4", "--prefill-step-tokens", "60", "--set", "max_answer_tokens=5000")
    with server_process(*FAKE, "--data", data, *pace) as server:
        server.wait_ready(60)
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def storage_state(browser: Browser, server: ServerProcess) -> Any:
    """The profile of somebody who has followed the printed link."""
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(server.sign_in_link)
    await expect(ChatPage(page).composer).to_be_visible()
    state = await context.storage_state()
    await context.close()
    return state


class Visitors:
    """Opens browser profiles, and keeps what their pages complain about."""

    def __init__(self, browser: Browser, url: str, storage_state: Any) -> None:
        self._browser = browser
        self._storage_state = storage_state
        self._stack = AsyncExitStack()
        self.url = url
        self.complaints: list[str] = []
        self.may_lose_network = False

    async def profile(self, *, signed_in: bool = True, url: str | None = None, **options: Any) -> BrowserContext:
        """Another profile. `url` is its server where that is not the usual one."""
        state = self._storage_state if signed_in else None
        # Cookies belong to a host whatever its port, so a sign-in is good behind a proxy too.
        context = await self._stack.enter_async_context(
            await self._browser.new_context(base_url=url or self.url, storage_state=state, **options)
        )
        await context.add_init_script(REPORT_VIOLATIONS)
        context.on("page", self._listen)
        return context

    async def page(self, path: str = "/", **options: Any) -> Page:
        """A page in a new profile."""
        page = await (await self.profile(**options)).new_page()
        await page.goto(path)
        return page

    async def chat(self, path: str = "/", **options: Any) -> ChatPage:
        """The chat of somebody signed in, in a new profile."""
        chat = ChatPage(await self.page(path, **options))
        await expect(chat.composer).to_be_visible()
        return chat

    async def close(self) -> None:
        await self._stack.aclose()

    def _listen(self, page: Page) -> None:
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(f"thrown: {error}"))

    def _console(self, message: ConsoleMessage) -> None:
        is_network = any(words in message.text for words in NETWORK_ERRORS)
        if message.type in ("error", "warning") and not (is_network and self.may_lose_network):
            self.complaints.append(f"{message.type}: {message.text}")


@asynccontextmanager
async def welcoming(browser: Browser, url: str, storage_state: Any) -> AsyncIterator[Visitors]:
    visitors = Visitors(browser, url, storage_state)
    try:
        yield visitors
    finally:
        await visitors.close()
    assert visitors.complaints == []


@pytest_asyncio.fixture(loop_scope="session")
async def visitors(browser: Browser, server: ServerProcess, storage_state: Any) -> AsyncIterator[Visitors]:
    async with welcoming(browser, server.url, storage_state) as visitors:
        yield visitors


@pytest.fixture
def auditor() -> Auditor:
    """Notes what a screen reader would stumble over."""
    return Auditor(axe_script())


class Stored:
    """What the server has, read past the browser."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def messages(self, conversation_id: str, **query: str) -> list[dict[str, Any]]:
        """The path to the newest leaf, the first message first."""
        answer = await self._client.get(
            f"/api/v1/conversations/{conversation_id}/messages", params={"limit": "100", **query}
        )
        answer.raise_for_status()
        items: list[dict[str, Any]] = answer.json()["items"]
        return items[::-1]

    async def rename(self, conversation_id: str, title: str) -> None:
        """Gives a conversation another name, as another tab or program would."""
        path = f"/api/v1/conversations/{conversation_id}"
        found = await self._client.get(path)
        headers = {"If-Match": found.headers["etag"], "Origin": str(self._client.base_url).rstrip("/")}
        (await self._client.patch(path, json={"title": title}, headers=headers)).raise_for_status()

    async def cancel(self, response_id: str) -> None:
        """Ends an answer, as another tab or program would."""
        headers = {"Origin": str(self._client.base_url).rstrip("/")}
        (await self._client.post(f"/api/v1/responses/{response_id}/cancel", headers=headers)).raise_for_status()

    async def ended(self, conversation_id: str) -> None:
        """Waits until the newest answer is over at the server."""
        for _ in range(200):
            if (await self.messages(conversation_id))[-1]["status"] not in ("queued", "in_progress"):
                return
            await asyncio.sleep(0.1)
        raise AssertionError("the answer did not end")

    async def texts(self, conversation_id: str) -> list[str]:
        return [message["content"] for message in await self.messages(conversation_id)]


@asynccontextmanager
async def reading(url: str, storage_state: Any) -> AsyncIterator[Stored]:
    cookies = {cookie["name"]: cookie["value"] for cookie in storage_state["cookies"]}
    async with httpx.AsyncClient(base_url=url, cookies=cookies, trust_env=False) as client:
        yield Stored(client)


@pytest_asyncio.fixture(loop_scope="session")
async def stored(server: ServerProcess, storage_state: Any) -> AsyncIterator[Stored]:
    async with reading(server.url, storage_state) as stored:
        yield stored

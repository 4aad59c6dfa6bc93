"""The promise of the product as one person meets it: a 200-word answer, the page reloaded, the connection cut twice, and in every
other round the server killed, at random moments. What is shown at the end is what is stored, and everything that was seen.

`RANDOM_MOMENTS=100 pytest tests/e2e/browser/test_random_moments.py` runs more rounds than the suite does.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect
from playwright.async_api import Error as PageGone

from tests.e2e.browser.conftest import reading, welcoming
from tests.e2e.browser.cutting_proxy import CuttingProxy
from tests.e2e.browser.pages import ChatPage
from tests.support.server_process import FAKE, ServerProcess

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.asyncio(loop_scope="session"),
]

ROUNDS = int(os.environ.get("RANDOM_MOMENTS", "16"))
QUESTION = "/words 200"
ANSWER = "".join(f" word{number}" for number in range(1, 201))
LONGEST_PAUSE_S = 0.3


class MortalServer:
    """A server that is killed and started again on the same data."""

    def __init__(self, data: Path) -> None:
        self._arguments = (*FAKE, "--data", str(data), "--delay-ms", "5")
        self.process = self._started()

    @property
    def port(self) -> int:
        return int(self.process.url.rpartition(":")[2])

    def restart(self) -> None:
        self.process.stop(signal.SIGKILL)
        self.process = self._started()

    def _started(self) -> ServerProcess:
        process = ServerProcess(*self._arguments)
        process.wait_ready(60)
        return process


async def test_whatever_happens_in_the_middle_the_answer_is_whole_or_interrupted_with_all_that_was_seen(
    browser: Browser, tmp_path: Path
) -> None:
    chance = random.Random(time.time_ns())
    statuses: list[str] = []
    server = await asyncio.to_thread(MortalServer, tmp_path)
    try:
        async with CuttingProxy(lambda: server.port) as proxy:
            url = f"http://127.0.0.1:{proxy.port}"
            async with welcoming(browser, url, None) as visitors:
                visitors.may_lose_network = True
                link = "/?" + server.process.sign_in_link.partition("?")[2]
                chat = ChatPage(await visitors.page(link, signed_in=False))
                await expect(chat.composer).to_be_visible()
                for round_number in range(ROUNDS):
                    statuses.append(await one_round(chat, proxy, server, chance, kills=round_number % 2 == 1))
    finally:
        await asyncio.to_thread(server.process.stop, signal.SIGKILL)
    assert set(statuses) <= {"completed", "interrupted"}
    assert "completed" in statuses


async def one_round(
    chat: ChatPage, proxy: CuttingProxy, server: MortalServer, chance: random.Random, *, kills: bool
) -> str:
    """One question in a chat of its own; how its answer ended."""
    await chat.new_chat()
    await expect(chat.answers).to_have_count(0)
    await chat.ask(QUESTION)
    conversation_id = await chat.arrived()
    accidents = ["reload", "cut", "cut", *(["kill"] if kills else [])]
    chance.shuffle(accidents)
    seen = ""
    for accident in accidents:
        await asyncio.sleep(chance.uniform(0, LONGEST_PAUSE_S))
        seen = max(seen, await words_shown(chat), key=len)
        if accident == "reload":
            await chat.page.reload(wait_until="commit")
        elif accident == "cut":
            await proxy.cut()
        else:
            await asyncio.to_thread(server.restart)
    await comes_back(chat)
    await chat.ended(timeout_s=40)
    status = str(await chat.answers.last.get_attribute("data-status"))
    shown = await chat.texts()
    async with reading(f"http://127.0.0.1:{server.port}", await chat.page.context.storage_state()) as stored:
        assert shown == await stored.texts(conversation_id), accidents
    assert len(shown) == 2, accidents
    assert shown[0] == QUESTION
    assert shown[1].startswith(seen), accidents
    assert ANSWER.startswith(shown[1]), accidents
    assert status == "interrupted" or shown[1] == ANSWER, accidents
    return status


async def comes_back(chat: ChatPage) -> None:
    """Wait for the chat. Where the page itself or its very first script was cut off, nothing of ours runs yet: then the browser,
    or the page, tells the person to reload."""
    cut_off = chat.page.get_by_role("button", name="Reload", exact=True).or_(
        chat.page.get_by_text("If nothing else appears here, reload the page")
    )
    await expect(chat.answers.first.or_(cut_off)).to_be_visible(timeout=40_000)
    if await cut_off.is_visible():
        # The second line is also there for a moment in a page that is still loading.
        with suppress(AssertionError):
            await expect(chat.answers).to_have_count(1, timeout=15_000)
            return
        await chat.page.reload()
    await expect(chat.answers).to_have_count(1, timeout=40_000)


async def words_shown(chat: ChatPage) -> str:
    """What the person sees of the answer at this moment; nothing while the page is loading."""
    with suppress(PageGone):
        texts = await chat.texts()
        return texts[1] if len(texts) == 2 else ""
    return ""

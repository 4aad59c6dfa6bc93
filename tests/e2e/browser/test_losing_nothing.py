"""Reloads, cut connections, a killed server, several tabs: what the person sees at the end is what is stored, once."""

from __future__ import annotations

import json
import random
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Route, WebSocketRoute, expect

from tests.e2e.browser.conftest import Stored, Visitors, reading, welcoming
from tests.e2e.browser.cutting_proxy import CuttingProxy
from tests.e2e.browser.pages import ChatPage
from tests.support.server_process import FAKE, ServerProcess, server_process

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

WORDS_200 = "".join(f" word{number}" for number in range(1, 201))


@asynccontextmanager
async def through_a_proxy(server: ServerProcess) -> AsyncIterator[tuple[CuttingProxy, str]]:
    port = int(server.url.rpartition(":")[2])
    async with CuttingProxy(lambda: port) as proxy:
        yield proxy, f"http://127.0.0.1:{proxy.port}"


async def test_reloads_in_the_middle_lose_nothing(visitors: Visitors, stored: Stored) -> None:
    """open-webui/open-webui#29596: after a reload only what came later was shown."""
    visitors.may_lose_network = True  # the socket dies with the page
    chance = random.Random(29596)
    for reloads in (1, 1, 2):
        chat = await visitors.chat()
        await chat.ask("/words 200")
        await chat.shows_words(1)
        await chat.arrived()
        for _ in range(reloads):
            await chat.shows_words(chance.randrange(1, 80))
            await chat.page.reload()
        await chat.ended("completed")
        assert await chat.texts() == await stored.texts(await chat.arrived()) == ["/words 200", WORDS_200]


async def test_a_connection_that_is_cut_twice_loses_nothing(
    visitors: Visitors, server: ServerProcess, stored: Stored
) -> None:
    visitors.may_lose_network = True
    async with through_a_proxy(server) as (proxy, url):
        chat = await visitors.chat(url=url)
        await chat.ask("/words 300")
        for words in (20, 60):
            await chat.shows_words(words)
            await proxy.cut()
        await chat.ended("completed")
        await expect(chat.banner).to_have_count(0)
        assert await chat.texts() == await stored.texts(await chat.arrived())
        assert (await chat.texts())[1].endswith(" word300")


async def test_while_the_connection_is_away_the_page_says_so_and_the_end_arrives_later(
    visitors: Visitors, server: ServerProcess, stored: Stored
) -> None:
    """Chainlit/chainlit#118: the answer ended during the silence, and the page never heard of it."""
    visitors.may_lose_network = True
    async with through_a_proxy(server) as (proxy, url):
        chat = await visitors.chat(url=url)
        await chat.ask("/words 700")
        await chat.shows_words(5)
        proxy.is_refusing = True
        await proxy.cut()
        await expect(chat.banner).to_contain_text("Connection lost.")
        await expect(chat.answers.last).to_contain_text("The answer goes on at the server")
        assert await chat.answers.last.get_attribute("data-status") == "in_progress"
        await chat.picture("connection-lost")
        await stored.ended(await chat.arrived())
        proxy.is_refusing = False
        await chat.banner.get_by_role("button", name="Reconnect now").click()
        await chat.ended("completed")
        await expect(chat.banner).to_have_count(0)
        assert await chat.texts() == await stored.texts(await chat.arrived())


async def test_what_is_written_without_a_connection_is_sent_once_when_it_is_back(
    visitors: Visitors, server: ServerProcess, stored: Stored
) -> None:
    visitors.may_lose_network = True
    async with through_a_proxy(server) as (proxy, url):
        chat = await visitors.chat(url=url)
        await chat.ask_and_wait("before")
        conversation_id = await chat.arrived()
        proxy.is_refusing = True
        await proxy.cut()
        await chat.ask("first of two")
        await chat.ask("second of two")
        await expect(chat.unsent).to_have_count(2)
        await expect(chat.unsent.last).to_contain_text("Will be sent when the connection is back")
        await chat.picture("unsent")
        await chat.composer.fill("half a thought")
        proxy.is_refusing = False
        await expect(chat.answers).to_have_count(3)
        await chat.ended("completed")
        await expect(chat.unsent).to_have_count(0)
        await expect(chat.composer).to_have_value("half a thought")
        said = [message["content"] for message in await stored.messages(conversation_id) if message["role"] == "user"]
        assert said == ["before", "first of two", "second of two"]
        assert await chat.texts() == await stored.texts(conversation_id)


async def test_unsent_words_outlast_a_reload(visitors: Visitors, server: ServerProcess) -> None:
    visitors.may_lose_network = True
    async with through_a_proxy(server) as (proxy, url):
        chat = await visitors.chat(url=url)
        await chat.page.route("**/api/v1/conversations**", lambda route: route.abort())
        await chat.ask("written on a train")
        await expect(chat.unsent).to_have_count(1)
        await chat.page.reload()
        await expect(chat.unsent).to_contain_text("written on a train")
        await chat.page.unroute_all()
        await expect(chat.unsent).to_have_count(0)
        await chat.ended("completed")
        assert await chat.texts() == ["written on a train", "You said: written on a train."]
        assert proxy.cuts == 0


async def test_an_unsent_message_can_be_taken_back(visitors: Visitors, server: ServerProcess) -> None:
    visitors.may_lose_network = True
    async with through_a_proxy(server) as (proxy, url):
        chat = await visitors.chat(url=url)
        proxy.is_refusing = True
        await proxy.cut()
        await chat.ask("better not")
        await chat.unsent.get_by_role("button", name="Take back").click()
        await expect(chat.unsent).to_have_count(0)
        await expect(chat.composer).to_have_value("better not")
        await expect(chat.composer).to_be_focused()


async def test_a_killed_server_leaves_the_answer_interrupted_with_everything_seen(
    browser: Browser, tmp_path: Path, storage_state: Any
) -> None:
    """bayesimpact/bayes-platform#673: the spinner stayed for ever."""
    arguments = (*FAKE, "--data", str(tmp_path), "--delay-ms", "4")
    with server_process(*arguments) as doomed:
        doomed.wait_ready(60)
        target = int(doomed.url.rpartition(":")[2])
        async with CuttingProxy(lambda: target) as proxy:
            url = f"http://127.0.0.1:{proxy.port}"
            async with welcoming(browser, url, None) as visitors:
                visitors.may_lose_network = True
                page = await visitors.page("/?" + doomed.sign_in_link.partition("?")[2], signed_in=False)
                chat = ChatPage(page)
                await chat.ask("/words 800")
                await chat.shows_words(40)
                conversation_id = await chat.arrived()
                doomed.stop(signal.SIGKILL)
                await expect(chat.banner).to_be_visible()
                seen = await chat.text_of(chat.answers.last)
                assert seen.startswith(" word1 word2")
                with server_process(*arguments) as second:
                    second.wait_ready(60)
                    target = int(second.url.rpartition(":")[2])
                    await chat.ended("interrupted", timeout_s=40)
                    await expect(chat.answers.last).to_contain_text("Interrupted: the server stopped")
                    await expect(chat.banner).to_have_count(0)
                    await chat.picture("interrupted")
                    shown = await chat.text_of(chat.answers.last)
                    assert shown.startswith(seen)
                    async with reading(url, await page.context.storage_state()) as stored:
                        assert await chat.texts() == await stored.texts(conversation_id)
                        await chat.answers.last.get_by_role("button", name="Regenerate").click()
                        await expect(chat.answers.last.get_by_label("Version 2 of 2")).to_be_visible()
                        await chat.ended("completed")
                        assert await chat.texts() == await stored.texts(conversation_id)
                        assert (await chat.texts())[1].endswith(" word800")


async def test_leaving_a_chat_while_it_answers_and_coming_back(visitors: Visitors, stored: Stored) -> None:
    """open-webui/open-webui#452, ggml-org/llama.cpp#16398: the answer vanished, stopped, or ran into the other chat."""
    chat = await visitors.chat()
    await chat.ask("/words 250")
    await chat.shows_words(5)
    first = await chat.arrived()
    await chat.new_chat()
    await expect(chat.answers).to_have_count(0)
    await chat.ask("/words 60")
    await chat.shows_words(2)
    second = await chat.arrived()
    assert first != second
    await chat.ended("completed")
    assert await chat.texts() == await stored.texts(second)
    await chat.page.go_back()
    await chat.page.go_back()
    await chat.page.wait_for_url(re.compile(first))
    # The answer of the other chat is shown until this one is, and has ended too.
    await expect(chat.answers.last).to_contain_text("word100")
    await chat.ended("completed")
    assert await chat.texts() == await stored.texts(first)
    assert (await chat.texts())[1].endswith(" word250")


async def test_two_tabs_stay_in_step(visitors: Visitors, stored: Stored) -> None:
    visitors.may_lose_network = True  # a browser logs every 404
    context = await visitors.profile()
    one = ChatPage(await context.new_page())
    await one.page.goto("/")
    await one.ask_and_wait("shown twice")
    conversation_id = await one.arrived()
    two = ChatPage(await context.new_page())
    await two.page.goto(f"/#/c/{conversation_id}")
    await expect(two.answers).to_have_count(1)
    await one.ask("/endless")
    await expect(two.answers).to_have_count(2)
    await two.shows_words(1)
    await two.stop_button.click()
    await one.ended("cancelled")
    await two.ended("cancelled")
    await two.ask("from the other tab")
    await expect(one.answers).to_have_count(3)
    await two.ended("completed")
    await one.page.bring_to_front()
    await one.ended("completed")
    assert await one.texts() == await two.texts() == await stored.texts(conversation_id)
    row = one.rows.filter(has=one.page.get_by_role("link", name="shown twice"))
    await one.choose("Delete", row)
    await one.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(two.page.get_by_role("link", name="shown twice")).to_have_count(0)
    await expect(two.page.get_by_text("This conversation does not exist any more.")).to_be_visible()


async def test_a_proxy_that_closes_politely_is_no_end(visitors: Visitors, stored: Stored) -> None:
    """recoupable/app#1924: a well-formed close was taken for the end of the answer."""
    page = await (await visitors.profile()).new_page()
    closed: list[WebSocketRoute] = []

    def between(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        async def pass_on(frame: str | bytes) -> None:
            if socket in closed:
                return
            if len(closed) < 2 and json.loads(frame)["type"] == "response.output_text.delta":
                closed.append(socket)
                await socket.close(code=1000)
                await server.close()
            else:
                socket.send(frame)

        server.on_message(pass_on)

    await page.route_web_socket("**/ws", between)
    await page.goto("/")
    chat = ChatPage(page)
    await chat.ask("/words 300")
    await chat.ended("completed")
    assert len(closed) == 2
    assert await chat.texts() == await stored.texts(await chat.arrived())


async def test_a_page_that_only_half_arrives_loads_itself_again(visitors: Visitors) -> None:
    visitors.may_lose_network = True
    page = await (await visitors.profile()).new_page()
    lost: list[str] = []

    async def lose(route: Route) -> None:
        lost.append(route.request.url)
        await route.abort()

    for name in ("**/js/markdown.js", "**/css/thread.css"):
        await page.route(name, lose, times=1)
    await page.goto("/")
    await expect(ChatPage(page).composer).to_be_focused()
    assert len(lost) == 2
    visitors.complaints.clear()  # it said what was missing


async def test_a_page_that_cannot_reach_its_server_comes_back_by_itself(visitors: Visitors) -> None:
    visitors.may_lose_network = True
    page = await (await visitors.profile()).new_page()
    await page.route("**/api/v1/me", lambda route: route.abort())
    await page.goto("/")
    await expect(page.get_by_role("heading", name="The server cannot be reached")).to_be_visible()
    await page.unroute_all()
    await expect(ChatPage(page).composer).to_be_focused()

"""The pages as a person uses them: what they see and press, without a word about how it is made."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.async_api import Locator, Page, expect

ARTIFACTS = Path(__file__).parents[2] / "artifacts"
RUNNING = re.compile("^(queued|in_progress)$")


async def picture(page: Page, name: str) -> None:
    """A screenshot for people, in tests/artifacts."""
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    await page.screenshot(path=ARTIFACTS / f"{name}.png")


class SignInPage:
    """Where one arrives without a sign-in."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.notice = page.locator(".sign-in-notice")
        self.problem = page.get_by_role("alert")

    async def sign_in(self, name: str, password: str) -> None:
        await self.page.get_by_label("Name").fill(name)
        await self.page.get_by_label("Password").fill(password)
        await self.page.get_by_role("button", name="Sign in", exact=True).click()


class ChatPage:
    """The chat of somebody who is signed in."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.composer = page.get_by_label("Message", exact=True)
        self.send_button = page.get_by_role("button", name="Send message")
        self.stop_button = page.get_by_role("button", name="Stop answering")
        self.questions = page.locator("[data-role=user]")
        self.answers = page.locator("[data-role=assistant]")
        self.unsent = page.locator("[data-unsent]")
        self.banner = page.locator(".banner")
        self.rows = page.locator(".row")

    async def ask(self, text: str) -> None:
        """Types a message and sends it with Enter."""
        await self.composer.fill(text)
        await self.composer.press("Enter")

    async def ask_and_wait(self, text: str) -> str:
        """The text of the whole answer."""
        before = await self.answers.count()
        await self.ask(text)
        await expect(self.answers).to_have_count(before + 1)
        await self.ended()
        return await self.text_of(self.answers.last)

    async def ended(self, status: str | None = None, *, timeout_s: float = 20) -> None:
        """Waits until the last answer is over, in the given way."""
        last = self.answers.last
        await expect(last).to_have_attribute(
            "data-status", status or re.compile("^(?!queued|in_progress)"), timeout=timeout_s * 1000
        )

    async def shows_words(self, count: int) -> None:
        """Waits until the last answer has at least this many words."""
        body = await self.answers.last.locator(".prose").element_handle()
        await self.page.wait_for_function(
            "([node, count]) => (node.rawText ?? '').split(' ').length > count", arg=[body, count]
        )

    async def text_of(self, message: Locator) -> str:
        """The words the page holds for this message, before markdown."""
        text: str = await message.locator(".prose, .bubble").evaluate("node => node.rawText")
        return text

    async def texts(self) -> list[str]:
        """All messages that are shown, in order."""
        found: list[str] = await self.page.locator("[data-message-id] :is(.prose, .bubble)").evaluate_all(
            "nodes => nodes.map(node => node.rawText)"
        )
        return found

    async def texts_from_the_top(self) -> list[str]:
        """All messages of a conversation of which only those near the screen are drawn, read while scrolling down it."""
        found: list[str] = await self.page.evaluate(
            """async () => {
                const frame = document.querySelector(".thread");
                const frames = (count) => new Promise((done) => {
                    const wait = (left) => left === 0 ? done() : requestAnimationFrame(() => wait(left - 1));
                    wait(count);
                });
                const texts = new Map();
                frame.scrollTop = 0;
                for (let last = -1; last !== frame.scrollTop; frame.scrollTop += frame.clientHeight / 2) {
                    last = frame.scrollTop;
                    await frames(3);
                    for (const node of document.querySelectorAll("[data-message-id]"))
                        texts.set(Number(node.ariaPosInSet), node.querySelector(".prose, .bubble").rawText);
                }
                return [...texts].sort((a, b) => a[0] - b[0]).map(([, text]) => text);
            }"""
        )
        return found

    async def message_id(self, message: Locator) -> str:
        return str(await message.get_attribute("data-message-id"))

    @property
    def conversation_id(self) -> str | None:
        """The conversation in the address."""
        found = re.search(r"#/c/([\w-]+)$", self.page.url)
        return found[1] if found else None

    async def arrived(self) -> str:
        """Waits until a new chat has its conversation."""
        await self.page.wait_for_url(re.compile(r"#/c/"))
        assert self.conversation_id is not None
        return self.conversation_id

    async def open(self, title: str) -> None:
        await self.page.get_by_role("link", name=title, exact=True).click()

    async def new_chat(self) -> None:
        await self.page.keyboard.press("Control+k")
        await self.page.wait_for_function("() => !location.hash.startsWith('#/c/')")
        await expect(self.page.locator("[data-message-id]")).to_have_count(0)

    async def edit(self, message: Locator, text: str) -> None:
        await message.get_by_role("button", name="Edit message").click()
        await self.page.get_by_role("textbox", name="Edit message").fill(text)
        await self.page.get_by_role("textbox", name="Edit message").press("Enter")

    async def version(self, message: Locator, which: str) -> None:
        """Presses an arrow: `Previous` or `Next`."""
        await message.get_by_role("button", name=f"{which} version").click()

    async def choose(self, what: str, row: Locator | None = None) -> None:
        """Something of a conversation's menu: in its row, else of the one that is shown."""
        if row is not None:
            await row.hover()
        place = self.page.locator(".bar") if row is None else row
        await place.get_by_role("button", name=re.compile("^More: ")).click()
        await self.page.get_by_role("menuitem", name=what, exact=True).click()

    async def choose_of_account(self, what: str) -> None:
        """Something of the menu of whoever is signed in."""
        await self.page.get_by_role("button", name=re.compile("^Account: ")).click()
        await self.page.get_by_role("menuitem", name=what, exact=True).click()

    async def picture(self, name: str) -> None:
        """A screenshot for people, in tests/artifacts."""
        await picture(self.page, name)

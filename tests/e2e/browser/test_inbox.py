"""A person on somebody's page asks for a person, two agents want to answer, one does; all three see what happens."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.e2e.browser.axe import PHONE, Auditor
from tests.e2e.browser.conftest import Visitors
from tests.e2e.browser.pages import ARTIFACTS, SignInPage
from tests.e2e.browser.test_widget import WidgetPage, administrator, made_widget
from tests.support.client import PASSWORD
from tests.support.other_site import OtherSite, other_site
from tests.support.server_process import ServerProcess

QUESTION = "Where is my parcel, please?"

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture(scope="module")
def site(server: ServerProcess) -> Iterator[OtherSite]:
    with other_site(server.url) as site:
        yield site


class InboxPage:
    """The inbox as an agent uses it. `waiting` is the one who has asked this question: others may wait at the same server."""

    def __init__(self, page: Page, question: str) -> None:
        self.page = page
        self.lists = page.locator(".queue[aria-busy=false]")
        self.waiting = page.locator(".queue-row.is-waiting", has_text=question)
        self.said = page.locator("[data-message-id]")
        self.state = page.locator(".case-state")
        self.answer = page.get_by_label("Answer", exact=True)
        self.toast = page.locator(".toasts .notice")

    async def press(self, name: str) -> None:
        await self.page.get_by_role("button", name=name, exact=True).click()

    async def picture(self, name: str) -> None:
        ARTIFACTS.mkdir(parents=True, exist_ok=True)
        await self.page.screenshot(path=ARTIFACTS / f"{name}.png")


async def agent(visitors: Visitors, server: ServerProcess, name: str, **look: Any) -> InboxPage:
    async with administrator(server) as admin:
        body = {"username": name, "role": "agent", "password": PASSWORD}
        answer = await admin.post("/api/v1/admin/users", json=body)
        assert answer.status_code in (201, 409), answer.text
    page = await visitors.page("/inbox", signed_in=False, reduced_motion="reduce", **look)
    await SignInPage(page).sign_in(name, PASSWORD)
    inbox = InboxPage(page, QUESTION)
    await expect(inbox.lists).to_be_visible()
    return inbox


async def test_a_person_is_handed_to_an_agent_and_back(
    visitors: Visitors, server: ServerProcess, site: OtherSite, auditor: Auditor
) -> None:
    """Cases C42 and C43, chatwoot/chatwoot#11429: the bot is silent while a person answers."""
    visitors.may_lose_network = True
    widget_id = await made_widget(server, site)
    lena, mike = await agent(visitors, server, "lena"), await agent(visitors, server, "mike", color_scheme="dark")
    context = await visitors.profile(signed_in=False, reduced_motion="reduce")
    shop = WidgetPage(await context.new_page())
    await shop.page.goto(f"{site.origin}/page?widget={widget_id}&open=")
    await shop.ask(QUESTION)
    await expect(shop.answers.last).to_have_attribute("data-status", "completed")
    await shop.page.get_by_role("button", name="Talk to a person").click()
    await expect(shop.status).to_contain_text("A person will be with you soon")

    # Both see who waits, by keyboard too; of two who take at once one gets it, and the other is told.
    await expect(lena.waiting).to_have_count(1)
    await lena.waiting.focus()
    await lena.page.keyboard.press("Enter")
    await mike.waiting.click()
    await expect(lena.said).to_have_count(2)
    await expect(lena.state).to_contain_text("Asked for a person")
    await auditor.read(lena.page, "somebody waits")
    await lena.picture("inbox-waiting")
    await asyncio.gather(lena.press("Take over"), mike.press("Take over"))
    await expect(shop.status).to_have_text(re.compile("^You are talking to (lena|mike).$"))
    is_lena = "lena" in (await shop.status.inner_text())
    mine, other = (lena, mike) if is_lena else (mike, lena)
    await expect(mine.state).to_have_text("You are answering")
    await expect(other.toast).to_contain_text("Somebody else was faster.")
    await expect(other.state).to_contain_text("is answering")
    await expect(other.answer).to_have_count(0)
    await auditor.read(other.page, "somebody else has it")

    # A canned answer, written and inserted.
    await mine.press("Manage canned answers")
    await mine.press("New canned answer")
    await mine.page.get_by_label("Short name").fill("hello")
    await mine.page.get_by_label("Text", exact=True).fill("Good morning! I am looking for it.")
    await mine.press("Save")
    await expect(mine.page.locator(".canned-all")).to_contain_text("hello")
    await auditor.read(mine.page, "canned answers")
    await mine.page.keyboard.press("Escape")
    await mine.answer.fill("/he")
    await expect(mine.page.get_by_role("option", name="hello")).to_be_visible()
    await auditor.read(mine.page, "the list of canned answers")
    await mine.answer.press("Enter")
    await expect(mine.answer).to_have_value("Good morning! I am looking for it.")
    await mine.answer.press("Enter")
    await expect(shop.answers.last).to_contain_text("I am looking for it.")
    await expect(shop.answers.last).to_have_class(re.compile("agent"))

    # Each sees the other write; the bot says nothing to it.
    await shop.field.press_sequentially("It is urg")
    await expect(mine.page.locator(".case-typing")).to_be_visible()
    await mine.answer.press_sequentially("Found")
    await expect(shop.page.locator(".said.agent .note")).to_contain_text("is writing")
    await shop.ask("It is urgent")
    await expect(mine.said.last).to_contain_text("It is urgent")
    await mine.answer.press("Enter")
    await expect(shop.answers).to_have_count(3)
    await auditor.read(shop.page, "a person answers")
    await shop.picture("widget-person")
    await mine.picture("inbox-answering")

    # Both reload in the middle, and are where they were.
    await mine.page.reload()
    await shop.page.reload()
    await expect(mine.said).to_have_count(5)
    await expect(mine.state).to_have_text("You are answering")
    await expect(shop.status).to_have_text(f"You are talking to {'lena' if is_lena else 'mike'}.")

    # Back to the bot, which knows what was said, and to the end.
    await mine.press("Back to the assistant")
    await expect(shop.status).to_be_empty()
    await shop.ask("Thank you")
    await expect(shop.answers.last).to_have_class(re.compile("bot"))
    await expect(shop.answers.last).to_have_attribute("data-status", "completed")
    await shop.page.get_by_role("button", name="Talk to a person").click()
    await expect(mine.waiting).to_have_count(1)
    await mine.waiting.click()
    await mine.press("Take over")
    await expect(mine.state).to_have_text("You are answering")
    await mine.press("Resolve")
    await expect(shop.page.get_by_text("How was this conversation?")).to_be_visible()
    await shop.page.get_by_role("button", name="4 stars").click()
    await expect(shop.page.locator(".thanks")).to_have_text("Thank you!")
    await auditor.read(shop.page, "the end")
    await shop.picture("widget-rating")
    await shop.page.get_by_role("button", name="Start a new conversation").click()
    await expect(shop.own).to_have_count(0)
    assert auditor.found == []


async def test_the_inbox_on_a_phone_in_the_dark_in_chinese(
    visitors: Visitors, server: ServerProcess, site: OtherSite, auditor: Auditor
) -> None:
    visitors.may_lose_network = True
    widget_id = await made_widget(server, site, name="茶店")
    page = await visitors.page("/inbox", locale="zh-CN", reduced_motion="reduce", **PHONE)
    inbox = InboxPage(page, "龙井茶")
    await expect(inbox.lists).to_be_visible()
    await auditor.read(page, "the list")
    shop = WidgetPage(await visitors.page(f"{site.origin}/page?widget={widget_id}&open=", signed_in=False))
    await shop.ask("龙井茶")
    await expect(shop.answers.last).to_have_attribute("data-status", "completed")
    await shop.page.get_by_role("button", name="Talk to a person").click()
    await expect(inbox.waiting).to_have_count(1)
    await inbox.waiting.click()
    await expect(page.get_by_role("button", name="接手")).to_be_visible()
    await auditor.read(page, "one conversation")
    await inbox.picture("inbox-phone")
    await page.get_by_role("button", name="返回列表").click()
    await expect(inbox.waiting).to_be_visible()
    await inbox.waiting.click()
    await page.get_by_role("button", name="解决").click()
    await expect(inbox.lists).to_be_visible()
    await expect(inbox.waiting).to_have_count(0)
    assert auditor.found == []


async def test_the_inbox_is_for_agents(visitors: Visitors, server: ServerProcess) -> None:
    visitors.may_lose_network = True
    async with administrator(server) as admin:
        body = {"username": "nobody-in-particular", "role": "user", "password": PASSWORD}
        assert (await admin.post("/api/v1/admin/users", json=body)).status_code == 201
    page = await visitors.page("/inbox", signed_in=False)
    await SignInPage(page).sign_in("nobody-in-particular", PASSWORD)
    await expect(page.get_by_role("heading", name="This is the agents' inbox")).to_be_visible()

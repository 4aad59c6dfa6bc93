"""axe-core finds nothing in any state of the page: names, roles, contrast, focus order, on a desk and on a phone in the dark."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import expect

from tests.e2e.browser.axe import PHONE, Auditor
from tests.e2e.browser.conftest import Visitors
from tests.e2e.browser.pages import ChatPage, SignInPage
from tests.e2e.browser.test_asking import MARKDOWN

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.parametrize("look", [{}, PHONE], ids=["desk", "phone in the dark"])
async def test_axe_finds_nothing(visitors: Visitors, auditor: Auditor, look: dict[str, Any]) -> None:
    visitors.may_lose_network = True
    # Nothing is read while it fades in.
    look = {**look, "reduced_motion": "reduce"}
    sign_in = await visitors.page(signed_in=False, **look)
    await SignInPage(sign_in).sign_in("admin", "not the password")
    await expect(SignInPage(sign_in).problem).to_be_visible()
    await auditor.read(sign_in, "sign-in")

    chat = await visitors.chat(**look)
    page = chat.page
    await auditor.read(page, "empty")
    await chat.ask_and_wait(MARKDOWN)
    await auditor.read(page, "an answer")
    await chat.ask("/fail")
    await expect(chat.answers).to_have_count(2)
    await chat.ended("failed")
    await auditor.read(page, "failed")
    await chat.ask("/endless")
    await chat.ask("waits its turn")
    await expect(chat.answers).to_have_count(4)
    await auditor.read(page, "streaming and waiting")
    await chat.stop_button.click()
    await chat.ended("completed")
    await chat.answers.last.get_by_role("button", name="Regenerate answer").click()
    await expect(chat.answers.last.get_by_label("Version 2 of 2")).to_be_visible()
    await chat.ended("completed")
    await auditor.read(page, "versions")
    await chat.questions.last.get_by_role("button", name="Edit message").click()
    await auditor.read(page, "editing")
    await page.keyboard.press("Escape")
    await page.context.set_offline(True)
    await chat.ask("without a network")
    await expect(chat.banner).to_be_visible()
    await auditor.read(page, "offline")
    await page.context.set_offline(False)
    await expect(chat.unsent).to_have_count(0, timeout=30_000)
    await list_states(chat, auditor)
    assert auditor.found == []


async def list_states(chat: ChatPage, auditor: Auditor) -> None:
    """The drawer where there is one, renaming, the question before deleting."""
    page = chat.page
    drawer = page.get_by_role("button", name="Conversations")
    if await drawer.is_visible():
        await drawer.click()
        await auditor.read(page, "drawer")
    row = chat.rows.first
    await row.hover()
    await row.locator("button[title=More]").click()
    await auditor.read(page, "the menu of a conversation")
    await page.keyboard.press("Escape")
    await chat.choose("Rename", row)
    await auditor.read(page, "renaming")
    await page.keyboard.press("Escape")
    await chat.choose("Delete", row)
    await auditor.read(page, "the question before deleting")

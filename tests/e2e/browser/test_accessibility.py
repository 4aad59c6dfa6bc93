"""axe-core finds nothing in any state of the page: names, roles, contrast, focus order, on a desk and on a phone in the dark."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.e2e.browser.conftest import Visitors
from tests.e2e.browser.pages import ChatPage, SignInPage
from tests.e2e.browser.test_asking import MARKDOWN

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

ROOT = Path(__file__).parents[3]
AXE = ROOT / "node_modules/axe-core/axe.min.js"
PHONE = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True, "color_scheme": "dark"}
# Which headings an answer has, and in which order, is the model's to say.
RULES = {"heading-order": {"enabled": False}}


@pytest.fixture(scope="module")
def axe() -> str:
    if not AXE.exists():
        subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], cwd=ROOT, check=True, timeout=240)
    return AXE.read_text(encoding="utf-8")


class Auditor:
    """Reads a page as a screen reader would, and notes what it stumbles over."""

    def __init__(self, script: str) -> None:
        self._script = script
        self.found: list[str] = []

    async def read(self, page: Page, state: str) -> None:
        # Past the page's policy, which allows no script but its own.
        session = await page.context.new_cdp_session(page)
        await session.send("Runtime.evaluate", {"expression": self._script})
        result = await page.evaluate("rules => axe.run(document, { resultTypes: ['violations'], rules })", RULES)
        for violation in result["violations"]:
            for node in violation["nodes"]:
                self.found.append(f"{state}: {violation['id']} at {node['target']}: {node['failureSummary']}")


@pytest.mark.parametrize("look", [{}, PHONE], ids=["desk", "phone in the dark"])
async def test_axe_finds_nothing(visitors: Visitors, axe: str, look: dict[str, Any]) -> None:
    visitors.may_lose_network = True
    # Nothing is read while it fades in.
    look = {**look, "reduced_motion": "reduce"}
    auditor = Auditor(axe)
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
    await row.locator("button[title=Rename]").click()
    await auditor.read(page, "renaming")
    await page.keyboard.press("Escape")
    await row.hover()
    await row.locator("button[title=Delete]").click()
    await auditor.read(page, "the question before deleting")

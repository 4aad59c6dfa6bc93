"""The pages that describe the API are shown and used with nothing from any other host."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.e2e.browser.axe import PHONE, Auditor
from tests.e2e.browser.conftest import Visitors
from tests.e2e.browser.pages import picture

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


def watch_hosts(page: Page) -> set[str]:
    """The origins that a page asks anything of, from now on."""
    origins: set[str] = set()
    page.on("request", lambda request: origins.add("/".join(request.url.split("/")[:3])))
    return origins


async def test_both_documents_are_read_and_a_route_is_tried(visitors: Visitors, auditor: Auditor) -> None:
    page = await (await visitors.profile()).new_page()
    origins = watch_hosts(page)
    await page.goto("/schema")
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Kvasir")
    await auditor.read(page, "REST, folded")
    await page.get_by_label("Filter").fill("post conversations messages")
    entry = page.locator("details.entry")
    await expect(entry).to_have_count(1)
    await entry.locator("summary").click()
    await expect(entry.get_by_text("client_message_id", exact=True).first).to_be_visible()
    await entry.get_by_role("button", name="ResponseParams").first.click()
    await expect(entry.get_by_text("temperature", exact=True)).to_be_visible()
    await auditor.read(page, "REST, unfolded")
    await picture(page, "schema-rest")

    await page.get_by_label("Filter").fill("get /api/v1/me who")
    await page.locator("#get-api-v1-me summary").click()
    await page.locator("#get-api-v1-me").get_by_role("button", name="Send").click()
    await expect(page.get_by_label("Answer")).to_contain_text('"username": "admin"')
    await expect(page.get_by_text("200 OK")).to_be_visible()

    await page.get_by_role("link", name="WebSocket").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("/ws")
    await page.locator("#client-message_create summary").click()
    await page.get_by_role("link", name="message.created").first.click()
    await expect(page.locator("#server-message_created").get_by_text("reply_to", exact=True)).to_be_visible()
    await auditor.read(page, "WebSocket")
    await picture(page, "schema-socket")
    assert origins == {visitors.url}
    assert auditor.found == []


async def test_on_a_phone_in_the_dark_and_by_link(visitors: Visitors, auditor: Auditor) -> None:
    page = await visitors.page("/schema#get-api-v1-me", **PHONE)
    await expect(page.locator("#get-api-v1-me").get_by_role("button", name="Send")).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await auditor.read(page, "on a phone")
    await picture(page, "schema-phone")
    assert auditor.found == []

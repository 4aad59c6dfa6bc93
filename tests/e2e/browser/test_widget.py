"""The widget on a real page of another origin, with a strict policy and hostile style sheets of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from playwright.async_api import Page, expect

from app.clock import utc_now
from tests.app.widgets.site import signed
from tests.e2e.browser.axe import PHONE, Auditor
from tests.e2e.browser.conftest import Visitors
from tests.e2e.browser.pages import ARTIFACTS
from tests.support.client import PASSWORD
from tests.support.other_site import OtherSite, other_site
from tests.support.server_process import ServerProcess

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

WIDGET = {"name": "Shop", "anonymous": True, "title": "Ask the tea shop", "greeting": "Hello! What can we do for you?"}


@pytest.fixture(scope="module")
def site(server: ServerProcess) -> Iterator[OtherSite]:
    with other_site(server.url) as site:
        yield site


@asynccontextmanager
async def administrator(server: ServerProcess) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=30) as admin:
        answer = await admin.post("/api/v1/auth/login", json={"username": "admin", "password": PASSWORD})
        admin.cookies.clear()
        admin.headers["Authorization"] = f"Bearer {answer.json()['token']}"
        yield admin


async def made_widget(server: ServerProcess, site: OtherSite, **fields: Any) -> str:
    async with administrator(server) as admin:
        answer = await admin.post("/api/v1/widgets", json={**WIDGET, "allowed_origins": [site.origin], **fields})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])


class WidgetPage:
    """A page of the site, as its reader uses it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.launch = page.get_by_role("button", name="Open the chat")
        self.field = page.get_by_label("Message", exact=True)
        self.answers = page.locator(".said.bot[data-message-id], .said.agent[data-message-id]")
        self.own = page.locator(".said.own")
        self.status = page.locator(".status")

    async def ask(self, text: str) -> None:
        await self.field.fill(text)
        await self.field.press("Enter")

    async def picture(self, name: str) -> None:
        ARTIFACTS.mkdir(parents=True, exist_ok=True)
        await self.page.screenshot(path=ARTIFACTS / f"{name}.png")


@pytest.mark.parametrize("look", [{}, PHONE], ids=["desk", "phone in the dark"])
async def test_a_visitor_chats_on_a_foreign_page_and_is_the_same_after_a_reload(
    visitors: Visitors, server: ServerProcess, site: OtherSite, auditor: Auditor, look: dict[str, Any]
) -> None:
    """botfront/rasa-webchat#166: a reload made a new visitor, and what was said meanwhile was lost."""
    visitors.may_lose_network = True
    widget_id = await made_widget(server, site)
    context = await visitors.profile(signed_in=False, reduced_motion="reduce", **look)
    shop = WidgetPage(await context.new_page())
    await shop.page.goto(f"{site.origin}/page?widget={widget_id}")
    before = await shop.page.evaluate("() => Object.keys(window).filter(name => name.toLowerCase().includes('kvasir'))")
    await expect(shop.launch).to_be_visible()
    assert await shop.page.evaluate(
        "() => Object.keys(window).filter(name => !/^on|^__/.test(name)).includes('Kvasir')"
    )
    assert set(before) <= {"Kvasir"}
    await auditor.read(shop.page, "closed")
    await shop.launch.press("Enter")
    await expect(shop.field).to_be_focused()
    await shop.ask("Where is **my** parcel?")
    await expect(shop.answers).to_have_count(1)
    await expect(shop.answers.last).to_have_attribute("data-status", "completed")
    await expect(shop.answers.last.locator("strong")).to_have_text("my")
    await auditor.read(shop.page, "an answer")
    await shop.picture("widget-phone" if look else "widget")
    # In mid-answer, and the window is open again by itself.
    await shop.ask("/endless")
    await expect(shop.answers).to_have_count(2)
    await expect(shop.answers.last).to_contain_text("tick tock tick")
    await shop.page.reload()
    await expect(shop.answers).to_have_count(2)
    await expect(shop.own).to_have_count(2)
    await context.set_offline(True)
    await shop.ask("without a network")
    await context.set_offline(False)
    await shop.page.get_by_role("button", name="Stop answering").click()
    await expect(shop.own).to_have_count(3)
    await expect(shop.answers).to_have_count(3, timeout=60_000)
    await expect(shop.answers.last).to_have_attribute("data-status", "completed", timeout=60_000)
    await auditor.read(shop.page, "stopped")
    await shop.field.press("Escape")
    await expect(shop.launch).to_be_focused()
    await shop.page.evaluate("() => window.Kvasir.open()")
    await expect(shop.field).to_be_visible()
    await shop.page.evaluate("() => window.Kvasir.close()")
    await expect(shop.field).to_be_hidden()
    assert auditor.found == []
    assert await context.cookies() == []


async def test_a_page_of_an_origin_that_is_not_allowed_gets_nothing(
    visitors: Visitors, server: ServerProcess, site: OtherSite
) -> None:
    visitors.may_lose_network = True
    widget_id = await made_widget(server, site)
    page = await visitors.page(f"{site.other_origin}/page?widget={widget_id}", signed_in=False)
    await page.wait_for_function("() => 'Kvasir' in window")
    asked = await page.evaluate(
        """async ([server, id]) => {
          const look = await fetch(`${server}/api/v1/widgets/${id}/look`).then(({ status }) => status, () => "blocked");
          const enter = await fetch(`${server}/api/v1/widgets/${id}/visitors`, {
            method: "POST", body: "{}", headers: { "Content-Type": "application/json" },
          }).then(() => "answered", () => "blocked");
          const socket = new WebSocket(`${server.replace("http", "ws")}/ws?ticket=made-up`);
          const code = await new Promise((resolve) => { socket.onclose = (event) => resolve(event.code); });
          return [look, enter, code];
        }""",
        [server.url, widget_id],
    )
    assert asked[:2] == [403, "blocked"]
    assert asked[2] in (1006, 1008, 4001)
    assert await page.locator("[data-kvasir-widget]").count() == 0
    # What may have been blocked by the policy of the test's own page would prove nothing.
    assert not [complaint for complaint in visitors.complaints if "CSP" in complaint]
    visitors.complaints.clear()


async def test_a_page_that_was_refused_does_not_ask_again(
    visitors: Visitors, server: ServerProcess, site: OtherSite
) -> None:
    visitors.may_lose_network = True
    widget_id = await made_widget(server, site)
    page = await visitors.page("about:blank", signed_in=False)
    await page.clock.install()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/look") else None)
    async with page.expect_event("requestfinished", lambda request: request.url.endswith("/look")):
        await page.goto(f"{site.other_origin}/page?widget={widget_id}")
    await page.evaluate("() => new Promise((resolve) => requestAnimationFrame(() => resolve()))")
    await page.clock.run_for(90_000)
    assert len(asked) == 1
    visitors.complaints.clear()


async def test_whom_the_site_has_signed_in_has_one_history_on_two_devices_in_chinese(
    visitors: Visitors, server: ServerProcess, site: OtherSite
) -> None:
    """Case C45: a visitor signed in by the site keeps the same history on two devices."""
    async with administrator(server) as admin:
        answer = await admin.post(
            "/api/v1/widgets",
            json={**WIDGET, "allowed_origins": [site.origin], "anonymous": False, "colour": "#f2c14e"},
        )
        widget = answer.json()
    token = signed(widget["secret"], utc_now(), sub="customer 7", name="Ann")
    address = f"{site.origin}/page?widget={widget['id']}&visitor-token={token}&open=&theme=dark"
    first = WidgetPage(await visitors.page(address, signed_in=False, locale="zh-CN"))
    field = first.page.get_by_label("消息", exact=True).locator("visible=true").last
    await field.fill("你好")
    await field.press("Enter")
    await expect(first.answers.last).to_have_attribute("data-status", "completed")
    await first.picture("widget-chinese")
    second = WidgetPage(await visitors.page(f"{address}&language=en", signed_in=False))
    await expect(second.own).to_have_count(1)
    await expect(second.answers).to_have_count(1)
    nobody = WidgetPage(await visitors.page(f"{site.origin}/page?widget={widget['id']}&open=", signed_in=False))
    await expect(nobody.status).to_have_text("This chat is for visitors who are signed in.")
    visitors.complaints.clear()

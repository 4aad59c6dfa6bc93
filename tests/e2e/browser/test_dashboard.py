"""The administrators' dashboard, as they use it: live numbers, a thousand sessions, the map of pages, and what they change."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, Route, expect

from tests.e2e.browser.axe import PHONE, Auditor
from tests.e2e.browser.conftest import Visitors, welcoming
from tests.e2e.browser.cutting_proxy import CuttingProxy
from tests.e2e.browser.pages import ARTIFACTS, ChatPage, SignInPage
from tests.support.client import PASSWORD
from tests.support.server_process import FAKE, ServerProcess, server_process

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

SESSIONS = 1000
SETTINGS = ("--set", "webhook_private_networks=127.0.0.2/32", "--set", "webhook_retry_s=0.1")
WIDE = {"viewport": {"width": 1360, "height": 850}, "reduced_motion": "reduce"}
SECTIONS = (
    "Overview",
    "Sessions",
    "Memory",
    "Personas",
    "Widgets",
    "Users",
    "API keys",
    "Usage",
    "Feedback",
    "Webhooks",
    "Audit log",
    "Server",
)

FRAMES = """
async (frame, share) => {
  const times = [];
  let before = performance.now();
  const distance = (share * frame.scrollHeight) / 120;
  for (let step = 0; step < 120; step += 1) {
    frame.scrollTop += distance;
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    times.push(now - before);
    before = now;
  }
  times.sort((one, other) => one - other);
  const rows = frame.querySelectorAll("tbody tr[aria-rowindex]").length;
  const atEnd = frame.scrollTop + frame.clientHeight >= frame.scrollHeight - 2;
  return { p50: times[60], p95: times[114], worst: times[119], rows, atEnd };
}
"""


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    data = str(tmp_path_factory.mktemp("crowded"))
    with server_process(*FAKE, "--data", data, "--crowd", str(SESSIONS), "--delay-ms", "10", *SETTINGS) as server:
        server.wait_ready(60)
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def admins_state(browser: Browser, crowded: ServerProcess) -> Any:
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(crowded.sign_in_link)
    await expect(ChatPage(page).composer).to_be_visible()
    state = await context.storage_state()
    await context.close()
    return state


@pytest_asyncio.fixture(loop_scope="session")
async def admins(browser: Browser, crowded: ServerProcess, admins_state: Any) -> AsyncIterator[Visitors]:
    async with welcoming(browser, crowded.url, admins_state) as visitors:
        yield visitors


async def dashboard(admins: Visitors, **look: Any) -> Page:
    page = await admins.page("/admin", **{**WIDE, **look})
    await expect(page.get_by_role("status").get_by_text("Live", exact=True)).to_be_visible()
    return page


async def show(page: Page, section: str) -> None:
    await page.get_by_role("navigation").get_by_role("link", name=section, exact=True).click()
    await expect(page.get_by_role("heading", level=1, name=section, exact=True)).to_be_visible()


async def picture(page: Page, name: str) -> None:
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    await page.screenshot(path=ARTIFACTS / f"dashboard-{name}.png")


async def readiness(server: ServerProcess) -> int:
    async with httpx.AsyncClient(trust_env=False) as client:
        return (await client.get(f"{server.url}/readyz")).status_code


async def asked_after(moment: asyncio.Event, route: Route) -> None:
    await moment.wait()
    await route.continue_()


def row(page: Page, words: str) -> Locator:
    return page.get_by_role("row").filter(has_text=words).first


async def test_an_administrator_sees_the_server_live_and_steers_a_thousand_sessions(admins: Visitors) -> None:
    page = await dashboard(admins)
    chart = page.get_by_role("region", name="Pages in use, by tier").or_(
        page.locator("section[aria-label^='Pages in']")
    )
    await expect(chart.locator("canvas")).to_be_visible()
    await expect(chart.locator(".chart-names")).to_contain_text("disk 1,224")
    await chart.get_by_role("button", name="As a table").click()
    newest = chart.get_by_role("row").nth(1)
    await expect(newest.get_by_role("cell").nth(3)).to_have_text("1,224")
    await picture(page, "overview")

    await show(page, "Sessions")
    await expect(page.get_by_text(f"{SESSIONS:,} sessions")).to_be_visible()
    table = page.locator(".virtual")
    idle, measured = await table.evaluate(FRAMES, 0), await table.evaluate(FRAMES, 1)
    print(f"\nframes of {SESSIONS} sessions, in ms: at rest {idle}, scrolled from end to end {measured}")
    assert measured["atEnd"]
    assert measured["rows"] < 80, "only what is on the screen is there"
    await page.get_by_role("button", name="Tokens").click()
    await table.evaluate("node => { node.scrollTop = 0; }")
    tokens = await page.locator(".virtual tbody tr[aria-rowindex] td:nth-child(3)").all_inner_texts()
    numbers = [int(text.replace(",", "")) for text in tokens]
    assert numbers == sorted(numbers, reverse=True)

    await page.get_by_placeholder("Filter by user").fill("customer-123")
    await page.get_by_label("State", exact=True).select_option("host")
    await expect(page.get_by_text(f"1 of {SESSIONS:,} sessions")).to_be_visible()
    seconds = page.locator(".virtual tbody tr[aria-rowindex] td:nth-child(7)")
    before = await seconds.inner_text()
    await expect(seconds).not_to_have_text(before)
    await picture(page, "sessions")
    await page.get_by_role("button", name="Evict the session of").click()
    await page.get_by_role("dialog").get_by_role("button", name="Evict").click()
    await expect(page.get_by_role("alert").filter(has_text="moved to the next tier")).to_be_visible()
    await page.get_by_label("State", exact=True).select_option("disk")
    await expect(row(page, "customer-123")).to_contain_text("on disk")
    await page.get_by_role("button", name="Kick the session of").click()
    await page.get_by_role("dialog").get_by_role("button", name="Kick").click()
    await expect(page.get_by_text(f"0 of {SESSIONS - 1:,} sessions")).to_be_visible()


async def test_the_map_tells_kinds_by_pointer_by_keyboard_and_as_a_table(admins: Visitors) -> None:
    page = await dashboard(admins)
    await show(page, "Memory")
    device = page.get_by_role("slider", name="Page map: Device")
    await device.hover(position={"x": 5, "y": 5})
    await expect(page.get_by_text("Page 1 of 3,000: Persona's prompt. Belongs to everybody.")).to_be_visible()
    await page.mouse.move(0, 0)
    await device.focus()
    await page.keyboard.press("End")
    await expect(device).to_have_attribute("aria-valuetext", re.compile("Page 3,000 of 3,000: .*a person"))
    await picture(page, "memory")
    await page.get_by_role("button", name="As a table").click()
    await expect(row(page, "Persona's prompt")).to_contain_text("40")


async def test_what_an_administrator_changes_holds_and_is_in_the_audit_log(
    admins: Visitors, crowded: ServerProcess
) -> None:
    # The browser itself notes every refusal that the test provokes.
    admins.may_lose_network = True
    page = await dashboard(admins)
    dialog = page.get_by_role("dialog")
    await show(page, "Users")
    await page.get_by_role("button", name="New user").click()
    await dialog.get_by_label("Name").fill("grace")
    await dialog.get_by_label("Password").fill(PASSWORD)
    await dialog.get_by_role("button", name="Create").click()
    await expect(row(page, "grace")).to_contain_text("User")
    await page.get_by_role("button", name="Limits of grace").click()
    await dialog.get_by_label("Answers a day").fill("7")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog).to_have_count(0)
    await page.get_by_role("button", name="Limits of grace").click()
    await expect(dialog.get_by_label("Answers a day")).to_have_value("7")
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Delete grace").click()
    await expect(dialog).to_contain_text("nobody can bring them back")
    await picture(page, "delete-user")
    await dialog.get_by_role("button", name="Delete").click()
    await expect(row(page, "grace")).to_have_count(0)
    await expect(page.get_by_role("button", name="Delete admin")).to_have_count(0)
    await page.get_by_role("button", name="Edit admin").click()
    await dialog.get_by_label("Role").select_option("user")
    await dialog.get_by_role("button", name="Edit").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("only administrator")
    await page.keyboard.press("Escape")

    await show(page, "Personas")
    for prompt in ("You answer in one sentence.", "You answer in two sentences."):
        is_new = prompt.endswith("one sentence.")
        await page.get_by_role("button", name="New persona" if is_new else "Edit terse").click()
        if is_new:
            await dialog.get_by_label("Name").fill("terse")
        await dialog.get_by_label("System prompt").fill(prompt)
        await dialog.get_by_role("button", name="Create" if is_new else "Save").click()
        await expect(row(page, "terse")).to_contain_text(prompt)
    await page.get_by_role("button", name="Versions of terse").click()
    await expect(dialog.get_by_role("listitem")).to_have_count(2)
    await picture(page, "versions")
    await dialog.get_by_role("button", name="Say again").click()
    await expect(row(page, "terse")).to_contain_text("You answer in one sentence.")

    await show(page, "Widgets")
    await page.get_by_role("button", name="New widget").click()
    await dialog.get_by_label("Name").fill("Shop")
    await dialog.get_by_label("Allowed origins").fill("https://shop.example")
    await dialog.get_by_role("button", name="Create").click()
    await expect(dialog.get_by_role("heading", name="The secret of Shop")).to_be_visible()
    await dialog.get_by_role("button", name="Close").click()
    await page.get_by_role("button", name="Code and secret of Shop").click()
    await expect(dialog).to_contain_text("/widget.js")
    await page.keyboard.press("Escape")
    await expect(row(page, "Shop")).to_contain_text("https://shop.example")

    await show(page, "Webhooks")
    await page.get_by_role("button", name="New webhook").click()
    await dialog.get_by_label("Address").fill("http://127.0.0.1:9/hook")
    await dialog.get_by_role("button", name="Create").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("127.0.0.1")
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="New webhook").click()
    await dialog.get_by_label("Address").fill(f"{crowded.url}/hook".replace("127.0.0.1", "127.0.0.2"))
    await dialog.get_by_label("message.created").check()
    await dialog.get_by_role("button", name="Create").click()
    await expect(dialog.get_by_role("heading", name="The secret of this webhook")).to_be_visible()
    await dialog.get_by_role("button", name="Close").click()
    tested = asyncio.Event()
    await page.route("**/test", lambda route: asked_after(tested, route))
    await page.get_by_role("button", name="Send a test event").click()
    await page.get_by_role("button", name="Deliveries to").click()
    await expect(dialog).to_contain_text("Nothing has been sent yet.")
    tested.set()
    await expect(row(page, "webhook.test")).to_contain_text("given up")
    await picture(page, "deliveries")
    await page.get_by_role("button", name="Send webhook.test").click()
    await page.keyboard.press("Escape")

    await show(page, "Server")
    await expect(row(page, "KVASIR_ADMIN_PASSWORD")).to_contain_text("(set)")
    await page.get_by_role("button", name="Drain this server").click()
    await dialog.get_by_role("button", name="Drain this server").click()
    await expect(page.get_by_role("heading", name="Drained", exact=True)).to_be_visible()
    await expect(page.get_by_role("link", name="Drained: no new answers")).to_be_visible()
    assert await readiness(crowded) == 503
    await picture(page, "drained")
    await page.get_by_role("button", name="Back into service").click()
    await expect(page.get_by_role("heading", name="In service")).to_be_visible()
    assert await readiness(crowded) == 200

    await show(page, "Audit log")
    for act in ("server.undrain", "server.drain", "persona.update", "persona.create", "user.delete", "user.create"):
        await expect(row(page, act)).to_be_visible()
    await row(page, "user.create").get_by_role("button", name="user.create").click()
    await expect(page.get_by_role("row")).to_have_count(2)
    await picture(page, "audit")


async def test_who_does_not_administer_is_told_so_and_led_to_the_chat(admins: Visitors) -> None:
    page = await admins.page("/admin", signed_in=False, **WIDE)
    admins.may_lose_network = True
    await SignInPage(page).sign_in("person-07", PASSWORD)
    await expect(page.get_by_role("heading", name="This page is for administrators")).to_be_visible()
    await picture(page, "forbidden")
    await page.get_by_role("link", name="Open the chat").click()
    await expect(ChatPage(page).composer).to_be_visible()


async def test_numbers_that_stop_are_called_old_until_they_come_again(admins: Visitors, crowded: ServerProcess) -> None:
    admins.may_lose_network = True
    port = int(crowded.url.rpartition(":")[2])
    async with CuttingProxy(lambda: port) as proxy:
        page = await dashboard(admins, url=f"http://127.0.0.1:{proxy.port}")
        proxy.is_refusing = True
        await proxy.cut()
        await expect(page.get_by_role("status").get_by_text("Not live: these numbers are from")).to_be_visible()
        proxy.is_refusing = False
        await expect(page.get_by_role("status").get_by_text("Live", exact=True)).to_be_visible()
        await page.close()


@pytest.mark.parametrize("look", [{}, {**PHONE, "locale": "zh-CN"}], ids=["desk", "phone in the dark, in Chinese"])
async def test_axe_finds_nothing_in_any_section(admins: Visitors, auditor: Auditor, look: dict[str, Any]) -> None:
    page = await admins.page("/admin", **{**WIDE, **look})
    links = page.get_by_role("navigation").get_by_role("link")
    await expect(links).to_have_count(len(SECTIONS))
    for number, name in enumerate(SECTIONS):
        await links.nth(number).click()
        await expect(page.locator("main :is(table, canvas, .empty)").first).to_be_visible()
        await auditor.read(page, name)
        await picture(page, f"{'phone' if look else 'desk'}-{name.lower().replace(' ', '-')}")
        sideways = await page.evaluate(
            "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert sideways <= 0, name
    assert auditor.found == []

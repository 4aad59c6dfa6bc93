"""What is one's own: how the pages look and speak, live sessions, sign-ins, keys, usage."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from playwright.async_api import expect

from tests.e2e.browser.axe import PHONE, Auditor
from tests.e2e.browser.conftest import Visitors
from tests.e2e.browser.pages import ChatPage, SignInPage
from tests.support.client import PASSWORD
from tests.support.server_process import ServerProcess

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.parametrize("look", [{}, PHONE], ids=["desk", "phone in the dark"])
async def test_the_settings_are_followed_everywhere(visitors: Visitors, auditor: Auditor, look: dict[str, Any]) -> None:
    chat = await visitors.chat(reduced_motion="reduce", **look)
    page = chat.page
    await chat.ask_and_wait("before the settings")
    for name in ("general", "sessions", "sign-in", "keys", "usage"):
        await page.goto(f"/#/settings/{name}")
        await expect(page.locator("#settings-heading")).to_be_visible()
        await expect(page.locator(".settings-loading")).to_have_count(0)
        await auditor.read(page, f"settings: {name}")
        await chat.picture(f"settings-{name}{'-phone' if look else ''}")
    await page.goto("/#/settings/general")
    await page.get_by_label("Language").select_option("zh")
    await expect(page.locator("html")).to_have_attribute("lang", "zh")
    await page.get_by_label("颜色").select_option("dark" if not look else "light")
    ground = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(22, 25, 26)" if not look else "rgb(250, 249, 246)")
    await page.get_by_label("文字大小").select_option("large")
    await page.get_by_label("发送键").select_option("mod-enter")
    await auditor.read(page, "settings in Chinese")
    await chat.picture(f"settings-chinese{'-phone' if look else ''}")
    await page.get_by_role("link", name="返回对话").click()
    composer = page.get_by_role("textbox", name="消息")
    await composer.fill("一行")
    await composer.press("Enter")
    await expect(composer).to_have_value("一行\n")
    await composer.press("Control+Enter")
    await expect(chat.answers).to_have_count(2)
    await chat.ended("completed")
    await auditor.read(page, "a chat in Chinese")
    await chat.picture(f"chinese{'-phone' if look else ''}")
    await page.evaluate("document.activeElement.blur()")
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_contain_text("Ctrl + Enter")
    await auditor.read(page, "the keys")
    await page.keyboard.press("Escape")
    assert auditor.found == []


async def test_keys_are_shown_once_sessions_are_dropped_and_sign_ins_ended(visitors: Visitors) -> None:
    visitors.may_lose_network = True
    other = await visitors.page(signed_in=False)
    await SignInPage(other).sign_in("admin", PASSWORD)
    await expect(ChatPage(other).composer).to_be_visible()
    page = await visitors.page(signed_in=False)
    await SignInPage(page).sign_in("admin", PASSWORD)
    chat = ChatPage(page)
    await chat.ask_and_wait("kept warm")
    conversation_id = await chat.arrived()

    await page.goto("/#/settings/sessions")
    session = page.locator(f"[data-session='{conversation_id}']")
    await expect(session).to_contain_text("kept warm")
    await session.get_by_role("button", name="Drop").click()
    await expect(session).to_have_count(0)

    await page.goto("/#/settings/keys")
    await page.get_by_label("What is it for?").fill("a bot")
    await page.get_by_role("button", name="Create key").click()
    key = await page.get_by_label("New key").get_by_role("textbox").input_value()
    assert key.startswith("kv_")
    await page.get_by_role("button", name="I have it").click()
    await page.reload()
    assert key not in await page.content()
    await page.get_by_role("button", name="Revoke: a bot").click()
    await page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    await expect(page.locator("[data-key]")).to_have_count(0)

    await page.goto("/#/settings/sign-in")
    await expect(page.get_by_text("This browser")).to_be_visible()
    await page.get_by_label("Current password").fill("not the password")
    await page.get_by_label("New password").fill(PASSWORD)
    await page.get_by_role("button", name="Change password").click()
    await expect(page.get_by_text("The current password is not right.")).to_be_visible()
    # The newest of the others is the one from above.
    await page.get_by_role("button", name="End the sign-in").first.click()
    await expect(other.get_by_role("heading", name="Sign in to Kvasir")).to_be_visible()


async def test_an_account_is_deleted_by_whoever_has_its_password(
    visitors: Visitors, server: ServerProcess, auditor: Auditor
) -> None:
    visitors.may_lose_network = True
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=30) as admin:
        signed_in = await admin.post("/api/v1/auth/login", json={"username": "admin", "password": PASSWORD})
        admin.cookies.clear()
        admin.headers["Authorization"] = f"Bearer {signed_in.json()['token']}"
        made = await admin.post("/api/v1/admin/users", json={"username": "leaver", "password": PASSWORD})
        assert made.status_code == 201, made.text
    page = await visitors.page("/#/settings/sign-in", signed_in=False)
    await SignInPage(page).sign_in("leaver", PASSWORD)
    await page.get_by_role("button", name="Delete my account").scroll_into_view_if_needed()
    await ChatPage(page).picture("settings-deletion")
    await page.get_by_role("button", name="Delete my account").click()
    dialog = page.get_by_role("dialog")
    await auditor.read(page, "deleting the account")
    await ChatPage(page).picture("delete-account")
    name, password = dialog.get_by_label("Your name, to be sure"), dialog.get_by_label("Current password")
    for typed_name, typed_password, answer in (
        ("somebody", PASSWORD, "Your name is leaver."),
        ("leaver", "not the password", "The current password is not right."),
    ):
        await name.fill(typed_name)
        await password.fill(typed_password)
        await dialog.get_by_role("button", name="Delete for good").click()
        await expect(dialog.get_by_role("alert")).to_have_text(answer)
    await password.fill(PASSWORD)
    await dialog.get_by_role("button", name="Delete for good").click()
    await expect(page.get_by_text("Your account is deleted, with everything in it.")).to_be_visible()
    await SignInPage(page).sign_in("leaver", PASSWORD)
    await expect(page.get_by_text("The name or the password is not right.")).to_be_visible()
    assert auditor.found == []

"""A person comes in by the printed link or by password, and goes out again."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from tests.e2e.browser.conftest import Visitors
from tests.e2e.browser.pages import ChatPage, SignInPage
from tests.support.client import PASSWORD
from tests.support.server_process import ServerProcess

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_a_used_link_says_so_and_the_password_still_works(visitors: Visitors, server: ServerProcess) -> None:
    visitors.may_lose_network = True  # a browser logs every 401
    page = await visitors.page(server.sign_in_link, signed_in=False)
    sign_in = SignInPage(page)
    await expect(sign_in.notice).to_contain_text("has been used or is too old")
    await expect(page).to_have_url(re.compile(r"/$"))
    await page.reload()
    await expect(page.get_by_label("Name")).to_be_focused()
    await expect(sign_in.notice).to_have_count(0)
    await sign_in.sign_in("admin", "not the password")
    await expect(sign_in.problem).to_have_text("The name or the password is not right.")
    await ChatPage(page).picture("sign-in")
    await sign_in.sign_in("admin", PASSWORD)
    await expect(ChatPage(page).composer).to_be_focused()


async def test_signing_out_ends_it_in_every_tab(visitors: Visitors) -> None:
    visitors.may_lose_network = True
    context = await visitors.profile(signed_in=False)
    first, second = await context.new_page(), await context.new_page()
    await first.goto("/")
    await SignInPage(first).sign_in("admin", PASSWORD)
    await expect(ChatPage(first).composer).to_be_visible()
    await second.goto("/")
    await expect(ChatPage(second).composer).to_be_visible()
    await ChatPage(first).composer.fill("a secret draft")
    await first.get_by_role("button", name="Sign out").click()
    await expect(first.get_by_role("heading", name="Sign in to Kvasir")).to_be_visible()
    await expect(second.get_by_role("heading", name="Sign in to Kvasir")).to_be_visible()
    kept = await first.evaluate("JSON.stringify(localStorage)")
    assert "secret" not in kept


async def test_signing_in_again_goes_on_where_one_was(visitors: Visitors) -> None:
    visitors.may_lose_network = True
    page = await visitors.page(signed_in=False)
    await SignInPage(page).sign_in("admin", PASSWORD)
    chat = ChatPage(page)
    await chat.ask_and_wait("where was I")
    await chat.composer.fill("half a sentence")
    await page.context.clear_cookies()
    await page.reload()
    await SignInPage(page).sign_in("admin", PASSWORD)
    await expect(chat.answers).to_have_count(1)
    await expect(chat.composer).to_have_value("half a sentence")

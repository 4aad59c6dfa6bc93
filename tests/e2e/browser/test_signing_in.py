"""A person comes in by the printed link or by password, and goes out again."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from app.clock import utc_now
from tests.e2e.browser.conftest import Visitors, welcoming
from tests.e2e.browser.pages import ChatPage, SignInPage
from tests.support.client import PASSWORD
from tests.support.oidc_provider import CLIENT_ID, CLIENT_SECRET, oidc_server
from tests.support.server_process import FAKE, ServerProcess, server_process

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
    await ChatPage(first).choose_of_account("Sign out")
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


async def test_people_come_in_by_a_provider_or_with_an_account_of_their_own(browser: Browser, tmp_path: Path) -> None:
    async with oidc_server(utc_now) as provider:
        chosen = {
            "signup": "open",
            "oidc_issuer": provider.issuer,
            "oidc_client_id": CLIENT_ID,
            "oidc_client_secret": CLIENT_SECRET,
            "oidc_name": "Acme",
        }
        settings = [part for name, value in chosen.items() for part in ("--set", f"{name}={value}")]
        with server_process(*FAKE, "--data", str(tmp_path), *settings) as server:
            await asyncio.to_thread(server.wait_ready, 60)
            async with welcoming(browser, server.url, None) as visitors:
                visitors.may_lose_network = True  # a browser logs every 401
                page = await visitors.page()
                await page.get_by_role("link", name="Sign in with Acme").click()
                await expect(ChatPage(page).composer).to_be_visible()
                await expect(page.get_by_text("ann", exact=True)).to_be_visible()
                provider.overrides = {"aud": "another client"}
                page = await visitors.page()
                await page.get_by_role("link", name="Sign in with Acme").click()
                await expect(SignInPage(page).notice).to_contain_text("did not work")
                await page.get_by_role("button", name="Create an account").click()
                await page.get_by_label("Name").fill("bea")
                await page.get_by_label("Password").fill(PASSWORD)
                await page.get_by_role("button", name="Create account").click()
                await expect(ChatPage(page).composer).to_be_visible()
                await expect(page.get_by_text("bea", exact=True)).to_be_visible()

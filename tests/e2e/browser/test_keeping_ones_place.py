"""Whatever changes on the page, the person stays where they were: focus, selection, scroll position, and the words they typed."""

from __future__ import annotations

import asyncio
import re

import httpx
import pytest
from playwright.async_api import Route, expect

from tests.e2e.browser.conftest import Stored, Visitors
from tests.e2e.browser.pages import ChatPage, SignInPage
from tests.support.client import PASSWORD

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_the_focus_is_never_lost(visitors: Visitors) -> None:
    """Whoever works by keyboard would begin again at the top of the page."""
    chat = await visitors.chat()
    page, keyboard = chat.page, chat.page.keyboard
    await chat.ask_and_wait("where is the focus")
    await chat.answers.last.get_by_role("button", name="Regenerate answer").press("Enter")
    await expect(chat.composer).to_be_focused()
    await expect(chat.answers.last.get_by_label("Version 2 of 2")).to_be_visible()
    await chat.ended("completed")
    await page.get_by_role("button", name="Previous version").press("Enter")
    await expect(chat.answers.last.get_by_label("Version 1 of 2")).to_be_visible()
    await expect(page.get_by_role("button", name="Previous version")).to_be_focused()

    edit = chat.questions.first.get_by_role("button", name="Edit message")
    await edit.press("Enter")
    await keyboard.press("Escape")
    await expect(edit).to_be_focused()
    await edit.press("Enter")
    await keyboard.type(" now")
    await keyboard.press("Enter")
    await expect(chat.composer).to_be_focused()
    await chat.ended("completed")

    for end in ("Enter", "Escape"):
        more = chat.rows.first.get_by_role("button", name=re.compile("^More: "))
        await more.press("Enter")
        await expect(page.get_by_role("menuitem", name="Rename")).to_be_focused()
        await keyboard.press("Enter")
        await keyboard.type(f"Renamed, {end}")
        await keyboard.press(end)
        await expect(more).to_be_focused()
    await expect(chat.rows.first).to_contain_text("Renamed, Enter")

    await chat.new_chat()
    await more.press("Enter")
    await keyboard.press("ArrowUp")
    await expect(page.get_by_role("menuitem", name="Delete")).to_be_focused()
    await keyboard.press("Escape")
    await expect(more).to_be_focused()
    await more.press("ArrowDown")
    await keyboard.press("End")
    await keyboard.press("Enter")
    await page.get_by_role("dialog").get_by_role("button", name="Delete").press("Enter")
    await expect(page.get_by_role("link", name="Renamed, Enter")).to_have_count(0)
    await expect(chat.composer).to_be_focused()


async def test_what_is_selected_stays_selected_while_the_text_grows(visitors: Visitors) -> None:
    chat = await visitors.chat()
    await chat.ask("/endless")
    await chat.shows_words(30)
    box = await chat.answers.last.locator("p").first.bounding_box()
    assert box is not None
    mouse, selected = chat.page.mouse, "getSelection().toString()"
    await mouse.move(box["x"] + 2, box["y"] + 10)
    await mouse.down()
    await mouse.move(box["x"] + 120, box["y"] + 10, steps=4)
    await chat.shows_words(60)
    await mouse.move(box["x"] + 160, box["y"] + 10, steps=4)
    await mouse.up()
    words = await chat.page.evaluate(selected)
    assert len(words.split()) > 3
    await chat.shows_words(120)
    assert await chat.page.evaluate(selected) == words
    await chat.page.keyboard.press("Escape")
    await chat.ended("cancelled")
    assert await chat.page.evaluate(selected) == words


async def test_earlier_messages_do_not_push_away_what_is_read(visitors: Visitors, stored: Stored) -> None:
    chat = await visitors.chat()
    await chat.ask_and_wait("the very first")
    conversation_id = await chat.arrived()
    for number in range(45):
        await chat.ask(f"message {number}")
    await expect(chat.answers.last).to_contain_text("You said: message 44.")
    await chat.ended("completed", timeout_s=40)
    await chat.page.reload()
    await expect(chat.answers.last).to_be_visible()
    # The page that comes is the one above: it is held back until somebody has seen what is at the top.
    held = asyncio.Event()

    async def hold(route: Route) -> None:
        await held.wait()
        await route.continue_()

    await chat.page.route("**/messages?*cursor=*", hold)
    thread = chat.page.locator(".thread")
    await thread.evaluate("node => node.scrollTo(0, 0)")
    await expect(chat.questions.first).to_have_attribute("aria-posinset", "1")
    first = chat.page.locator(f"[data-message-id='{await chat.message_id(chat.questions.first)}']")
    before = await first.evaluate("node => node.getBoundingClientRect().top")
    held.set()
    await expect(chat.page.get_by_role("button", name="Show earlier messages")).to_have_count(0)
    await expect(first).to_have_attribute("aria-setsize", "92")
    after = await first.evaluate("node => node.getBoundingClientRect().top")
    # The button above goes when all is there.
    assert abs(after - before) < 60
    assert await chat.texts_from_the_top() == await stored.texts(conversation_id)
    await chat.page.reload()
    await expect(chat.answers.last).to_be_visible()
    await chat.page.get_by_role("button", name="Show earlier messages").focus()
    await expect(chat.page.get_by_role("button", name="Show earlier messages")).to_have_count(0)
    await expect(thread).to_be_focused()


async def test_a_bookmark_of_an_old_conversation_hides_no_other(visitors: Visitors) -> None:
    chat = await visitors.chat()
    headers = {"Origin": visitors.url}
    oldest = ""
    for number in range(35):
        answer = await chat.page.request.post("/api/v1/conversations", data={"title": f"row {number}"}, headers=headers)
        oldest = oldest or (await answer.json())["id"]
    await chat.page.goto("about:blank")

    async def late(route: Route) -> None:
        await asyncio.sleep(0.5)
        await route.continue_()

    await chat.page.route("**/api/v1/conversations?limit*", late)
    await chat.page.goto(f"/#/c/{oldest}")
    await expect(chat.page.get_by_role("heading", level=1)).to_have_text("row 0")
    older = chat.page.get_by_role("button", name="Show older")
    await older.press("Enter")
    await expect(chat.page.get_by_role("link", name="row 3", exact=True)).to_be_visible()
    while await older.count():
        shown = await chat.rows.count()
        await older.press("Enter")
        await chat.page.wait_for_function("count => document.querySelectorAll('.row').length > count", arg=shown)
    await expect(chat.page.locator(".row a:focus")).to_have_count(1)


async def test_words_for_a_conversation_that_is_deleted_meanwhile_begin_a_new_one(visitors: Visitors) -> None:
    visitors.may_lose_network = True  # a browser logs every 404
    chat = await visitors.chat()
    await chat.ask_and_wait("soon to be gone")
    conversation_id = await chat.arrived()
    await chat.composer.fill("in the middle of a")
    await chat.page.request.delete(f"/api/v1/conversations/{conversation_id}", headers={"Origin": visitors.url})
    await expect(chat.page.get_by_text("What you write here begins a new one.")).to_be_visible()
    await chat.picture("gone-elsewhere")
    await chat.composer.press_sequentially(" sentence")
    await chat.composer.press("Enter")
    await chat.ended("completed")
    assert (await chat.texts())[0] == "in the middle of a sentence"
    assert await chat.arrived() != conversation_id
    await expect(chat.composer).to_have_value("")


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_server_that_cannot_take_a_message_now_is_named_and_asked_again(
    visitors: Visitors, status: int
) -> None:
    visitors.may_lose_network = True
    chat = await visitors.chat()
    await chat.ask_and_wait("before")

    async def refuse(route: Route) -> None:
        if route.request.method != "POST":
            await route.continue_()
            return
        await route.fulfill(status=status, json={"detail": "the cellar is flooded"}, headers={"Retry-After": "1"})

    await chat.page.route("**/api/v1/conversations/*/messages", refuse)
    await chat.ask("precious words")
    await expect(chat.unsent).to_contain_text("Not sent yet. The cellar is flooded. Trying again by itself.")
    await expect(chat.unsent.get_by_role("button", name="Take back")).to_be_visible()
    await chat.picture(f"delayed-{status}")
    await chat.page.unroute_all()
    await expect(chat.unsent).to_have_count(0)
    await chat.ended("completed")
    assert (await chat.texts())[2:] == ["precious words", "You said: precious words."]


async def test_a_sign_in_that_ends_in_the_middle_of_an_answer_keeps_the_words(visitors: Visitors) -> None:
    visitors.may_lose_network = True
    page = await visitors.page(signed_in=False)
    await SignInPage(page).sign_in("admin", PASSWORD)
    chat = ChatPage(page)
    await chat.ask("/endless")
    await chat.shows_words(5)
    await chat.composer.fill("typed while it streams")
    cookies = {cookie["name"]: cookie["value"] for cookie in await page.context.cookies()}
    async with httpx.AsyncClient(base_url=visitors.url, cookies=cookies, trust_env=False) as elsewhere:
        await elsewhere.post("/api/v1/auth/logout", headers={"Origin": visitors.url})
    await expect(SignInPage(page).notice).to_have_text("Your sign-in has ended. Sign in again to go on.")
    await expect(page.get_by_label("Name", exact=True)).to_be_focused()
    await SignInPage(page).sign_in("admin", PASSWORD)
    await expect(chat.composer).to_have_value("typed while it streams")
    await chat.shows_words(20)
    await chat.stop_button.click()
    await chat.ended("cancelled")


async def test_a_browser_that_stores_nothing_is_told_why_the_page_does_not_come(visitors: Visitors) -> None:
    context = await visitors.profile(signed_in=False)
    await context.add_init_script(
        """for (const name of ["sessionStorage", "localStorage"]) {
            Object.defineProperty(window, name, { get() { throw new DOMException("denied", "SecurityError"); } });
        }"""
    )
    page = await context.new_page()
    await page.goto("/")
    await expect(page.get_by_text("Allow cookies and site data for this address")).to_be_visible()
    visitors.complaints.clear()  # it says the same to whoever reads the console


async def test_another_wording_that_was_begun_outlasts_a_reload(visitors: Visitors) -> None:
    chat = await visitors.chat()
    await chat.ask_and_wait("a question")
    editor = chat.page.get_by_role("textbox", name="Edit message")
    await chat.questions.first.get_by_role("button", name="Edit message").click()
    await editor.fill("worded at length")
    await chat.page.reload()
    await expect(editor).to_have_value("worded at length")
    await editor.press("Escape")
    await expect(chat.questions.first).to_contain_text("a question")
    await chat.page.reload()
    await expect(chat.questions.first).to_contain_text("a question")
    await expect(editor).to_have_count(0)


async def test_signing_out_leaves_no_trace_for_the_next(visitors: Visitors) -> None:
    visitors.may_lose_network = True
    page = await visitors.page(signed_in=False)
    await SignInPage(page).sign_in("admin", PASSWORD)
    chat = ChatPage(page)
    await chat.ask_and_wait("a private matter")
    conversation_id = await chat.arrived()
    await chat.choose_of_account("Sign out")
    await expect(page.get_by_role("heading", name="Sign in to Kvasir")).to_be_visible()
    await expect(page).to_have_title("Kvasir")
    assert conversation_id not in page.url + str(await page.evaluate("JSON.stringify([localStorage, sessionStorage])"))
    await SignInPage(page).sign_in("admin", PASSWORD)
    await chat.ask_and_wait("another matter")
    assert await chat.arrived() != conversation_id


async def test_half_a_character_is_no_reason_to_refuse_the_rest(visitors: Visitors) -> None:
    chat = await visitors.chat()
    await chat.composer.evaluate(
        r"node => { node.value = 'cut \ud83d here'; node.dispatchEvent(new Event('input', { bubbles: true })); }"
    )
    await chat.composer.press("Enter")
    await chat.ended("completed")
    assert (await chat.texts())[0] == "cut \ufffd here"


async def test_esc_closes_the_dialog_and_not_the_drawer_below_it(visitors: Visitors) -> None:
    chat = await visitors.chat(viewport={"width": 360, "height": 740})
    await chat.ask_and_wait("in a drawer")
    await chat.page.get_by_role("button", name="Conversations").click()
    await chat.choose("Delete", chat.rows.first)
    await expect(chat.page.get_by_role("dialog")).to_be_visible()
    await chat.page.keyboard.press("Escape")
    await expect(chat.page.get_by_role("dialog")).to_have_count(0)
    await expect(chat.rows.first).to_be_visible()
    await chat.page.keyboard.press("Escape")
    await expect(chat.page.get_by_role("button", name="Conversations")).to_be_focused()

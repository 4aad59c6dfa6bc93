"""A conversation of thousands of messages is as easy to use as a short one: only what is near the screen is drawn."""

from __future__ import annotations

import json

import pytest
from playwright.async_api import expect

from tests.e2e.browser.conftest import Visitors

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

MESSAGES = 2000
DRAWN_MAX = 120


def exported(count: int) -> bytes:
    """A file as an export gives it, of a conversation with so many messages."""
    at = "2026-01-01T00:00:00Z"
    head = {"format": "kvasir.conversation", "version": 1, "conversation": {"created_at": at, "title": "A long one"}}
    lines = [json.dumps(head)]
    for number in range(count):
        words = (
            f"Question {number}?" if number % 2 == 0 else f"Answer {number}.\n\n" + "More **words**. " * (number % 40)
        )
        message = {
            "id": f"m{number}",
            "parent_id": None if number == 0 else f"m{number - 1}",
            "role": "user" if number % 2 == 0 else "assistant",
            "content": words,
            "created_at": at,
        }
        lines.append(json.dumps({"message": message}))
    return "\n".join(lines).encode()


async def test_thousands_of_messages_are_scrolled_searched_and_read_by_keyboard(visitors: Visitors) -> None:
    chat = await visitors.chat()
    page = chat.page
    answer = await page.request.post(
        "/api/v1/conversations/import",
        data=exported(MESSAGES),
        headers={"Origin": visitors.url, "Content-Type": "application/x-ndjson"},
    )
    await page.goto(f"/#/c/{(await answer.json())['id']}")
    await expect(page.get_by_text(f"Answer {MESSAGES - 1}.")).to_be_visible()
    thread = page.locator(".thread")
    assert await thread.evaluate("node => node.scrollHeight - node.scrollTop - node.clientHeight") < 48

    # What is far up, and not even loaded, is found; the browser's own search could not.
    await page.keyboard.press("Control+f")
    await page.get_by_role("searchbox", name="Find in conversation").fill("question 8?")
    await expect(page.locator(".find-place")).to_have_text("1 of 1")
    message = page.locator("[data-message-id]", has_text="Question 8?")
    await expect(message).to_be_in_viewport()
    await chat.picture("find")
    await page.keyboard.press("Escape")
    await expect(chat.composer).to_be_focused()
    await expect(page.get_by_role("button", name="Show earlier messages")).to_have_count(0)
    assert await page.locator("[data-message-id]").count() < DRAWN_MAX
    assert await message.get_attribute("aria-posinset") == "9"
    assert await message.get_attribute("aria-setsize") == str(MESSAGES)

    # What is selected and what has the focus stays, however far away one scrolls.
    await message.focus()
    await page.evaluate(
        "node => getSelection().selectAllChildren(node)", await message.locator(".bubble").element_handle()
    )
    for part in (0.3, 0.7, 0.95):
        await thread.evaluate("(node, part) => node.scrollTo(0, node.scrollHeight * part)", part)
        await page.wait_for_function("() => document.querySelectorAll('[data-message-id]').length > 4")
    assert await page.evaluate("getSelection().toString()") == "Question 8?"
    assert await page.locator("[data-message-id]").count() < DRAWN_MAX
    await page.keyboard.press("Alt+ArrowDown")
    await expect(page.locator("[data-message-id]:focus")).to_contain_text("Answer 9.")
    await expect(page.locator("[data-message-id]:focus")).to_be_in_viewport()

    await page.get_by_role("button", name="Jump to newest").click()
    await chat.ask("/words 60")
    await chat.ended("completed")
    assert await thread.evaluate("node => node.scrollHeight - node.scrollTop - node.clientHeight") < 48

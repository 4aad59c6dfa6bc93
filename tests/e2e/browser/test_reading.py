"""The page is readable and usable: on a phone, in the dark, by keyboard, with long words, other scripts, and long answers."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Route, expect

from tests.e2e.browser.conftest import Stored, Visitors
from tests.e2e.browser.pages import ChatPage
from tests.e2e.browser.test_asking import MARKDOWN

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

PHONE = {
    "viewport": {"width": 360, "height": 740},
    "is_mobile": True,
    "has_touch": True,
    "device_scale_factor": 2,
}
WIDE = (
    """

| one | two | three | four | five | six | seven | eight |
| --- | --- | --- | --- | --- | --- | --- | --- |
| a long cell | another long cell | a third one | and a fourth | fifth | sixth | seventh | eighth |

```
a line of code that is far too long for the screen of a telephone, whichever way one holds it
```

"""
    + "Donaudampfschifffahrtsgesellschaft" * 12
)


async def no_sideways_scroll(chat: ChatPage) -> bool:
    hidden = "nodes => nodes.map(node => node.scrollWidth - node.clientWidth)"
    widths = await chat.page.locator("html, body, .thread").evaluate_all(hidden)
    return bool(max(widths) <= 0)


async def test_nothing_is_wider_than_a_phone(visitors: Visitors) -> None:
    chat = await visitors.chat(**PHONE)
    await chat.picture("phone-empty")
    await chat.ask_and_wait(MARKDOWN + WIDE)
    assert await no_sideways_scroll(chat)
    await chat.picture("phone-answer")
    await chat.page.get_by_role("button", name="Conversations").click()
    await expect(chat.page.get_by_role("button", name="New chat").first).to_be_focused()
    await expect(chat.page.locator("main")).to_have_attribute("inert", "")
    await chat.picture("phone-drawer")
    await chat.page.keyboard.press("Escape")
    await expect(chat.page.get_by_role("button", name="Conversations")).to_be_focused()
    assert await no_sideways_scroll(chat)
    await chat.page.get_by_role("button", name="Conversations").click()
    await chat.rows.first.get_by_role("link").click()
    await expect(chat.page.locator("main")).not_to_have_attribute("inert", "")


async def test_the_dark_scheme_is_dark(visitors: Visitors) -> None:
    chat = await visitors.chat(color_scheme="dark")
    await chat.ask_and_wait(MARKDOWN)
    ground = await chat.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(22, 25, 26)"
    await chat.picture("dark-answer")
    await chat.ask("/fail")
    await chat.ended("failed")
    await chat.picture("dark-failed")


async def test_the_keyboard_is_enough(visitors: Visitors) -> None:
    chat = await visitors.chat()
    keyboard = chat.page.keyboard
    await expect(chat.composer).to_be_focused()
    await keyboard.type("one line")
    await keyboard.press("Shift+Enter")
    await keyboard.type("another line")
    await keyboard.press("Enter")
    await chat.ended("completed")
    assert (await chat.texts())[0] == "one line\nanother line"

    # Backwards from the composer: the buttons under the answer, then those of the question.
    reached: list[str] = []
    for _ in range(8):
        await keyboard.press("Shift+Tab")
        reached.append(await chat.page.evaluate("document.activeElement.getAttribute('aria-label') ?? ''"))
        if reached[-1] == "Edit message":
            break
    assert {"Regenerate answer", "Copy answer", "Edit message"} <= set(reached)
    outline = await chat.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    await keyboard.press("Enter")
    await expect(chat.page.get_by_role("textbox", name="Edit message")).to_be_focused()
    await keyboard.press("Control+A")
    await keyboard.type("other words")
    await keyboard.press("Enter")
    await expect(chat.questions.first.get_by_label("Version 2 of 2")).to_be_visible()
    await chat.ended("completed")

    await chat.page.get_by_role("button", name="Previous version").focus()
    await keyboard.press("Space")
    await expect(chat.questions.first).to_contain_text("one line")
    await chat.page.get_by_role("link", name="one line").focus()
    await keyboard.press("Tab")
    await expect(chat.rows.first.get_by_role("button", name="More: one line")).to_be_focused()
    await keyboard.press("Enter")
    await keyboard.press("End")
    await keyboard.press("Enter")
    await expect(chat.page.get_by_role("button", name="Cancel")).to_be_focused()
    await keyboard.press("Escape")
    await expect(chat.page.get_by_role("dialog")).to_have_count(0)
    await keyboard.press("Control+k")
    await expect(chat.composer).to_be_focused()
    await expect(chat.answers).to_have_count(0)


async def test_esc_in_an_editor_leaves_the_answer_alone(visitors: Visitors) -> None:
    chat = await visitors.chat()
    await chat.ask("/endless")
    await chat.shows_words(2)
    await chat.questions.first.hover()
    await chat.questions.first.get_by_role("button", name="Edit message").click()
    await chat.page.keyboard.press("Escape")
    await expect(chat.page.get_by_role("textbox", name="Edit message")).to_have_count(0)
    assert await chat.answers.last.get_attribute("data-status") == "in_progress"
    await chat.page.keyboard.press("Escape")
    await chat.ended("cancelled")


async def test_enter_that_accepts_a_word_of_an_input_method_sends_nothing(visitors: Visitors) -> None:
    chat = await visitors.chat()
    await chat.composer.fill("にほんご")
    for how in ("isComposing: true", "keyCode: 229"):
        await chat.composer.evaluate(
            f"node => node.dispatchEvent(new KeyboardEvent('keydown', {{key: 'Enter', bubbles: true, {how}}}))"
        )
    await expect(chat.composer).to_have_value("にほんご")
    await expect(chat.unsent).to_have_count(0)
    await expect(chat.questions).to_have_count(0)


async def test_scripts_from_right_to_left_begin_at_the_right(visitors: Visitors) -> None:
    chat = await visitors.chat()
    await chat.ask_and_wait("/say\nהשעה שלוש אחר הצהריים.\n\nand this from left to right")
    paragraphs = chat.answers.last.locator("p")
    directions = await paragraphs.evaluate_all("nodes => nodes.map(node => getComputedStyle(node).direction)")
    assert directions == ["rtl", "ltr"]


async def test_the_end_stays_in_sight_unless_one_reads_further_up(visitors: Visitors) -> None:
    chat = await visitors.chat(viewport={"width": 900, "height": 500})
    await chat.ask("/say\n" + "\n\n".join(f"paragraph {number} of a long answer" for number in range(60)))
    thread = chat.page.locator(".thread")
    away = "node => node.scrollHeight - node.scrollTop - node.clientHeight"
    await chat.answers.last.get_by_text("paragraph 20", exact=False).wait_for()
    assert await thread.evaluate(away) < 60
    await thread.evaluate("node => node.scrollTo(0, 0)")
    await expect(chat.page.get_by_role("button", name="Jump to newest")).to_be_visible()
    await chat.ended("completed")
    assert await thread.evaluate("node => node.scrollTop") == 0
    await chat.picture("scrolled-up")
    await chat.page.get_by_role("button", name="Jump to newest").click()
    assert await thread.evaluate(away) < 60
    await expect(chat.page.get_by_role("button", name="Jump to newest")).to_have_count(0)


async def test_scrolling_up_before_the_server_has_taken_the_message_is_kept_too(visitors: Visitors) -> None:
    chat = await visitors.chat(viewport={"width": 900, "height": 500})
    sent = asyncio.Event()

    async def hold(route: Route) -> None:
        await sent.wait()
        await route.continue_()

    await chat.page.route("**/api/v1/conversations", hold)
    await chat.ask("/say\n" + "\n\n".join(f"paragraph {number} of a long message" for number in range(60)))
    thread = chat.page.locator(".thread")
    await expect(chat.unsent).to_have_count(1)
    await thread.evaluate("node => node.scrollTo(0, 0)")
    await expect(chat.page.get_by_role("button", name="Jump to newest")).to_be_visible()
    sent.set()
    await chat.ended("completed")
    assert await thread.evaluate("node => node.scrollTop") == 0


async def test_a_long_answer_stays_smooth(visitors: Visitors, stored: Stored) -> None:
    """10,000 characters in small pieces: no single task holds up the page."""
    chat = await visitors.chat()
    await chat.page.evaluate(
        """() => {
            window.longest = 0;
            new PerformanceObserver((list) => {
                for (const entry of list.getEntries()) window.longest = Math.max(window.longest, entry.duration);
            }).observe({ type: "longtask" });
        }"""
    )
    paragraph = "A paragraph with **bold** words, `code`, and [a link](https://example.org/) in the middle of it.\n\n"
    await chat.ask("/say\n" + (paragraph * 120)[:10_000])
    await chat.ended(timeout_s=60)
    assert await chat.texts() == await stored.texts(await chat.arrived())
    assert len((await chat.texts())[1]) == 10_000
    # Generous, because the machine is shared with other tests: reading all of it again per piece took several times as long.
    assert await chat.page.evaluate("window.longest") < 400


async def test_a_screen_reader_hears_the_end_and_not_every_word(visitors: Visitors) -> None:
    chat = await visitors.chat()
    await chat.ask("short")
    await chat.ended("completed")
    await expect(chat.page.get_by_role("feed")).to_have_count(1)
    assert await chat.page.locator(".thread [aria-live]:not([aria-live=off])").count() == 0
    await expect(chat.page.get_by_role("status").filter(has_text="Answer complete. You said: short.")).to_have_count(1)


async def test_a_long_list_and_a_long_conversation_load_as_one_goes(visitors: Visitors, stored: Stored) -> None:
    chat = await visitors.chat()
    await chat.ask_and_wait("the beginning")
    conversation_id = await chat.arrived()
    for number in range(32):
        await chat.ask(f"message {number}")
    await expect(chat.answers.last).to_contain_text("You said: message 31.")
    await chat.ended("completed", timeout_s=40)
    await chat.page.reload()
    await chat.ended("completed")
    # Only what is near the screen is drawn.
    assert await chat.answers.count() < 33
    await chat.page.locator(".thread").evaluate("node => node.scrollTo(0, 0)")
    await expect(chat.page.get_by_role("button", name="Show earlier messages")).to_have_count(0)
    await expect(chat.questions.first).to_have_attribute("aria-setsize", "66")
    assert await chat.texts_from_the_top() == await stored.texts(conversation_id)

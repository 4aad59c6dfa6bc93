"""A person asks, watches, stops, asks again in other words, and keeps their conversations in order."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from tests.e2e.browser.conftest import Stored, Visitors

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

MARKDOWN = """/say
## Binary search

Each step **halves** what is left, so a million entries take *twenty* steps:

1. Look at the middle.
2. Go left or right.

```python
def middle(low: int, high: int) -> int:
    return (low + high) // 2
```

| Size | Steps |
| ---- | ----: |
| 1,000 | 10 |
| 1,000,000 | 20 |

See [the notes](https://example.org/search)."""


async def test_an_answer_streams_and_is_the_stored_text(visitors: Visitors, stored: Stored) -> None:
    chat = await visitors.chat()
    await chat.picture("empty")
    await chat.ask("/words 500")
    await chat.shows_words(10)
    assert await chat.answers.last.get_attribute("data-status") == "in_progress"
    await expect(chat.stop_button).to_be_visible()
    await chat.ended("completed")
    await expect(chat.stop_button).to_have_count(0)
    assert await chat.texts() == await stored.texts(await chat.arrived())
    assert (await chat.texts())[1] == "".join(f" word{number}" for number in range(1, 501))
    await expect(chat.rows.first).to_contain_text("/words 500")
    assert await chat.page.title() == "/words 500 · Kvasir"


async def test_markdown_is_drawn_and_the_words_stay_as_they_came(visitors: Visitors, stored: Stored) -> None:
    chat = await visitors.chat()
    text = await chat.ask_and_wait(MARKDOWN)
    assert text == (await stored.texts(await chat.arrived()))[1]
    answer = chat.answers.last
    await expect(answer.get_by_role("heading", name="Binary search")).to_be_visible()
    await expect(answer.locator("strong")).to_have_text("halves")
    await expect(answer.locator("ol > li")).to_have_count(2)
    await expect(answer.locator("figcaption")).to_contain_text("python")
    await expect(answer.locator("pre code")).to_have_text(
        "def middle(low: int, high: int) -> int:\n    return (low + high) // 2"
    )
    await expect(answer.locator("tbody tr")).to_have_count(2)
    link = answer.get_by_role("link", name="the notes")
    assert await link.get_attribute("href") == "https://example.org/search"
    assert await link.get_attribute("rel") == "noopener noreferrer"
    await stored.rename(await chat.arrived(), "How binary search works")
    await expect(chat.rows.first).to_contain_text("How binary search works")
    await chat.picture("answer")


async def test_stop_keeps_what_was_shown_and_the_chat_goes_on(visitors: Visitors, stored: Stored) -> None:
    chat = await visitors.chat()
    await chat.ask("/endless")
    await chat.shows_words(5)
    await chat.stop_button.click()
    await chat.ended("cancelled")
    await expect(chat.answers.last).to_contain_text("Stopped.")
    assert await chat.texts() == await stored.texts(await chat.arrived())
    # A message sent right after a stop finds the conversation as it was (danny-avila/LibreChat#1507).
    await chat.ask("and then")
    await expect(chat.answers).to_have_count(2)
    await chat.ended("completed")
    assert [message["status"] for message in await stored.messages(await chat.arrived())][1] == "cancelled"


async def test_esc_stops_too(visitors: Visitors) -> None:
    chat = await visitors.chat()
    await chat.ask("/endless")
    await chat.shows_words(3)
    await chat.page.keyboard.press("Escape")
    await chat.ended("cancelled")


async def test_a_long_prompt_shows_how_far_it_is_read(visitors: Visitors) -> None:
    chat = await visitors.chat()
    await chat.ask("/unread\n" + "word " * 6000)
    await expect(chat.answers.last).to_contain_text(re.compile(r"Reading [\d,]+ of 6,\d\d\d tokens"))
    await expect(chat.answers.last.get_by_role("progressbar")).to_be_visible()
    await chat.picture("reading")
    await chat.stop_button.click()
    await chat.ended("cancelled")
    await expect(chat.answers.last).to_contain_text("Stopped before the first word.")


async def test_messages_sent_during_an_answer_wait_their_turn(visitors: Visitors, stored: Stored) -> None:
    chat = await visitors.chat()
    await chat.ask("/endless")
    await chat.shows_words(2)
    for text in ("one", "two", "three", "four"):
        await chat.ask(text)
    await expect(chat.answers).to_have_count(5)
    await expect(chat.answers.last).to_contain_text(re.compile("Waiting, number [34] in line"))
    await chat.picture("waiting")
    first = (await stored.messages(await chat.arrived()))[1]
    await stored.cancel(first["response_id"])
    await chat.ended("completed")
    messages = await stored.messages(await chat.arrived())
    assert [message["content"] for message in messages if message["role"] == "user"] == [
        "/endless",
        "one",
        "two",
        "three",
        "four",
    ]
    assert await chat.texts() == [message["content"] for message in messages]


async def test_a_failed_answer_says_why_also_after_a_reload(visitors: Visitors) -> None:
    chat = await visitors.chat()
    await chat.ask("/fail")
    await chat.ended("failed")
    await expect(chat.answers.last).to_contain_text("The answer failed. The engine ran out of ink.")
    await chat.page.reload()
    await expect(chat.answers.last).to_contain_text("The answer failed. The engine ran out of ink.")
    assert await chat.text_of(chat.answers.last) == "The first words"
    await chat.picture("failed")
    await chat.answers.last.get_by_role("button", name="Regenerate").click()
    await expect(chat.answers.last.get_by_label("Version 2 of 2")).to_be_visible()


async def test_regenerated_answers_are_versions_of_one_message(visitors: Visitors, stored: Stored) -> None:
    chat = await visitors.chat()
    await chat.ask_and_wait("same again")
    first = await chat.message_id(chat.answers.last)
    await chat.answers.last.get_by_role("button", name="Regenerate answer").click()
    await expect(chat.answers.last.get_by_label("Version 2 of 2")).to_be_visible()
    second = await chat.message_id(chat.answers.last)
    assert first != second
    await chat.version(chat.answers.last, "Previous")
    await expect(chat.answers.last).to_have_attribute("data-message-id", first)
    # What is asked now follows the version that is shown.
    await chat.ask_and_wait("and more")
    path = await stored.messages(await chat.arrived())
    assert [message["id"] for message in path][1] == first


async def test_an_edit_is_a_branch_at_the_root_and_below(visitors: Visitors, stored: Stored) -> None:
    chat = await visitors.chat()
    await chat.ask_and_wait("first question")
    await chat.ask_and_wait("second question")
    await chat.edit(chat.questions.last, "second question, better")
    await expect(chat.questions.last.get_by_label("Version 2 of 2")).to_be_visible()
    await chat.ended("completed")
    await chat.edit(chat.questions.first, "another beginning")
    await expect(chat.questions).to_have_count(1)
    await expect(chat.questions.first.get_by_label("Version 2 of 2")).to_be_visible()
    await chat.ended("completed")
    assert await chat.texts() == ["another beginning", "You said: another beginning."]
    await chat.version(chat.questions.first, "Previous")
    await expect(chat.questions).to_have_count(2)
    assert await chat.texts() == [
        "first question",
        "You said: first question.",
        "second question, better",
        "You said: second question, better.",
    ]
    await chat.picture("branches")
    await chat.version(chat.questions.last, "Previous")
    await expect(chat.questions.last.get_by_label("Version 1 of 2")).to_be_visible()
    assert (await chat.texts())[2] == "second question"
    await chat.page.reload()
    await expect(chat.questions).to_have_count(1)
    assert (
        await chat.texts()
        == await stored.texts(await chat.arrived())
        == ["another beginning", "You said: another beginning."]
    )


async def test_conversations_are_renamed_and_deleted(visitors: Visitors) -> None:
    chat = await visitors.chat()
    await chat.ask_and_wait("a name to be changed")
    row = chat.rows.filter(has=chat.page.get_by_role("link", name="a name to be changed"))
    await chat.choose("Rename", row)
    await chat.page.get_by_label("Title").fill("A better name")
    await chat.page.get_by_label("Title").press("Enter")
    await expect(chat.page.get_by_role("link", name="A better name")).to_be_visible()
    await expect(chat.page.get_by_role("heading", name="A better name")).to_be_visible()
    row = chat.rows.filter(has=chat.page.get_by_role("link", name="A better name"))
    await chat.choose("Delete", row)
    dialog = chat.page.get_by_role("dialog")
    await expect(dialog).to_contain_text("“A better name” and all its messages will be gone for good.")
    await chat.picture("delete")
    await dialog.get_by_role("button", name="Cancel").click()
    await expect(row).to_be_visible()
    await chat.choose("Delete", row)
    await dialog.get_by_role("button", name="Delete").click()
    await expect(row).to_have_count(0)
    await expect(chat.page.get_by_role("heading", name="What would you like to know?")).to_be_visible()


async def test_a_conversation_that_is_gone_says_so(visitors: Visitors) -> None:
    visitors.may_lose_network = True  # a browser logs every 404
    chat = await visitors.chat("/#/c/00000000-0000-4000-8000-000000000000")
    await expect(chat.page.get_by_text("This conversation does not exist any more.")).to_be_visible()
    await chat.new_chat()
    assert await chat.ask_and_wait("hello") == "You said: hello."

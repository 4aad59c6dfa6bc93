"""A person finds conversations again, keeps them in order, takes them along, brings them back, and begins new ones."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.e2e.browser.axe import Auditor
from tests.e2e.browser.conftest import Visitors
from tests.e2e.browser.pages import ChatPage

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_what_was_said_is_found_tagged_put_away_and_taken_along(
    visitors: Visitors, auditor: Auditor, tmp_path: Path
) -> None:
    chat = await visitors.chat(reduced_motion="reduce")
    page = chat.page
    await chat.ask_and_wait("/say the zebra finch sings at dawn")
    for number in range(3):
        await chat.ask_and_wait(f"something else {number}")
    kept = await chat.arrived()
    await chat.new_chat()
    await chat.ask_and_wait("an unrelated matter")

    search = page.get_by_label("Search", exact=True)
    await page.locator(".bar").click()
    await page.keyboard.press("/")
    await expect(search).to_be_focused()
    await search.fill("FINCH dawn")
    await expect(chat.rows.locator("mark").first).to_have_text(re.compile("finch", re.IGNORECASE))
    await expect(chat.rows).to_have_count(1)
    await auditor.read(page, "a search")
    await chat.picture("search")
    await chat.rows.get_by_role("link").click()
    await expect(page.locator("[data-message-id]:focus")).to_contain_text("zebra finch")
    assert chat.conversation_id == kept
    await search.fill("nothing has these words")
    await expect(page.get_by_text("Nothing found.")).to_be_visible()
    await page.get_by_role("button", name="Clear the search").click()
    await expect(chat.rows.nth(1)).to_be_visible()

    await chat.choose("Tags")
    for typed, tags in (("birds", ["birds"]), ("music, whistling", ["music", "whistling"])):
        await page.get_by_placeholder("New tag").fill(typed)
        await page.keyboard.press("Enter")
        for tag in tags:
            await expect(page.get_by_role("dialog").get_by_text(tag, exact=True)).to_be_visible()
    for tag in ("music", "whistling"):
        await page.get_by_role("button", name=f"Remove the tag {tag}").click()
        await expect(page.get_by_role("dialog").get_by_text(tag, exact=True)).to_be_hidden()
    await expect(page.get_by_role("dialog").locator(".chip")).to_have_count(1)
    await auditor.read(page, "tags")
    await chat.picture("tags")
    await page.get_by_role("button", name="Done").click()
    await page.locator(".bar-marks").get_by_role("button", name="birds").click()
    await expect(chat.rows).to_have_count(1)
    await page.get_by_role("button", name="Show all again").click()

    await chat.choose("Archive")
    await expect(page.locator("[data-note=archived]")).to_be_visible()
    await expect(page.get_by_role("alert")).to_contain_text("Archived.")
    await expect(page.locator(f".row a[href$='{kept}']")).to_have_count(0)
    await page.get_by_role("button", name="Narrow the list").click()
    await auditor.read(page, "the filter")
    await page.get_by_role("menuitemradio", name="Archived").click()
    await expect(page.locator(f".row a[href$='{kept}']")).to_be_visible()
    await chat.picture("archived")
    await page.locator("[data-note=archived]").get_by_role("button", name="Bring back").click()
    await expect(page.locator("[data-note=archived]")).to_have_count(0)
    await page.get_by_role("button", name="Show all again").click()
    await expect(page.locator(f".row a[href$='{kept}']")).to_be_visible()

    files = {}
    for kind in ("Markdown", "JSON", "NDJSON"):
        async with page.expect_download() as coming:
            await chat.choose(f"Export as {kind}")
        files[kind] = tmp_path / (await coming.value).suggested_filename
        await (await coming.value).save_as(files[kind])
    assert "zebra finch" in files["Markdown"].read_text()
    assert json.loads(files["JSON"].read_text())["conversation"]["tags"] == ["birds"]
    for kind in ("JSON", "NDJSON"):
        async with page.expect_file_chooser() as asking:
            await chat.choose_of_account("Import a conversation")
        before = page.url
        await (await asking.value).set_files(files[kind])
        await page.wait_for_function("before => location.href !== before", arg=before)
        await expect(chat.questions).to_have_count(4)
    async with page.expect_file_chooser() as asking:
        await chat.choose_of_account("Import a conversation")
    visitors.may_lose_network = True  # a browser logs every 400
    await (await asking.value).set_files({"name": "x.json", "mimeType": "application/json", "buffer": b"{}"})
    await expect(page.get_by_role("alert")).to_contain_text("not an exported conversation")
    await auditor.read(page, "a toast")
    assert auditor.found == []


async def test_a_new_chat_has_a_persona_and_may_be_temporary(visitors: Visitors, auditor: Auditor) -> None:
    chat = await visitors.chat(reduced_motion="reduce")
    page = chat.page
    body = {"name": "tutor", "system_prompt": "You are a patient tutor who answers with questions."}
    await page.request.post("/api/v1/personas", data=body, headers={"Origin": visitors.url})
    await page.reload()
    await page.get_by_role("button", name="Persona: No persona").click()
    await expect(page.get_by_role("menuitemradio", name="tutor")).to_contain_text("patient tutor")
    await auditor.read(page, "personas")
    await chat.picture("personas")
    await page.get_by_role("menuitemradio", name="tutor").click()
    await page.get_by_role("button", name="Temporary chat").click()
    await expect(page.get_by_text("A temporary chat is in no list")).to_be_visible()
    await auditor.read(page, "a temporary chat")
    await chat.ask_and_wait("Is this kept?")
    conversation = await (await page.request.get(f"/api/v1/conversations/{await chat.arrived()}")).json()
    assert (conversation["persona"], conversation["temporary"]) == ("tutor", True)
    await expect(page.locator(".bar-marks")).to_contain_text("tutor")
    note = page.locator("[data-note=temporary]")
    await expect(note).to_contain_text("found by no search")
    await expect(page.get_by_role("link", name="Is this kept?")).to_have_count(0)
    await auditor.read(page, "a temporary conversation")
    await chat.picture("temporary")
    await page.reload()
    await note.get_by_role("button", name="Keep").click()
    await expect(note).to_have_count(0)
    await expect(page.get_by_role("link", name="Is this kept?")).to_be_visible()
    await page.request.delete("/api/v1/personas/tutor", headers={"Origin": visitors.url})
    assert auditor.found == []


async def test_tabs_stay_in_step(visitors: Visitors) -> None:
    profile = await visitors.profile()
    one, two = [ChatPage(await profile.new_page()) for _ in range(2)]
    for chat in (one, two):
        await chat.page.goto("/")
        await expect(chat.composer).to_be_visible()
    await one.ask_and_wait("seen in both tabs")
    await expect(two.page.get_by_role("link", name="seen in both tabs")).to_be_visible()
    await one.choose("Rename")
    await one.page.get_by_label("Title").fill("another name")
    await one.page.keyboard.press("Enter")
    await expect(two.page.get_by_role("link", name="another name")).to_be_visible()
    await one.page.goto("/#/settings/general")
    await one.page.get_by_label("Language").select_option("zh")
    await expect(two.page.get_by_role("button", name="新对话").first).to_be_visible()
    await one.page.get_by_label("语言").select_option("auto")
    await two.open("another name")
    await two.choose("Archive")
    await expect(one.page.get_by_role("link", name="another name")).to_have_count(0)


async def test_a_person_answers_in_the_models_place(visitors: Visitors, auditor: Auditor) -> None:
    chat = await visitors.chat(reduced_motion="reduce")
    page, headers = chat.page, {"Origin": visitors.url}
    await chat.ask_and_wait("my parcel is lost")
    conversation_id = await chat.arrived()
    await chat.choose("Ask for a person")
    note = page.locator(".note")
    await expect(note).to_contain_text("A person has been asked for.")
    await expect(chat.answers.last.get_by_role("button", name="Regenerate answer")).to_have_count(0)
    await auditor.read(page, "waiting for a person")
    await page.request.post(f"/api/v1/inbox/{conversation_id}/take", headers=headers)
    await expect(note).to_contain_text("admin answers here")
    await chat.ask("number 4711")
    await expect(chat.questions).to_have_count(2)
    said = {"content": "It is on its way."}
    await page.request.post(f"/api/v1/inbox/{conversation_id}/messages", data=said, headers=headers)
    await expect(page.get_by_role("article", name="admin said")).to_contain_text("It is on its way.")
    await auditor.read(page, "a person answers")
    await chat.picture("a-person-answers")
    await page.request.post(f"/api/v1/inbox/{conversation_id}/return", headers=headers)
    await expect(note).to_have_count(0)
    await chat.ask("thank you")
    await expect(chat.answers).to_have_count(3)
    await chat.ended("completed")
    assert auditor.found == []


async def test_an_answer_says_what_it_cost_and_is_rated(visitors: Visitors) -> None:
    chat = await visitors.chat()
    await chat.ask_and_wait("what did it cost")
    await chat.ask_and_wait("and now")
    await expect(chat.answers.last.locator(".cost")).to_contain_text(re.compile("first word after .+ from the cache"))
    good, bad = (chat.answers.last.get_by_role("button", name=f"{kind} answer") for kind in ("Good", "Bad"))
    await good.click()
    await expect(good).to_have_attribute("aria-pressed", "true")
    await bad.click()
    await expect(good).to_have_attribute("aria-pressed", "false")
    await chat.page.get_by_placeholder("What was wrong?").fill("too short")
    await chat.page.get_by_placeholder("What was wrong?").press("Enter")
    await expect(chat.page.get_by_text("Thank you.")).to_be_visible()
    await chat.picture("rated")
    for _ in range(50):
        messages = await (await chat.page.request.get(f"/api/v1/conversations/{chat.conversation_id}/messages")).json()
        if (messages["items"][0]["feedback"] or {}).get("comment") == "too short":
            break
        await asyncio.sleep(0.1)
    await chat.page.reload()
    await expect(bad).to_have_attribute("aria-pressed", "true")

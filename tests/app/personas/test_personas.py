"""Personas over REST: everybody reads, administrators write, and the engine follows what SQL says."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from app import background
from app.accounts.models import UserRole
from app.identifiers import new_id
from engine.snapshot import PrefixState
from engine.types import Role, Turn
from tests.app.responses.chat import Chat
from tests.support.client import RunningApp, problem, running_app
from tests.support.fake_engine import FakeEngine
from tests.support.live_server import eventually, eventually_equal

PATH = "/api/v1/personas"
PROMPT = "You answer in one sentence."


@pytest.fixture
async def admin(running: RunningApp) -> AsyncIterator[httpx.AsyncClient]:
    async with running.signed_in("root", UserRole.ADMIN) as client:
        yield client


def fake(running: RunningApp) -> FakeEngine:
    assert isinstance(running.engine, FakeEngine)
    return running.engine


async def made(admin: httpx.AsyncClient, name: str = "terse", **fields: Any) -> dict[str, Any]:
    answer = await admin.post(PATH, json={"name": name, "system_prompt": PROMPT, **fields})
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def test_a_persona_is_what_was_said_and_its_prefix_is_being_computed(
    running: RunningApp, admin: httpx.AsyncClient
) -> None:
    answer = await admin.post(PATH, json={"name": "terse", "system_prompt": PROMPT, "params": {"temperature": 0}})
    assert answer.headers["location"] == f"{PATH}/terse"
    body = answer.json()
    assert (body["name"], body["system_prompt"], body["params"]) == ("terse", PROMPT, {"temperature": 0})
    assert body["prefix"]["state"] == "building"
    fake(running).advance()
    running.clock.advance(2)
    prefix = (await admin.get(f"{PATH}/terse")).json()["prefix"]
    assert (prefix["state"], prefix["source"]) == ("ready", "computed")
    assert prefix["tokens"] > 0
    assert prefix["pages"] > 0


async def test_everybody_reads_and_only_administrators_write(running: RunningApp, admin: httpx.AsyncClient) -> None:
    await made(admin)
    for role in (UserRole.USER, UserRole.AGENT):
        async with running.signed_in(f"some {role}".replace(" ", "-"), role) as other:
            assert [item["name"] for item in (await other.get(PATH)).json()["items"]] == ["terse"]
            assert (await other.get(f"{PATH}/terse")).json()["system_prompt"] == PROMPT
            for name in ("terse", "unknown"):
                problem(await other.post(PATH, json={"name": name, "system_prompt": "mine"}), 403, "forbidden")
                problem(await other.patch(f"{PATH}/{name}", json={"system_prompt": "mine"}), 403, "forbidden")
                problem(await other.delete(f"{PATH}/{name}"), 403, "forbidden")
    assert (await admin.get(f"{PATH}/terse")).json()["system_prompt"] == PROMPT


async def test_a_name_is_taken_once(admin: httpx.AsyncClient) -> None:
    await made(admin)
    problem(await admin.post(PATH, json={"name": "terse", "system_prompt": "Another."}), 409, "persona_exists")
    assert (await admin.get(f"{PATH}/terse")).json()["system_prompt"] == PROMPT


async def test_the_same_key_makes_one(admin: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": new_id()}
    body = {"name": "terse", "system_prompt": PROMPT}
    first = await admin.post(PATH, json=body, headers=headers)
    again = await admin.post(PATH, json=body, headers=headers)
    assert (again.status_code, again.headers["idempotent-replayed"]) == (201, "true")
    assert {**again.json(), "prefix": None} == {**first.json(), "prefix": None}


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"name": "Terse"},
        {"name": "-terse"},
        {"name": "a" * 65},
        {"name": "with space"},
        {"name": "terse\n"},
        {"system_prompt": ""},
        {"system_prompt": " \n"},
        {"system_prompt": "\x00"},
        {"params": {"temperature": 3}},
        {"params": {"min_tokens": 9, "max_tokens": 3}},
        {"params": {"stop": ["\x00"]}},
        {"voice": "low"},
    ],
)
async def test_what_cannot_be_is_refused(running_on_sqlite: RunningApp, fields: dict[str, Any]) -> None:
    async with running_on_sqlite.signed_in("root", UserRole.ADMIN) as admin:
        answer = await admin.post(PATH, json={"name": "terse", "system_prompt": PROMPT, **fields})
        problem(answer, 400, "invalid_input")
        assert (await admin.get(PATH)).json()["items"] == []


async def test_a_prompt_that_alone_is_longer_than_the_context_is_refused_with_the_numbers(
    tmp_path: Path, database_url: str
) -> None:
    engine = FakeEngine(context_tokens=40)
    async with (
        running_app(tmp_path, database_url, engine=engine) as running,
        running.signed_in("root", UserRole.ADMIN) as admin,
    ):
        long = "word " * 60
        body = problem(
            await admin.post(PATH, json={"name": "long", "system_prompt": long}), 400, "context_length_exceeded"
        )
        assert (body["prompt_tokens"], body["available_tokens"]) == (69, 39)
        await made(admin)
        problem(await admin.patch(f"{PATH}/terse", json={"system_prompt": long}), 400, "context_length_exceeded")
        assert (await admin.get(f"{PATH}/terse")).json()["system_prompt"] == PROMPT


async def test_a_prompt_of_too_many_bytes_is_refused(running_on_sqlite: RunningApp) -> None:
    async with running_on_sqlite.signed_in("root", UserRole.ADMIN) as admin:
        answer = await admin.post(PATH, json={"name": "long", "system_prompt": "é" * 65537})
        problem(answer, 413, "content_too_large")


async def test_pages_go_from_the_newest_to_the_oldest(running: RunningApp, admin: httpx.AsyncClient) -> None:
    for number in range(5):
        running.clock.advance(number % 2)
        await made(admin, f"p{number}")
    names: list[str] = []
    cursor = None
    while True:
        page = (await admin.get(PATH, params={"limit": 2, **({"cursor": cursor} if cursor else {})})).json()
        names += [item["name"] for item in page["items"]]
        if (cursor := page["next_cursor"]) is None:
            break
    assert names == ["p4", "p3", "p2", "p1", "p0"]
    problem(await admin.get(PATH, params={"cursor": "nonsense"}), 400, "invalid_cursor")


async def test_what_is_left_out_of_a_change_stays(admin: httpx.AsyncClient) -> None:
    await made(admin, params={"temperature": 0.5, "stop": ["END"]})
    body = (await admin.patch(f"{PATH}/terse", json={"system_prompt": "Be long."})).json()
    assert (body["system_prompt"], body["params"]) == ("Be long.", {"temperature": 0.5, "stop": ["END"]})
    body = (await admin.patch(f"{PATH}/terse", json={"params": {"top_k": 5}})).json()
    assert (body["system_prompt"], body["params"]) == ("Be long.", {"top_k": 5})


@pytest.mark.parametrize("name", ["unknown", "Not A Name", "%00"])
async def test_one_that_does_not_exist_is_not_found(running_on_sqlite: RunningApp, name: str) -> None:
    async with running_on_sqlite.signed_in("root", UserRole.ADMIN) as admin:
        for answer in (
            await admin.get(f"{PATH}/{name}"),
            await admin.patch(f"{PATH}/{name}", json={"system_prompt": "x"}),
            await admin.delete(f"{PATH}/{name}"),
        ):
            assert answer.status_code in (400, 404)


async def test_the_engine_has_what_sql_has(running: RunningApp, admin: httpx.AsyncClient) -> None:
    """ggml-org/llama.cpp#9811: no way to keep the bot's prompt ready."""
    prefixes = fake(running).memory.prefixes
    await made(admin)
    first = prefixes["terse"].ids
    await admin.patch(f"{PATH}/terse", json={"system_prompt": "Be long."})
    assert prefixes["terse"].ids != first
    await admin.patch(f"{PATH}/terse", json={"params": {"top_k": 5}})
    unchanged = prefixes["terse"]
    await admin.patch(f"{PATH}/terse", json={"system_prompt": "Be long."})
    assert prefixes["terse"] is unchanged, "the same prompt is not computed again"
    assert (await admin.delete(f"{PATH}/terse")).status_code == 204
    assert prefixes == {}


async def test_of_many_changes_at_once_the_engine_has_the_one_that_sql_has(
    running: RunningApp, admin: httpx.AsyncClient
) -> None:
    await made(admin)
    await asyncio.gather(
        *[admin.patch(f"{PATH}/terse", json={"system_prompt": f"Version {number}."}) for number in range(8)]
    )
    stored = (await admin.get(f"{PATH}/terse")).json()["system_prompt"]
    engine = fake(running)
    assert engine.memory.prefixes["terse"].ids == engine.memory.vocabulary.ids_of_turns([Turn(Role.SYSTEM, stored)])


async def test_who_saves_does_not_wait_for_a_slow_engine(
    running: RunningApp, admin: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "LONGEST_WAIT_S", 0.01)
    engine, may_go = fake(running), asyncio.Event()
    set_prefix = engine.set_prefix

    async def slow(name: str, turns: Sequence[Turn]) -> None:
        await may_go.wait()
        await set_prefix(name, turns)

    monkeypatch.setattr(engine, "set_prefix", slow)
    await made(admin)
    assert engine.memory.prefixes == {}
    may_go.set()
    await eventually(lambda: "terse" in engine.memory.prefixes)


async def test_an_engine_that_fails_at_it_does_not_fail_the_change(
    running: RunningApp, admin: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, log: io.StringIO
) -> None:
    async def broken(name: str, turns: Sequence[Turn]) -> None:
        raise OSError("the disk is away")

    monkeypatch.setattr(fake(running), "set_prefix", broken)
    body = await made(admin)
    assert body["prefix"] == {"state": "cold", "tokens": 0, "pages": 0, "source": None}
    assert "prefix_not_prepared" in log.getvalue()


async def test_at_the_start_prefixes_are_computed_and_those_of_deleted_personas_dropped(
    tmp_path: Path, database_url: str
) -> None:
    engine = FakeEngine()
    async with (
        running_app(tmp_path, database_url, engine=engine) as running,
        running.signed_in("root", UserRole.ADMIN) as admin,
    ):
        await made(admin, "kept")
    left_over = FakeEngine(ready=False)
    left_over.memory.prefixes.update(engine.memory.prefixes, gone=engine.memory.prefixes["kept"])
    left_over.memory.prefixes.pop("kept")
    async with running_app(tmp_path, database_url, engine=left_over) as running, running.anonymous() as client:
        login = {"username": "root", "password": "correct horse"}
        token = (await client.post("/api/v1/auth/login", json=login)).json()["token"]
        client.headers["Authorization"] = f"Bearer {token}"

        async def state() -> str:
            running.clock.advance(2)
            found: str = (await client.get(f"{PATH}/kept")).json()["prefix"]["state"]
            return found

        assert await state() == "building"
        left_over.become_ready()
        await eventually(lambda: set(left_over.memory.prefixes) == {"kept"})
        left_over.advance()
        await eventually_equal(state, "ready")


async def test_many_who_look_cost_the_engine_one_snapshot(
    running: RunningApp, admin: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made(admin)
    taken = 0
    snapshot = fake(running).snapshot

    async def counted() -> Any:
        nonlocal taken
        taken += 1
        return await snapshot()

    monkeypatch.setattr(fake(running), "snapshot", counted)

    async def look() -> int:
        nonlocal taken
        taken = 0
        running.clock.advance(2)
        await asyncio.gather(*[admin.get(PATH) for _ in range(20)])
        return taken

    # The chores of the start look as well, and may not have ended yet.
    for _ in range(100):
        if (costs := await look()) == 1:
            break
    assert costs == 1


async def test_states_are_those_of_the_engine(running: RunningApp, admin: httpx.AsyncClient) -> None:
    for number, state in enumerate(PrefixState):
        await made(admin, f"p{number}")
        fake(running).memory.prefixes[f"p{number}"].state = state
    running.clock.advance(2)
    shown = {item["name"]: item["prefix"]["state"] for item in (await admin.get(PATH)).json()["items"]}
    assert shown == {f"p{number}": state.value for number, state in enumerate(PrefixState)}


async def test_who_changed_what_is_in_the_audit_log(running: RunningApp, admin: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": new_id()}
    for _ in range(2):
        await admin.post(PATH, json={"name": "terse", "system_prompt": PROMPT}, headers=headers)
    await admin.patch(f"{PATH}/terse", json={"system_prompt": "Be long."})
    await admin.patch(f"{PATH}/terse", json={"system_prompt": "Be long."})
    await admin.delete(f"{PATH}/terse")
    entries = (await admin.get("/api/v1/admin/audit?target_id=terse")).json()["items"]
    assert sorted(entry["action"] for entry in entries) == ["persona.create", "persona.delete", "persona.update"]
    assert {entry["actor"]["username"] for entry in entries} == {"root"}
    assert "Be long." not in str(entries)


async def test_administrators_see_what_it_says_and_what_older_conversations_go_on_with(chat: Chat) -> None:
    async with chat.running.signed_in("root", UserRole.ADMIN) as admin:
        await admin.post("/api/v1/personas", json={"name": "terse", "system_prompt": "first"})
        await chat.http.post("/api/v1/conversations", json={"persona": "terse"})
        for prompt in ("second", "third"):
            chat.running.clock.advance(60)
            await admin.patch("/api/v1/personas/terse", json={"system_prompt": prompt})
        path = "/api/v1/personas/terse/versions"
        problem(await chat.http.get(path), 403, "forbidden")
        problem(await admin.get("/api/v1/personas/nobody/versions"), 404, "not_found")
        first = (await admin.get(path, params={"limit": "2"})).json()
        rest = (await admin.get(path, params={"limit": "2", "cursor": first["next_cursor"]})).json()
        found = [
            (version["system_prompt"], version["is_current"], version["conversations"])
            for version in first["items"] + rest["items"]
        ]
        assert found == [("third", True, 0), ("second", False, 0), ("first", False, 1)]
        assert rest["next_cursor"] is None
        await chat.context.personas.purge()
        kept = (await admin.get(path)).json()["items"]
        assert [version["system_prompt"] for version in kept] == ["third", "first"], "nobody goes on with the second"

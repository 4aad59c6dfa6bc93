"""`Idempotency-Key`: a request that is sent twice is done once."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from sqlalchemy import func, select

from app.accounts.models import IdempotencyRecord
from tests.support.client import RunningApp, problem

PATH = "/api/v1/conversations"


async def count(client: httpx.AsyncClient) -> int:
    return len((await client.get(PATH)).json()["items"])


async def test_the_same_request_is_done_once_and_answered_alike(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        headers = {"Idempotency-Key": "k1"}
        first = await client.post(PATH, json={"title": "one", "metadata": {"b": 1, "a": 2}}, headers=headers)
        running.clock.advance(60)
        again = await client.post(PATH, json={"title": "one", "metadata": {"b": 1, "a": 2}}, headers=headers)
        assert first.status_code == again.status_code == 201
        assert first.content == again.content
        assert [first.headers[name] for name in ("location", "etag")] == [
            again.headers[name] for name in ("location", "etag")
        ]
        assert again.headers["idempotent-replayed"] == "true"
        assert "idempotent-replayed" not in first.headers
        assert await count(client) == 1


async def test_a_key_with_another_request_is_refused(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        headers = {"Idempotency-Key": "k1"}
        conversation = (await client.post(PATH, json={"title": "one"}, headers=headers)).json()
        problem(await client.post(PATH, json={"title": "two"}, headers=headers), 422, "idempotency_key_reused")
        other = await client.post(f"{PATH}/{conversation['id']}/messages", json={"content": "x"}, headers=headers)
        problem(other, 422, "idempotency_key_reused")
        assert await count(client) == 1


async def test_of_many_at_once_one_is_done_and_all_get_its_answer(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        sending = [client.post(PATH, json={"title": "x"}, headers={"Idempotency-Key": "k"}) for _ in range(8)]
        answers = await asyncio.gather(*sending)
        assert {answer.status_code for answer in answers} == {201}
        assert len({answer.content for answer in answers}) == 1
        assert sum("idempotent-replayed" not in answer.headers for answer in answers) == 1
        assert await count(client) == 1


async def test_keys_belong_to_their_user(running: RunningApp) -> None:
    async with running.signed_in("ann") as ann, running.signed_in("bob") as bob:
        answers = [await client.post(PATH, json={}, headers={"Idempotency-Key": "k"}) for client in (ann, bob)]
        assert answers[0].json()["id"] != answers[1].json()["id"]


async def test_a_request_that_failed_does_not_use_up_its_key(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        headers = {"Idempotency-Key": "k"}
        problem(await client.post(PATH, json={"title": ""}, headers=headers), 400, "invalid_input")
        unknown = f"{PATH}/00000000-0000-4000-8000-000000000000/messages"
        problem(await client.post(unknown, json={"content": "x"}, headers=headers), 404, "not_found")
        assert (await client.post(PATH, json={"title": "fine"}, headers=headers)).status_code == 201


async def test_a_failure_inside_leaves_neither_the_thing_nor_the_key(
    running: RunningApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*arguments: object) -> None:
        raise RuntimeError("the disk is full")

    async with running.signed_in("ann") as client:
        headers = {"Idempotency-Key": "k"}
        with monkeypatch.context() as patch:
            patch.setattr(running.context.idempotency, "keep", fail)
            answer = await client.post(PATH, json={"title": "one"}, headers=headers)
            assert "disk" not in problem(answer, 500, "internal_error")["detail"]
        assert await count(client) == 0
        assert (await client.post(PATH, json={"title": "two"}, headers=headers)).status_code == 201


async def test_a_key_is_forgotten_after_a_day(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        headers = {"Idempotency-Key": "k"}
        first = (await client.post(PATH, json={}, headers=headers)).json()["id"]
        running.clock.advance(24 * 3600 - 1)
        assert (await client.post(PATH, json={}, headers=headers)).json()["id"] == first
        running.clock.advance(1)
        assert (await client.post(PATH, json={"title": "new"}, headers=headers)).json()["id"] != first


async def test_old_keys_are_swept_out_and_young_ones_kept(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        await client.post(PATH, json={}, headers={"Idempotency-Key": "old"})
        running.clock.advance(23 * 3600)
        await client.post(PATH, json={}, headers={"Idempotency-Key": "young"})
        running.clock.advance(3600)
        await running.context.idempotency.purge()
    async with running.context.database.read() as session:
        assert (await session.scalars(select(IdempotencyRecord.key))).all() == ["young"]


async def test_what_was_said_in_a_deleted_conversation_is_not_kept_in_an_answer(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        conversation = (await client.post(PATH, json={}, headers={"Idempotency-Key": "a"})).json()
        path = f"{PATH}/{conversation['id']}"
        said = await client.post(f"{path}/messages", json={"content": "canary"}, headers={"Idempotency-Key": "b"})
        assert said.status_code == 202
        await client.delete(path)
    async with running.context.database.read() as session:
        assert await session.scalar(select(func.count()).select_from(IdempotencyRecord)) == 0


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\tkey", "\u00e9", "\x7f"])
async def test_a_key_that_cannot_be_one_is_refused(running_on_sqlite: RunningApp, key: str) -> None:
    async with running_on_sqlite.signed_in("ann") as client:
        headers = {"Idempotency-Key": key.encode("latin-1")}
        problem(await client.post(PATH, json={}, headers=headers), 400, "invalid_input")  # type: ignore[arg-type]
        assert await count(client) == 0


@pytest.mark.parametrize("key", ["x" * 255, "0", "null", "a b ~!\"'\\%"])
async def test_any_printable_key_will_do(running: RunningApp, key: str) -> None:
    async with running.signed_in("ann") as client:
        first, again = [await client.post(PATH, json={}, headers={"Idempotency-Key": key}) for _ in range(2)]
        assert first.content == again.content

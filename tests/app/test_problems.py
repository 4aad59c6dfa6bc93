"""Every error over REST is a problem, whoever raised it, and says nothing that it should not."""

from __future__ import annotations

import json

import pytest

from app.asgi import JSON_OVERHEAD_BYTES
from tests.support.client import RunningApp, problem

LOGIN = "/api/v1/auth/login"
CANARY = "ticket-of-mine"


@pytest.mark.parametrize(
    "path",
    ["/nope", "/api/v1/nope", "/api/v2/me", "/schema/nope", "/index.html/../x", "/%2e%2e/etc/passwd", "//", "/%00"],
)
async def test_an_unknown_path_is_a_404(running_on_sqlite: RunningApp, path: str) -> None:
    async with running_on_sqlite.anonymous() as client:
        problem(await client.get(path), 404, "not_found")


async def test_a_wrong_method_is_a_405_that_names_the_right_ones(running_on_sqlite: RunningApp) -> None:
    async with running_on_sqlite.anonymous() as client:
        for method, path in (("DELETE", "/healthz"), ("GET", LOGIN), ("TRACE", "/api/v1/me"), ("BREW", "/readyz")):
            answer = await client.request(method, path)
            problem(answer, 405, "method_not_allowed")
            assert answer.headers["allow"]


async def test_a_body_that_is_too_large_is_a_413(running_on_sqlite: RunningApp) -> None:
    limit = running_on_sqlite.context.settings.message_max_bytes + JSON_OVERHEAD_BYTES
    headers = {"Content-Type": "application/json"}
    filler = b'{"username":"ann","password":"x"}'
    async with running_on_sqlite.anonymous() as client:
        largest = filler + b" " * (limit - len(filler))
        assert (await client.post(LOGIN, content=largest, headers=headers)).status_code == 401
        problem(await client.post(LOGIN, content=largest + b" ", headers=headers), 413, "payload_too_large")

        async def chunks() -> object:
            for _ in range(100):
                yield b" " * 4096

        problem(await client.post(LOGIN, content=chunks(), headers=headers), 413, "payload_too_large")


@pytest.mark.parametrize(
    "content_type", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx"]
)
async def test_a_body_of_another_kind_is_a_415(running_on_sqlite: RunningApp, content_type: str) -> None:
    async with running_on_sqlite.anonymous() as client:
        answer = await client.post(LOGIN, content=b"{}", headers={"Content-Type": content_type})
        problem(answer, 415, "unsupported_media_type")


@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=utf-8", "APPLICATION/JSON"])
async def test_json_may_be_called_so_in_any_way(running_on_sqlite: RunningApp, content_type: str) -> None:
    async with running_on_sqlite.anonymous() as client:
        body = json.dumps({"username": "ann", "password": "x"})
        assert (await client.post(LOGIN, content=body, headers={"Content-Type": content_type})).status_code == 401


async def test_a_fault_of_ours_shows_its_number_and_nothing_else(
    running_on_sqlite: RunningApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*arguments: object) -> None:
        raise RuntimeError(f"SELECT * FROM secrets -- {CANARY}")

    async with running_on_sqlite.signed_in("ann") as client:
        monkeypatch.setattr(running_on_sqlite.context.accounts, "user", fail)
        answer = await client.get("/api/v1/me")
        body = problem(answer, 500, "internal_error")
        assert CANARY not in answer.text
        assert "RuntimeError" not in answer.text
        assert answer.headers["x-request-id"] == body["trace_id"]


async def test_the_query_string_comes_back_in_no_error(running_on_sqlite: RunningApp) -> None:
    async with running_on_sqlite.signed_in("ann") as client:
        for path in ("/nope", "/api/v1/conversations", "/api/v1/me", "/api/v1/conversations/x/messages", "/schema/x"):
            answer = await client.get(path, params={"limit": CANARY, "ticket": CANARY})
            assert answer.status_code in (400, 404)
            assert CANARY not in answer.text


async def test_a_callers_own_request_id_comes_back_in_the_problem(running_on_sqlite: RunningApp) -> None:
    async with running_on_sqlite.anonymous() as client:
        answer = await client.get("/nope", headers={"X-Request-Id": "mine-1"})
        assert problem(answer, 404, "not_found")["trace_id"] == "mine-1"


async def test_errors_are_not_cached_and_not_sniffed(running_on_sqlite: RunningApp) -> None:
    async with running_on_sqlite.anonymous() as client:
        answer = await client.get("/api/v1/me")
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_parameter_that_is_given_twice_is_refused(running_on_sqlite: RunningApp) -> None:
    async with running_on_sqlite.signed_in("ann") as ann:
        problem(await ann.get("/api/v1/keys?limit=1&limit=2"), 400, "repeated_parameter")
        assert (await ann.get("/api/v1/keys?limit=1")).status_code == 200

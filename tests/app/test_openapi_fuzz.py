"""Every route of the OpenAPI document, with input that fits it and input that does not (schemathesis, on a real server).

New routes are part of it as soon as they are in the document. Whatever comes, the server must not fail, and every answer must be
one that the document names: status, media type, body and headers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

from app.asgi import create_app
from app.settings import Settings
from tests.support.client import PASSWORD
from tests.support.fake_engine import FakeEngine
from tests.support.server_process import FAKE, server_process

EXAMPLES = 25
"""Per route. The seed is fixed, so the same inputs are tried every time."""

load_all_checks()
CHOSEN = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "negative_data_rejection",
]


@dataclass
class Target:
    """A server, a token for it, and ids of things that exist there."""

    url: str
    headers: dict[str, str]
    ids: dict[str, str]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    arguments = ["--data", str(tmp_path_factory.mktemp("fuzz")), "--delay-ms", "0", "--words", "3"]
    with server_process(*FAKE, *arguments) as server:
        server.wait_ready(60)
        with httpx.Client(base_url=f"{server.url}/api/v1", trust_env=False) as client:
            login = client.post("/auth/login", json={"username": "admin", "password": PASSWORD})
            client.cookies.clear()
            client.headers["Authorization"] = f"Bearer {login.json()['token']}"
            conversation = client.post("/conversations", json={"title": "fuzz"}).json()
            said = client.post(f"/conversations/{conversation['id']}/messages", json={"content": "hello"}).json()
            client.post("/personas", json={"name": "fuzz", "system_prompt": "Be brief."}).raise_for_status()
            account = client.post("/admin/users", json={"username": "fuzz", "role": "user"}).json()
            canned = client.post("/canned-answers", json={"title": "fuzz", "content": "Hello!"}).json()
            # Told nothing but tests, so that nobody looks for its address all the time.
            hook = client.post("/webhooks", json={"url": "https://fuzz.invalid/", "events": ["webhook.test"]}).json()
            ids = {
                "canned_answer_id": canned["id"],
                "webhook_id": hook["id"],
                "message_id": said["response"]["message_id"],
                "user_id": account["id"],
                "conversation_id": conversation["id"],
                "response_id": said["response"]["id"],
                "persona_name": "fuzz",
            }
            yield Target(server.url, {"Authorization": client.headers["Authorization"]}, ids)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each route of the document and each kind of input."""
    if "operation" in metafunc.fixturenames:
        document = create_app(Settings(), FakeEngine()).openapi_schema.to_schema()
        operations = [
            (method, path)
            for path, item in sorted(document["paths"].items())
            for method in item
            # Signing out would end the sign-in that every other test uses, and two streams have no end.
            if path not in ("/api/v1/auth/logout", "/api/v1/admin/stats/events", "/api/v1/inbox/events")
        ]
        metafunc.parametrize("operation", operations, ids=lambda operation: " ".join(operation))


@pytest.fixture(scope="module")
def api(target: Target) -> Any:
    """The document, as a client finds it."""
    schema = schemathesis.openapi.from_url(f"{target.url}/schema/openapi.json")

    @schema.hook
    def map_path_parameters(context: Any, path_parameters: dict[str, Any] | None) -> dict[str, Any] | None:
        # Half of the ids exist: a route that only ever sees unknown ones is not tested. But nothing of it may be deleted.
        deletes = context.operation.method.lower() == "delete"
        return {
            name: target.ids[name] if name in target.ids and len(str(value)) % 2 and not deletes else value
            for name, value in (path_parameters or {}).items()
        }

    @schema.hook
    def filter_query(context: Any, query: dict[str, Any] | None) -> bool:
        # On the wire a list of one value is that value, and an empty object an empty text or nothing at all: no wrong input.
        return not any(value == {} or (isinstance(value, list) and len(value) < 2) for value in (query or {}).values())

    return schema


@pytest.mark.slow
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["fitting", "not fitting"])
def test_every_answer_is_one_that_the_document_names(
    api: Any, target: Target, operation: tuple[str, str], mode: GenerationMode
) -> None:
    method, path = operation
    found = api[path][method]
    parameters = list(found.iter_parameters())
    # Whatever text is given for an id, it may be one.
    takes_any = found.definition.raw.get("security") == [{}] and all(item.location == "path" for item in parameters)
    if mode is GenerationMode.NEGATIVE and not list(found.body) and (takes_any or not parameters):
        # There is nothing in this request that could be wrong.
        return

    @settings(
        max_examples=EXAMPLES, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(case=found.as_strategy(generation_mode=mode))
    def holds(case: Any) -> None:
        case.call_and_validate(headers=target.headers, checks=CHECKS.get_by_names(CHOSEN), timeout=30)

    holds()


def test_the_server_lives_after_all_that(target: Target) -> None:
    assert httpx.get(f"{target.url}/readyz", trust_env=False).json() == {"status": "ready"}

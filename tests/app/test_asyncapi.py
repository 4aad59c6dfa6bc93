"""The AsyncAPI document: valid, whole, and made of what the socket really reads. That it says what the socket really sends is
held by every test with a socket: `tests/support/described_frames.py`."""

from __future__ import annotations

import json
import re
import typing
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from app.asyncapi import ANSWERED_WITH, asyncapi_document
from app.frame_data import SERVER_DATA
from app.realtime import protocol
from tests.support.client import RunningApp
from tests.support.described_frames import require_described

SPECIFICATION = Path(__file__).parents[2] / "node_modules/@asyncapi/specs/schemas/3.0.0-without-$id.json"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return asyncapi_document("1", "chat.example", is_secure=True)


def types_of(document: dict[str, Any], action: str) -> list[str]:
    found = [operation for operation in document["operations"].values() if operation["action"] == action]
    keys = [message["$ref"].rpartition("/")[2] for operation in found for message in operation["messages"]]
    return [document["components"]["messages"][key]["name"] for key in keys]


def test_it_keeps_to_asyncapi_3(document: dict[str, Any]) -> None:
    validator = jsonschema_rs.Draft7Validator(json.loads(SPECIFICATION.read_text()))
    assert [error.message[:300] for error in validator.iter_errors(document)] == []


def test_every_frame_of_both_directions_is_in_it(document: dict[str, Any]) -> None:
    client = [kind.__struct_config__.tag for kind in typing.get_args(protocol.AnyClientFrame)]
    assert types_of(document, "receive") == client
    assert types_of(document, "send") == list(SERVER_DATA)
    assert set(SERVER_DATA) == set(typing.get_args(protocol.FrameType))
    assert set(ANSWERED_WITH) == set(client)


def test_every_frame_says_what_it_is_for(document: dict[str, Any]) -> None:
    silent = [
        message["name"] for message in document["components"]["messages"].values() if len(message["summary"]) < 20
    ]
    assert silent == []


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    for reference in set(re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(document))):
        place: Any = document
        for part in reference.split("/"):
            place = place[part]
        assert place


async def test_it_names_the_address_it_is_asked_at(running_on_sqlite: RunningApp) -> None:
    async with running_on_sqlite.anonymous() as client:
        answer = await client.get("/schema/asyncapi.json")
    assert answer.headers["content-type"] == "application/json"
    server = answer.json()["servers"]["kvasir"]
    assert (server["host"], server["protocol"]) == ("kvasir.test", "ws")
    assert answer.json() == asyncapi_document("1", "kvasir.test", is_secure=False)


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "response.output_text.delta", "data": {"text": "no number"}},
        {"type": "response.output_text.delta", "conversation_id": "c", "response_id": "r", "seq": 1, "data": {}},
        {"type": "pong", "data": {"more": "than is described"}},
        {"type": "nothing.of.ours", "data": {}},
    ],
)
def test_a_frame_that_is_not_as_described_is_noticed(frame: dict[str, Any]) -> None:
    require_described(json.dumps({"type": "pong", "data": {}}))
    with pytest.raises(AssertionError, match="not as described"):
        require_described(json.dumps(frame))

"""`/schema/asyncapi.json`: the socket as an AsyncAPI 3.0 document, made from the frame types themselves. Pure: no I/O.

In AsyncAPI an operation is what this server does: it receives a client's frames and sends its own.
"""

from __future__ import annotations

import typing
from inspect import cleandoc
from typing import Any

import msgspec
from msgspec import Struct

from app.accounts.authentication import COOKIE
from app.frame_data import SERVER_DATA, server_frame
from app.realtime import protocol
from app.realtime.protocol import FrameType

Json = dict[str, Any]

ADDRESS = "/ws"

ANSWERED_WITH: dict[str, list[FrameType]] = {
    "session.hello": ["session.ready"],
    "message.create": ["message.created"],
    "response.regenerate": ["message.created"],
    "response.cancel": ["conversation.updated"],
    "conversation.subscribe": ["conversation.updated"],
    "conversation.unsubscribe": ["conversation.updated"],
    "handoff.request": ["conversation.status_changed"],
    "typing": [],
    "feedback.create": ["feedback.created"],
    "ping": ["pong"],
}
"""The type of the frame whose `reply_to` is the `id` of the client's. Any may be refused with `error` instead."""

DESCRIPTION = """\
The WebSocket of a Kvasir server. Frames are JSON texts. `session.hello` comes first; without it nothing is resumed. An `id` that
a client's frame has comes back as `reply_to` in the answer to it. The frames of one answer carry `seq`, 1, 2, 3 … without gap or
repeat, up to exactly one terminal frame; who comes back names the last one it has. A client ignores types and fields it does
not know. A cookie needs an Origin of ours; a ticket of `POST /api/v1/auth/tickets` works once, within seconds."""


def asyncapi_document(version: str, host: str, *, is_secure: bool) -> Json:
    """The whole document, for the server that is reached at this host."""
    client = {_key(_type_of(kind)): kind for kind in typing.get_args(protocol.AnyClientFrame)}
    server = {_server_key(kind, client): server_frame(kind) for kind in SERVER_DATA}
    frames: dict[str, type[Struct]] = {**client, **server}
    ordered = sorted(frames.values(), key=lambda struct: struct.__name__)
    _, schemas = msgspec.json.schema_components(ordered, ref_template="#/components/schemas/{name}")
    receives = {key: _receives(key, _type_of(kind), client) for key, kind in client.items()}
    sends = {key: _operation("send", key) for key in server}
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "Kvasir", "version": version, "description": DESCRIPTION.replace("\n", " ")},
        "defaultContentType": "application/json",
        "servers": {
            "kvasir": {
                "host": host,
                "protocol": "wss" if is_secure else "ws",
                "security": [{"$ref": f"#/components/securitySchemes/{name}"} for name in SECURITY],
            }
        },
        "channels": {
            "socket": {
                "address": ADDRESS,
                "title": "The socket",
                "description": "All frames of one client, in both directions. " + _close_codes(),
                "messages": {key: {"$ref": f"#/components/messages/{key}"} for key in frames},
            }
        },
        "operations": receives | sends,
        "components": {
            "messages": {key: _message(kind) for key, kind in frames.items()},
            "schemas": schemas,
            "securitySchemes": SECURITY,
        },
    }


SECURITY: Json = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A sign-in's token, or an API key."},
    "cookie": {"type": "httpApiKey", "in": "cookie", "name": COOKIE, "description": "As the browser has it."},
    "ticket": {"type": "httpApiKey", "in": "query", "name": "ticket", "description": "Works once, within seconds."},
}


def _type_of(kind: type[Struct]) -> str:
    return str(kind.__struct_config__.tag)


def _key(name: str) -> str:
    """A name that a reference can be made of: dots are for types, and a document's keys may not have all characters."""
    return name.replace(".", "_")


def _server_key(kind: FrameType, client: Json) -> str:
    """What both sides may send has two descriptions."""
    key = _key(kind)
    return f"{key}_to_client" if key in client else key


def _message(kind: type[Struct]) -> Json:
    name = _type_of(kind)
    return {
        "name": name,
        "title": name,
        "summary": " ".join(cleandoc(kind.__doc__ or name).split()),
        "payload": {"$ref": f"#/components/schemas/{kind.__name__}"},
    }


def _operation(action: str, key: str) -> Json:
    return {"action": action, "channel": {"$ref": "#/channels/socket"}, "messages": [_in_channel(key)]}


def _receives(key: str, name: str, client: Json) -> Json:
    answers = [_in_channel(_server_key(kind, client)) for kind in (*ANSWERED_WITH[name], "error")]
    return {
        **_operation("receive", key),
        "reply": {"channel": {"$ref": "#/channels/socket"}, "messages": answers},
    }


def _in_channel(key: str) -> Json:
    return {"$ref": f"#/channels/socket/messages/{key}"}


def _close_codes() -> str:
    codes = ", ".join(f"{code.value} {code.name.lower().replace('_', ' ')}" for code in protocol.CloseCode)
    return f"Close codes: {codes}."

"""How the routes of `/v1` are described in the OpenAPI document: errors in their own form, an answer whole or as a stream, and
the header that keeps a session. Used by the routes."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIType, Operation, Parameter, Schema

from app.openai.errors import ErrorAnswer
from app.openai.session_name import MAX_CHARS, SESSION_HEADER


def error_responses(*statuses: int) -> dict[int, ResponseSpec]:
    """What a route may answer besides success. Always 400, to a parameter that it does not know, 401 and 503."""
    return {
        status: ResponseSpec(ErrorAnswer, generate_examples=False, description=HTTPStatus(status).phrase)
        for status in sorted({400, 401, 403, 503, *statuses})
    }


@dataclass
class AnswerOperation(Operation):
    """One that is answered whole or as a stream."""

    def __post_init__(self) -> None:
        header = Parameter(
            name=SESSION_HEADER,
            param_in="header",
            description="Keeps what was computed for this chat from call to call; a name of the caller's choice",
            schema=Schema(type=OpenAPIType.STRING, min_length=1, max_length=MAX_CHARS, pattern="^[!-~]+$"),
        )
        self.parameters = [*(self.parameters or []), header]
        whole = (self.responses or {}).get("200")
        content = getattr(whole, "content", None)
        if content is not None:
            content["text/event-stream"] = OpenAPIMediaType(schema=Schema(type=OpenAPIType.STRING))

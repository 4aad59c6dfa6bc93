"""Errors on REST: every one is `application/problem+json` (RFC 9457), whoever raised it.

Registered by `app.asgi`, for all but what is below `/v1` (`app.openai.errors`). It must never show a stack trace, a query string
or a token: `detail` is written for people, and what nobody foresaw is logged with its trace id and answered with that id alone.
"""

from __future__ import annotations

import uuid
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.openapi.datastructures import ResponseSpec
from litestar.types import Scope
from msgspec import Meta

from app.errors import AppError

PROBLEM_JSON = "application/problem+json"

CODES = {
    400: "invalid_input",
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "payload_too_large",
    415: "unsupported_media_type",
    500: "internal_error",
    503: "unavailable",
}

AnyRequest = Request[Any, Any, Any]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One error. `code` is stable and for programs; `trace_id` finds it in the server's log."""

    type: Annotated[str, Meta(description="Always about:blank; `code` says what happened")] = "about:blank"
    title: str
    status: int
    detail: str
    code: str
    trace_id: str


def trace_id(scope: Scope) -> str:
    """The id of this request, made at the first call; the log and the answer show the same."""
    state: dict[str, Any] = scope.setdefault("state", {})
    found = state.get("trace_id")
    if not isinstance(found, str):
        found = state["trace_id"] = uuid.uuid4().hex
    return found


def problem_responses(*statuses: int) -> dict[int, ResponseSpec]:
    """What a route may answer besides success, for the OpenAPI document. Always 400, to a parameter that it does not know, and
    503, while the database is away."""
    return {
        status: ResponseSpec(
            Problem, generate_examples=False, description=HTTPStatus(status).phrase, media_type=PROBLEM_JSON
        )
        for status in sorted({400, 503, *statuses})
    }


def problem_response(
    request: AnyRequest,
    status: int,
    detail: str,
    *,
    code: str | None = None,
    headers: dict[str, str] | None = None,
    members: dict[str, object] | None = None,
) -> Response[bytes]:
    """The answer for one error."""
    problem = Problem(
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        code=code or CODES.get(status, "error"),
        trace_id=trace_id(request.scope),
    )
    body = msgspec.json.encode({**(members or {}), **msgspec.to_builtins(problem)})
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", **(headers or {})}
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(body, status_code=status, media_type=PROBLEM_JSON, headers=headers)


def on_app_error(request: AnyRequest, error: AppError) -> Response[bytes]:
    """One of ours."""
    return problem_response(
        request, error.status, error.detail, code=error.code, headers=error.headers, members=error.members
    )


def on_http_exception(request: AnyRequest, error: HTTPException) -> Response[bytes]:
    """One of the framework's: no route, wrong method, body too large, and the like."""
    details = {
        404: "there is no such resource",
        405: f"this resource does not answer to {request.method}",
        413: "the body is larger than this server takes",
    }
    if error.status_code >= 500:
        return on_unforeseen(request, error)
    # Some of the framework's sentences quote the whole URL, whose query may carry a ticket.
    detail = details.get(error.status_code, HTTPStatus(error.status_code).phrase)
    return problem_response(request, error.status_code, detail, headers=dict(error.headers or {}))


def on_validation_exception(request: AnyRequest, error: ValidationException) -> Response[bytes]:
    """A parameter or a body of the wrong form. The framework's own sentence quotes the URL, so ours is made of its parts."""
    parts = [part for part in error.extra if isinstance(part, dict)] if isinstance(error.extra, list) else []
    sentences = [_sentence(part) for part in parts]
    return problem_response(request, 400, "; ".join(sentences) or "the request is not valid")


def on_unforeseen(request: AnyRequest, error: Exception) -> Response[bytes]:
    """A fault of ours. The framework has logged the whole story (see FailureLog); the answer has its number."""
    return problem_response(request, 500, "the server failed; its log has more under this trace_id")


def _sentence(part: dict[str, Any]) -> str:
    key, message = str(part.get("key", "")), str(part.get("message", "not valid"))
    if part.get("source") == "body" and message == "'data'":
        return "expected a JSON body, got none"
    return f"{key}: {message}"

"""Errors of the OpenAI-compatible surface: whatever goes wrong below `/v1` is `{"error": {message, type, param, code}}`.

Registered by `app.asgi`, which asks here first for every error; the other surfaces keep their problem details. The sentences are
the same ones. It must never show a stack trace, a query string or a key.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import msgspec
from litestar import Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.types import ExceptionHandlersMap

from app import problems
from app.errors import AppError, InvalidInput, NotFound
from app.json_request import InvalidBody
from app.problems import AnyRequest, trace_id

Handler = Callable[[AnyRequest, Any], Response[bytes]]

PREFIX = "/v1"

TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    429: "rate_limit_error",
}
CODES = {401: "invalid_api_key"}

_PLACE = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?$", re.DOTALL)
_FIELD = re.compile(r"Object (?:contains unknown|missing required) field `(?P<field>.*)`", re.DOTALL)


class RefusedParameter(InvalidInput):
    """A field of the request that cannot be as it is. `param` names it, as a path from the body's root."""

    def __init__(self, param: str, detail: str, *, code: str | None = None) -> None:
        super().__init__(detail, code=code or "invalid_value")
        self.param = param


class UnsupportedParameter(RefusedParameter):
    """A field that this server does not support. It is refused, because ignoring it would change what was asked for."""

    def __init__(self, param: str, detail: str = "") -> None:
        super().__init__(param, detail or f"{param} is not supported by this server", code="unsupported_parameter")


class UnknownModel(NotFound):
    """A model that is not served here, or a persona that there is none of."""

    code = "model_not_found"
    param = "model"


class ErrorBody(msgspec.Struct, frozen=True):
    """One error. `code` is stable and for programs; `param` names the field that is to blame, where there is one."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorAnswer(msgspec.Struct, frozen=True):
    error: ErrorBody


def is_ours(path: str) -> bool:
    """Whether a path belongs to this surface."""
    return path == PREFIX or path.startswith(PREFIX + "/")


def error_body(status: int, message: str, *, param: str | None = None, code: str | None = None) -> ErrorAnswer:
    """The same form on every failure, also of a stream that has begun."""
    kind = TYPES.get(status) or ("invalid_request_error" if status < 500 else "server_error")
    return ErrorAnswer(ErrorBody(message, kind, param, code or CODES.get(status)))


def parameter_of(error: AppError) -> str | None:
    """The field that is to blame, as a path from the body's root: `messages[0].content`."""
    if not isinstance(error, InvalidBody):
        param = getattr(error, "param", None)
        return param if isinstance(param, str) else None
    found = _PLACE.fullmatch(error.reason)
    path = (found["path"] or "") if found else ""
    if found and (field := _FIELD.fullmatch(found["what"])):
        path = f"{path}.{field['field']}" if path else field["field"]
    # msgspec writes an index it does not name as `[...]`.
    return path.replace("[...]", "[]") or None


def _answer(
    request: AnyRequest,
    status: int,
    message: str,
    *,
    param: str | None = None,
    code: str | None = None,
    headers: dict[str, str] | None = None,
) -> Response[bytes]:
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", **(headers or {})}
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    body = msgspec.json.encode(error_body(status, message, param=param, code=code))
    return Response(body, status_code=status, media_type="application/json", headers=headers)


def on_app_error(request: AnyRequest, error: AppError) -> Response[bytes]:
    """One of ours."""
    code = CODES.get(error.status) or error.code
    if isinstance(error, InvalidBody):
        code = "unknown_parameter" if "unknown field" in error.reason else "invalid_value"
    return _answer(request, error.status, error.detail, param=parameter_of(error), code=code, headers=error.headers)


def on_http_exception(request: AnyRequest, error: HTTPException) -> Response[bytes]:
    """One of the framework's: no route, wrong method, body too large, and the like."""
    if error.status_code >= 500:
        return on_unforeseen(request, error)
    details = {
        404: "there is no such resource",
        405: f"this resource does not answer to {request.method}",
        413: "the body is larger than this server takes",
    }
    message = details.get(error.status_code, HTTPStatus(error.status_code).phrase)
    codes = {404: "unknown_url", 405: "method_not_allowed", 413: "payload_too_large"}
    headers = dict(error.headers or {})
    return _answer(request, error.status_code, message, code=codes.get(error.status_code), headers=headers)


def on_validation_exception(request: AnyRequest, error: ValidationException) -> Response[bytes]:
    """A parameter of the path or the query of the wrong form, or no body. The framework's sentence quotes the whole URL."""
    parts = [part for part in error.extra if isinstance(part, dict)] if isinstance(error.extra, list) else []
    if any(part.get("source") == "body" for part in parts):
        return _answer(request, 400, "expected a JSON body, got none", code="invalid_value")
    key = str(parts[0].get("key", "")) if parts else None
    message = "; ".join(f"{part.get('key', '')}: {part.get('message', 'not valid')}" for part in parts)
    return _answer(request, 400, message or "the request is not valid", param=key, code="invalid_value")


def on_unforeseen(request: AnyRequest, error: Exception) -> Response[bytes]:
    """A fault of ours, which the log tells under the request's id."""
    number = trace_id(request.scope)
    return _answer(request, 500, f"the server failed; its log has more under {number}", code="internal_error")


def by_surface(ours: Handler, others: Handler) -> Handler:
    """An error is told in the form of the surface whose path was asked for, also where there is no route."""

    def handle(request: AnyRequest, error: Any) -> Response[bytes]:
        return (ours if is_ours(request.url.path) else others)(request, error)

    return handle


def handlers_by_surface() -> ExceptionHandlersMap:
    """For the whole application."""
    return {
        AppError: by_surface(on_app_error, problems.on_app_error),
        ValidationException: by_surface(on_validation_exception, problems.on_validation_exception),
        HTTPException: by_surface(on_http_exception, problems.on_http_exception),
        Exception: by_surface(on_unforeseen, problems.on_unforeseen),
    }

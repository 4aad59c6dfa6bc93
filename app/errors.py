"""Errors the application answers with, on REST as problem details and on the socket as `error` frames.

Raise one of these anywhere in `app`; the edge (`app.problems`, `app.realtime.connection`) turns it into its wire form. `code`
is stable and for programs; `detail` is one sentence for people that says what was expected and what came.
"""

from __future__ import annotations

from typing import ClassVar


class AppError(Exception):
    """Base of all of them. `status` is the HTTP status; `headers` go with it, `members` are further fields of the problem."""

    status: ClassVar[int] = 500
    code: str = "internal_error"

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        headers: dict[str, str] | None = None,
        members: dict[str, object] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.headers = headers or {}
        self.members = members or {}
        if code is not None:
            self.code = code


class InvalidInput(AppError):
    """The request cannot be understood or is out of its limits."""

    status = 400
    code = "invalid_input"


class Unauthenticated(AppError):
    """No valid credentials came with the request."""

    status = 401
    code = "unauthenticated"


class Forbidden(AppError):
    """The caller is known and may not do this. Never used for somebody else's objects: those are NotFound."""

    status = 403
    code = "forbidden"


class NotFound(AppError):
    """There is no such thing, or it is somebody else's: the two cannot be told apart."""

    status = 404
    code = "not_found"


class Conflict(AppError):
    """The state of things does not allow this now."""

    status = 409
    code = "conflict"


class PreconditionFailed(AppError):
    """`If-Match` named another version than the current one."""

    status = 412
    code = "precondition_failed"


class PayloadTooLarge(AppError):
    """The body is larger than its limit."""

    status = 413
    code = "payload_too_large"


class UnsupportedMediaType(AppError):
    """The body is of another kind than JSON."""

    status = 415
    code = "unsupported_media_type"


class Unprocessable(AppError):
    """An `Idempotency-Key` that was used before with another body."""

    status = 422
    code = "unprocessable"


class TooManyRequests(AppError):
    """A limit on how much one caller may ask for."""

    status = 429
    code = "too_many_requests"

    def __init__(
        self, detail: str, *, retry_after_s: int, code: str | None = None, members: dict[str, object] | None = None
    ) -> None:
        super().__init__(detail, code=code, headers={"Retry-After": str(retry_after_s)}, members=members)


class Unavailable(AppError):
    """The server cannot take this now: loading, draining or overloaded."""

    status = 503
    code = "unavailable"

    def __init__(self, detail: str, *, retry_after_s: int, code: str | None = None) -> None:
        super().__init__(detail, code=code, headers={"Retry-After": str(retry_after_s)})

"""How a body is read: strictly, straight into the type the route declares.

The framework decodes a body to plain objects first and then converts them leniently, so that `"1"` would pass for a number. It
also reads any content type as JSON. Here neither happens, and a body nested beyond reason is the client's fault.
"""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Request

from app.accounts.identity import Identity
from app.errors import InvalidInput, UnsupportedMediaType


class InvalidBody(InvalidInput):
    """A body that is JSON and not of the declared type. `reason` says what and where, as msgspec does."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the body is not as expected: {reason}")
        self.reason = reason


class JsonRequest(Request[Identity | None, Any, Any]):
    """The request class of the whole application."""

    async def json(self) -> Any:
        """The body as the type of the route's parameter `data`. Raises InvalidInput or UnsupportedMediaType."""
        body = await self.body()
        content_type = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type != "application/json":
            raise UnsupportedMediaType(
                f"expected a body of application/json, got {content_type or 'no content type'!r}"
            )
        declared = self.route_handler.parsed_fn_signature.parameters.get("data")
        try:
            return msgspec.json.decode(body, type=declared.annotation if declared else Any)
        except msgspec.ValidationError as problem:
            raise InvalidBody(str(problem)) from None
        except msgspec.DecodeError as problem:
            raise InvalidInput(f"the body is not JSON: {problem}") from None
        except RecursionError:
            raise InvalidInput("the body is nested too deeply") from None

"""The header with which a program keeps a session from call to call."""

from __future__ import annotations

import re

from app.json_request import JsonRequest
from app.openai.errors import RefusedParameter

SESSION_HEADER = "X-Kvasir-Session"
MAX_CHARS = 128
WELL_FORMED = re.compile(rf"[!-~]{{1,{MAX_CHARS}}}")


def session_name(request: JsonRequest) -> str | None:
    """The name of the caller's choice under which what is computed for a chat is kept. Raises RefusedParameter."""
    name = request.headers.get(SESSION_HEADER)
    if name is not None and not WELL_FORMED.fullmatch(name):
        raise RefusedParameter(
            SESSION_HEADER, f"expected {SESSION_HEADER} to be 1 to {MAX_CHARS} visible ASCII characters"
        )
    return name

"""What text may be stored: PostgreSQL refuses NUL characters, and half a surrogate pair cannot be written as UTF-8.

Both databases get the same rule, so that what one accepts the other does too. Called by schemas and services.
"""

from __future__ import annotations

from typing import Any

from app.errors import InvalidInput

STORABLE_PATTERN = r"^[^\x00]*$"
"""For the schemas. Half surrogates need no part in it: the JSON decoder refuses them before."""


def is_storable(text: str) -> bool:
    """Whether both databases take it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in text


def require_storable(text: str, name: str) -> str:
    """The same text. Raises InvalidInput when it holds a NUL character or half a surrogate pair."""
    if "\x00" in text:
        raise InvalidInput(f"{name} holds a NUL character, which cannot be stored")
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        raise InvalidInput(f"{name} holds half a surrogate pair at character {problem.start}") from None
    return text


def require_storable_json(value: Any, name: str, *, max_depth: int) -> None:
    """Check every key and text inside. Raises InvalidInput, also where arrays and objects are nested deeper than that."""
    if isinstance(value, str):
        require_storable(value, name)
    elif isinstance(value, dict | list):
        if max_depth == 0:
            raise InvalidInput(f"{name} is nested too deeply")
        if isinstance(value, dict):
            for key in value:
                require_storable(key, name)
        for item in value.values() if isinstance(value, dict) else value:
            require_storable_json(item, name, max_depth=max_depth - 1)

"""Reads the JSON files of a model folder, with an error for people when one is not what it should be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine.errors import ModelError


def read_json_object(path: Path) -> dict[str, Any]:
    """Raises ModelError when the file is missing, unreadable, not JSON or not an object."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ModelError(f"{path.parent} has no {path.name}") from None
    except OSError as problem:
        raise ModelError(f"{path} cannot be read: {problem.strerror}") from None
    except ValueError as problem:
        raise ModelError(f"{path} is not JSON: {problem}") from None
    if not isinstance(value, dict):
        raise ModelError(f"{path} holds {type(value).__name__} where a JSON object was expected")
    return value


def read_json_object_if_there(path: Path) -> dict[str, Any]:
    """Empty when there is no such file."""
    return read_json_object(path) if path.exists() else {}

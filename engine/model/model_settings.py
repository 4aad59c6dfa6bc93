"""Settings out of a model's own file, read with their types checked: what is missing or odd is a ModelError that names it.

Used by `config_shape` and `gguf_shape`. Importing this module must not import torch (see `architecture`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from engine.errors import ModelError

LARGEST_WHOLE: Final = 2**128
"""Of no size that is served; what is larger could not even be counted with."""


class ModelSettings:
    """Keys and values of one file, or of an object in it. `where` names it in errors; null counts as missing."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self._values = values
        self.where = where

    def get(self, key: str, default: Any = None) -> Any:
        value = self._values.get(key)
        return default if value is None else value

    def has(self, key: str) -> bool:
        """Also when it is null."""
        return key in self._values

    def over(self, others: ModelSettings) -> ModelSettings:
        """These settings, and those of others where these say nothing."""
        return ModelSettings({**others._values, **self._values}, self.where)

    def refuse_unless(self, key: str, *expected: object) -> None:
        """Refuse a setting that is there and says something else than what is implemented."""
        value = self._values.get(key)
        if value is not None and value not in expected:
            shown = f"; only {' or '.join(map(repr, expected))} is" if expected else ""
            raise ModelError(f"{self.where} says {key} = {value!r}, which is not supported{shown}")

    def whole(self, key: str, default: int | None = None) -> int:
        """A positive whole number."""
        value = self.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST_WHOLE:
            raise ModelError(f"{self.where} says {key} = {value!r}, where a positive whole number was expected")
        return value

    def whole_if_there(self, key: str) -> int | None:
        return None if self.get(key) is None else self.whole(key)

    def number(self, key: str, default: float | None = None) -> float:
        """A positive number."""
        value = self.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise ModelError(f"{self.where} says {key} = {value!r}, where a positive number was expected")
        try:
            return float(value)
        except OverflowError:
            raise ModelError(f"{self.where} says {key} = {value!r}, which is too large") from None

    def number_if_there(self, key: str) -> float | None:
        return None if self.get(key) is None else self.number(key)

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.get(key, default)
        if not isinstance(value, bool):
            raise ModelError(f"{self.where} says {key} = {value!r}, where true or false was expected")
        return value

    def inner(self, key: str) -> ModelSettings:
        """The object under this key, empty where there is none."""
        value = self.get(key, {})
        if not isinstance(value, Mapping):
            raise ModelError(f"{self.where} says {key} = {value!r}, where an object was expected")
        return ModelSettings(value, self.where)

    def choices(self, key: str, count: int, known: Sequence[str]) -> Sequence[str] | None:
        """A list of `count` of the known words, or None where there is none."""
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != count or not all(word in known for word in value):
            raise ModelError(f"{self.where} says {key} = {value!r}, where {count} of {', '.join(known)} were expected")
        return value

"""How what somebody wrote becomes the value of a setting. Pure; called by `app.settings` for each of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

SWITCH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def setting_value(value: object, kind: Any) -> object:
    """The value of this kind. Raises ValueError with what was expected."""
    if kind is bool or getattr(kind, "__origin__", None) is bool:
        lowered = value.strip().lower() if isinstance(value, str) else value
        value = SWITCH.get(str(lowered), value)
    try:
        return msgspec.convert(value, kind, strict=False, dec_hook=_path)
    except msgspec.ValidationError as problem:
        raise ValueError(f"expected one of {', '.join(words)}" if (words := _choices(kind)) else problem) from None


def _choices(kind: Any) -> tuple[str, ...]:
    """The words a setting can be; none where it is something else."""
    kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    return get_args(kind) if get_origin(kind) is Literal else ()


def _path(kind: type, value: object) -> object:
    if kind is Path:
        return Path(str(value))
    raise NotImplementedError(f"no conversion to {kind}")

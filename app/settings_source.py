"""Where settings come from, and which are refused.

Values come, first found first taken, from the command line, the environment, the `.env` file in the working directory, and
the defaults of `app.settings`. `load_settings` returns them together with where each came from, for `kvasir config`.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import msgspec
from dotenv import dotenv_values
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from app.setting_value import setting_value
from app.settings import Settings
from app.webhooks.addresses import AddressRules

PREFIX = "KVASIR_"
SECRET_SETTINGS = frozenset({"admin_password", "oidc_client_secret", "engine_api_key", "engine_secret"})
"""Never printed. The passwords inside `database_url` and `redis_url` are masked by `shown_value`."""

PASSWORD_IN_URL = re.compile(r"(://[^/@:\s]*:)[^/@\s]*@")
"""Whatever names another program may bring the password for it along."""


class SettingsError(Exception):
    """A setting that cannot be used; the message names the variable, what was expected and what came."""


def variable_name(field: str) -> str:
    """The environment variable of a field."""
    return PREFIX + field.upper()


class Loaded(msgspec.Struct, frozen=True):
    """Settings and, per field, where the value came from: `command line`, `environment`, `.env` or `default`."""

    settings: Settings
    origins: dict[str, str]


def load_settings(
    overrides: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
    dotenv_path: Path | None = None,
) -> Loaded:
    """Read all settings. `overrides` are those of the command line, without the ones that were not given.

    Raises SettingsError for a value of the wrong kind, for values that contradict each other, for a `KVASIR_` variable that
    does not exist, and for a `.env` file that cannot be read.
    """
    environment = os.environ if environment is None else environment
    dotenv = _read_dotenv(dotenv_path or Path(".env"))
    fields = {field.name: field for field in msgspec.structs.fields(Settings)}
    _refuse_unknown(environment, fields, "the environment")
    _refuse_unknown(dotenv, fields, "the .env file")
    values: dict[str, object] = {}
    origins = dict.fromkeys(fields, "default")
    for name in fields:
        for origin, source in ((".env", dotenv), ("environment", environment)):
            if (text := source.get(variable_name(name))) is not None:
                values[name], origins[name] = _converted(name, text, fields[name].type), origin
    for name, value in (overrides or {}).items():
        values[name], origins[name] = _converted(name, value, fields[name].type), "command line"
    settings = Settings(**values)  # type: ignore[arg-type]  # converted one by one above
    _refuse_contradictions(settings)
    return Loaded(settings, origins)


def shown_value(name: str, settings: Settings) -> str:
    """The value as it may be printed: secrets are masked."""
    value = getattr(settings, name)
    if name in SECRET_SETTINGS:
        return "(set)" if value else ""
    if name in ("database_url", "redis_url") and value:
        try:
            return make_url(value).render_as_string(hide_password=True)
        except (ArgumentError, ValueError):
            # Nobody knows where in it the password is.
            return f"(set, but no {name.removesuffix('_url')} URL)"
    if isinstance(value, str) and "://" in value:
        return PASSWORD_IN_URL.sub(r"\1***@", value)
    return str(value)


def setting_description(annotation: object) -> str:
    """What a setting's type says it is for; the description may sit inside a union."""
    for item in getattr(annotation, "__metadata__", ()):
        if isinstance(item, msgspec.Meta) and item.description:
            return item.description
    for inner in get_args(annotation):
        if found := setting_description(inner):
            return found
    return ""


def _read_dotenv(path: Path) -> dict[str, str | None]:
    try:
        # Without interpolation: a password with ${ in it is taken as it is written.
        return dotenv_values(path, interpolate=False)
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8"
        raise SettingsError(f"the file {path} cannot be read: {reason}") from None


def _converted(name: str, value: object, kind: Any) -> object:
    try:
        return setting_value(value, kind)
    except ValueError as problem:
        raise SettingsError(f"{variable_name(name)}: {problem}, got {value!r}") from None


def _refuse_contradictions(settings: Settings) -> None:
    """The three times of a session, the last of these, are all counted from its last turn, so they come in this order."""
    try:
        AddressRules(settings.webhook_private_networks)
    except ValueError as problem:
        raise SettingsError(f"{variable_name('webhook_private_networks')}: {problem}") from None
    if settings.oidc_issuer and not settings.oidc_client_id:
        raise SettingsError(
            f"{variable_name('oidc_client_id')}: expected what {settings.oidc_issuer} knows us by, got ''"
        )
    if settings.engine == "remote" and not settings.engine_url:
        raise SettingsError(f"{variable_name('engine_url')}: expected where the remote engine is, got ''")
    if settings.engine == "remote" and settings.model != "auto":
        raise SettingsError(
            f"{variable_name('model')}: expected none beside a remote engine, whose model is named by "
            f"{variable_name('engine_model')}, got {settings.model!r}"
        )
    names = ("session_device_s", "session_host_s", "session_ttl_s")
    for earlier, later in pairwise(names):
        if (sooner := getattr(settings, earlier)) > (other := getattr(settings, later)):
            raise SettingsError(
                f"{variable_name(later)}: expected at least {variable_name(earlier)}, {sooner:g}, got {other:g}"
            )


def _refuse_unknown(source: Mapping[str, str | None], fields: Mapping[str, object], where: str) -> None:
    known = {variable_name(name) for name in fields}
    for name in source:
        if name.startswith(PREFIX) and name not in known:
            close = difflib.get_close_matches(name.removeprefix(PREFIX).lower(), fields, n=1)
            hint = f"; did you mean {variable_name(close[0])}?" if close else ""
            raise SettingsError(f"{name} in {where} is not a setting{hint} (`kvasir config` lists them)")

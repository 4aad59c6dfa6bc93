"""What this process is: version, model, kernels, age, and every setting with where its value comes from. For administrators.

Called by the route. Secrets are masked by `shown_value`, as they are in `kvasir config`.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import datetime
from importlib.metadata import version

import msgspec

from app.clock import Now
from app.replicas.opening import Replicas
from app.settings import Settings
from app.settings_source import setting_description, shown_value, variable_name
from engine.client import EngineClient
from engine.types import EngineState, ModelInfo

DISTRIBUTION = "kvasir-chat"


class ModelBody(msgspec.Struct, frozen=True, kw_only=True):
    """The model that serves. `fingerprint` is part of every key of its KV."""

    name: str
    architecture: str
    parameters: int
    context_tokens: int
    vocabulary_size: int
    weights: str
    kernels: str
    fingerprint: str

    @classmethod
    def of(cls, model: ModelInfo) -> ModelBody:
        return cls(**{name: getattr(model, name) for name in cls.__struct_fields__})


class SettingBody(msgspec.Struct, frozen=True):
    """One setting as it is in force. `origin` is `command line`, `environment`, `.env` or `default`."""

    name: str
    value: str
    origin: str
    description: str


class ServerBody(msgspec.Struct, frozen=True, kw_only=True):
    """One process. `replica_id` is new at every start."""

    version: str
    python: str
    platform: str
    replica_id: str
    started_at: datetime
    state: EngineState
    failure: str | None
    model: ModelBody | None
    threads: int
    reuse: bool
    database: str
    redis: bool
    settings: list[SettingBody]


class ServerFacts:
    """Owns the moment of the start. Everything else is asked for."""

    def __init__(
        self,
        settings: Settings,
        origins: Mapping[str, str],
        engine: EngineClient,
        replicas: Replicas,
        *,
        is_sqlite: bool,
        now: Now,
    ) -> None:
        self._settings = settings
        self._origins = origins
        self._engine = engine
        self._replicas = replicas
        self._is_sqlite = is_sqlite
        self._started_at = now()

    def body(self) -> ServerBody:
        """This process as it is now."""
        model, stats = self._engine.model, self._engine.stats()
        return ServerBody(
            version=version(DISTRIBUTION),
            python=platform.python_version(),
            platform=f"{platform.system()} {platform.machine()}",
            replica_id=self._replicas.owner,
            started_at=self._started_at,
            state=self._engine.state,
            failure=self._engine.failure,
            model=None if model is None else ModelBody.of(model),
            threads=stats.threads,
            reuse=stats.reuse,
            database="SQLite" if self._is_sqlite else "PostgreSQL",
            redis=not self._replicas.is_alone,
            settings=[
                SettingBody(
                    variable_name(field.name),
                    shown_value(field.name, self._settings),
                    self._origins.get(field.name, "default"),
                    setting_description(field.type),
                )
                for field in msgspec.structs.fields(Settings)
            ],
        )

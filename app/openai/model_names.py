"""What `model` names: the model that serves, or a persona that it speaks as.

Called by the service and by the routes of `/v1/models`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from app.errors import Unavailable
from app.openai.errors import UnknownModel
from app.openai.schemas import OpenAIModel
from app.personas.prefixes import opening
from app.personas.service import PersonaService
from engine.client import EngineClient
from engine.types import EngineState, ModelInfo, Turn

PERSONA_PREFIX = "persona:"
RETRY_LOADING_S = 2
RETRY_FAILED_S = 60
"""A failed engine needs a person."""


FINGERPRINT_CHARS = 12


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who answers. `opening` is what every prompt of a persona begins with, `params` its sampling defaults."""

    model: ModelInfo
    persona: str | None = None
    opening: tuple[Turn, ...] = ()
    params: dict[str, Any] = field(default_factory=dict)


class ModelNames:
    """Owns nothing. `since` is what the model is said to exist since: this server's start."""

    def __init__(self, engine: EngineClient, personas: PersonaService, since: datetime) -> None:
        self._engine = engine
        self._personas = personas
        self._since = since

    async def speaker(self, name: str) -> Speaker:
        """Raises UnknownModel, or Unavailable while the model loads."""
        model = self._loaded()
        if name == model.name:
            return Speaker(model)
        version = None
        if name.startswith(PERSONA_PREFIX) and "\x00" not in name:
            version = await self._personas.current_version(name.removeprefix(PERSONA_PREFIX))
        if version is None:
            raise UnknownModel(f"there is no model {name[:100]!r} here; GET /v1/models says which there are")
        return Speaker(model, version.name, (opening(version.system_prompt),), version.params)

    async def all(self) -> list[OpenAIModel]:
        """The model first, then the personas. Raises Unavailable while the model loads."""
        model = self._loaded()
        return [
            self._body(model, model.name, self._since),
            *(self._body(model, PERSONA_PREFIX + name, made) for name, made in await self._personas.every_name()),
        ]

    async def one(self, name: str) -> OpenAIModel:
        """Raises UnknownModel, or Unavailable while the model loads."""
        for body in await self.all():
            if body.id == name:
                return body
        raise UnknownModel(f"there is no model {name[:100]!r} here; GET /v1/models says which there are")

    def _loaded(self) -> ModelInfo:
        model, state = self._engine.model, self._engine.state
        if model is None or state is not EngineState.READY:
            why = self._engine.failure or f"the model is {state}"
            retry_after_s = RETRY_LOADING_S if state is EngineState.LOADING else RETRY_FAILED_S
            raise Unavailable(why, retry_after_s=retry_after_s, code="engine_not_ready")
        return model

    @staticmethod
    def _body(model: ModelInfo, name: str, created: datetime) -> OpenAIModel:
        return OpenAIModel(id=name, created=int(created.timestamp()), max_model_len=model.context_tokens)


def fingerprint_of(model: ModelInfo) -> str:
    """What `system_fingerprint` says: the same as long as the same weights serve."""
    return f"fp_{model.fingerprint[:FINGERPRINT_CHARS]}"

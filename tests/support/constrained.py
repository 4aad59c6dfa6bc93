"""Constrained answers of a stepped engine: the grammars are compiled as a server compiles them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from engine.core import Engine
from engine.grammars import Grammars
from engine.structure import Constraint, JsonSchema
from engine.types import EngineEvent, GenerationRequest
from tests.support.stepped_engine import TOKENIZER
from tests.support.tiny_model import request

GRAMMARS = Grammars(TOKENIZER)


def schema_of(schema: dict[str, Any]) -> JsonSchema:
    return JsonSchema(json.dumps(schema))


def constrained(name: str, constraint: Constraint, text: str = "hi", **sampling: object) -> GenerationRequest:
    """Sampled at temperature 1 and up to 300 tokens long, unless said otherwise."""
    one = request(name, text, **{"temperature": 1.0, "seed": 1, "max_tokens": 300, **sampling})
    return replace(one, constraint=constraint)


def submit(engine: Engine, *requests: GenerationRequest) -> None:
    for one in requests:
        engine.submit(one, TOKENIZER.encode_turns(one.turns), 0.0, grammar=GRAMMARS.grammar(one))


def of(events: list[EngineEvent], name: str) -> list[EngineEvent]:
    return [event for event in events if event.request_id == name]

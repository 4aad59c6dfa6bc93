"""What the cluster is: the model it serves, its context, and what it understands; or why that cannot be used. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.remote.config import RemoteConfig
from engine.remote.dialect import Dialect, dialect_of
from engine.types import ModelInfo

PERSONA_PREFIX = "persona:"
"""Under these names another Kvasir serves its personas, with the same model."""


@dataclass(frozen=True, slots=True)
class Found:
    """A cluster that can be asked for answers."""

    dialect: Dialect
    model: ModelInfo


class Unusable(Exception):
    """What is there cannot serve as it is set up; one sentence for the person who did."""


def found(config: RemoteConfig, cards: Sequence[dict[str, Any]]) -> Found:
    """What a list of models says. Raises Unusable."""
    card = _chosen(config, cards)
    dialect = config.dialect or dialect_of(str(card.get("owned_by", "")))
    if dialect is None:
        raise Unusable(
            f"{config.api_url} says that it is {card.get('owned_by')!r}, and not vllm, sglang or kvasir: "
            "choose with KVASIR_ENGINE_DIALECT what it understands (openai keeps nobody's cache apart)"
        )
    told = card.get("max_model_len")
    context_tokens = config.context_tokens or (told if isinstance(told, int) and told > 0 else 0)
    name = str(card["id"])
    return Found(
        dialect,
        ModelInfo(
            name=name,
            architecture="remote",
            parameters=0,
            context_tokens=context_tokens,
            vocabulary_size=0,
            weights="remote",
            kernels=dialect.value,
            fingerprint=f"remote {config.root_url} {name}",
        ),
    )


def _chosen(config: RemoteConfig, cards: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if config.model:
        for card in cards:
            if card["id"] == config.model:
                return card
        raise Unusable(f"{config.api_url} has no model {config.model!r}; it has {_names(cards)}")
    # Adapters name the model they belong to.
    whole = [card for card in cards if not card.get("parent") and not card["id"].startswith(PERSONA_PREFIX)]
    if len(whole) != 1:
        raise Unusable(f"{config.api_url} has {_names(whole)}: choose one with KVASIR_ENGINE_MODEL")
    return whole[0]


def _names(cards: Sequence[dict[str, Any]]) -> str:
    return ", ".join(repr(card["id"]) for card in cards[:10]) or "no model"

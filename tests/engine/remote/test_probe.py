"""What a list of models says of a cluster, and what a person has to say instead."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.remote.config import RemoteConfig
from engine.remote.dialect import Dialect
from engine.remote.probe import Unusable, found

VLLM = {"id": "smol", "object": "model", "owned_by": "vllm", "parent": None, "max_model_len": 2048}
CONFIG = RemoteConfig(url="http://gpu:8000/v1")


def test_a_server_with_one_model_needs_no_name() -> None:
    seen = found(CONFIG, [VLLM, {"id": "adapter", "owned_by": "vllm", "parent": "smol"}])
    assert (seen.dialect, seen.model.name, seen.model.context_tokens) == (Dialect.VLLM, "smol", 2048)


def test_another_kvasirs_personas_are_no_models_of_their_own() -> None:
    cards = [{"id": "smollm2", "owned_by": "kvasir"}, {"id": "persona:terse", "owned_by": "kvasir"}]
    seen = found(CONFIG, cards)
    assert (seen.dialect, seen.model.name, seen.model.context_tokens) == (Dialect.KVASIR, "smollm2", 0)
    assert found(replace(CONFIG, context_tokens=4096), cards).model.context_tokens == 4096
    assert found(replace(CONFIG, model="persona:terse"), cards).model.name == "persona:terse"


@pytest.mark.parametrize(
    ("changes", "cards", "says"),
    [
        ({}, [VLLM, VLLM | {"id": "other"}], "KVASIR_ENGINE_MODEL"),
        ({}, [], "no model"),
        ({"model": "nope"}, [VLLM], "no model 'nope'; it has 'smol'"),
        ({}, [VLLM | {"owned_by": "library"}], "KVASIR_ENGINE_DIALECT"),
    ],
)
def test_what_cannot_be_known_is_asked_for(changes: dict[str, str], cards: list[dict[str, object]], says: str) -> None:
    with pytest.raises(Unusable, match=says):
        found(replace(CONFIG, **changes), cards)


def test_who_is_told_what_it_is_is_believed() -> None:
    seen = found(replace(CONFIG, dialect=Dialect.OPENAI), [VLLM | {"owned_by": "library"}])
    assert seen.dialect is Dialect.OPENAI


@pytest.mark.parametrize("url", ["http://gpu:8000", "http://gpu:8000/", "http://gpu:8000/v1", "http://gpu:8000/v1/"])
def test_the_address_may_have_the_version_or_not(url: str) -> None:
    config = RemoteConfig(url=url)
    assert (config.root_url, config.api_url) == ("http://gpu:8000", "http://gpu:8000/v1")

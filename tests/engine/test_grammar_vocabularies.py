"""The grammar library reads every kind of vocabulary as the detokeniser does, so JSON it allows is JSON that is shown."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from engine.answer_text import AnswerText
from engine.grammars import Grammars
from tests.support.constrained import constrained, schema_of
from tests.support.text_families import TEXT_FAMILIES, tokenizer_of

ANIMALS = {
    "type": "object",
    "properties": {
        "animal": {"enum": ["cat", "größte Katze", "猫 😀"]},
        "legs": {"type": "integer", "minimum": 0, "maximum": 8},
        "note": {"type": "string", "maxLength": 12},
    },
    "required": ["animal", "legs", "note"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("family", TEXT_FAMILIES)
def test_any_tokens_that_the_grammar_allows_are_shown_as_what_it_describes(family: str) -> None:
    tokenizer = tokenizer_of(family)
    grammars = Grammars(tokenizer)
    chance = random.Random(3)
    for _ in range(8):
        grammar = grammars.grammar(constrained("a", schema_of(ANIMALS)))
        assert grammar is not None
        text = AnswerText(tokenizer.detokenizer(), tokenizer.decode, ())
        shown = ""
        while not grammar.is_complete:
            (mask,) = grammar.masks((), [False])
            token = chance.choice(np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist())
            grammar.append(token)
            shown += text.push(token)
        said = json.loads(shown + text.flush())
        assert said["animal"] in ANIMALS["properties"]["animal"]["enum"]
        assert len(said["note"]) <= 12


@pytest.mark.parametrize("family", TEXT_FAMILIES)
def test_what_the_model_would_write_is_what_its_tokens_say(family: str) -> None:
    tokenizer = tokenizer_of(family)
    for text in ('{"name": "', "a b  c", "größe 日 😀", "\n\n{\t}"):
        ids = tokenizer.encode_answer(text)
        assert b"".join(map(tokenizer.bytes_of, ids)).decode() == text

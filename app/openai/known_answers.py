"""The token ids of answers that were given lately, found again when a client sends the chat back with its next question.

A client of this surface keeps the history itself, as text. Text that is encoded again may give other ids than the model made, and
then the KV of the answer is of no use (ggml-org/llama.cpp#26398): so the ids are remembered here, under everything that was said
before them. Called by the service, on the event loop. Pure. Nothing is found in another namespace.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from engine.types import Namespace, Role, Turn

MAX_TOKENS: Final = 4_000_000
"""16 MiB of ids, and of short answers about as much for the books."""

ENTRY_TOKENS: Final = 64
"""What an entry costs beside its ids, counted in tokens of four bytes."""


class KnownAnswers:
    """Owns the ids, the answer that was used longest ago leaving first."""

    def __init__(self, max_tokens: int = MAX_TOKENS) -> None:
        self._max_tokens = max_tokens
        self._ids: OrderedDict[bytes, array[int]] = OrderedDict()
        self._num_tokens = 0

    def __len__(self) -> int:
        return len(self._ids)

    def remember(self, namespace: Namespace, turns: Sequence[Turn], text: str, token_ids: Sequence[int]) -> None:
        """What was answered to these turns."""
        said = _Said(namespace)
        for turn in (*turns, Turn(Role.ASSISTANT, text)):
            said.add(turn)
        key = said.key
        if key in self._ids:
            self._forget(key)
        self._ids[key] = array("I", token_ids)
        self._num_tokens += ENTRY_TOKENS + len(token_ids)
        while self._num_tokens > self._max_tokens:
            self._forget(next(iter(self._ids)))

    def recognised(self, namespace: Namespace, turns: Sequence[Turn]) -> tuple[Turn, ...]:
        """The same turns; answers that were given here have their ids."""
        said, found = _Said(namespace), []
        for turn in turns:
            said.add(turn)
            if turn.role is Role.ASSISTANT and (ids := self._ids.get(said.key)) is not None:
                self._ids.move_to_end(said.key)
                turn = replace(turn, token_ids=tuple(ids))
            found.append(turn)
        return tuple(found)

    def _forget(self, key: bytes) -> None:
        self._num_tokens -= ENTRY_TOKENS + len(self._ids.pop(key))


class _Said:
    """A hash of everything up to a turn."""

    def __init__(self, namespace: Namespace) -> None:
        self._hash = hashlib.sha256()
        for text in (namespace.kind.value, namespace.name, namespace.part):
            self._add(text)

    def add(self, turn: Turn) -> None:
        """The next turn. Lengths go first, so that no two chats read alike."""
        self._add(turn.role.value)
        self._add(turn.text)
        self._add(turn.tool_call_id or "")
        for call in turn.tool_calls:
            for text in ("call", call.id, call.name, call.arguments):
                self._add(text)

    @property
    def key(self) -> bytes:
        return self._hash.digest()

    def _add(self, text: str) -> None:
        # JSON never brings half a surrogate pair, and a token may be one: then it only has to be hashed.
        data = text.encode("utf-8", "surrogatepass")
        self._hash.update(len(data).to_bytes(8, "big"))
        self._hash.update(data)

"""From a request to the ids of its prompt: encoded as far as it is new, and cut by the context policy where it is too long.

Made by `engine.local` when the model is there, and used in the one thread that tokenises, from the first call to the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.context_policy import kept_turns
from engine.encoded_chats import EncodedChat, EncodedChats, TurnSizes
from engine.room import require_room
from engine.structure import Tools
from engine.types import ContextPolicy, GenerationRequest, Namespace, Role, SessionKey, Turn

if TYPE_CHECKING:
    from engine.tokenizer import ChatTokenizer


@dataclass(frozen=True, slots=True)
class Prompt:
    """`dropped_turns` were left out of it."""

    ids: list[int]
    dropped_turns: int = 0


class Prompts:
    """Owns what is remembered of the sessions' chats. One thread."""

    def __init__(self, tokenizer: ChatTokenizer, max_sequence_tokens: int, chats: EncodedChats | None = None) -> None:
        self._tokenizer = tokenizer
        self._max_sequence_tokens = max_sequence_tokens
        self._chats = EncodedChats() if chats is None else chats
        self._turn_costs: _TurnCosts | None = None

    def prompt(self, request: GenerationRequest) -> Prompt:
        """Raises TemplateRefused, and PromptTooLong where it can never be answered."""
        if request.context_policy is ContextPolicy.DROP_OLDEST_TURNS:
            return self._within_context(request)
        chat = self._encode(request, request.turns)
        require_room(len(chat.ids), self._max_sequence_tokens)
        return Prompt(chat.ids.tolist())

    def forget(self, key: SessionKey) -> None:
        """The session was dropped; its next turn is encoded whole."""
        self._chats.forget(key)

    def forget_namespace(self, namespace: Namespace) -> None:
        """Everything of a namespace was dropped, its parts included."""
        self._chats.forget_namespace(namespace)

    def _within_context(self, request: GenerationRequest) -> Prompt:
        turns, key = request.turns, request.session_key
        costs = self._costs()
        sizes = self._sizes(key, turns, costs)
        fixed_tokens = costs.fixed_tokens + costs.tokens_of_tools(request.tools)
        roles = [turn.role for turn in turns]
        room = self._max_sequence_tokens - self._answer_tokens(request)
        counted_room = room
        fewest = len(kept_turns(roles, sizes.tokens, fixed_tokens, 0))
        while True:
            kept = kept_turns(roles, sizes.tokens, fixed_tokens, counted_room)
            chat = self._encode(request, [turns[index] for index in kept], sizes)
            if len(chat.ids) <= room or len(kept) == fewest:
                break
            # Encoded apart, the turns had fewer tokens than together.
            counted_room -= len(chat.ids) - room
        require_room(len(chat.ids), self._max_sequence_tokens)
        return Prompt(chat.ids.tolist(), len(turns) - len(kept))

    def _answer_tokens(self, request: GenerationRequest) -> int:
        """Kept free for the answer: what it may have, and at most a quarter of the context."""
        quarter = self._max_sequence_tokens // 4
        most = request.sampling.max_tokens
        return max(1, quarter if most is None else min(most, quarter))

    def _encode(self, request: GenerationRequest, turns: Sequence[Turn], sizes: TurnSizes | None = None) -> EncodedChat:
        key = request.session_key
        if key is None:
            return self._tokenizer.encode_chat(turns, tools=request.tools)
        chat = self._tokenizer.encode_chat(turns, self._chats.last_of(key), tools=request.tools)
        self._chats.remember(key, chat, sizes)
        return chat

    def _sizes(self, key: SessionKey | None, turns: Sequence[Turn], costs: _TurnCosts) -> TurnSizes:
        before = self._chats.sizes_of(key) if key is not None else None
        return TurnSizes.of(turns, costs.tokens_of, before)

    def _costs(self) -> _TurnCosts:
        if self._turn_costs is None:
            self._turn_costs = _TurnCosts(self._tokenizer)
        return self._turn_costs


class _TurnCosts:
    """How many tokens a turn adds to a prompt, the template's included, without encoding the whole prompt."""

    def __init__(self, tokenizer: ChatTokenizer) -> None:
        self._tokenizer = tokenizer
        question, answer = Turn(Role.USER, ""), Turn(Role.ASSISTANT, "")
        shortest, longer = (
            len(tokenizer.encode_chat(turns).ids) for turns in ((question,), (question, answer, question))
        )
        # What stands around one message: the mean of both kinds, and never too little.
        self._around = -(-(longer - shortest) // 2)
        self.fixed_tokens = shortest - self._around

    def tokens_of_tools(self, tools: Tools | None) -> int:
        if tools is None or not tools.are_told:
            return 0
        question = (Turn(Role.USER, ""),)
        told, untold = (self._tokenizer.encode_chat(question, tools=some) for some in (tools, None))
        return max(0, len(told.ids) - len(untold.ids))

    def tokens_of(self, turn: Turn) -> int:
        return self._tokenizer.turn_tokens(turn) + self._around

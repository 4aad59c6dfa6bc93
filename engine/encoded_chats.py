"""What the sessions' chats were encoded to, so that the next turn encodes only what is new.

Made by `engine.prompts`, used in the one thread that tokenises. `ChatTokenizer.encode_chat` compares the chat it is given with
the last one, message by message, and goes on after the last they have in common; so an edit or a branch is as right as a turn
at the end, and a chat that was forgotten is only encoded whole. Nothing here is ever given to another session.

    turns        [user]             [assistant]              [user]
    ids          <opening> message  <opening> stored ids     <opening> message   <opening of the answer>
    ends                         ^                      ^                    ^   (what follows may change with the next turn)
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from engine.chat_layouts import ChatLayout
from engine.types import Namespace, SessionKey, Turn

MAX_BYTES: Final = 64 << 20
"""About a million tokens of text, in the estimate of `EncodedChat.num_bytes`."""

_ID_BYTES: Final = 4
_STORED_ID_BYTES: Final = 40
_MESSAGE_BYTES: Final = 300
_SIZE_BYTES: Final = 12


@dataclass(frozen=True, slots=True)
class EncodedChat:
    """The ids of a chat, and after how many of them each message ends, in the order of the layout."""

    turns: Sequence[Turn]
    layout: ChatLayout
    ids: array[int]
    ends: array[int]

    @property
    def num_bytes(self) -> int:
        """What remembering it costs, roughly and rather too much than too little."""
        texts = sum(len(turn.text) for turn in self.turns)
        stored_ids = sum(len(turn.token_ids) for turn in self.turns if turn.token_ids is not None)
        return _ID_BYTES * len(self.ids) + _STORED_ID_BYTES * stored_ids + 2 * texts + _MESSAGE_BYTES * len(self.turns)

    def num_common_messages(self, turns: Sequence[Turn], layout: ChatLayout) -> int:
        """How many messages, in the order of the layouts, this chat and another begin with alike."""
        position = 0
        for text, index, other_text, other_index in zip(
            self.layout.texts, self.layout.order, layout.texts, layout.order, strict=False
        ):
            if text != other_text or not _same_message(self.turns, index, turns, other_index):
                break
            position += 1
        return position


@dataclass(frozen=True, slots=True)
class TurnSizes:
    """The tokens of each turn of a whole conversation, most of which may have left the prompt long ago.

    A turn is known again by its hash: the sizes decide what is left out, never what is in a prompt.
    """

    hashes: array[int]
    tokens: array[int]

    @classmethod
    def of(cls, turns: Sequence[Turn], tokens_of: Callable[[Turn], int], before: TurnSizes | None) -> TurnSizes:
        """Counts the turns that are new after the last one in common with the sizes of before."""
        hashes = array("q", map(hash, turns))
        common = _num_common(hashes, before.hashes) if before is not None else 0
        tokens: array[int] = before.tokens[:common] if before is not None else array("I")
        tokens.extend(tokens_of(turn) for turn in turns[common:])
        return cls(hashes, tokens)


class EncodedChats:
    """Owns the last encoding of each session, the one that was used longest ago leaving first. Not thread-safe."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._chats: OrderedDict[SessionKey, _Remembered] = OrderedDict()
        self.num_bytes = 0

    def __len__(self) -> int:
        return len(self._chats)

    def last_of(self, key: SessionKey) -> EncodedChat | None:
        remembered = self._chats.get(key)
        return None if remembered is None else remembered.chat

    def sizes_of(self, key: SessionKey) -> TurnSizes | None:
        remembered = self._chats.get(key)
        return None if remembered is None else remembered.sizes

    def remember(self, key: SessionKey, chat: EncodedChat, sizes: TurnSizes | None = None) -> None:
        """In the place of the last one. A chat that is larger than all there is room for is not kept."""
        self.forget(key)
        num_bytes = chat.num_bytes + (0 if sizes is None else _SIZE_BYTES * len(sizes.tokens))
        if num_bytes > self._max_bytes:
            return
        self._chats[key] = _Remembered(chat, sizes, num_bytes)
        self.num_bytes += num_bytes
        while self.num_bytes > self._max_bytes:
            self.forget(next(iter(self._chats)))

    def forget(self, key: SessionKey) -> None:
        """The session is gone. Nothing happens for one that is not here."""
        if remembered := self._chats.pop(key, None):
            self.num_bytes -= remembered.num_bytes

    def forget_namespace(self, namespace: Namespace) -> None:
        """Everything of a namespace is gone, its parts included."""
        for key in [key for key in self._chats if namespace.covers(key.namespace)]:
            self.forget(key)


@dataclass(frozen=True, slots=True)
class _Remembered:
    chat: EncodedChat
    sizes: TurnSizes | None
    num_bytes: int


def _num_common(some: Sequence[int], others: Sequence[int]) -> int:
    shorter = min(len(some), len(others))
    return next((at for at in range(shorter) if some[at] != others[at]), shorter)


def _same_message(turns: Sequence[Turn], index: int, other_turns: Sequence[Turn], other_index: int) -> bool:
    turn, other = turns[index], other_turns[other_index]
    return (
        (turn is other or turn == other)
        # The opening of an answer depends on who spoke before it.
        and (turns[index - 1].role if index else None) is (other_turns[other_index - 1].role if other_index else None)
    )

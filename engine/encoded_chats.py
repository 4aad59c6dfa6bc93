"""What the sessions' chats were encoded to, so that the next turn encodes only what is new.

Made by `engine.prompts`, used in the one thread that tokenises. `ChatTokenizer.encode_chat` compares the chat it is given with
the last one, message by message, and goes on after the last they have in common; so an edit or a branch is as right as a turn
at the end, and a chat that was forgotten is only encoded whole. Nothing here is ever given to another session.

    turns        [user]             [assistant]              [user]
    ids          <opening> message  <opening> stored ids     <opening> message   <opening of the answer>
    ends                         ^                      ^                    ^   (what follows may change with the next turn)
"""

from __future__ import annotations

import sys
from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from engine.chat_layouts import ChatLayout
from engine.types import Namespace, Role, SessionKey, Turn

MAX_BYTES: Final = 32 << 20
"""About three million tokens of usual text."""

_MESSAGE_BYTES: Final = 100
"""A message's own object, and its place in the lists; texts and ids come on top."""

_CHAT_BYTES: Final = 1000
_SIZE_BYTES: Final = 12


class Message(NamedTuple):
    """What a turn was encoded from: its text, or the ids of an earlier answer. Then the ids are not kept twice, and `text` is
    None: they are the last `num_stored_ids` before the message's end."""

    role: Role
    text: str | None
    num_stored_ids: int = 0

    @classmethod
    def of(cls, turn: Turn, *, has_ids: bool) -> Message:
        stored = turn.token_ids if has_ids else None
        return cls(turn.role, turn.text) if stored is None else cls(turn.role, None, len(stored))


@dataclass(frozen=True, slots=True)
class EncodedChat:
    """The ids of a chat, and after how many of them each message ends, in the order of the layout. `messages` are in the order
    of the turns."""

    messages: Sequence[Message]
    layout: ChatLayout
    ids: array[int]
    ends: array[int]

    @property
    def num_bytes(self) -> int:
        """What remembering it costs. The layout is not its own."""
        texts = sum(sys.getsizeof(message.text) for message in self.messages if message.text is not None)
        numbers = sys.getsizeof(self.ids) + sys.getsizeof(self.ends)
        return _CHAT_BYTES + texts + numbers + _MESSAGE_BYTES * len(self.messages)

    def num_common_messages(self, turns: Sequence[Turn], layout: ChatLayout, has_ids: Callable[[Turn], bool]) -> int:
        """How many messages, in the order of the layouts, this chat and another begin with alike. `has_ids` says whether a turn
        would be encoded from its ids."""
        position = 0
        for text, index, other_text, other_index in zip(
            self.layout.texts, self.layout.order, layout.texts, layout.order, strict=False
        ):
            # The opening of an answer depends on who spoke before it.
            before = self.messages[index - 1].role if index else None
            other_before = turns[other_index - 1].role if other_index else None
            if text != other_text or before is not other_before:
                break
            if not self._is_message(position, turns[other_index], has_ids):
                break
            position += 1
        return position

    def _is_message(self, position: int, turn: Turn, has_ids: Callable[[Turn], bool]) -> bool:
        role, text, num_stored_ids = self.messages[self.layout.order[position]]
        if role is not turn.role:
            return False
        if text is not None:
            return text == turn.text and not has_ids(turn)
        end = self.ends[position]
        return tuple(self.ids[end - num_stored_ids : end]) == turn.token_ids


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

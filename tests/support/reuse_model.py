"""What each user may find in the cache, worked out from what they said: the other side of the books.

It knows nothing of pages and tiers. Whatever the engine reports as found must be within it; less is always allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.common_length import common_length
from engine.types import Namespace, SessionKey


@dataclass(eq=False)
class Said:
    """Tokens that were computed for somebody: a prompt, and its answer so far. `tokens` grows while the answer does."""

    namespace: Namespace | None
    session: SessionKey | None
    tokens: list[int]
    is_over: bool = False


@dataclass
class ReuseModel:
    """`said` by namespace; `prefixes` are registered now, under the names of their personas."""

    prefixes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    said: list[Said] = field(default_factory=list)

    def public_tokens(self, persona: str | None, prompt: Sequence[int]) -> int:
        """Tokens of the prompt that everybody may find."""
        ids = self.prefixes.get("" if persona is None else persona, ())
        return common_length(ids, tuple(prompt))

    def own_tokens(self, namespace: Namespace | None, prompt: list[int], but: Said) -> int:
        """Tokens of the prompt that this very namespace had computed before. Who has none keeps nothing."""
        if namespace is None:
            return 0
        return max(
            (
                common_length(said.tokens, prompt)
                for said in self.said
                if said is not but and said.namespace == namespace
            ),
            default=0,
        )

    def forget(self, is_gone: Callable[[Said], bool]) -> None:
        self.said = [said for said in self.said if not is_gone(said)]

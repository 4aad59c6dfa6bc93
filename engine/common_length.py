"""How far two lists of tokens begin alike. Used wherever a prompt is compared with something known. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def common_length(left: Sequence[int], right: Sequence[int]) -> int:
    """Tokens that both begin with. Both are of one type."""
    limit = min(len(left), len(right))
    # The usual case is that one goes on where the other ends, and comparing whole slices is much quicker than a loop.
    if left[:limit] == right[:limit]:
        return limit
    return next(index for index in range(limit) if left[index] != right[index])

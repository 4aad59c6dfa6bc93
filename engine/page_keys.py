"""Names for what a page of KV holds: one function, used by every tier.

A key is the sha256 of everything that changes the meaning of KV: a secret of this server, the model's fingerprint (weights,
precision, tokenizer, template), the namespace, all the tokens before, and the page's own. Each part is written with its kind
and its length, so no two different lists of parts give the same bytes (vllm-project/vllm#44701, sgl-project/sglang#24638).

    root ── key(root, user:anna, 16 tokens) ── key(…, user:anna, 16 tokens) ── key(…, user:anna, 5 tokens)

Pure. A page is found by its key, and its tokens are compared all the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from struct import pack
from typing import NewType

from engine.types import Namespace

PageKey = NewType("PageKey", bytes)
"""32 bytes."""


class PageKeys:
    """Makes keys for one model on one server. `secret` never leaves the server: without it a key cannot be guessed."""

    def __init__(self, secret: bytes, fingerprint: str) -> None:
        self.root = PageKey(_digest((b"secret", secret), (b"model", fingerprint.encode())))
        """What the first page of every chain follows."""

    def following(self, parent: PageKey, namespace: Namespace, tokens: Sequence[int]) -> PageKey:
        """The key of the page with these tokens after the page `parent`."""
        return PageKey(
            _digest(
                (b"kind", namespace.kind.value.encode()),
                (b"name", namespace.name.encode("utf-8", "surrogatepass")),
                (b"part", namespace.part.encode("utf-8", "surrogatepass")),
                (b"parent", parent),
                (b"tokens", pack(f"<{len(tokens)}I", *tokens)),
            )
        )


def _digest(*parts: tuple[bytes, bytes]) -> bytes:
    hashed = hashlib.sha256()
    for kind, value in parts:
        hashed.update(pack("<II", len(kind), len(value)))
        hashed.update(kind)
        hashed.update(value)
    return hashed.digest()

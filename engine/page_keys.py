"""Names for what a page of KV holds: one function, used by every tier.

A key is the sha256 of everything that changes the meaning of KV: a secret of this server, the model's fingerprint (weights,
precision, tokenizer, template), the namespace, all the tokens before, and the page's own. Each part is written with its kind
and its length, so no two different lists of parts give the same bytes (vllm-project/vllm#44701, sgl-project/sglang#24638).

    root ── key(root, user:anna, 16 tokens) ── key(…, user:anna, 16 tokens) ── key(…, user:anna, 5 tokens)

Pure. A page is found by its key, and its tokens are compared all the same.
"""

from __future__ import annotations

import hashlib
from struct import Struct
from typing import Final, NewType

from engine.packed_tokens import PackedTokens
from engine.types import Namespace

KEY_BYTES: Final = 32

PageKey = NewType("PageKey", bytes)
"""KEY_BYTES of them."""


class PageKeys:
    """Makes keys for one model on one server. `secret` never leaves the server: without it a key cannot be guessed."""

    def __init__(self, secret: bytes, fingerprint: str) -> None:
        self.root = PageKey(hashlib.sha256(_parts((b"secret", secret), (b"model", fingerprint.encode()))).digest())
        """What the first page of every chain follows."""
        self._begun = Namespace.public(), hashlib.sha256()
        """The namespace of the last key, and the hash of its parts: a chain has many keys of the same."""
        self._begin(Namespace.public())

    def following(self, parent: PageKey, namespace: Namespace, packed: PackedTokens) -> PageKey:
        """The key of the page with these tokens after the page `parent`."""
        begun = self._begun[0]
        if namespace is not begun and namespace != begun:
            self._begin(namespace)
        hashed = self._begun[1].copy()
        hashed.update(_PARENT + parent + _part(b"tokens", packed))
        return PageKey(hashed.digest())

    def _begin(self, namespace: Namespace) -> None:
        parts = (
            (b"kind", namespace.kind.value.encode()),
            (b"name", namespace.name.encode("utf-8", "surrogatepass")),
            (b"part", namespace.part.encode("utf-8", "surrogatepass")),
        )
        self._begun = namespace, hashlib.sha256(_parts(*parts))


def _parts(*parts: tuple[bytes, bytes]) -> bytes:
    return b"".join([_part(kind, value) for kind, value in parts])


def _part(kind: bytes, value: bytes) -> bytes:
    return _SIZES.pack(len(kind), len(value)) + kind + value


_SIZES: Final = Struct("<II")
_PARENT: Final = _part(b"parent", bytes(KEY_BYTES))[:-KEY_BYTES]
"""What stands before a parent's key, which is always of the same length."""

"""Under which salt the cluster keeps what it computed for a namespace: nobody finds it from another, and nobody can guess it.

A salt is derived from a secret and never says whose it is. What was computed cannot be deleted over OpenAI's API; to forget
it, the salt is changed, and the old KV leaves the cluster's memory when its place is needed. How often that happened is kept in a
file, so that a restart does not bring forgotten KV back. Reading and writing it takes a moment: called in a thread.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from pathlib import Path
from typing import Final

from engine.tiers.durable_folder import make_folder, sync_folder
from engine.tiers.secret import read_or_make_secret
from engine.types import Namespace, NamespaceKind, SessionKey

GENERATIONS_FILE: Final = "generations.json"


class Salts:
    """Owns the secret and the generations. A namespace's salt depends on its own generation and on that of the whole of it."""

    def __init__(self, secret: bytes, folder: Path | None) -> None:
        self._secret = secret
        self._folder = folder
        self._generations: dict[str, int] = {}

    @classmethod
    def opened(cls, secret: str, folder: Path | None) -> Salts:
        """With what is kept in the folder. Raises SecretUnusable; a file that cannot be read is as good as none."""
        salts = cls(secret.encode() if secret else read_or_make_secret(folder), folder)
        salts._generations = _read_generations(folder)
        return salts

    def salt(self, namespace: Namespace | None) -> str:
        """The salt now. Without a namespace nothing may be found again, so each is another."""
        if namespace is None:
            return secrets.token_urlsafe(32)
        generations = [self._generations.get(name, 0) for name in self._names(namespace)]
        return self._derived("salt", namespace.kind, namespace.name, namespace.part, *generations)

    def session(self, key: SessionKey) -> str:
        """What a router may know a session by."""
        namespace = key.namespace
        return self._derived("session", namespace.kind, namespace.name, namespace.part, key.name)

    def forget(self, namespace: Namespace) -> None:
        """From now on a namespace has another salt, and its parts with it. Returns when that is on the disk."""
        name = self._names(namespace)[-1]
        self._generations[name] = self._generations.get(name, 0) + 1
        if self._folder is not None:
            _write_generations(self._folder, self._generations)

    def _names(self, namespace: Namespace) -> list[str]:
        """What generations are kept under: the whole namespace, and the part. No id of anybody is in the file."""
        whole = self._derived("generation", namespace.kind, namespace.name)
        if not namespace.part:
            return [whole]
        return [whole, self._derived("generation", namespace.kind, namespace.name, namespace.part)]

    def _derived(self, purpose: str, kind: NamespaceKind, *parts: str | int) -> str:
        """As JSON, so that no two lists of texts are the same bytes."""
        said = json.dumps([purpose, kind.value, *parts]).encode()
        return base64.urlsafe_b64encode(hmac.digest(self._secret, said, hashlib.sha256)).rstrip(b"=").decode()


def _read_generations(folder: Path | None) -> dict[str, int]:
    if folder is None:
        return {}
    try:
        found = json.loads((folder / GENERATIONS_FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: count for name, count in found.items() if isinstance(count, int)}


def _write_generations(folder: Path, generations: dict[str, int]) -> None:
    make_folder(folder)
    beside = folder / f"{GENERATIONS_FILE}.tmp"
    beside.write_text(json.dumps(generations))
    beside.replace(folder / GENERATIONS_FILE)
    sync_folder(folder)

"""Password hashes: Argon2id, computed in threads of its own, so that twenty sign-ins do not hold up the event loop.

A wrong password, an account without one and an unknown name all cost one verification, so that time does not tell them apart.
"""

from __future__ import annotations

import asyncio
import secrets
from concurrent.futures import ThreadPoolExecutor

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from app.errors import InvalidInput

THREADS = 2
"""Verifications at the same time. Each takes 64 MiB, and more threads than cores only make all of them slower."""


PASSWORD_MIN_CHARS = 8
"""Of passwords that people choose over the network."""

PASSWORD_MAX_BYTES = 1024


def require_password(password: str) -> str:
    """The same password. Raises InvalidInput where it is too short to be one, or too long."""
    if len(password) < PASSWORD_MIN_CHARS or len(password.encode()) > PASSWORD_MAX_BYTES:
        raise InvalidInput(
            f"a password has at least {PASSWORD_MIN_CHARS} characters and at most {PASSWORD_MAX_BYTES} bytes"
        )
    return password


class Passwords:
    """Hashes and verifies. Owns its threads: `close()` when done."""

    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="kvasir-passwords")
        self._nobody: str | None = None

    async def hash(self, password: str) -> str:
        """What is stored of a password."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._hasher.hash, password)

    async def verify(self, password_hash: str | None, password: str) -> bool:
        """Whether this is the password. `None` stands for an account that has none, or does not exist: always false."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._verify, password_hash, password)

    async def prepare(self) -> None:
        """Make the hash that stands in where there is none, so that not even the first such sign-in takes longer."""
        if self._nobody is None:
            self._nobody = await self.hash(secrets.token_urlsafe(16))

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _verify(self, password_hash: str | None, password: str) -> bool:
        stored = password_hash or self._nobody
        if stored is None:
            stored = self._nobody = self._hasher.hash(secrets.token_urlsafe(16))
        try:
            self._hasher.verify(stored, password)
        except (VerificationError, InvalidHashError):
            return False
        return password_hash is not None

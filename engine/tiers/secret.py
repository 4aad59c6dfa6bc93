"""The secret of this server that every key of KV begins with: without it nobody can guess a key.

Used by the engine thread at its start. It is kept beside the files whose keys need it, so that they are found again after a
restart; without a folder it lives as long as the process. Pure.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

from engine.errors import EngineError
from engine.tiers.durable_folder import make_folder, sync_folder

SECRET_BYTES: Final = 32
SECRET_FILE: Final = "secret"


class SecretUnusable(EngineError):
    """The secret cannot be read or made."""


def read_or_make_secret(folder: Path | None) -> bytes:
    """The secret in `folder`, made where there is none. One that is not whole is replaced: its files are misses then.

    Raises SecretUnusable where the folder cannot be used. One that cannot be read is not replaced: it may be there tomorrow.
    """
    if folder is None:
        return secrets.token_bytes(SECRET_BYTES)
    try:
        return _secret_in(folder)
    except OSError as problem:
        raise SecretUnusable(f"the folder {folder} for KV cannot be used: {problem}") from problem


def _secret_in(folder: Path) -> bytes:
    path = folder / SECRET_FILE
    if path.is_file() and len(secret := path.read_bytes()) == SECRET_BYTES:
        path.chmod(0o600)
        return secret
    make_folder(folder)
    secret = secrets.token_bytes(SECRET_BYTES)
    temporary = folder / f"{SECRET_FILE}.tmp"
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, secret)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    temporary.replace(path)
    sync_folder(folder)
    return secret

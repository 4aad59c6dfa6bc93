"""Folders and files as the disk's tier needs them: for their owner alone, and the same after a crash.

Used by `engine.tiers.disk_store` and `engine.tiers.secret`. It follows no symbolic link and knows nothing of KV. Pure.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path


def make_folder(path: Path) -> None:
    """Have this folder, for its owner alone, with every folder above it."""
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Return when the folder's entries are on the disk. A folder that is gone has none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def folders_in(path: Path) -> list[Path]:
    """The folders in a folder; none where there is no such folder."""
    if not path.is_dir():
        return []
    with os.scandir(path) as entries:
        return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]


def files_in(path: Path) -> list[Path]:
    """The files in a folder; none where there is no such folder."""
    if not path.is_dir():
        return []
    with os.scandir(path) as entries:
        return [Path(entry.path) for entry in entries if entry.is_file(follow_symlinks=False)]


def empty_folder(path: Path) -> None:
    """Remove every file in a folder, and the folder; what the folder's removal changes above it is not synced here."""
    files = files_in(path)
    for file in files:
        file.unlink(missing_ok=True)
    if files:
        sync_folder(path)
    remove_if_empty(path)


def remove_if_empty(path: Path) -> None:
    """Remove a folder with nothing in it; leave any other."""
    try:
        path.rmdir()
    except OSError as problem:
        if problem.errno not in (errno.ENOTEMPTY, errno.ENOENT, errno.EEXIST):
            raise


def write_all(descriptor: int, content: memoryview) -> None:
    """Write all of it: one call may take less, and never more than 2 GiB."""
    while len(content):
        content = content[os.write(descriptor, content) :]


def read_exactly(descriptor: int, target: memoryview, offset: int) -> None:
    """Fill `target` with what the file holds from `offset` on. Raises EOFError where it ends before."""
    while len(target):
        count = os.preadv(descriptor, [target], offset)
        if not count:
            raise EOFError(f"the file ends {len(target)} bytes early")
        target = target[count:]
        offset += count

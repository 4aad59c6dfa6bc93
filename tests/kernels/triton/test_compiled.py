"""What runs in the interpreter is accepted by the compiler too, down to machine code for two generations of devices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_every_kernel_compiles_and_fits_into_shared_memory(tmp_path: Path) -> None:
    environment = os.environ | {"TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET")
    result = subprocess.run(
        [sys.executable, "-m", "tests.kernels.triton.compiled"], capture_output=True, text=True, env=environment
    )
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    names = {line.split()[0] for line in lines}
    assert names == {
        "_add_norm",
        "_attend_block",
        "_attend_split",
        "_gate",
        "_norm",
        "_reduce_splits",
        "_rotate",
        "_sample",
    }
    # The least that a device of compute capability 8.0 or newer lets a program have is 99 KiB.
    assert max(int(line.split(": ")[1].split()[0]) for line in lines) <= 99 * 1024

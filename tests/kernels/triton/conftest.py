"""Triton's kernels run here in its interpreter, on the CPU: no GPU is needed, and none is used."""

from __future__ import annotations

import os
import sys

# Read by triton when it is imported: its own functions become interpreted ones then, or never.
if "triton" in sys.modules and os.environ.get("TRITON_INTERPRET") != "1":
    raise RuntimeError("triton was imported before these tests could ask for its interpreter")
os.environ["TRITON_INTERPRET"] = "1"

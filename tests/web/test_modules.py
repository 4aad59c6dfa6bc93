"""Runs the tests of the browser's pure modules in Node, and the type checker over all of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPILER = ROOT / "node_modules/.bin/tsc"


@pytest.mark.parametrize("path", sorted(Path(__file__).parent.glob("*.test.js")), ids=lambda path: path.name)
def test_pure_modules(path: Path) -> None:
    run = subprocess.run(
        ["node", "--test", str(path)], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_types_are_clean() -> None:
    if not COMPILER.exists():
        subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], cwd=ROOT, check=True, timeout=240)
    run = subprocess.run(
        [str(COMPILER), "--project", "tests/web/tsconfig.json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stdout

"""`/widget.js` as a page gets it: one script that runs, and leaves no name behind but its own."""

from __future__ import annotations

import gzip
import re
import subprocess
from collections import Counter
from pathlib import Path

from app.widgets.script import joined

WEB = Path(__file__).parents[2] / "web"
TOP_NAME = re.compile(r"^(?:async )?(?:function|class|const|let) (\w+)", re.M)
BYTES_MAX = 20_000
"""Compressed. It is on every page of somebody's site."""


def test_no_two_modules_have_the_same_name_at_the_top() -> None:
    names = Counter(TOP_NAME.findall(joined(WEB)))
    assert len(names) > 50
    assert [name for name, count in names.items() if count > 1] == []


def test_the_script_is_one_a_browser_can_read(tmp_path: Path) -> None:
    (tmp_path / "widget.js").write_text(joined(WEB))
    run = subprocess.run(
        ["node", "--check", str(tmp_path / "widget.js")], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr


def test_the_script_is_small() -> None:
    assert len(gzip.compress(joined(WEB).encode())) < BYTES_MAX


def test_the_script_puts_one_name_on_the_window_and_asks_for_no_policy() -> None:
    script = joined(WEB)
    assert re.findall(r"Object\.assign\(window, \{ (\w+):", script) == ["Kvasir"]
    assert not re.search(r"window\.\w+ = |globalThis|document\.cookie|\.setAttribute\(\"style\"|createPolicy", script)

"""What a page lists to be loaded ahead is what its modules import: nothing waits for another, nothing is loaded in vain."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

WEB = Path(__file__).parents[2] / "web"
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
IMPORT = re.compile(r'\b(?:from|import) "(\.[^"]+)"')
PRELOAD = re.compile(r'<link rel="modulepreload" href="/([^"]+)"')


def imported(module: Path) -> set[Path]:
    """The module and everything it imports."""
    found, waiting = set[Path](), [module]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += [(path.parent / name).resolve() for name in IMPORT.findall(COMMENT.sub("", path.read_text()))]
    return found


@pytest.mark.parametrize(
    ("page", "beginning"), [("index", "js/app.js"), ("admin", "js/admin/app.js"), ("inbox", "js/inbox/app.js")]
)
def test_a_page_loads_its_modules_ahead_and_no_others(page: str, beginning: str) -> None:
    listed = PRELOAD.findall((WEB / f"{page}.html").read_text())
    assert listed == sorted(str(path.relative_to(WEB)) for path in imported(WEB / beginning))

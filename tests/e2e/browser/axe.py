"""axe-core over a page as it is at a moment; `conftest.auditor` makes one."""

from __future__ import annotations

import subprocess
from pathlib import Path

from playwright.async_api import Page

ROOT = Path(__file__).parents[3]
AXE = ROOT / "node_modules/axe-core/axe.min.js"
PHONE = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True, "color_scheme": "dark"}
# Which headings an answer has, and in which order, is the model's to say.
RULES = {"heading-order": {"enabled": False}}


def axe_script() -> str:
    """The text of axe-core, which is installed where it is not there yet."""
    if not AXE.exists():
        subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], cwd=ROOT, check=True, timeout=240)
    return AXE.read_text(encoding="utf-8")


class Auditor:
    """Reads a page as a screen reader would, and notes what it stumbles over."""

    def __init__(self, script: str) -> None:
        self._script = script
        self.found: list[str] = []

    async def read(self, page: Page, state: str) -> None:
        # Past the page's policy, which allows no script but its own.
        session = await page.context.new_cdp_session(page)
        await session.send("Runtime.evaluate", {"expression": self._script})
        result = await page.evaluate("rules => axe.run(document, { resultTypes: ['violations'], rules })", RULES)
        for violation in result["violations"]:
            for node in violation["nodes"]:
                self.found.append(f"{state}: {violation['id']} at {node['target']}: {node['failureSummary']}")

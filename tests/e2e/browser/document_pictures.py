"""Puts what the browser tests have photographed into docs/images, as small pictures. `make pictures` runs the tests first.

    python -m tests.e2e.browser.document_pictures

Each is the picture of a test in tests/artifacts, made into WebP by Chromium, which is there anyway.
"""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

from playwright.async_api import async_playwright

from tests.e2e.browser.conftest import CHROMIUM, FLAGS
from tests.e2e.browser.pages import ARTIFACTS

IMAGES = Path(__file__).parents[3] / "docs/images"
WIDTH_PX = 1120
QUALITY = 0.82
PICTURES = {
    "chat": "answer",
    "dashboard": "dashboard-memory",
    "inbox": "inbox-waiting",
    "widget": "widget-person",
    "schema": "schema-socket",
}
"""What a picture of the documents is called, and what the tests call it."""

ENCODE = """async ([png, width, quality]) => {
  const image = new Image();
  image.src = "data:image/png;base64," + png;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = Math.min(width, image.width);
  canvas.height = Math.round(image.height * canvas.width / image.width);
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/webp", quality).split(",")[1];
}"""


async def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = await browser.new_page()
        for name, taken in PICTURES.items():
            png = base64.b64encode((ARTIFACTS / f"{taken}.png").read_bytes()).decode()
            webp = base64.b64decode(await page.evaluate(ENCODE, [png, WIDTH_PX, QUALITY]))
            (IMAGES / f"{name}.webp").write_bytes(webp)
            print(f"docs/images/{name}.webp {len(webp) / 1000:.0f} kB")
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main())

"""Whatever a model or a person writes, it stays text: nothing of it runs, nothing loads, nothing becomes another element."""

from __future__ import annotations

import pytest
from playwright.async_api import Request, expect

from tests.e2e.browser.conftest import Visitors
from tests.e2e.browser.pages import ChatPage

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

CORPUS = """\
<script>window.hacked = 1</script>

<img src=x onerror="window.hacked = 1"> <svg onload="window.hacked = 1"><script>window.hacked = 1</script></svg>

[click](javascript:window.hacked=1) [click](JaVaScRiPt:window.hacked=1) [click](java&#115;cript:window.hacked=1)

[click](data:text/html;base64,PHNjcmlwdD53aW5kb3cuaGFja2VkPTE8L3NjcmlwdD4=) [click](vbscript:window.hacked=1)

[click](javascript&colon;window.hacked=1) [click]( javascript:window.hacked=1) [click](<java
script:window.hacked=1>) [click](\\x01javascript:window.hacked=1) [click](//evil.example/) [click](/api/v1/auth/logout)

<javascript:window.hacked=1> <data:text/html,x> [ref] [a](https://bank.example@evil.example/)

[ref]: javascript:window.hacked=1 "onclick='window.hacked = 1'"

![picture](https://evil.example/pixel.png "onload='window.hacked = 1'") ![](javascript:window.hacked=1)

[title](https://example.org/ "\\" onmouseover=\\"window.hacked = 1")

[![nested](javascript:window.hacked=1)](javascript:window.hacked=1)

**<b onclick="window.hacked = 1">bold</b>** `<script>window.hacked = 1</script>` ~~<iframe src="javascript:window.hacked=1">~~

# <style>body { display: none }</style> heading

- <details open ontoggle="window.hacked = 1">item</details>
- [x] <input autofocus onfocus="window.hacked = 1">

> <form action="https://evil.example/"><button formaction="javascript:window.hacked=1">quote</button></form>

| <table background="javascript:window.hacked=1"> | <math><mtext></table><mglyph><style><img src=x onerror=window.hacked=1> |
| --- | --- |
| <a href="javascript:window.hacked=1">cell</a> | [cell](javascript:window.hacked=1) |

```html"onmouseover="window.hacked=1
<script>window.hacked = 1</script>
```

<!-- <script>window.hacked = 1</script> -->
&lt;script&gt;window.hacked = 1&lt;/script&gt; <object data="javascript:window.hacked=1">

<base href="https://evil.example/"><link rel=stylesheet href="https://evil.example/x.css">
<meta http-equiv=refresh content="0;url=https://evil.example/">
{{constructor.constructor('window.hacked=1')()}} ${window.hacked=1} <%= 1 %> \u202e\u2066 <template><p>x</template>"""

ALLOWED_ELEMENTS = {
    "P", "STRONG", "EM", "DEL", "CODE", "BR", "A", "H3", "H4", "H5", "H6", "UL", "OL", "LI", "BLOCKQUOTE", "HR", "PRE", "FIGURE",
    "FIGCAPTION", "SPAN", "BUTTON", "SVG", "PATH", "DIV", "TABLE", "THEAD", "TBODY", "TR", "TH", "TD", "INPUT",
}  # fmt: skip
ALLOWED_ATTRIBUTES = {
    "aria-hidden", "aria-label", "checked", "class", "d", "dir", "disabled", "focusable", "href", "rel", "role", "scope", "start",
    "tabindex", "target", "title", "type", "viewBox",
}  # fmt: skip


async def assert_harmless(chat: ChatPage) -> None:
    """Nothing ran, and only elements and attributes that markdown may have are there."""
    drawn = chat.page.locator(".prose *, .bubble *")
    names = await drawn.evaluate_all("nodes => [...new Set(nodes.map(node => node.tagName.toUpperCase()))]")
    assert set(names) <= ALLOWED_ELEMENTS
    attributes = await drawn.evaluate_all("nodes => [...new Set(nodes.flatMap(node => node.getAttributeNames()))]")
    assert set(attributes) <= ALLOWED_ATTRIBUTES
    addresses = await chat.page.locator(".prose a").evaluate_all("nodes => nodes.map(node => node.href)")
    assert all(address.startswith(("https://", "http://", "mailto:")) for address in addresses), addresses
    assert not any("bank.example" in address for address in addresses)
    assert await chat.page.evaluate("window.hacked") is None


async def test_nothing_in_an_answer_runs_or_loads(visitors: Visitors) -> None:
    chat = await visitors.chat()
    requests: list[str] = []

    def remember(request: Request) -> None:
        requests.append(request.url)

    chat.page.on("request", remember)
    text = await chat.ask_and_wait("/say\n" + CORPUS)
    assert text == CORPUS
    await assert_harmless(chat)
    for element in await chat.answers.last.locator("p, li, td, th, h3, code, a").all():
        await element.dispatch_event("mouseover")
        await element.dispatch_event("focus")
    await chat.page.reload()
    await expect(chat.answers).to_have_count(1)
    await assert_harmless(chat)
    assert [url for url in requests if not url.startswith(visitors.url)] == []
    await chat.picture("injection")


@pytest.mark.parametrize("cut", [1, 2, 3])
async def test_half_of_it_is_harmless_too(visitors: Visitors, cut: int) -> None:
    """While an answer grows, every prefix of it is drawn once."""
    chat = await visitors.chat()
    await chat.ask("/say\n" + CORPUS[: len(CORPUS) * cut // 4])
    while await chat.answers.count() == 0 or await chat.stop_button.count() > 0:
        await assert_harmless(chat)
    await assert_harmless(chat)


async def test_a_title_and_a_name_are_text_too(visitors: Visitors) -> None:
    chat = await visitors.chat()
    await chat.ask_and_wait("<img src=x onerror=window.hacked=1>")
    title = "<img src=x onerror=window.hacked=1>"
    await expect(chat.page.get_by_role("link", name=title)).to_be_visible()
    await chat.choose("Delete", chat.rows.filter(has=chat.page.get_by_role("link", name=title)))
    await expect(chat.page.get_by_role("dialog")).to_contain_text(title)
    await chat.page.keyboard.press("Escape")
    assert await chat.page.evaluate("window.hacked") is None


async def test_the_policy_of_the_page_stops_what_would_slip_through(visitors: Visitors) -> None:
    """The second wall: even code that is already in the page cannot run strings, load from elsewhere or make inline scripts."""
    chat = await visitors.chat()
    outcome = await chat.page.evaluate(
        """async () => {
            const refused = [];
            const attempt = (name, action) => { try { action(); } catch { refused.push(name); } };
            attempt("html", () => { document.createElement("p").innerHTML = "<b>x</b>"; });
            attempt("script", () => { document.createElement("script").textContent = "window.hacked = 1"; });
            attempt("timer", () => setTimeout("window.hacked = 1", 0));
            const image = new Image();
            image.src = "https://evil.example/pixel.png";
            const style = document.createElement("style");
            style.textContent = "body { display: none }";
            document.head.append(style);
            await fetch("https://evil.example/").catch(() => refused.push("fetch"));
            await new Promise((resolve) => setTimeout(resolve, 100));
            return { hacked: window.hacked ?? null, refused, display: getComputedStyle(document.body).display };
        }"""
    )
    assert outcome == {"hacked": None, "refused": ["html", "script", "timer", "fetch"], "display": "block"}
    reported = {complaint.split()[2] for complaint in visitors.complaints if complaint.startswith("error: CSP")}
    assert {"require-trusted-types-for", "img-src", "style-src-elem", "connect-src"} <= reported
    visitors.complaints.clear()

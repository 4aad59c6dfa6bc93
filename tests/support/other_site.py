"""A site of somebody else, on another port: one page with the widget's script tag, a strict policy, and style sheets that would
break whatever they reach."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

HOSTILE = """
* { letter-spacing: 4px; }
div, section, button { display: none !important; font-size: 40px !important; color: red !important; transform: rotate(9deg); }
body { font: 16px/1.6 Georgia, serif; margin: 0 auto; max-width: 42rem; padding: 2rem; background: #fbf7ef; color: #222222; }
@media (prefers-color-scheme: dark) { body { background: #1d1a16; color: #eeeeee; } }
"""
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>The shop</title><meta name="viewport" content="width=device-width">
<link rel="stylesheet" href="/shop.css"></head>
<body><main><h1>The shop</h1><p>Tea, from everywhere. Parcels leave the house on the day of the order.</p></main>
<script src="{kvasir}/widget.js" {attributes} async></script></body></html>
"""


@dataclass
class OtherSite:
    """Where the pages are. The same server has two names, which are two origins for a browser."""

    server: ThreadingHTTPServer

    @cached_property
    def port(self) -> int:
        return int(self.server.server_address[1])

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def other_origin(self) -> str:
        return f"http://localhost:{self.port}"

    def policy(self, kvasir: str) -> str:
        """What `docs/widget.md` says is needed, and nothing else."""
        return (
            f"default-src 'none'; style-src 'self'; script-src {kvasir}; "
            f"connect-src {kvasir} {kvasir.replace('http', 'ws', 1)}; "
            "require-trusted-types-for 'script'; trusted-types 'none'"
        )


@contextmanager
def other_site(kvasir: str) -> Iterator[OtherSite]:
    """Serves `/page?widget=…&visitor-token=…`: what the query says are the data attributes of the script tag."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            address = urlsplit(self.path)
            body, kind = HOSTILE, "text/css"
            if address.path != "/shop.css":
                values = parse_qsl(address.query, keep_blank_values=True)
                attributes = " ".join(f'data-{name}="{value}"' for name, value in values)
                body, kind = PAGE.format(kvasir=kvasir, attributes=attributes), "text/html; charset=utf-8"
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Security-Policy", site.policy(kvasir))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    site = OtherSite(server)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

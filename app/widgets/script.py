"""`/widget.js`: the one file a site loads, made of the modules in `web/widget/` and what they share with the chat.

A page of another origin cannot load modules of ours one after the other without CORS on each, and its policy would have to name
them all; so they are joined here, once, when the application is made: each in the order in which it is needed, all in one
function, so that nothing of it is a name of the page. What is joined is exactly what the tests read as modules.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from pathlib import Path

from litestar import HttpMethod, Response, Router, route

from app.errors import NotFound
from app.json_request import JsonRequest

ENTRY = "widget/main.js"

IMPORT = re.compile(r'^import \{(?P<names>[^}]*)\} from "(?P<path>\.{1,2}/[^"]+)";\n', re.M)
EXPORT = re.compile(r"^export (?=(?:async )?function |class |const )", re.M)
COMMENT = re.compile(r"^[ \t]*/\*\*.*?\*/\n", re.M | re.S)
LINE_COMMENT = re.compile(r"^[ \t]*//.*\n", re.M)

HEADERS = {
    # Any page may load it, also one that isolates itself; what it may then do is decided by the widget's origins.
    "Cross-Origin-Resource-Policy": "cross-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
    "Vary": "Accept-Encoding",
}


class ScriptError(ValueError):
    """A module that cannot be joined: the packaging of our own files is wrong."""


def joined(folder: Path, entry: str = ENTRY) -> str:
    """One script of a module and all that it imports. Raises ScriptError."""
    order: list[str] = []
    _visit(folder, (folder / entry).resolve(), order, [])
    return "(() => {\n" + '"use strict";\n' + "".join(order) + "})();\n"


def _visit(folder: Path, path: Path, order: list[str], seen: list[Path]) -> None:
    if path in seen:
        return
    seen.append(path)
    text = path.read_text(encoding="utf-8")
    for found in IMPORT.finditer(text):
        if " as " in found["names"]:
            raise ScriptError(f"{path.name}: a name keeps its name in the joined script")
        _visit(folder, (path.parent / found["path"]).resolve(), order, seen)
    body = EXPORT.sub("", LINE_COMMENT.sub("", COMMENT.sub("", IMPORT.sub("", text))))
    if re.search(r"^(?:import|export)\b", body, re.M):
        raise ScriptError(f"{path.name}: only named imports of one's own modules, and named exports, can be joined")
    order.append(body)


def router(folder: Path) -> Router:
    """The route, for one application."""
    content = joined(folder).encode() if (folder / ENTRY).is_file() else None
    # Made once: it is a third of the size, and on every page of somebody's site.
    packed = gzip.compress(content or b"", mtime=0)
    digest = hashlib.sha256(content or b"").hexdigest()[:32]

    @route("/widget.js", http_method=[HttpMethod.GET, HttpMethod.HEAD])
    async def widget_script(request: JsonRequest) -> Response[bytes]:
        if content is None:
            raise NotFound("this installation came without its pages")
        takes_packed = "gzip" in request.headers.get("accept-encoding", "")
        etag = f'"{digest}-gzip"' if takes_packed else f'"{digest}"'
        headers = {**HEADERS, "ETag": etag}
        if etag in request.headers.get("if-none-match", ""):
            return Response(b"", status_code=304, headers=headers, media_type="text/javascript")
        if takes_packed:
            headers["Content-Encoding"] = "gzip"
        return Response(packed if takes_packed else content, headers=headers, media_type="text/javascript")

    return Router("/", route_handlers=[widget_script], include_in_schema=False)

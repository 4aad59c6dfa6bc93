"""Serves the browser chat: the files of `web/`, as they are, and the link that signs somebody in.

All files are read once, when the app is made: a request can only ever name one of them, never a path. Pages may load nothing
from elsewhere and run no script that is not a file of ours.
"""

from __future__ import annotations

import hashlib
import mimetypes
from dataclasses import dataclass
from pathlib import Path

from litestar import HttpMethod, Response, Router, route
from litestar.di import NamedDependency
from litestar.response import Redirect

from app.accounts.authentication import session_cookie
from app.accounts.service import AccountService
from app.errors import NotFound, Unauthenticated
from app.json_request import JsonRequest
from app.settings import Settings

WEB_FOLDER = Path(__file__).resolve().parent.parent / "web"
PAGES = {"/": "/index.html", "/admin": "/admin.html", "/inbox": "/inbox.html"}
"""Which file a page is, by its address."""

SERVED_SUFFIXES = frozenset({".html", ".js", ".css", ".svg", ".png", ".ico", ".webmanifest", ".woff2", ".txt", ".json"})
"""Everything else in the folder (READMEs, types, licences) is for people who read the source."""

CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "font-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "form-action 'self'",
        # The browser itself refuses to make HTML of a string, whatever library or slip of ours would.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
)
PAGE_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # A browser asks every time and is told in one line that nothing has changed, so a new version is never half loaded.
    "Cache-Control": "no-cache",
}

LINK_FAILED = "/?signin=expired"
"""Where a link that does not work (any more) leads: the page then says so above the sign-in form."""


@dataclass(frozen=True, slots=True)
class WebFile:
    """One file in memory."""

    content: bytes
    media_type: str
    etag: str


def load_files(folder: Path) -> dict[str, WebFile]:
    """Every file that is served, by its path in the URL."""
    files = {}
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and path.suffix in SERVED_SUFFIXES and not hidden:
            content = path.read_bytes()
            digest = hashlib.sha256(content).hexdigest()[:32]
            files["/" + path.relative_to(folder).as_posix()] = WebFile(content, _media_type(path), f'"{digest}"')
    return files


def router(folder: Path = WEB_FOLDER) -> Router:
    """The routes of the pages, for one application: one per file, and one per page."""
    files = load_files(folder)

    @route(sorted({*PAGES, *files}), http_method=[HttpMethod.GET, HttpMethod.HEAD])
    async def web_file(
        request: JsonRequest, accounts: NamedDependency[AccountService], settings: NamedDependency[Settings]
    ) -> Response[bytes] | Redirect:
        path = request.scope["path"]
        if path == "/" and (ticket := request.query_params.get("ticket")) and request.method == HttpMethod.GET:
            label = request.headers.get("user-agent", "")
            return await _sign_in(ticket, label, accounts, settings)
        file = files.get(PAGES.get(path, path))
        if file is None:
            raise NotFound("this installation came without its pages")
        return _answer(file, request)

    return Router("/", route_handlers=[web_file], include_in_schema=False)


async def _sign_in(ticket: str, label: str, accounts: AccountService, settings: Settings) -> Redirect:
    """Take the ticket and lead to the page without it, so that it stays in no history. HEAD, which previews send, takes none."""
    headers = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
    try:
        sign_in = await accounts.redeem_sign_in_ticket(ticket, label)
    except Unauthenticated:
        return Redirect(LINK_FAILED, status_code=303, headers=headers)
    return Redirect("/", status_code=303, headers=headers, cookies=[session_cookie(sign_in, settings)])


def _answer(file: WebFile, request: JsonRequest) -> Response[bytes]:
    headers = {**PAGE_HEADERS, "ETag": file.etag}
    known = {text.strip().removeprefix("W/") for text in request.headers.get("if-none-match", "").split(",")}
    if known & {file.etag, "*"}:
        return Response(b"", status_code=304, headers=headers, media_type=file.media_type)
    return Response(file.content, headers=headers, media_type=file.media_type)


def _media_type(path: Path) -> str:
    # Not left to the machine's own table, where .js has been seen as text/plain.
    known = {".js": "text/javascript", ".webmanifest": "application/manifest+json", ".woff2": "font/woff2"}
    return known.get(path.suffix) or mimetypes.guess_type(path.name, strict=True)[0] or "application/octet-stream"

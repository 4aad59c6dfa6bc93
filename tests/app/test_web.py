"""The pages: what is served and how, and the link that signs somebody in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from app.identifiers import UserId
from app.web import CONTENT_SECURITY_POLICY, WEB_FOLDER, load_files
from tests.support.client import RunningApp, problem, running_app
from tests.support.clock import SteppedClock


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "web"
    (made / "js").mkdir(parents=True)
    (made / "index.html").write_text("<!doctype html><title>Kvasir</title>")
    (made / "js" / "app.js").write_text("export {};")
    (made / "icon.svg").write_text("<svg/>")
    (made / "README.md").write_text("not for browsers")
    (made / "js" / "wire.d.ts").write_text("not for browsers")
    (made / ".hidden.js").write_text("not for anybody")
    (tmp_path / "secret.txt").write_text("outside")
    return made


@pytest.fixture
async def pages(tmp_path: Path, folder: Path, sqlite_url: str, clock: SteppedClock) -> AsyncIterator[RunningApp]:
    async with running_app(tmp_path, sqlite_url, clock=clock, web_folder=folder) as app:
        yield app


@pytest.fixture
async def browser(pages: RunningApp) -> AsyncIterator[httpx.AsyncClient]:
    async with pages.anonymous() as client:
        yield client


async def sign_in_ticket(pages: RunningApp) -> str:
    admin = await pages.context.accounts.ensure_admin()
    return await pages.context.accounts.make_sign_in_ticket(UserId(admin.id))


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/index.html", "text/html; charset=utf-8"),
        ("/js/app.js", "text/javascript; charset=utf-8"),
        ("/icon.svg", "image/svg+xml"),
    ],
)
async def test_a_file_is_served_with_what_keeps_a_browser_safe(
    browser: httpx.AsyncClient, path: str, media_type: str
) -> None:
    answer = await browser.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == media_type
    assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-cache"


def test_the_policy_allows_no_inline_script_and_no_other_host() -> None:
    assert "default-src 'none'" in CONTENT_SECURITY_POLICY
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert "http" not in CONTENT_SECURITY_POLICY
    assert "*" not in CONTENT_SECURITY_POLICY


async def test_a_browser_that_has_a_file_is_told_so(browser: httpx.AsyncClient) -> None:
    etag = (await browser.get("/js/app.js")).headers["etag"]
    for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        answer = await browser.get("/js/app.js", headers={"If-None-Match": known})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", etag)
    assert (await browser.get("/js/app.js", headers={"If-None-Match": '"other"'})).status_code == 200


async def test_head_answers_like_get_without_a_body(browser: httpx.AsyncClient) -> None:
    got, head = await browser.get("/js/app.js"), await browser.head("/js/app.js")
    assert head.content == b""
    assert head.headers["content-length"] == got.headers["content-length"]
    assert head.headers["etag"] == got.headers["etag"]


@pytest.mark.parametrize(
    "path",
    [
        "/README.md",
        "/js/wire.d.ts",
        "/.hidden.js",
        "/js/",
        "/js",
        "/../secret.txt",
        "/js/../../secret.txt",
        "/js/%2e%2e/%2e%2e/secret.txt",
        "/js/..%2f..%2fsecret.txt",
        "/js\\..\\..\\secret.txt",
        "//secret.txt",
        "/js/app.js%00.html",
        "/JS/APP.JS",
    ],
)
async def test_nothing_else_can_be_read(browser: httpx.AsyncClient, path: str) -> None:
    url = httpx.URL("http://kvasir.test/").copy_with(raw_path=path.encode())
    problem(await browser.get(url), 404, "not_found")


async def test_the_link_signs_in_and_leaves_no_ticket_in_the_address(
    pages: RunningApp, browser: httpx.AsyncClient
) -> None:
    answer = await browser.get("/", params={"ticket": await sign_in_ticket(pages)})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "HttpOnly" in answer.headers["set-cookie"]
    assert (await browser.get("/api/v1/me")).json()["username"] == "admin"


async def test_the_link_works_once(pages: RunningApp, browser: httpx.AsyncClient) -> None:
    ticket = await sign_in_ticket(pages)
    answers = await asyncio.gather(*(browser.get("/", params={"ticket": ticket}) for _ in range(5)))
    assert sorted(answer.headers["location"] for answer in answers) == ["/"] + ["/?signin=expired"] * 4


async def test_looking_at_the_link_first_does_not_use_it_up(pages: RunningApp, browser: httpx.AsyncClient) -> None:
    ticket = await sign_in_ticket(pages)
    for method in ("HEAD", "OPTIONS"):
        await browser.request(method, "/", params={"ticket": ticket})
    assert (await browser.get("/", params={"ticket": ticket})).headers["location"] == "/"


async def test_the_link_works_for_ten_minutes(
    pages: RunningApp, browser: httpx.AsyncClient, clock: SteppedClock
) -> None:
    early, late = await sign_in_ticket(pages), await sign_in_ticket(pages)
    clock.advance(599)
    assert (await browser.get("/", params={"ticket": early})).headers["location"] == "/"
    clock.advance(1)
    assert (await browser.get("/", params={"ticket": late})).headers["location"] == "/?signin=expired"


@pytest.mark.parametrize("ticket", ["x", "\x00", "é", "a" * 5000, "' OR 1=1"])
async def test_a_wrong_link_leads_to_the_page_that_says_so(browser: httpx.AsyncClient, ticket: str) -> None:
    answer = await browser.get("/", params={"ticket": ticket})
    assert (answer.status_code, answer.headers["location"]) == (303, "/?signin=expired")
    assert "set-cookie" not in answer.headers
    assert (await browser.get(answer.headers["location"])).status_code == 200


async def test_behind_https_the_cookie_is_secure(tmp_path: Path, sqlite_url: str) -> None:
    async with (
        running_app(tmp_path, sqlite_url, public_url="https://chat.example.com") as app,
        app.anonymous() as browser,
    ):
        answer = await browser.get("/", params={"ticket": await sign_in_ticket(app)})
        assert "Secure" in answer.headers["set-cookie"]


def test_what_is_installed_is_what_the_pages_need() -> None:
    files = load_files(WEB_FOLDER)
    assert "/index.html" in files
    assert not [path for path in files if "node_modules" in path or path.endswith((".md", ".ts"))]

"""Widgets as administrators make them: what is stored, what is shown once, who may."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.accounts.models import UserRole
from app.widgets.script import ENTRY, ScriptError, joined
from tests.app.widgets.site import ELSEWHERE, SHOP, make_site, signed, site_of
from tests.support.client import RunningApp, problem, running_app

WIDGETS = "/api/v1/widgets"


async def test_the_secret_is_shown_when_it_is_made_and_never_again(running: RunningApp) -> None:
    async with site_of(running, languages=["zh", "zh"], colour="#102030") as site:
        assert site.widget["secret"].startswith("kvw_")
        assert site.widget["languages"] == ["zh"]
        shown = (await site.admin.get(site.path)).json()
        listed = (await site.admin.get(WIDGETS)).json()["items"]
        assert listed == [shown]
        assert shown == {name: value for name, value in site.widget.items() if name != "secret"}
        audit = (await site.admin.get("/api/v1/admin/audit")).text
        assert "widget.create" in audit
        assert site.widget["secret"] not in audit


async def test_lists_go_on_behind_a_cursor(running: RunningApp) -> None:
    async with running.signed_in("root", UserRole.ADMIN) as admin:
        names = []
        for number in range(3):
            running.clock.advance(1)
            names.append((await make_site(running, admin, name=f"shop {number}")).widget["name"])
        first = (await admin.get(WIDGETS, params={"limit": 2})).json()
        rest = (await admin.get(WIDGETS, params={"limit": 2, "cursor": first["next_cursor"]})).json()
        assert [item["name"] for item in first["items"] + rest["items"]] == names[::-1]
        assert rest["next_cursor"] is None


@pytest.mark.parametrize(
    "origin",
    [
        "shop.example",
        "https://shop.example/path",
        "https://shop.example/",
        "https://*.shop.example",
        "*",
        "null",
        "ftp://shop.example",
        "https://user@shop.example",
        "https://shop.example?x",
        "https://shop.example:99999",
        "",
    ],
)
async def test_only_what_a_browser_sends_as_an_origin_can_be_allowed(running: RunningApp, origin: str) -> None:
    async with running.signed_in("root", UserRole.ADMIN) as admin:
        body = {"name": "shop", "allowed_origins": [origin]}
        problem(await admin.post(WIDGETS, json=body), 400, "invalid_origin")


async def test_origins_are_kept_as_browsers_write_them(running: RunningApp) -> None:
    origins = ["HTTPS://Shop.Example:443", "http://localhost:8080", "https://shop.example", "http://[::1]:81"]
    async with site_of(running, allowed_origins=origins) as site:
        assert site.widget["allowed_origins"] == [SHOP, "http://localhost:8080", "http://[::1]:81"]


async def test_a_persona_has_to_be_there(running: RunningApp) -> None:
    async with site_of(running) as site:
        body = {"name": "shop", "allowed_origins": [SHOP], "persona": "nobody"}
        problem(await site.admin.post(WIDGETS, json=body), 400, "unknown_persona")
        problem(await site.admin.patch(site.path, json={"persona": "nobody"}), 400, "unknown_persona")


async def test_changes_hold_at_once_and_are_in_the_audit_log(running: RunningApp) -> None:
    async with site_of(running) as site, running.anonymous() as page:
        running.clock.advance(1)
        changed = await site.admin.patch(site.path, json={"allowed_origins": [ELSEWHERE], "anonymous": False})
        assert changed.json()["allowed_origins"] == [ELSEWHERE]
        problem(await site.exchange(page), 403, "origin_refused")
        problem(await site.exchange(page, origin=ELSEWHERE), 401, "visitor_token_required")
        entries = (await site.admin.get("/api/v1/admin/audit")).json()["items"]
        assert entries[0]["details"]["fields"] == ["allowed_origins", "anonymous"]


async def test_a_rotated_secret_holds_and_the_one_before_for_as_long_as_was_said(running: RunningApp) -> None:
    async with site_of(running) as site, running.anonymous() as page:
        first = site.widget["secret"]
        second = (await site.admin.post(f"{site.path}/secret", json={"keep_previous_s": 60})).json()["secret"]
        for secret in (first, second):
            token = signed(secret, running.clock.now())
            assert (await site.exchange(page, token=token)).status_code == 200
        running.clock.advance(60)
        refused = await site.exchange(page, token=signed(first, running.clock.now()))
        problem(refused, 401, "visitor_token_refused")
        third = (await site.admin.post(f"{site.path}/secret", json={})).json()["secret"]
        assert (await site.exchange(page, token=signed(third, running.clock.now()))).status_code == 200
        problem(await site.exchange(page, token=signed(second, running.clock.now())), 401, "visitor_token_refused")


@pytest.mark.parametrize("role", [UserRole.USER, UserRole.AGENT])
async def test_widgets_are_for_administrators(running: RunningApp, role: UserRole) -> None:
    async with site_of(running) as site, running.signed_in("bob", role) as bob:
        body = {"name": "mine", "allowed_origins": [SHOP]}
        for answer in (
            await bob.get(WIDGETS),
            await bob.post(WIDGETS, json=body),
            await bob.get(site.path),
            await bob.patch(site.path, json={"name": "mine"}),
            await bob.post(f"{site.path}/secret", json={}),
            await bob.delete(site.path),
        ):
            problem(answer, 403, "forbidden")


async def test_a_body_with_a_secret_takes_no_idempotency_key(running: RunningApp) -> None:
    async with site_of(running) as site:
        body = {"name": "shop", "allowed_origins": [SHOP]}
        answer = await site.admin.post(WIDGETS, json=body, headers={"Idempotency-Key": "once"})
        problem(answer, 400, "idempotency_not_supported")


def test_modules_become_one_script_in_the_order_in_which_they_are_needed(tmp_path: Path) -> None:
    folder = tmp_path / "widget"
    folder.mkdir()
    (folder / "main.js").write_text('import { one } from "./one.js";\nimport { two } from "./two.js";\none(two);\n')
    (folder / "one.js").write_text('/** Says it. */\nimport { two } from "./two.js";\nexport function one() { two; }\n')
    (folder / "two.js").write_text("// A number.\nexport const two = 2;\n")
    script = joined(tmp_path)
    assert script.startswith("(() => {")
    assert [script.index(text) for text in ("const two = 2;", "function one()", "one(two);")] == sorted(
        script.index(text) for text in ("const two = 2;", "function one()", "one(two);")
    )
    assert not {"import", "export", "Says it", "A number"} & set(script.replace("(", " ").split())


@pytest.mark.parametrize("line", ['import x from "./x.js";', 'import { a as b } from "./x.js";', "export default 1;"])
def test_what_cannot_be_joined_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / ENTRY).parent.mkdir()
    (tmp_path / ENTRY).write_text(f"{line}\n")
    (tmp_path / "widget" / "x.js").write_text("export const a = 1;\n")
    with pytest.raises(ScriptError):
        joined(tmp_path)


async def test_the_script_is_served_to_every_page(tmp_path: Path, sqlite_url: str) -> None:
    (tmp_path / "web" / "widget").mkdir(parents=True)
    (tmp_path / "web" / ENTRY).write_text("export const it = 1;\n")
    async with running_app(tmp_path, sqlite_url, web_folder=tmp_path / "web") as app, app.anonymous() as page:
        answer = await page.get("/widget.js", headers={"Origin": ELSEWHERE})
        assert answer.headers["content-type"].startswith("text/javascript")
        assert answer.headers["cross-origin-resource-policy"] == "cross-origin"
        assert "access-control-allow-origin" not in answer.headers
        assert "const it = 1;" in answer.text
        assert answer.headers["content-encoding"] == "gzip"
        plain = await page.get("/widget.js", headers={"Accept-Encoding": "identity"})
        assert (plain.text, "content-encoding" in plain.headers) == (answer.text, False)
        assert plain.headers["etag"] != answer.headers["etag"]
        known = await page.get("/widget.js", headers={"If-None-Match": answer.headers["etag"]})
        assert (known.status_code, known.content) == (304, b"")

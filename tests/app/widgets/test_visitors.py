"""Visitors: whom a widget lets in, as whom, for how long, and that they reach nothing but their own chat."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from app.accounts.models import UserRole
from app.identifiers import new_id
from app.widgets.queries import widget_by_id
from tests.app.test_isolation import asked, routes
from tests.app.widgets.site import ELSEWHERE, SHOP, Site, make_site, signed, site_of
from tests.support.client import RunningApp, problem, running_app


async def entered(site: Site, **entry: Any) -> dict[str, Any]:
    async with site.running.anonymous() as page:
        answer = await site.exchange(page, **entry)
        assert answer.status_code == 200, answer.text
        body: dict[str, Any] = answer.json()
        return body


async def test_the_sites_word_makes_a_visitor_and_the_same_one_again(running: RunningApp) -> None:
    """Case C45: somebody the site has signed in has one history on two devices."""
    async with site_of(running) as site:
        first = await entered(site, token=site.token(sub="customer 7", name="Ann", email="ann@shop.example"))
        again = await entered(site, token=site.token(sub="customer 7", name="Ann Marie"))
        other = await entered(site, token=site.token(sub="customer 8"))
        assert first["visitor"] == {"id": first["visitor"]["id"], "name": "Ann", "email": "ann@shop.example"}
        assert first["visitor_key"] is None
        assert again["visitor"] == {"id": first["visitor"]["id"], "name": "Ann Marie", "email": None}
        assert other["visitor"]["id"] != first["visitor"]["id"]
        async with site.visitor(token=site.token(sub="customer 7", name="Ann")) as ann:
            body = (await ann.post(f"{site.path}/conversations")).json()
            assert body["metadata"] == {
                "widget": {"id": site.widget["id"], "name": "The shop"},
                "visitor": {"name": "Ann", "subject": "customer 7"},
            }
        async with site.visitor(token=site.token(sub="customer 7")) as elsewhere:
            listed = (await elsewhere.get(f"{site.path}/conversations")).json()["items"]
            assert [item["id"] for item in listed] == [body["id"]]


async def test_an_anonymous_visitor_comes_back_with_a_key(running: RunningApp) -> None:
    """botfront/rasa-webchat#166: a reload made a new visitor."""
    async with site_of(running) as site, running.anonymous() as page:
        first = await entered(site)
        again = await entered(site, visitor_key=first["visitor_key"])
        assert again["visitor"]["id"] == first["visitor"]["id"]
        assert (await entered(site))["visitor"]["id"] != first["visitor"]["id"]
        problem(await site.exchange(page, visitor_key="made up"), 401, "visitor_key_refused")
        both = await site.exchange(page, visitor_key=first["visitor_key"], token=site.token())
        problem(both, 400, "invalid_input")


def unsigned(claims: dict[str, Any]) -> str:
    parts = ({"alg": "none", "typ": "JWT"}, claims)
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


async def test_nothing_but_a_fresh_word_in_the_sites_own_hand_is_believed(running: RunningApp) -> None:
    async with site_of(running) as site, running.anonymous() as page:
        now_s, secret = int(running.clock.now().timestamp()), site.widget["secret"]
        claims = {"sub": "customer 7", "exp": now_s + 600}
        rsa = jwt.encode({"alg": "RS256"}, claims, RSAKey.generate_key(2048), algorithms=["RS256"])
        wrong = {
            "of nobody": unsigned(claims),
            "by another algorithm": jwt.encode(
                {"alg": "HS512"}, claims, OctKey.import_key(secret), algorithms=["HS512"]
            ),
            "with a key pair": rsa,
            "with another secret": signed("kvw_" + "x" * 43, running.clock.now()),
            "without an end": site.token(exp=None),
            "without a subject": site.token(sub=None),
            "of an empty subject": site.token(sub=""),
            "of a subject that is a number": site.token(sub=7),
            "of a subject too long": site.token(sub="x" * 256),
            "that has ended": site.token(exp=now_s - 61),
            "for more than a day": site.token(exp=now_s + 86400 + 120),
            "for ever": site.token(exp=2**53),
            "that does not hold yet": site.token(nbf=now_s + 600),
            "for somebody else": site.token(aud=new_id()),
            "with a name that is no text": site.token(name=["Ann"]),
            "with a character that cannot be stored": site.token(name="A\x00nn"),
            **{
                f"with half a character in its {claim}": site.token(**{claim: "A\ud800"})
                for claim in ("sub", "name", "email")
            },
            "that is no token": "a.b.c",
            "in pieces": site.token()[:-4],
        }
        for what, token in wrong.items():
            answer = await site.exchange(page, token=token)
            assert answer.status_code == 401, f"{what}: {answer.text}"
            problem(answer, 401, "visitor_token_refused")
        assert (await site.exchange(page, token=site.token(aud=site.widget["id"]))).status_code == 200


async def test_anonymous_visitors_come_in_only_where_they_may_and_not_too_many(
    tmp_path: Path, database_url: str
) -> None:
    async with (
        running_app(tmp_path, database_url, visitors_per_address=2) as running,
        site_of(running, anonymous=False) as site,
        running.anonymous() as page,
    ):
        problem(await site.exchange(page), 401, "visitor_token_required")
        open_site = await make_site(running, site.admin)
        key = (await open_site.exchange(page)).json()["visitor_key"]
        assert (await open_site.exchange(page)).status_code == 200
        refused = await open_site.exchange(page)
        problem(refused, 429, "too_many_requests")
        assert 0 < int(refused.headers["retry-after"]) <= 3600
        # Who was here before is not counted, nor whom the site has signed in.
        assert (await open_site.exchange(page, visitor_key=key)).status_code == 200
        assert (await open_site.exchange(page, token=open_site.token())).status_code == 200
        running.clock.advance(3600)
        assert (await open_site.exchange(page)).status_code == 200


async def test_a_household_with_many_addresses_is_one(tmp_path: Path, database_url: str) -> None:
    async with (
        running_app(tmp_path, database_url, visitors_per_address=2) as running,
        site_of(running) as site,
    ):
        statuses = []
        for address in ("2001:db8:1:2::1", "2001:db8:1:2::2", "2001:db8:1:2:ffff::3", "2001:db8:1:3::1"):
            async with running.anonymous(client=address) as page:
                statuses.append((await site.exchange(page)).status_code)
        assert statuses == [200, 200, 429, 200]


async def test_nobody_comes_in_while_the_widget_is_being_deleted(running: RunningApp) -> None:
    """Whoever is let in by a widget that was there when they knocked would stay in it when it is gone."""
    async with site_of(running) as site, running.anonymous() as page:
        key = (await site.exchange(page)).json()["visitor_key"]
        await site.exchange(page, token=site.token())
        async with running.context.database.write() as session:
            widget = await widget_by_id(session, site.widget["id"], for_update=True)
            assert widget is not None
            widget.deleted_at = running.clock.now()
            await session.flush()
            entries: list[dict[str, Any]] = [{"visitor_key": key}, {"token": site.token()}, {}]
            entering = [asyncio.create_task(site.exchange(page, **entry)) for entry in entries]
            # Nobody is let in by then; where one would be, this is long enough to see it.
            await asyncio.wait(entering, timeout=0.5)
        for answer in await asyncio.gather(*entering):
            problem(answer, 404, "not_found")


OPEN = {
    ("POST", "/api/v1/widgets/{widget_id:str}/tickets"),
    ("GET", "/api/v1/widgets/{widget_id:str}/conversations"),
    ("POST", "/api/v1/widgets/{widget_id:str}/conversations"),
    ("GET", "/api/v1/widgets/{widget_id:str}/conversations/{conversation_id:str}/messages"),
}
"""What visitors may reach. Whoever opens another route to them has to write it here."""


async def test_a_visitor_reaches_nothing_but_their_own_chat(running: RunningApp) -> None:
    """Case C36 for visitor tokens: every route there is, also one that is made tomorrow."""
    async with site_of(running) as site, site.visitor() as visitor:
        own = (await visitor.post(f"{site.path}/conversations")).json()["id"]
        tried = 0
        for method, path in routes(running.app):
            ids = dict.fromkeys(re.findall(r"\{(\w+):str\}", path), new_id())
            ids |= {"widget_id": site.widget["id"], "conversation_id": own}
            answer = await asked(visitor, method, path, ids)
            if (method, path) in OPEN:
                assert answer.status_code in (200, 201), f"{method} {path}"
            else:
                problem(answer, 403, "visitors_only_chat")
                tried += 1
        assert tried > 40
        assert len((await visitor.get(f"{site.path}/conversations")).json()["items"]) == 2


async def test_a_token_is_nothing_in_a_cookie(running: RunningApp) -> None:
    async with site_of(running) as site, site.visitor() as visitor:
        token = visitor.headers.pop("Authorization").removeprefix("Bearer ")
        answer = await visitor.get(f"{site.path}/conversations", headers={"Cookie": f"kvasir_session={token}"})
        problem(answer, 401, "unauthenticated")


async def test_two_visitors_and_two_widgets_know_nothing_of_each_other(running: RunningApp) -> None:
    async with site_of(running) as site:
        other = await make_site(running, site.admin, name="Another shop")
        async with site.visitor() as ann, site.visitor() as bob, other.visitor() as carl, running.anonymous() as page:
            theirs = (await ann.post(f"{site.path}/conversations")).json()["id"]
            for stranger, path in ((bob, site.path), (carl, other.path)):
                listed = await stranger.get(f"{path}/conversations")
                assert listed.json()["items"] == []
                foreign = await stranger.get(f"{path}/conversations/{theirs}/messages")
                unknown = await stranger.get(f"{path}/conversations/{new_id()}/messages")
                bodies = [problem(answer, 404, "not_found") for answer in (foreign, unknown)]
                assert {**bodies[0], "trace_id": ""} == {**bodies[1], "trace_id": ""}
            for method, path in (("POST", "tickets"), ("GET", "conversations"), ("POST", "conversations")):
                problem(await ann.request(method, f"{other.path}/{path}"), 404, "not_found")
            # What one site signs or one browser keeps is nothing at the other widget.
            problem(await other.exchange(page, token=site.token()), 401, "visitor_token_refused")
            key = (await site.exchange(page)).json()["visitor_key"]
            problem(await other.exchange(page, visitor_key=key), 401, "visitor_key_refused")
            signed_here = (await site.exchange(page, token=site.token())).json()["visitor"]["id"]
            signed_there = (await other.exchange(page, token=other.token())).json()["visitor"]["id"]
            assert signed_here != signed_there


async def test_a_visitors_token_works_for_an_hour_and_ends_with_the_account(running: RunningApp) -> None:
    async with site_of(running) as site:
        async with site.visitor() as visitor:
            running.clock.advance(3599)
            assert (await visitor.get(f"{site.path}/conversations")).status_code == 200
            running.clock.advance(1)
            problem(await visitor.get(f"{site.path}/conversations"), 401, "unauthenticated")
        key = (await entered(site))["visitor_key"]
        async with site.visitor(visitor_key=key) as visitor, running.anonymous() as page:
            visitor_id = (await entered(site, visitor_key=key))["visitor"]["id"]
            account = f"/api/v1/admin/users/{visitor_id}"
            assert (await site.admin.patch(account, json={"disabled": True})).status_code == 200
            problem(await visitor.get(f"{site.path}/conversations"), 401, "unauthenticated")
            problem(await site.exchange(page, visitor_key=key), 403, "visitor_refused")


async def test_an_administrator_deletes_a_visitor_as_anybody_else(running: RunningApp) -> None:
    async with site_of(running) as site, running.anonymous() as page:
        key = (await entered(site))["visitor_key"]
        async with site.visitor(visitor_key=key) as visitor:
            visitor_id = (await entered(site, visitor_key=key))["visitor"]["id"]
            await visitor.post(f"{site.path}/conversations")
            assert (await site.admin.delete(f"/api/v1/admin/users/{visitor_id}")).status_code == 204
            problem(await visitor.get(f"{site.path}/conversations"), 401, "unauthenticated")
        problem(await site.exchange(page, visitor_key=key), 401, "visitor_key_refused")


async def test_a_visitors_account_stays_one(running: RunningApp) -> None:
    async with site_of(running) as site, running.signed_in("bob") as bob:
        account = f"/api/v1/admin/users/{(await entered(site))['visitor']['id']}"
        problem(await site.admin.patch(account, json={"role": "agent"}), 409, "fixed_role")
        answer = await site.admin.post(f"{account}/password", json={"new_password": "correct horse"})
        problem(answer, 409, "visitor_account")
        bobs = f"/api/v1/admin/users/{(await bob.get('/api/v1/me')).json()['id']}"
        problem(await site.admin.patch(bobs, json={"role": "visitor"}), 409, "fixed_role")
        made = await site.admin.post("/api/v1/admin/users", json={"username": "eve", "role": "visitor"})
        problem(made, 400, "invalid_input")
        posing = await site.admin.post("/api/v1/admin/users", json={"username": "Visitor-1", "role": "user"})
        problem(posing, 400, "invalid_input")
        names = [item["username"] for item in (await site.admin.get("/api/v1/admin/users")).json()["items"]]
        assert sorted(names) == ["bob", "root"]
        visitors = (await site.admin.get("/api/v1/admin/users", params={"role": "visitor"})).json()["items"]
        assert [item["role"] for item in visitors] == ["visitor"]


async def test_a_visitor_has_limits_of_their_own(tmp_path: Path, sqlite_url: str) -> None:
    async with running_app(tmp_path, sqlite_url, visitor_requests_per_minute=5) as running, site_of(running) as site:
        visitor_id = (await entered(site))["visitor"]["id"]
        quota = (await site.admin.get(f"/api/v1/admin/users/{visitor_id}/quota")).json()
        assert quota == {
            "requests_per_minute": 5,
            "tokens_per_minute": None,
            "requests_per_day": 200,
            "tokens_per_day": None,
            "concurrent_answers": 3,
            "sockets": 8,
        }
        async with site.visitor() as visitor:
            began = [(await visitor.post(f"{site.path}/conversations")).status_code for _ in range(31)]
            assert began == [201] * 30 + [429]


async def test_who_does_not_come_back_is_forgotten(running: RunningApp) -> None:
    async with site_of(running) as site, running.anonymous() as page:
        gone, kept = await entered(site), await entered(site)
        async with site.visitor(visitor_key=gone["visitor_key"]) as visitor:
            conversation = (await visitor.post(f"{site.path}/conversations")).json()["id"]
        running.clock.advance(89 * 86400)
        await entered(site, visitor_key=kept["visitor_key"])
        await running.context.visitor_forgetting.run()
        assert await running.context.accounts.existing([gone["visitor"]["id"]])
        running.clock.advance(86400)
        deleted: list[str] = []
        running.context.conversations.on_deleted(lambda conversation_id, reason: deleted.append(conversation_id))
        await running.context.visitor_forgetting.run()
        assert deleted == [conversation]
        assert await running.context.accounts.existing([gone["visitor"]["id"], kept["visitor"]["id"]]) == {
            kept["visitor"]["id"]
        }
        problem(await site.exchange(page, visitor_key=gone["visitor_key"]), 401, "visitor_key_refused")
        assert (await site.exchange(page, visitor_key=kept["visitor_key"])).status_code == 200


async def test_a_deleted_widget_is_nothing_at_once_and_its_visitors_are_forgotten(running: RunningApp) -> None:
    async with site_of(running) as site, site.visitor() as visitor, running.anonymous() as page:
        await visitor.post(f"{site.path}/conversations")
        assert (await site.admin.delete(site.path)).status_code == 204
        problem(await visitor.get(f"{site.path}/conversations"), 401, "unauthenticated")
        problem(await site.exchange(page), 404, "not_found")
        problem(await page.get(f"{site.path}/look"), 404, "not_found")
        problem(await site.admin.get(site.path), 404, "not_found")
        problem(await site.admin.delete(site.path), 404, "not_found")
        await running.context.visitor_forgetting.run()
        users = (await site.admin.get("/api/v1/admin/users", params={"role": "visitor"})).json()["items"]
        assert users == []


async def test_cors_is_for_the_widgets_own_origins_on_its_own_routes(running: RunningApp) -> None:
    """An origin that is not allowed gets nothing: a refusal, and no header that lets it read, except that the look is refused."""
    async with site_of(running) as site, running.anonymous() as page:
        other = await make_site(running, site.admin, allowed_origins=[ELSEWHERE])
        preflight = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
        below = ["look", "visitors", "tickets", "conversations", f"conversations/{new_id()}/messages"]
        for path in [f"{site.path}/{name}" for name in below]:
            asked_before = await page.options(path, headers={"Origin": SHOP, **preflight})
            assert asked_before.status_code == 204
            assert asked_before.headers["access-control-allow-origin"] == SHOP
            assert (
                asked_before.headers["access-control-allow-headers"] == "authorization, content-type, idempotency-key"
            )
            assert "access-control-allow-credentials" not in asked_before.headers
            for origin in (ELSEWHERE, "null", "https://shop.example.evil.example", "http://shop.example", ""):
                refused = await page.options(path, headers={"Origin": origin, **preflight})
                assert refused.status_code == 403
                assert not [name for name in refused.headers if name.startswith("access-control")]
        look = await page.get(f"{site.path}/look", headers={"Origin": SHOP})
        assert look.headers["access-control-allow-origin"] == SHOP
        assert look.headers["vary"] == "Origin"
        assert look.json()["title"] == "Chat"
        # A refusal may be read by the widget's pages, and by no others.
        refusal = await site.exchange(page, token="a.b.c")
        assert (refusal.status_code, refusal.headers["access-control-allow-origin"]) == (401, SHOP)
        refusal = await page.get(f"{site.path}/look", headers={"Origin": ELSEWHERE})
        problem(refusal, 403, "origin_refused")
        # The script may know that it need not ask again.
        assert refusal.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in refusal.headers
        unknown = await page.get(f"/api/v1/widgets/{new_id()}/look", headers={"Origin": ELSEWHERE})
        assert "access-control-allow-origin" not in unknown.headers
        for answer in (
            await site.exchange(page, origin=ELSEWHERE),
            await site.exchange(page, origin=ELSEWHERE, token=site.token()),
            await site.exchange(page, origin=None),
        ):
            problem(answer, 403, "origin_refused")
            assert "access-control-allow-origin" not in answer.headers
        # A token of this widget from a page of another one.
        async with site.visitor() as visitor:
            answer = await visitor.get(f"{site.path}/conversations", headers={"Origin": ELSEWHERE})
            problem(answer, 403, "origin_refused")
            answer = await visitor.get(f"{other.path}/conversations", headers={"Origin": ELSEWHERE})
            problem(answer, 403, "origin_refused")
        for path in ("/api/v1/me", "/api/v1/conversations", "/api/v1/auth/tickets", "/api/v1/widgets", site.path, "/"):
            for method in ("GET", "OPTIONS"):
                answer = await page.request(method, path, headers={"Origin": SHOP, **preflight})
                assert not [name for name in answer.headers if name.startswith("access-control")], path


async def test_a_signed_in_person_is_no_visitor(running: RunningApp) -> None:
    async with site_of(running) as site, running.signed_in("bob", UserRole.USER) as bob:
        problem(await bob.post(f"{site.path}/tickets"), 404, "not_found")
        problem(await bob.post(f"{site.path}/conversations"), 404, "not_found")
        problem(await site.admin.get(f"{site.path}/conversations"), 404, "not_found")

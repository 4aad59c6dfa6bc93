"""Signing in by OpenID Connect, at a provider that runs."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from joserfc.jwk import ECKey

from app.accounts.models import UserRole
from app.accounts.oidc_provider import KEPT_S
from app.settings_source import SettingsError, load_settings
from tests.support.client import BASE_URL, PASSWORD, RunningApp, problem, running_app
from tests.support.clock import SteppedClock
from tests.support.oidc_provider import CLIENT_ID, CLIENT_SECRET, OidcServer, oidc_server

ME = "/api/v1/me"


@dataclass
class Place:
    """The application and its provider."""

    running: RunningApp
    provider: OidcServer

    async def sign_in(self, browser: httpx.AsyncClient) -> httpx.Response:
        """Go to the provider and come back, as a browser does; the answer to coming back."""
        return await browser.get(await self.way_back(browser))

    async def way_back(self, browser: httpx.AsyncClient) -> str:
        """The address that the provider sends the browser to."""
        away = await browser.get("/oidc/login")
        assert away.status_code == 303, away.text
        async with httpx.AsyncClient(trust_env=False) as outside:
            back = await outside.get(away.headers["location"])
        assert back.status_code == 302, back.text
        return back.headers["location"].removeprefix(BASE_URL)

    async def me(self, **person: Any) -> dict[str, Any]:
        """Sign in as somebody of the provider; the account that this is here."""
        self.provider.person = {"sub": "1", "preferred_username": "ann", **person}
        async with self.running.anonymous() as browser:
            answer = await self.sign_in(browser)
            assert answer.headers["location"] == "/"
            body: dict[str, Any] = (await browser.get(ME)).json()
            return body


SETTINGS = {
    "oidc_client_id": CLIENT_ID,
    "oidc_client_secret": CLIENT_SECRET,
    "oidc_role_claim": "realm_access.roles",
    "oidc_admin_values": "kvasir-admins, root",
    "oidc_agent_values": "support",
    "public_url": BASE_URL,
}


@pytest.fixture
async def place(tmp_path: Path, database_url: str, clock: SteppedClock) -> AsyncIterator[Place]:
    async with (
        oidc_server(clock.now) as provider,
        running_app(tmp_path, database_url, clock=clock, oidc_issuer=provider.issuer, **SETTINGS) as running,
    ):
        yield Place(running, provider)


@pytest.fixture
async def place_on_sqlite(tmp_path: Path, sqlite_url: str, clock: SteppedClock) -> AsyncIterator[Place]:
    async with (
        oidc_server(clock.now) as provider,
        running_app(tmp_path, sqlite_url, clock=clock, oidc_issuer=provider.issuer, **SETTINGS) as running,
    ):
        yield Place(running, provider)


async def test_somebody_of_the_provider_is_the_same_account_every_time(place: Place) -> None:
    async with place.running.anonymous() as browser:
        answer = await place.sign_in(browser)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookies = answer.headers.get_list("set-cookie")
        assert any(cookie.startswith("kvasir_session=") and "HttpOnly" in cookie for cookie in cookies)
        assert any(cookie.startswith("kvasir_oidc=") and "Max-Age=0" in cookie for cookie in cookies)
        me = (await browser.get(ME)).json()
        assert (me["username"], me["role"]) == ("ann", "user")
    again = await place.me(preferred_username="ann-who-has-married")
    assert (again["id"], again["username"]) == (me["id"], "ann")
    assert (await place.me(sub="2"))["id"] != me["id"]


async def test_a_name_or_an_address_of_somebody_else_opens_nothing(place: Place) -> None:
    """Linking by e-mail lets whoever gets the address take the account over."""
    ours = await place.running.context.accounts.create_user("ann", PASSWORD, UserRole.ADMIN)
    await place.running.context.accounts.ensure_admin()
    theirs = await place.me(email="ann@example.com", email_verified=True)
    assert theirs["id"] != ours.id
    assert (theirs["username"], theirs["role"]) == ("ann-2", "user")
    assert (await place.me(sub="2", preferred_username="Admin"))["username"] == "admin-2"
    assert (await place.me(sub="3", preferred_username="<script>"))["username"] == "script"
    assert (await place.me(sub="4", preferred_username=" "))["username"] == "user"


async def test_a_claim_says_who_is_what_and_that_follows_it(place: Place) -> None:
    ended: list[str] = []
    place.running.context.accounts.on_revoked(ended.append)
    roles = {"realm_access": {"roles": ["other", "kvasir-admins"]}}
    admin = await place.me(**roles)
    assert (admin["role"], admin["rights"]) == ("admin", ["administer", "answer_people"])
    assert ended == []
    agent = await place.me(realm_access={"roles": ["support"]})
    assert (agent["id"], agent["role"]) == (admin["id"], "agent")
    assert len(ended) == 1, "what was opened as an administrator is closed"
    assert (await place.me())["role"] == "user"
    entries = (await place.running.context.audit.page(limit=10, cursor=None)).items
    assert {(entry.actor.username, entry.action) for entry in entries} == {
        ("openid connect", "user.create"),
        ("openid connect", "user.change_role"),
    }


async def test_what_the_token_leaves_out_is_asked_for(place_on_sqlite: Place) -> None:
    place_on_sqlite.provider.userinfo = {"preferred_username": "bea", "realm_access": {"roles": "root"}}
    me = await place_on_sqlite.me(preferred_username=None)
    assert (me["username"], me["role"]) == ("bea", "admin")


async def test_one_who_comes_twice_at_once_is_one(place: Place) -> None:
    accounts = await asyncio.gather(*(place.me() for _ in range(4)))
    assert len({account["id"] for account in accounts}) == 1


async def test_a_disabled_account_stays_out(place: Place) -> None:
    me = await place.me()
    async with place.running.signed_in("root", UserRole.ADMIN) as root:
        assert (await root.patch(f"/api/v1/admin/users/{me['id']}", json={"disabled": True})).status_code == 200
    await refused(place)


async def refused(place: Place) -> None:
    async with place.running.anonymous() as browser:
        answer = await place.sign_in(browser)
        assert (answer.status_code, answer.headers["location"]) == (303, "/?signin=oidc-failed")
        problem(await browser.get(ME), 401, "unauthenticated")


WRONG_CLAIMS: list[dict[str, Any]] = [
    {"iss": "http://127.0.0.1:1"},
    {"aud": "another client"},
    {"aud": [CLIENT_ID, "another client"]},
    {"azp": "another client"},
    {"exp": 1},
    {"exp": None},
    {"iat": 4102444800},
    {"nonce": "of another sign-in"},
    {"nonce": None},
    {"sub": None},
    {"sub": "x" * 256},
    {"sub": 7},
    {"sub": "half \ud800"},
]


async def test_a_token_that_is_not_for_us_now_is_not_believed(place_on_sqlite: Place) -> None:
    for overrides in WRONG_CLAIMS:
        place_on_sqlite.provider.overrides = overrides
        await refused(place_on_sqlite)
    place_on_sqlite.provider.overrides = {}
    assert (await place_on_sqlite.me())["username"] == "ann"


async def test_a_token_that_somebody_else_has_signed_is_not_believed(place_on_sqlite: Place) -> None:
    place_on_sqlite.provider.signing_key = ECKey.generate_key("P-256", {"kid": "first"})
    await refused(place_on_sqlite)


async def test_a_provider_may_change_its_keys(place_on_sqlite: Place) -> None:
    await place_on_sqlite.me()
    place_on_sqlite.provider.key = ECKey.generate_key("P-256", {"kid": "second", "use": "sig"})
    await place_on_sqlite.me()
    await place_on_sqlite.me()
    assert place_on_sqlite.provider.requests == ["discovery", "keys", "keys"]
    place_on_sqlite.running.clock.advance(KEPT_S)
    await place_on_sqlite.me()
    assert place_on_sqlite.provider.requests == ["discovery", "keys", "keys", "discovery", "keys"]


async def test_only_the_browser_that_went_may_come_back(place_on_sqlite: Place) -> None:
    """Otherwise a foreign page could sign its reader in as somebody else."""
    place = place_on_sqlite
    async with place.running.anonymous() as ann, place.running.anonymous() as mallory:
        back = await place.way_back(mallory)
        assert (await ann.get(back)).headers["location"] == "/?signin=oidc-failed"
        await ann.get("/oidc/login")
        assert (await ann.get(back)).headers["location"] == "/?signin=oidc-failed"
        assert (await mallory.get(back)).headers["location"] == "/"
        # The code and the attempt are both used up.
        assert (await mallory.get(back)).headers["location"] == "/?signin=oidc-failed"
        for nonsense in ("", "?error=access_denied&state=x", "?code=x", "?code=x&state=", "?code=%00&state=%C3%A4"):
            assert (await ann.get(f"/oidc/callback{nonsense}")).headers["location"] == "/?signin=oidc-failed"


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://another.example"},
        {"token_endpoint": None},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"jwks_uri": "/keys"},
    ],
)
async def test_a_provider_that_is_not_what_it_should_be_is_not_gone_to(
    place_on_sqlite: Place, metadata: dict[str, Any]
) -> None:
    place_on_sqlite.provider.metadata = metadata
    async with place_on_sqlite.running.anonymous() as browser:
        answer = await browser.get("/oidc/login")
        assert (answer.status_code, answer.headers["location"]) == (303, "/?signin=oidc-failed")


async def test_a_provider_that_is_away_costs_nobody_else(
    tmp_path: Path, sqlite_url: str, clock: SteppedClock, log: io.StringIO
) -> None:
    options = {**SETTINGS, "oidc_issuer": "http://127.0.0.1:9"}
    async with running_app(tmp_path, sqlite_url, clock=clock, **options) as running, running.signed_in("ann") as ann:
        assert (await ann.get("/oidc/login")).headers["location"] == "/?signin=oidc-failed"
        assert (await ann.get(ME)).status_code == 200
    said = log.getvalue()
    assert "oidc_failed" in said
    assert CLIENT_SECRET not in said


async def test_a_client_without_basic_authentication_sends_its_secret_in_the_form(place_on_sqlite: Place) -> None:
    place_on_sqlite.provider.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    assert (await place_on_sqlite.me())["username"] == "ann"


async def test_the_page_learns_what_the_button_says(place_on_sqlite: Place) -> None:
    async with place_on_sqlite.running.anonymous() as browser:
        assert (await browser.get("/api/v1/auth/ways")).json() == {"signup": "closed", "oidc": "single sign-on"}


async def test_without_a_provider_there_is_no_way_to_it(running_on_sqlite: RunningApp) -> None:
    async with running_on_sqlite.anonymous() as browser:
        assert (await browser.get("/api/v1/auth/ways")).json() == {"signup": "closed", "oidc": None}
        for path in ("/oidc/login", "/oidc/callback?code=x&state=y"):
            problem(await browser.get(path), 404, "not_found")


async def test_the_way_to_the_provider_asks_for_what_is_needed(place_on_sqlite: Place) -> None:
    async with place_on_sqlite.running.anonymous() as browser:
        answer = await browser.get("/oidc/login")
        query = urlsplit(answer.headers["location"]).query
        for part in (
            "scope=openid+profile",
            "code_challenge=",
            "nonce=",
            "state=",
            "redirect_uri=http%3A%2F%2Fkvasir.test",
        ):
            assert part in query
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        assert "Path=/oidc" in cookie


def test_an_issuer_alone_is_not_enough(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"^KVASIR_OIDC_CLIENT_ID: .*https://id\.example"):
        load_settings({}, {"KVASIR_OIDC_ISSUER": "https://id.example"}, tmp_path / ".env")

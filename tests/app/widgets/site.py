"""A site that has a widget on its pages: what it signs, and what its pages ask for."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import httpx
from joserfc import jws
from joserfc.jwk import OctKey

from app.accounts.models import UserRole
from tests.support.client import RunningApp

SHOP = "https://shop.example"
ELSEWHERE = "https://elsewhere.example"


def signed(secret: str, now: datetime, *, header: dict[str, Any] | None = None, **claims: Any) -> str:
    """A visitor token; claims that are None are left out."""
    all_claims = {"sub": "customer 7", "exp": int((now + timedelta(hours=1)).timestamp()), **claims}
    wanted = {name: value for name, value in all_claims.items() if value is not None}
    # As the pages of many sites do, with escapes instead of characters; also for half a character, which has no other form.
    return jws.serialize_compact(header or {"alg": "HS256"}, json.dumps(wanted), OctKey.import_key(secret))


@dataclass
class Site:
    """One widget, and the client of the administrator who has made it."""

    running: RunningApp
    admin: httpx.AsyncClient
    widget: dict[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return f"/api/v1/widgets/{self.widget['id']}"

    def token(self, **claims: Any) -> str:
        return signed(self.widget["secret"], self.running.clock.now(), **claims)

    async def exchange(self, client: httpx.AsyncClient, *, origin: str | None = SHOP, **entry: Any) -> httpx.Response:
        """Come in through the widget, from a page of that origin."""
        headers = {} if origin is None else {"Origin": origin}
        return await client.post(f"{self.path}/visitors", json=entry, headers=headers)

    @asynccontextmanager
    async def visitor(self, **entry: Any) -> AsyncIterator[httpx.AsyncClient]:
        """The client of a visitor who has come in, on a page of the shop."""
        async with self.running.anonymous(Origin=SHOP) as client:
            answer = await self.exchange(client, **entry)
            assert answer.status_code == 200, answer.text
            client.headers["Authorization"] = f"Bearer {answer.json()['token']}"
            yield client


async def make_site(running: RunningApp, admin: httpx.AsyncClient, **fields: Any) -> Site:
    """Another widget."""
    wanted = {"name": "The shop", "allowed_origins": [SHOP], "anonymous": True, **fields}
    answer = await admin.post("/api/v1/widgets", json=wanted)
    assert answer.status_code == 201, answer.text
    return Site(running, admin, answer.json())


@asynccontextmanager
async def site_of(running: RunningApp, **fields: Any) -> AsyncIterator[Site]:
    """A widget, made by an administrator who is made for it."""
    async with running.signed_in("root", UserRole.ADMIN) as admin:
        yield await make_site(running, admin, **fields)

"""A small OpenID Connect provider, real enough to be signed in at: discovery, code flow with PKCE, signed ID tokens, userinfo.

It runs as an HTTP server on a free port in the test's own loop. Whoever comes is signed in at once, as the test says.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

import uvicorn
from joserfc import jws
from joserfc.jwk import ECKey, KeySet
from litestar import Litestar, Request, Response, get, post
from litestar.response import Redirect

from tests.support.live_server import eventually

CLIENT_ID = "kvasir"
CLIENT_SECRET = "between the two of us"

AnyRequest = Request[Any, Any, Any]


@dataclass
class OidcServer:
    """What the provider says; a test changes it as it goes."""

    now: Callable[[], datetime]
    issuer: str = ""
    person: dict[str, Any] = field(default_factory=lambda: {"sub": "1", "preferred_username": "ann"})
    userinfo: dict[str, Any] = field(default_factory=dict)
    overrides: dict[str, Any] = field(default_factory=dict)
    """Claims of the ID token that are other than they should be; None leaves one out."""
    metadata: dict[str, Any] = field(default_factory=dict)
    key: ECKey = field(default_factory=lambda: ECKey.generate_key("P-256", {"kid": "first", "use": "sig"}))
    signing_key: ECKey | None = None
    requests: list[str] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def id_token(self, nonce: str) -> str:
        moment = int(self.now().timestamp())
        claims = {"iss": self.issuer, "aud": CLIENT_ID, "iat": moment, "exp": moment + 300, "nonce": nonce}
        claims |= self.person | self.overrides
        claims = {name: value for name, value in claims.items() if value is not None}
        key = self.signing_key or self.key
        # With escapes, which half a character has no other form than.
        return jws.serialize_compact(
            {"alg": "ES256", "kid": self.key.kid}, json.dumps(claims), key, algorithms=["ES256"]
        )

    def application(self) -> Litestar:
        @get("/.well-known/openid-configuration")
        async def discovery(request: AnyRequest) -> dict[str, Any]:
            self.requests.append("discovery")
            endpoints = {
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "userinfo_endpoint": f"{self.issuer}/userinfo",
                "jwks_uri": f"{self.issuer}/keys",
            }
            return {"issuer": self.issuer, **endpoints, **self.metadata}

        @get("/keys")
        async def keys(request: AnyRequest) -> dict[str, Any]:
            self.requests.append("keys")
            return dict(KeySet([self.key]).as_dict(private=False))

        @get("/authorize")
        async def authorize(request: AnyRequest) -> Redirect:
            query = dict(request.query_params)
            assert query["response_type"] == "code"
            assert query["client_id"] == CLIENT_ID
            assert query["code_challenge_method"] == "S256"
            code = secrets.token_urlsafe(16)
            self.codes[code] = query
            back = urlencode({"code": code, "state": query["state"], "iss": self.issuer, "session_state": "x"})
            return Redirect(f"{query['redirect_uri']}?{back}", status_code=302)

        @post("/token")
        async def token(request: AnyRequest) -> Response[dict[str, Any]]:
            form = dict(await request.form())
            basic = base64.b64decode(request.headers.get("authorization", "Basic ").partition(" ")[2]).decode()
            asked = self.codes.pop(str(form["code"]), None)
            digest = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            given = basic or f"{form.get('client_id')}:{form.get('client_secret')}"
            if (
                asked is None
                or asked["code_challenge"] != challenge
                or asked["redirect_uri"] != form["redirect_uri"]
                or given.replace("%20", " ").replace("+", " ") != f"{CLIENT_ID}:{CLIENT_SECRET}"
            ):
                return Response({"error": "invalid_grant"}, status_code=400)
            answer = {"access_token": "access", "token_type": "Bearer", "id_token": self.id_token(asked["nonce"])}
            return Response(answer, status_code=200)

        @get("/userinfo")
        async def userinfo(request: AnyRequest) -> dict[str, Any]:
            assert request.headers["authorization"] == "Bearer access"
            return {"sub": self.person["sub"], **self.userinfo}

        return Litestar([discovery, keys, authorize, token, userinfo], openapi_config=None)


@asynccontextmanager
async def oidc_server(now: Callable[[], datetime]) -> AsyncIterator[OidcServer]:
    """A provider that takes connections."""
    provider = OidcServer(now)
    config = uvicorn.Config(provider.application(), port=0, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    await eventually(lambda: server.started or serving.done())
    provider.issuer = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    try:
        yield provider
    finally:
        server.should_exit = True
        await serving

"""The OpenID Connect provider of the settings, as this server speaks to it: where people sign in, and what their code stands for.

Called by `oidc`, and imported only where the settings name a provider: its libraries would cost every start a tenth of a second.
It must never believe an ID token that is not signed by the provider, for us, for this very sign-in, and now;
nor log a token, a code or a secret.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import httpx2
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import AsyncOAuth2Client
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet
from joserfc.jwt import JWTClaimsRegistry

from app.accounts.oidc import OidcFailed, OidcPerson
from app.clock import Monotonic, Now
from app.settings import Settings
from app.text import is_storable

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"]
"""Signatures with a key pair only: with a shared secret, whoever knows the client's could sign in as anybody."""

KEPT_S = 3600.0
"""How long what the provider says about itself is believed. A key that is not among the known ones is looked for at once."""

SUBJECT_MAX_CHARS = 255
"""OpenID Connect Core, section 2."""

TIMEOUT_S = 10.0
LEEWAY_S = 60
"""Two machines' clocks are this much apart at most."""


class OidcProvider:
    """Owns what is remembered of the provider. Makes a client for each sign-in, because its connection is seldom used again."""

    def __init__(self, settings: Settings, *, now: Now, monotonic: Monotonic) -> None:
        self._settings = settings
        self._now = now
        self._monotonic = monotonic
        self._metadata: dict[str, Any] = {}
        self._metadata_since = float("-inf")
        self._keys: KeySet | None = None

    @property
    def redirect_uri(self) -> str:
        """Where the provider sends people back to; it has to know this address."""
        return f"{self._settings.base_url}/oidc/callback"

    async def authorization_url(self, state: str, nonce: str, verifier: str) -> str:
        """Where people sign in. Raises OidcFailed."""
        metadata = await self._discovered()
        async with self._client(metadata) as client:
            url, _ = client.create_authorization_url(
                metadata["authorization_endpoint"], state=state, nonce=nonce, code_verifier=verifier
            )
        return str(url)

    async def person(self, code: str, nonce: str, verifier: str) -> OidcPerson:
        """Who the code stands for. Raises OidcFailed."""
        metadata = await self._discovered()
        try:
            async with self._client(metadata) as client:
                token = await client.fetch_token(
                    metadata["token_endpoint"], grant_type="authorization_code", code=code, code_verifier=verifier
                )
                claims = await self._believed(str(token.get("id_token", "")), nonce, metadata)
                if self._misses_something(claims) and (address := metadata.get("userinfo_endpoint")):
                    more = (await client.get(address)).raise_for_status().json()
                    if not isinstance(more, dict) or more.get("sub") != claims["sub"]:
                        raise OidcFailed("expected the userinfo of whom the ID token is about, got somebody else's")
                    claims = {**more, **claims}
        except (OAuthError, httpx2.HTTPError, ValueError) as problem:
            raise OidcFailed(f"the code was not taken: {type(problem).__name__}") from problem
        if not 0 < len(claims["sub"]) <= SUBJECT_MAX_CHARS or not is_storable(claims["sub"]):
            raise OidcFailed(f"expected a subject of 1 to {SUBJECT_MAX_CHARS} characters")
        return OidcPerson(metadata["issuer"], claims["sub"], claims)

    async def _believed(self, id_token: str, nonce: str, metadata: dict[str, Any]) -> dict[str, Any]:
        """The claims of an ID token. Raises OidcFailed."""
        client_id = self._settings.oidc_client_id
        expected = JWTClaimsRegistry(
            now=int(self._now().timestamp()),
            leeway=LEEWAY_S,
            iss={"essential": True, "value": metadata["issuer"]},
            aud={"essential": True, "value": client_id},
            sub={"essential": True},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        try:
            try:
                token = jwt.decode(id_token, await self._known_keys(metadata), algorithms=ALGORITHMS)
            except (InvalidKeyIdError, ValueError):
                # It may have been given new keys since.
                self._keys = None
                token = jwt.decode(id_token, await self._known_keys(metadata), algorithms=ALGORITHMS)
            expected.validate(token.claims)
        except (JoseError, ValueError) as problem:
            raise OidcFailed(f"the ID token cannot be believed: {problem}") from problem
        audience, presenter = token.claims["aud"], token.claims.get("azp")
        if presenter not in (None, client_id) or (isinstance(audience, list) and len(audience) > 1 and not presenter):
            raise OidcFailed("the ID token was made for another client")
        return token.claims

    def _misses_something(self, claims: dict[str, Any]) -> bool:
        wanted = self._settings.oidc_role_claim.partition(".")[0]
        return "preferred_username" not in claims or (bool(wanted) and wanted not in claims)

    async def _known_keys(self, metadata: dict[str, Any]) -> KeySet:
        if self._keys is None:
            self._keys = KeySet.import_key_set(await self._fetched(metadata["jwks_uri"]))  # type: ignore[arg-type]
        return self._keys

    async def _discovered(self) -> dict[str, Any]:
        """What the provider says about itself. Raises OidcFailed."""
        if self._monotonic() - self._metadata_since >= KEPT_S:
            issuer = self._settings.oidc_issuer
            found = await self._fetched(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
            if str(found.get("issuer", "")).rstrip("/") != issuer.rstrip("/"):
                raise OidcFailed(f"expected the issuer {issuer}, got {found.get('issuer')!r}")
            for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                if urlsplit(str(found.get(name, ""))).scheme not in ("https", urlsplit(issuer).scheme):
                    raise OidcFailed(f"expected an address for {name} that is as safe as the issuer's")
            self._metadata, self._metadata_since, self._keys = found, self._monotonic(), None
        return self._metadata

    async def _fetched(self, address: str) -> dict[str, Any]:
        try:
            async with httpx2.AsyncClient(timeout=TIMEOUT_S) as client:
                found = (await client.get(address)).raise_for_status().json()
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as problem:
            raise OidcFailed(f"{address} does not answer as it should: {type(problem).__name__}") from problem
        if not isinstance(found, dict):
            raise OidcFailed(f"expected an object at {address}")
        return found

    def _client(self, metadata: dict[str, Any]) -> Any:
        methods = metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        secret = self._settings.oidc_client_secret
        method = "client_secret_basic" if "client_secret_basic" in methods else "client_secret_post"
        return AsyncOAuth2Client(
            client_id=self._settings.oidc_client_id,
            client_secret=secret or None,
            token_endpoint_auth_method=method if secret else "none",
            scope=self._settings.oidc_scopes,
            redirect_uri=self.redirect_uri,
            code_challenge_method="S256",
            timeout=TIMEOUT_S,
        )

"""One attempt to deliver one event over HTTP. What comes back is a status: of the body nothing is read, and nobody is followed.

Called by the sender. A slow endpoint costs `timeout_s` and no more, whatever it does.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from app.webhooks.addresses import AddressRules
from app.webhooks.destination import Destination, ForbiddenAddress, Resolve, destinations, resolved

if TYPE_CHECKING:
    import httpx

USER_AGENT = "Kvasir-Webhooks/1"
RETRY_AFTER_MAX_S = 86_400
RETRY_AFTER_MAX_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Attempted:
    """What came of it: an HTTP status, or why there is none. `retry_after_s` is what the endpoint asks for."""

    status_code: int | None = None
    error: str | None = None
    retry_after_s: int = 0

    @property
    def is_taken(self) -> bool:
        """Whether the endpoint has it."""
        return self.status_code is not None and 200 <= self.status_code < 300


class Post(Protocol):
    """Takes a body to an endpoint. It does not raise."""

    async def __call__(self, url: str, headers: Mapping[str, str], body: bytes) -> Attempted: ...


class HttpPost:
    """Owns the client, which is made at the first attempt: most servers have no webhook, and importing it takes a while."""

    def __init__(self, rules: AddressRules, *, timeout_s: float, resolve: Resolve = resolved) -> None:
        self._rules = rules
        self._timeout_s = timeout_s
        self._resolve = resolve
        self._client: httpx.AsyncClient | None = None

    async def close(self) -> None:
        """Give back what the client holds."""
        if self._client is not None:
            await self._client.aclose()

    async def __call__(self, url: str, headers: Mapping[str, str], body: bytes) -> Attempted:
        import httpx

        try:
            async with asyncio.timeout(self._timeout_s):
                found = await destinations(url, self._rules, self._resolve)
                return await self._post_to_one(found, headers, body)
        except ForbiddenAddress as problem:
            return Attempted(error=str(problem))
        except TimeoutError:
            return Attempted(error=f"no answer within {self._timeout_s:g} s")
        except (OSError, httpx.HTTPError, httpx.InvalidURL, UnicodeError, ssl.SSLError) as problem:
            return Attempted(error=f"{type(problem).__name__}: {problem}")

    async def _post_to_one(self, found: list[Destination], headers: Mapping[str, str], body: bytes) -> Attempted:
        """To the first address that takes a connection."""
        import httpx

        for place, destination in enumerate(found, 1):
            try:
                return await self._post(destination, headers, body)
            except httpx.ConnectError:
                if place == len(found):
                    raise
        raise OSError("the host has no address")

    async def _post(self, to: Destination, headers: Mapping[str, str], body: bytes) -> Attempted:
        sent = {
            **headers,
            "host": to.host_header,
            "content-type": "application/json",
            "accept-encoding": "identity",
            "user-agent": USER_AGENT,
        }
        request = self._http().build_request(
            "POST", to.url, content=body, headers=sent, extensions={"sni_hostname": to.host}
        )
        response = await self._http().send(request, stream=True)
        try:
            return Attempted(response.status_code, retry_after_s=seconds_of(response.headers.get("retry-after", "")))
        finally:
            await response.aclose()

    def _http(self) -> httpx.AsyncClient:
        if self._client is None:
            import httpx

            self._client = httpx.AsyncClient(
                trust_env=False,
                follow_redirects=False,
                timeout=self._timeout_s,
                # Of two names at one address neither may get what is for the other.
                limits=httpx.Limits(max_keepalive_connections=0),
            )
        return self._client


def seconds_of(retry_after: str) -> int:
    """Of a Retry-After. One that is a date, or nonsense, is as good as none."""
    if not (retry_after.isascii() and retry_after.isdecimal()):
        return 0
    # Python refuses to read a number of thousands of digits.
    return min(int(retry_after[:RETRY_AFTER_MAX_DIGITS]), RETRY_AFTER_MAX_S)

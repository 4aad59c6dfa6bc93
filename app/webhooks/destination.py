"""Where a webhook really goes: its name is resolved once, every address of it is judged, and one of those is connected to.

So a name that answers otherwise the second time (DNS rebinding) is never asked a second time, and what an endpoint redirects to
is not gone to at all.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from app.errors import InvalidInput
from app.webhooks.addresses import AddressRules

PORTS = {"http": 80, "https": 443}

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host. Raises OSError where it has none."""


class ForbiddenAddress(Exception):
    """The endpoint is at an address that webhooks may not go to."""


@dataclass(frozen=True, slots=True)
class Destination:
    """One address of an endpoint. `host` is what its certificate has to be for, `host_header` what it is asked as."""

    url: str
    host: str
    host_header: str


async def resolved(host: str, port: int) -> Sequence[str]:
    """What the system's resolver says."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[4][0]) for address in found))


def require_url(url: str, rules: AddressRules) -> None:
    """Raises InvalidInput for what cannot be an endpoint, as far as its text says so; its name is judged with each sending."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as problem:
        raise _invalid(f"the url cannot be read: {problem}") from None
    if parts.scheme not in PORTS or not parts.hostname or port == 0:
        raise _invalid("expected a url that begins with https:// or http:// and names a host")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise _invalid("expected a url without a user, a password and a fragment")
    if not url.isascii() or any(character <= " " for character in url):
        raise _invalid("expected a url of ASCII characters without spaces")
    if _is_literal(parts.hostname) and not rules.allows(parts.hostname):
        raise _forbidden(parts.hostname)


async def destinations(url: str, rules: AddressRules, resolve: Resolve) -> list[Destination]:
    """Every address of an endpoint, each of them allowed. Raises ForbiddenAddress, or OSError where there is none."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or PORTS[parts.scheme]
    addresses = await resolve(host, port)
    if not addresses:
        raise OSError("the host has no address")
    for address in addresses:
        if not rules.allows(address):
            raise ForbiddenAddress(f"{address} is an address that webhooks may not go to")
    return [_destination(parts, address, port) for address in addresses]


def _destination(parts: SplitResult, address: str, port: int) -> Destination:
    shown = f"[{address}]" if ":" in address else address
    target = parts._replace(netloc=f"{shown}:{port}").geturl()
    return Destination(target, parts.hostname or "", parts.netloc)


def _is_literal(host: str) -> bool:
    return ":" in host or all(part.isdecimal() for part in host.split("."))


def _forbidden(host: str) -> InvalidInput:
    return InvalidInput(
        f"webhooks may not go to {host}: it is not an address of the internet (KVASIR_WEBHOOK_PRIVATE_NETWORKS)",
        code="address_not_allowed",
    )


def _invalid(detail: str) -> InvalidInput:
    return InvalidInput(detail, code="invalid_url")

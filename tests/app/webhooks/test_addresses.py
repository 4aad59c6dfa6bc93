"""Where webhooks may go: nowhere inside (SSRF), whatever form an address has and whatever a name says the second time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network

import pytest
import uvicorn
from hypothesis import given
from hypothesis.strategies import ip_addresses as addresses
from hypothesis.strategies import one_of
from litestar.types import Receive, Scope, Send

from app.errors import InvalidInput
from app.webhooks.addresses import AddressRules
from app.webhooks.destination import require_url
from app.webhooks.posting import RETRY_AFTER_MAX_S, HttpPost, seconds_of
from tests.support.live_server import eventually

INSIDE = [
    "127.0.0.1",
    "127.9.9.9",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "255.255.255.255",
    "224.0.0.1",
    "192.0.2.1",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:a9fe:a9fe",
    "::127.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b:1::1",
    "::ffff:0:127.0.0.1",
    "::ffff:0:8.8.8.8",
    "::8.8.8.8",
    "1fff::1",
    "4000::1",
    "5f00::1",
    "3fff::1",
    "2002:7f00:1::",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "fe80::1%eth0",
    "fc00::1",
    "fec0::1",
    "ff02::1",
    "not an address",
]


@pytest.mark.parametrize("address", INSIDE)
def test_an_address_inside_is_not_gone_to(address: str) -> None:
    assert not AddressRules("").allows(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"])
def test_an_address_of_the_internet_is(address: str) -> None:
    assert AddressRules("").allows(address)


def embeddings(inner: IPv4Address) -> dict[str, IPv6Address]:
    """Every form in which an IPv6 address means this one."""
    number = int(inner)
    return {
        "compatible": IPv6Address(number),
        "mapped": IPv6Address((0xFFFF << 32) | number),
        "translated": IPv6Address((0xFFFF << 48) | number),
        "NAT64": IPv6Address((0x64FF9B << 96) | number),
        "6to4": IPv6Address((0x2002 << 112) | (number << 80) | 1),
        "Teredo client": IPv6Address((0x20010000 << 96) | (0x08080808 << 64) | (number ^ 0xFFFFFFFF)),
        "Teredo server": IPv6Address((0x20010000 << 96) | (number << 64) | (0x08080808 ^ 0xFFFFFFFF)),
    }


@given(addresses(v=4))
def test_an_address_inside_is_not_gone_to_in_whatever_it_is_wrapped(inner: IPv4Address) -> None:
    rules = AddressRules("")
    assert rules.allows(str(inner)) == (inner.is_global and not inner.is_multicast)
    for form, address in embeddings(inner).items():
        on_the_internet = form not in ("compatible", "translated") and rules.allows(str(inner))
        assert rules.allows(str(address)) == on_the_internet, f"{address} ({form})"


@given(
    one_of(
        addresses(v=6),
        *[addresses(network=each) for each in ("::/32", "64:ff9b::/32", "fc00::/6", "2000::/3", "2001::/23")],
    )
)
def test_of_ipv6_only_global_unicast_is_gone_to(address: IPv6Address) -> None:
    if AddressRules("").allows(str(address)):
        is_wrapped = address.ipv4_mapped is not None or address in IPv6Network("64:ff9b::/96")
        assert is_wrapped or address in IPv6Network("2000::/3")
        assert is_wrapped or address.is_global or address.teredo is not None or address.sixtofour is not None


def test_a_form_that_nobody_routes_is_gone_to_where_it_and_what_is_in_it_are_allowed() -> None:
    assert AddressRules("10.0.0.0/8, ::ffff:0:0:0/96").allows("::ffff:0:10.1.2.3")
    for allowed in ("10.0.0.0/8", "::ffff:0:0:0/96"):
        assert not AddressRules(allowed).allows("::ffff:0:10.1.2.3")


def test_a_network_may_be_allowed_and_no_other_is_with_it() -> None:
    rules = AddressRules("10.0.0.0/8, ::1/128")
    assert [rules.allows(text) for text in ("10.1.2.3", "::ffff:10.1.2.3", "::1")] == [True] * 3
    assert [rules.allows(text) for text in ("127.0.0.1", "192.168.0.1", "::2", "fe80::1")] == [False] * 4


@pytest.mark.parametrize("networks", ["ten", "10.0.0.0/40", "10.0.0.0/8;::1"])
def test_what_is_no_network_is_refused(networks: str) -> None:
    with pytest.raises(ValueError, match="does not appear to be"):
        AddressRules(networks)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("ftp://example.org/", "invalid_url"),
        ("//example.org/", "invalid_url"),
        ("https://", "invalid_url"),
        ("https://user:word@example.org/", "invalid_url"),
        ("https://example.org/#part", "invalid_url"),
        ("https://example.org:99999/", "invalid_url"),
        ("https://example.org:0/", "invalid_url"),
        ("https://[::1/", "invalid_url"),
        ("https://exa mple.org/", "invalid_url"),
        ("https://exämple.org/", "invalid_url"),
        ("http://127.0.0.1:8080/", "address_not_allowed"),
        ("http://[::1]/", "address_not_allowed"),
        ("http://2130706433/", "address_not_allowed"),
    ],
)
def test_what_cannot_be_an_endpoint_is_refused_when_it_is_made(url: str, code: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        require_url(url, AddressRules(""))
    assert refused.value.code == code


# --- over HTTP -------------------------------------------------------------------------------------------------------


class Server:
    """A small server that notes what it gets."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.bytes_sent = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        path = scope["path"]
        self.seen.append((headers["host"], path))
        status = {"/redirect": 307, "/gone": 410, "/busy": 429}.get(path, 200)
        answer = [(b"location", b"/other"), (b"retry-after", b"7")] if status in (307, 429) else []
        while (await receive()).get("more_body"):
            continue
        await send({"type": "http.response.start", "status": status, "headers": answer})
        if path == "/endless":
            for _ in range(10_000):
                self.bytes_sent += 65536
                await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


@pytest.fixture
async def endpoint() -> AsyncIterator[tuple[Server, int]]:
    app = Server()
    config = uvicorn.Config(app, port=0, log_level="critical", lifespan="off", ws="none")  # type: ignore[arg-type]
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    await eventually(lambda: server.started)
    yield app, server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await serving


def resolver(*answers: Sequence[str]) -> tuple[list[str], HttpPost]:
    """A poster whose resolver gives these answers in turn, and the names it was asked for."""
    asked: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return answers[min(len(asked), len(answers)) - 1]

    return asked, HttpPost(AddressRules("127.0.0.1/32"), timeout_s=20, resolve=resolve)


async def test_a_name_is_resolved_once_and_the_connection_goes_to_that_address(endpoint: tuple[Server, int]) -> None:
    """DNS rebinding: the second answer would be an address inside."""
    app, port = endpoint
    asked, post = resolver(["127.0.0.1"], ["10.0.0.1"])
    attempted = await post(f"http://hook.example:{port}/in?a=b", {"webhook-id": "1"}, b"{}")
    await post.close()
    assert (attempted.status_code, asked) == (200, ["hook.example"])
    assert app.seen == [(f"hook.example:{port}", "/in")]


@pytest.mark.parametrize("addresses", [["10.0.0.1"], ["127.0.0.1", "10.0.0.1"], ["::ffff:10.0.0.1"]])
async def test_a_name_with_any_address_inside_is_not_gone_to(
    endpoint: tuple[Server, int], addresses: list[str]
) -> None:
    app, port = endpoint
    _, post = resolver(addresses)
    attempted = await post(f"http://hook.example:{port}/", {}, b"{}")
    await post.close()
    assert attempted.status_code is None
    assert "may not go to" in str(attempted.error)
    assert app.seen == []


async def test_nobody_is_followed_and_nothing_of_an_answer_is_read(endpoint: tuple[Server, int]) -> None:
    app, port = endpoint
    _, post = resolver(["127.0.0.1"])
    found = [await post(f"http://hook.example:{port}{path}", {}, b"{}") for path in ("/redirect", "/busy", "/endless")]
    await post.close()
    assert [(each.status_code, each.retry_after_s) for each in found] == [(307, 7), (429, 7), (200, 0)]
    assert [path for _, path in app.seen] == ["/redirect", "/busy", "/endless"]
    await eventually(lambda: app.bytes_sent > 0)
    assert app.bytes_sent < 10_000 * 65536


async def test_an_endpoint_that_is_not_there_is_a_failure_and_no_exception() -> None:
    _, post = resolver(["127.0.0.1"], [])
    for url in ("http://hook.example:1/", "http://hook.example/", "https://hook.example:1/"):
        attempted = await post(url, {}, b"{}")
        assert attempted.status_code is None
        assert attempted.error
    await post.close()


@pytest.mark.parametrize(
    ("asked", "wait_s"), [("120", 120), ("9" * 5000, RETRY_AFTER_MAX_S), ("soon", 0), ("", 0), ("-1", 0)]
)
def test_whatever_an_endpoint_asks_to_wait_is_a_wait(asked: str, wait_s: int) -> None:
    assert seconds_of(asked) == wait_s

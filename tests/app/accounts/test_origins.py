"""Which pages may act with the cookie."""

from __future__ import annotations

import pytest

from app.accounts.origins import Origins

HOST = "chat.example.com"


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("https://chat.example.com", HOST),
        ("http://chat.example.com", HOST),
        ("https://CHAT.example.com", HOST),
        ("https://chat.example.com:443", HOST),
        ("http://localhost:8080", "localhost:8080"),
        ("http://[::1]:8080", "[::1]:8080"),
    ],
)
def test_our_own_host_is_allowed(origin: str, host: str) -> None:
    assert Origins().allows(origin, host)


@pytest.mark.parametrize(
    "origin",
    [
        None,
        "",
        "null",
        "chat.example.com",
        "https://evil.com",
        "https://chat.example.com.evil.com",
        "https://evil-chat.example.com",
        "https://chat.example.com:8443",
        "https://user@chat.example.com",
        "ftp://chat.example.com",
        "https://[::1",
        "https://chat.example.com:99999",
        "https://",
    ],
)
def test_everything_else_is_not(origin: str | None) -> None:
    assert not Origins().allows(origin, HOST)


def test_a_request_without_a_host_has_no_own_host() -> None:
    assert not Origins().allows("https://chat.example.com", None)


def test_the_public_address_and_the_listed_ones_are_allowed_with_their_scheme() -> None:
    origins = Origins("https://chat.example.com/", "https://a.example.com, http://b.example.com:3000")
    inner = "10.0.0.1:8080"
    assert origins.allows("https://chat.example.com", inner)
    assert origins.allows("https://a.example.com", inner)
    assert origins.allows("http://b.example.com:3000", inner)
    assert not origins.allows("http://a.example.com", inner)
    assert not origins.allows("http://b.example.com", inner)

"""Which pages may act with somebody's cookie, and what an origin is. Called for unsafe REST calls and for every socket a cookie
opens, and by `app.widgets` for its own lists."""

from __future__ import annotations

from urllib.parse import urlsplit

DEFAULT_PORTS = {"http": 80, "https": 443}


class Origins:
    """Our own host, the public address, and those a setting allows; nothing else, and never a missing Origin."""

    def __init__(self, public_url: str = "", allowed_origins: str = "") -> None:
        listed = [public_url, *allowed_origins.split(",")]
        self._allowed = {origin for text in listed if (origin := normalised(text.strip())) is not None}

    def allows(self, origin: str | None, host: str | None) -> bool:
        """`origin` and `host` are the headers of the request. The scheme of our own host is left open, because behind a
        proxy that ends TLS the server does not know it."""
        parsed = normalised(origin or "")
        if parsed is None:
            return False
        scheme, name, port = parsed
        return parsed in self._allowed or normalised(f"{scheme}://{host}") == (scheme, name, port)


def normalised(text: str) -> tuple[str, str, int] | None:
    """Scheme, host and port; None for what is no origin of a page."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname or parts.username is not None:
        return None
    return parts.scheme, parts.hostname.lower(), port or DEFAULT_PORTS[parts.scheme]

"""The few REST calls of the terminal chat, with every failure as one sentence."""

from __future__ import annotations

from typing import Any

import httpx

from app.cli.chat_connection import RequestRefused, is_loopback

Item = dict[str, Any]


class ChatApi:
    """A signed-in client of `/api/v1`. Every method raises RequestRefused."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._client = httpx.Client(
            base_url=f"{url.rstrip('/')}/api/v1/", timeout=30, trust_env=not is_loopback(url), follow_redirects=False
        )
        if token is not None:
            self.token = token

    @property
    def token(self) -> str:
        """The bearer token in use; empty when nobody is signed in."""
        return str(self._client.headers.get("Authorization", "")).removeprefix("Bearer ")

    @token.setter
    def token(self, token: str) -> None:
        self._client.headers["Authorization"] = f"Bearer {token}"

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()

    def log_in(self, username: str, password: str) -> None:
        """Sign in by password."""
        self.token = self._call("POST", "auth/login", {"username": username, "password": password})["token"]

    def log_out(self) -> None:
        """End the sign-in that this client made."""
        self._call("POST", "auth/logout")

    def me(self) -> Item:
        """The account that is signed in."""
        return self._call("GET", "me")

    def new_conversation(self) -> str:
        """Make a conversation; its id."""
        return str(self._call("POST", "conversations", {})["id"])

    def conversations(self, limit: int) -> list[Item]:
        """The newest ones first."""
        return list(self._call("GET", f"conversations?limit={limit}")["items"])

    def messages(self, conversation_id: str) -> list[Item]:
        """The newest branch, oldest first."""
        items: list[Item] = []
        cursor = ""
        while True:
            page = self._call("GET", f"conversations/{conversation_id}/messages?limit=200{cursor}")
            items.extend(page["items"])
            if not page.get("next_cursor"):
                return items[::-1]
            cursor = f"&cursor={page['next_cursor']}"

    def _call(self, method: str, path: str, body: object = None) -> Item:
        try:
            response = self._client.request(method, path, json=body)
        except httpx.TransportError as error:
            address = self._client.base_url.copy_with(path="/")
            raise RequestRefused(f"no Kvasir server answers at {address}: {error}") from None
        if response.is_success:
            return dict(response.json()) if response.content else {}
        try:
            detail = response.json()["detail"]
        except (ValueError, KeyError, TypeError):
            detail = f"the server answered {response.status_code}"
        raise RequestRefused(str(detail), response.status_code)

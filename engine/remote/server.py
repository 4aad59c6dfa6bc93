"""The cluster over HTTP: its list of models, its tokenizer, and one stream for each answer.

Used by the remote engine, on the event loop. Whatever the network does comes out as `RemoteRefusal`, with a sentence that says
what was asked and never the key. Leaving a stream early closes its connection: that is how the other side learns of a cancel.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2

from engine.errors import TemplateRefused
from engine.remote.chunk import DONE, Chunk, read_chunk
from engine.remote.completion_request import messages_of
from engine.remote.config import RemoteConfig
from engine.remote.dialect import ABILITIES, Dialect
from engine.remote.event_lines import EventLines
from engine.remote.refusal import RemoteRefusal, refusal_of, sentence_of
from engine.types import FailureCode, Turn

ERROR_BODY_MAX_BYTES: Final = 65536
NO_SUCH_ROUTE: Final = (404, 405, 501)


class RemoteServer:
    """Owns the connections. Made on the loop that uses it, and closed once."""

    def __init__(self, config: RemoteConfig) -> None:
        self._config = config
        self._can_count = True
        # A stream that is compressed on its way would be held back until there is enough of it.
        headers = {"Accept-Encoding": "identity"}
        if config.api_key:
            headers["Authorization"] = f"Bearer {config.api_key}"
        self._client = httpx2.AsyncClient(
            headers=headers,
            timeout=httpx2.Timeout(config.connect_timeout_s),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=config.max_running),
            # A cluster is reached directly; a proxy that was meant for the internet would see what people say.
            trust_env=False,
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._client.aclose()

    async def models(self) -> list[dict[str, Any]]:
        """What it says it serves. Raises RemoteRefusal."""
        answer = await self._asked("GET", f"{self._config.api_url}/models")
        if answer.status_code != 200:
            raise refusal_of(answer.status_code, answer.content, None)
        try:
            body = answer.json()
            return [card for card in body["data"] if isinstance(card, dict) and isinstance(card.get("id"), str)]
        except (ValueError, KeyError, TypeError):
            raise RemoteRefusal(
                FailureCode.REMOTE_REFUSED, f"{self._config.api_url}/models is no list of models."
            ) from None

    async def count(self, dialect: Dialect, model: str, turns: Sequence[Turn]) -> int | None:
        """Tokens of the prompt, the template's included; None where it does not say, now or ever. Raises TemplateRefused."""
        if not self._can_count or not ABILITIES[dialect].counts_prompts:
            return None
        try:
            asked = {"model": model, "messages": messages_of(turns)}
            answer = await self._asked("POST", f"{self._config.root_url}/tokenize", json=asked)
        except RemoteRefusal:
            return None
        if answer.status_code in NO_SUCH_ROUTE:
            self._can_count = False
            return None
        if answer.status_code in (400, 422):
            raise TemplateRefused(
                f"the model's template does not accept this conversation: {sentence_of(answer.content)}"
            )
        try:
            count = answer.json()["count"]
        except (ValueError, KeyError, TypeError):
            return None
        return count if answer.status_code == 200 and isinstance(count, int) else None

    @asynccontextmanager
    async def completion(self, body: dict[str, Any], headers: dict[str, str]) -> AsyncIterator[AsyncIterator[Chunk]]:
        """The pieces of one answer, to its end. Raises RemoteRefusal, here or while they come.

        How long to wait for a piece is the caller's affair: nothing here times out once the connection stands.
        """
        timeout = httpx2.Timeout(self._config.connect_timeout_s, read=None)
        try:
            async with self._client.stream(
                "POST", f"{self._config.api_url}/chat/completions", json=body, headers=headers, timeout=timeout
            ) as answer:
                if answer.status_code != 200:
                    said = await _beginning(answer)
                    raise refusal_of(answer.status_code, said, answer.headers.get("Retry-After"))
                yield _chunks(answer)
        except httpx2.HTTPError as problem:
            raise self._unreachable(problem) from problem

    async def _asked(self, method: str, url: str, **options: Any) -> httpx2.Response:
        try:
            return await self._client.request(method, url, **options)
        except httpx2.HTTPError as problem:
            raise self._unreachable(problem) from problem

    def _unreachable(self, problem: httpx2.HTTPError) -> RemoteRefusal:
        """Before a piece came it may be asked again; the caller knows whether one came."""
        if isinstance(problem, httpx2.TimeoutException):
            said = "does not answer in time"
        elif isinstance(problem, httpx2.ConnectError):
            said = "cannot be reached"
        else:
            code = FailureCode.REMOTE_BROKE_OFF
            return RemoteRefusal(code, f"The connection to {self._config.root_url} broke off.", may_retry=True)
        code = FailureCode.REMOTE_UNREACHABLE
        return RemoteRefusal(code, f"The server of the model, {self._config.root_url}, {said}.", may_retry=True)


async def _chunks(answer: httpx2.Response) -> AsyncIterator[Chunk]:
    """Raises RemoteRefusal for what is no stream of pieces, and for an error in the middle of it."""
    lines = EventLines()
    try:
        async for piece in answer.aiter_raw():
            for data in lines.push(piece):
                if data == DONE:
                    return
                chunk = read_chunk(data)
                if chunk.error is not None:
                    said = f"The server of the model gave up: {chunk.error}"
                    raise RemoteRefusal(FailureCode.REMOTE_BROKE_OFF, said, may_retry=True)
                yield chunk
    except ValueError as problem:
        said = f"What the server of the model sends is no answer: {problem}."
        raise RemoteRefusal(FailureCode.REMOTE_BROKE_OFF, said) from None


async def _beginning(answer: httpx2.Response) -> bytes:
    """Of an error's body as much as may hold a sentence."""
    said = b""
    async for piece in answer.aiter_raw():
        said += piece
        if len(said) >= ERROR_BODY_MAX_BYTES:
            break
    return said[:ERROR_BODY_MAX_BYTES]

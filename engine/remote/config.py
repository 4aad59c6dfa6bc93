"""Settings of the remote engine, as one value handed in by whoever starts it. Every size says its unit. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.remote.dialect import Dialect


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteConfig:
    """Where the model runs, and how long it may take.

    `url` is that of its OpenAI-compatible API, with or without `/v1` at its end. `model` empty: the only one it serves.
    `dialect` None: what its list of models says. `context_tokens` 0: as it says.

    `secret` is what salts are derived from; empty, one is made in `folder`, and without a folder it lives as long as the process.
    Servers that share a cluster find each other's prefixes only with the same secret.

    `max_running` answers are asked for at once, the others wait here, within `max_waiting` and `max_waiting_tokens`. What fails
    before a word of it was shown is sent again, `retries` times. An answer fails where its first word takes longer than
    `first_token_timeout_s`, or a later piece longer than `silence_timeout_s`. The cluster is looked at every `probe_every_s`;
    who asks while it is away waits for it up to `away_wait_s`. A session is listed until `session_ttl_s` after its last turn.
    """

    url: str
    api_key: str = ""
    model: str = ""
    dialect: Dialect | None = None
    context_tokens: int = 0
    session_header: str = "X-Session-ID"
    secret: str = ""
    folder: Path | None = None
    connect_timeout_s: float = 5.0
    first_token_timeout_s: float = 120.0
    silence_timeout_s: float = 60.0
    retries: int = 2
    probe_every_s: float = 5.0
    away_wait_s: float = 30.0
    max_running: int = 32
    max_waiting: int = 256
    max_waiting_tokens: int = 1 << 18
    session_ttl_s: float = 86400.0

    @property
    def root_url(self) -> str:
        """Without `/v1`: where an inference server has what OpenAI's API has not."""
        return self.url.rstrip("/").removesuffix("/v1").rstrip("/")

    @property
    def api_url(self) -> str:
        """Where OpenAI's API begins."""
        return f"{self.root_url}/v1"

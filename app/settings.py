"""Every setting of the server: one field, one environment variable `KVASIR_<NAME>`, one line in the README's table.

Where the values come from, and what is refused, is in `app.settings_source`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

DATABASE_FILE = "kvasir.sqlite3"
"""In the data folder, where no other database is named."""

Port = Annotated[int, Meta(ge=0, le=65535)]
Positive = Annotated[int, Meta(ge=1)]
Limit = Annotated[int, Meta(ge=0, le=2**53)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
"""At most some thirty years: a moment later than the calendar's last one cannot be computed."""

Interval = Annotated[float, Meta(ge=0.01)]
"""Seconds between two things: with 0 they would be done without a pause."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings with their defaults. Units are in the names."""

    data: Annotated[Path, Meta(description="Folder of the database, the journal and the models")] = Path("data")
    host: Annotated[str, Meta(description="Address to listen on")] = "127.0.0.1"
    port: Annotated[Port, Meta(description="Port to listen on; 0 takes a free one")] = 8080
    public_url: Annotated[
        str,
        Meta(
            pattern=r"^(https?://[^/\s]+/?)?$",
            description="Address people open, where it is not http://HOST:PORT (behind a proxy)",
        ),
    ] = ""
    allowed_origins: Annotated[
        str, Meta(description="Other origins whose pages may use the cookie, comma separated; the own one always may")
    ] = ""
    cookie_secure: Annotated[bool, Meta(description="Mark the cookie Secure; on by itself under https")] = False

    database_url: Annotated[
        str, Meta(description="SQLAlchemy URL; empty means SQLite in the data folder; postgresql://… for PostgreSQL")
    ] = ""
    database_pool: Annotated[
        Positive, Meta(description="Most connections to PostgreSQL, or reading ones to SQLite")
    ] = 4

    redis_url: Annotated[
        str,
        Meta(
            pattern=r"^((redis|rediss|unix)://\S+)?$",
            description="Redis that several servers on one PostgreSQL database share; empty means one server, all in memory",
        ),
    ] = ""

    admin_password: Annotated[
        str, Meta(description="Password of the account admin, set when it is made; empty means sign-in by link only")
    ] = ""
    signup: Annotated[
        Literal["open", "closed"], Meta(description="open: whoever reaches the server may make an account of role user")
    ] = "closed"
    admin_reads_messages: Annotated[
        bool, Meta(description="Administrators may read what people say; every reading is in the audit log")
    ] = False
    oidc_issuer: Annotated[
        str,
        Meta(
            pattern=r"^(https?://[^\s?#]+)?$",
            description="Address of an OpenID Connect provider whose people may sign in; empty: none",
        ),
    ] = ""
    oidc_client_id: Annotated[str, Meta(description="What the provider knows this server by")] = ""
    oidc_client_secret: Annotated[str, Meta(description="The secret that belongs to it; empty for a public client")] = (
        ""
    )
    oidc_name: Annotated[str, Meta(description="What the button on the sign-in page calls the provider")] = (
        "single sign-on"
    )
    oidc_scopes: Annotated[str, Meta(description="What the provider is asked for")] = "openid profile"
    oidc_role_claim: Annotated[
        str, Meta(description="Claim that says who is what, as in groups or realm_access.roles; empty: all are users")
    ] = ""
    oidc_admin_values: Annotated[
        str, Meta(description="Values of that claim that make an administrator, comma separated")
    ] = ""
    oidc_agent_values: Annotated[str, Meta(description="Values of that claim that make an agent, comma separated")] = ""
    session_days: Annotated[int, Meta(ge=1, le=36500, description="Days until a sign-in ends")] = 30
    sign_in_ticket_s: Annotated[Seconds, Meta(description="Seconds the printed sign-in link works")] = 600
    socket_ticket_s: Annotated[Seconds, Meta(description="Seconds a ticket for a socket works")] = 30

    engine: Annotated[
        Literal["local", "remote"],
        Meta(
            description="local: the model runs in this process; remote: at KVASIR_ENGINE_URL, and nothing is loaded here"
        ),
    ] = "local"
    engine_url: Annotated[
        str,
        Meta(
            pattern=r"^(https?://[^/\s][^\s?#]*)?$",
            description="Address of the OpenAI-compatible API of vLLM, SGLang or another Kvasir, as in http://gpu:8000/v1",
        ),
    ] = ""
    engine_api_key: Annotated[str, Meta(description="The key that API wants; empty: none")] = ""
    engine_model: Annotated[str, Meta(description="Name of the model there; empty: the only one it has")] = ""
    engine_dialect: Annotated[
        Literal["auto", "vllm", "sglang", "kvasir", "openai"],
        Meta(
            description="What it understands beyond OpenAI's API; auto: as it says; openai: nothing, no separate caches"
        ),
    ] = "auto"
    engine_context_tokens: Annotated[
        int, Meta(ge=0, le=1 << 30, description="Tokens of its model's context; 0: as it says")
    ] = 0
    engine_session_header: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z0-9-]{1,64}$",
            description="Header that tells a router in front of it which turns belong together",
        ),
    ] = "X-Session-ID"
    engine_secret: Annotated[
        str,
        Meta(
            description="What the salts of its caches are made from, the same on all servers; empty: one in the data folder"
        ),
    ] = ""
    engine_connect_timeout_s: Annotated[Interval, Meta(description="Seconds to reach it, or to get a short answer")] = 5
    engine_first_token_timeout_s: Annotated[
        Interval, Meta(description="Seconds until the first word of an answer of it; then the answer fails")
    ] = 120
    engine_silence_timeout_s: Annotated[
        Interval, Meta(description="Seconds between two pieces of an answer of it; then the answer fails")
    ] = 60
    engine_retries: Annotated[
        int, Meta(ge=0, le=10, description="Times it is asked again for an answer of which nothing was shown yet")
    ] = 2
    engine_probe_s: Annotated[Interval, Meta(description="Seconds between two looks whether it is there")] = 5
    engine_away_wait_s: Annotated[
        Seconds, Meta(description="Seconds an answer waits for it while it is away; then the answer fails")
    ] = 30

    model: Annotated[
        str,
        Meta(description="auto, a folder with safetensors, a GGUF file, or a hub id ORG/NAME or modelscope:ORG/NAME"),
    ] = "auto"
    weights: Annotated[
        Literal["auto", "fp32", "bf16", "int8", "int4"],
        Meta(
            description="Precision of the weights; auto: the file's own 4 or 8 bits where compiled kernels run, else fp32"
        ),
    ] = "auto"
    kernels: Annotated[
        Literal["auto", "reference", "cpu"],
        Meta(
            description="reference: plain torch; cpu: compiled, or the server refuses; auto: compiled where they are built"
        ),
    ] = "auto"
    kv_dtype: Annotated[
        Literal["auto", "bf16", "int8"],
        Meta(
            description="Precision of keys and values; auto: 8 bits where compiled kernels run, else that of the weights"
        ),
    ] = "auto"
    threads: Annotated[int, Meta(ge=0, le=1024, description="Threads that compute; 0 means one per usable core")] = 0
    kv_memory_mib: Annotated[Positive, Meta(description="MiB of memory for the KV cache")] = 1024
    max_step_tokens: Annotated[
        Positive, Meta(description="Tokens computed in one engine step, prompt chunks included")
    ] = 256
    max_running: Annotated[Positive, Meta(description="Answers computed at the same time")] = 32
    max_waiting: Annotated[
        Positive, Meta(description="Answers that may wait for the engine; more are refused (503)")
    ] = 256
    max_waiting_tokens: Annotated[
        Positive, Meta(description="Prompt tokens of the answers that may wait; more are refused (503)")
    ] = 262144
    batch_window_ms: Annotated[
        int,
        Meta(ge=0, le=20, description="Milliseconds an idle engine gathers a first batch, never for people who wait"),
    ] = 0
    inter_token_target_ms: Annotated[
        int,
        Meta(
            ge=0,
            le=10000,
            description="Milliseconds between two tokens that a step is kept short for; 0: 2.5 times a stream's own pace",
        ),
    ] = 0
    kv_reserve: Annotated[
        float, Meta(ge=0, le=0.9, description="Share of the KV cache kept free for running answers to grow into")
    ] = 0.3
    speculation_tokens: Annotated[
        int, Meta(ge=0, le=32, description="Most tokens of an answer that one step guesses ahead; 0: none")
    ] = 6
    prefix_cache: Annotated[
        bool,
        Meta(description="Use again what earlier turns have computed; off reads every conversation whole each turn"),
    ] = True
    kv_host_mib: Annotated[
        int, Meta(ge=0, le=1 << 30, description="MiB of memory for sessions that wait outside the KV cache; 0: none")
    ] = 512
    kv_disk_mib: Annotated[
        int, Meta(ge=0, le=1 << 30, description="MiB of disk for sessions, in the data folder's kv; 0: none")
    ] = 4096
    kv_prefix_mib: Annotated[
        int, Meta(ge=0, le=1 << 30, description="MiB of the KV cache that personas' prompts may hold; 0: none")
    ] = 256
    session_device_s: Annotated[
        Seconds,
        Meta(description="Seconds after its last turn until a session leaves the KV cache for the memory beside it"),
    ] = 300
    session_host_s: Annotated[
        Seconds, Meta(description="Seconds after its last turn until a session leaves the memory for the disk")
    ] = 1800
    session_ttl_s: Annotated[
        Seconds,
        Meta(description="Seconds after its last turn until a session is gone everywhere; the conversation stays"),
    ] = 86400
    session_notice_s: Annotated[Seconds, Meta(description="Seconds of notice before a session leaves; 0: none")] = 30
    kv_transfer_timeout_s: Annotated[Interval, Meta(description="Seconds a read or write of the disk may take")] = 10
    kv_save_s: Annotated[
        Seconds, Meta(description="Seconds a stopping engine may spend on writing sessions to disk")
    ] = 10
    context_policy: Annotated[
        Literal["error", "drop_oldest_turns"],
        Meta(
            description="A conversation longer than the context: error refuses it, drop_oldest_turns leaves turns out"
        ),
    ] = "error"

    max_answer_tokens: Annotated[
        Positive, Meta(description="Tokens of an answer where the request gives no max_tokens")
    ] = 1024
    system_prompt: Annotated[
        str, Meta(description="System prompt of conversations that have none; empty: what the model's template says")
    ] = "You are a helpful AI assistant"
    temperature: Annotated[float, Meta(ge=0, le=2, description="Temperature where the request gives none")] = 0.2
    top_p: Annotated[float, Meta(gt=0, le=1, description="top_p where the request gives none")] = 0.5
    message_max_bytes: Annotated[Positive, Meta(description="Bytes of one message, UTF-8")] = 131072
    openai_body_max_bytes: Annotated[
        Positive, Meta(description="Bytes of one request to /v1, which brings its whole chat")
    ] = 8388608
    openai_responses_days: Annotated[
        int,
        Meta(ge=0, le=36500, description="Days a response of /v1 is kept after the last one of its chain; 0: for ever"),
    ] = 30

    delta_window_ms: Annotated[
        int,
        Meta(
            ge=0,
            le=1000,
            description="Milliseconds in which new text is gathered into one frame; the first goes at once",
        ),
    ] = 25
    message_flush_s: Annotated[
        Interval, Meta(description="Seconds between two writes of a growing answer's text to the database")
    ] = 2
    on_disconnect: Annotated[
        Literal["continue", "cancel"],
        Meta(description="What an answer does that nobody watches any more: continue or cancel"),
    ] = "continue"
    disconnect_grace_s: Annotated[
        Seconds, Meta(description="Seconds an unwatched answer lives when on_disconnect is cancel")
    ] = 60
    heartbeat_s: Annotated[Interval, Meta(description="Seconds between heartbeats on a socket")] = 30
    sse_heartbeat_s: Annotated[Interval, Meta(description="Seconds between comment lines on a silent event stream")] = (
        15
    )
    socket_idle_s: Annotated[
        Seconds, Meta(description="Seconds without a frame after which a socket is closed (4008)")
    ] = 900
    frame_max_bytes: Annotated[Positive, Meta(description="Bytes of one socket frame; more closes it (1009)")] = 262144
    outbox_max_frames: Annotated[
        Positive, Meta(description="Frames that may wait for a slow reader beside its streams")
    ] = 256
    send_timeout_s: Annotated[
        Interval, Meta(description="Seconds one send to a socket may take before its reader is too slow (1013)")
    ] = 30
    frames_per_second: Annotated[
        Positive, Meta(description="Frames a socket may send per second, with bursts of ten times as many (4029)")
    ] = 20
    sockets_max: Annotated[Positive, Meta(description="Open sockets of the whole server; more are closed (1013)")] = (
        2000
    )
    drain_s: Annotated[Seconds, Meta(description="Seconds running answers get to finish after SIGTERM")] = 30

    titles: Annotated[
        Literal["model", "message"],
        Meta(
            description="Who names a conversation that nobody has: model, after its first answer; message: its first one"
        ),
    ] = "model"
    temporary_hours: Annotated[int, Meta(ge=1, le=876000, description="Hours a temporary conversation lives")] = 24
    retention_days: Annotated[int, Meta(ge=0, le=36500, description="Days unchanged until removal; 0: never")] = 0
    handoff_keywords: Annotated[
        str,
        Meta(
            description="Whole words or phrases in a message that ask for a person, comma separated; a persona may have its own"
        ),
    ] = ""
    handoff_on_failure: Annotated[
        bool, Meta(description="Ask for a person where the model cannot answer or its answer fails")
    ] = False
    queued_answers: Annotated[bool, Meta(description="The model goes on answering while a person is waited for")] = (
        False
    )
    webhook_retry_s: Annotated[
        str,
        Meta(
            pattern=r"^ *\d+(\.\d+)?( *, *\d+(\.\d+)?)*$",
            description="Seconds between the tries of a webhook, comma separated; one more try than pauses, then it is dead",
        ),
    ] = "5,300,1800,7200,18000"
    webhook_timeout_s: Annotated[Interval, Meta(description="Seconds a webhook's endpoint may take to answer")] = 15
    webhook_private_networks: Annotated[
        str,
        Meta(description="Networks that webhooks may go to beside the internet, as in 10.0.0.0/8,::1/128; empty: none"),
    ] = ""
    webhook_days: Annotated[
        int, Meta(ge=0, le=36500, description="Days until what webhooks told is removed; 0: never")
    ] = 14
    webhook_disable_days: Annotated[
        int, Meta(ge=0, le=36500, description="Days an endpoint may take nothing until it is told nothing more; 0: any")
    ] = 5
    webhook_overlap_hours: Annotated[
        int, Meta(ge=0, le=8760, description="Hours in which a webhook's old secret signs beside its new one")
    ] = 24
    import_max_mib: Annotated[
        int,
        Meta(ge=1, le=1 << 20, description="MiB of a file that is imported as a conversation; more is refused (413)"),
    ] = 256
    import_max_messages: Annotated[Positive, Meta(description="Messages of such a file; more are refused (413)")] = (
        100000
    )
    quota_requests_per_minute: Annotated[Limit, Meta(description="Answers an account gets a minute (429); 0: any")] = 0
    quota_tokens_per_minute: Annotated[Limit, Meta(description="Tokens an account gets a minute (429); 0: any")] = 0
    quota_requests_per_day: Annotated[Limit, Meta(description="Answers an account gets a day, UTC (429); 0: any")] = 0
    quota_tokens_per_day: Annotated[Limit, Meta(description="Tokens an account gets a day, UTC (429); 0: any")] = 0
    quota_concurrent_answers: Annotated[Limit, Meta(description="Answers of an account at once (429); 0: any")] = 0
    quota_sockets: Annotated[Limit, Meta(description="Sockets of an account at once (4029); 0: any")] = 0

    visitor_session_s: Annotated[Interval, Meta(description="Seconds a token of a widget's visitor works")] = 3600
    visitor_days: Annotated[
        int,
        Meta(ge=0, le=36500, description="Days after its last visit until a widget's visitor is forgotten; 0: never"),
    ] = 90
    visitors_per_address: Annotated[
        Limit, Meta(description="New anonymous visitors of widgets an hour from one address (429); 0: any")
    ] = 60
    visitor_requests_per_minute: Annotated[Limit, Meta(description="Answers a visitor gets a minute (429); 0: any")] = (
        10
    )
    visitor_requests_per_day: Annotated[Limit, Meta(description="Answers a visitor gets a day, UTC (429); 0: any")] = (
        200
    )

    idempotency_hours: Annotated[int, Meta(ge=1, le=876000, description="Hours an Idempotency-Key is remembered")] = 24
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="Least important messages that are logged")
    ] = "info"
    log_format: Annotated[
        Literal["auto", "json", "console"], Meta(description="auto is console on a terminal and json elsewhere")
    ] = "auto"

    otel_endpoint: Annotated[
        str, Meta(description="Where OpenTelemetry's traces go (OTLP over HTTP); empty: nowhere")
    ] = ""

    @property
    def effective_database_url(self) -> str:
        """The URL in use; SQLite in the data folder where none is set."""
        if self.database_url:
            return self.database_url
        path = str((self.data / DATABASE_FILE).resolve())
        # In a URL these two mean something else than in the name of a folder.
        return f"sqlite:///{path.replace('%', '%25').replace('?', '%3F')}"

    @property
    def base_url(self) -> str:
        """Where people open the server, without a final slash."""
        return self.public_url.rstrip("/") or self.local_url

    @property
    def secure_cookies(self) -> bool:
        """Whether browsers may send our cookies over https only."""
        return self.cookie_secure or self.base_url.startswith("https://")

    @property
    def local_url(self) -> str:
        """Where programs on this machine reach the server."""
        # Every address of the machine is a place to listen on, and none to go to.
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

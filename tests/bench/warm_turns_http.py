"""What a client sees of reuse: the first token of a turn through HTTP, from a real `kvasir serve`, and where its time goes.

    python -m tests.bench.warm_turns_http DATA_FOLDER [--history-tokens 3000] [--persona-tokens 1000] [--rounds 5] [--restarts 3]
                                          [--json FILE]

DATA_FOLDER has `models` and, where they are built, `kernels` (`.cache` in a checkout); the server gets a data folder of its own
that links there. A turn is one POST and one event stream on a connection that is kept open, greedy, and it is over when the
stream is. Kinds of turns take turns, so that a busy moment hits one of each. The text of one fixed question has to be the same
whether its history was read just now for another user, found in memory, or found on disk by a server that was started again.

Where the time goes is told by four clocks, all of them the system's: the client's, and three in the server (`traced_server`).

    request sent → the engine is handed the turn → its prompt is encoded → its first text is back on the loop → the client has it
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from tests.support.server_process import ServerProcess, server_process

PASSWORD = "correct horse battery"
SENTENCES = [
    "The river runs past the old stone bridge and turns south behind the mill.",
    "In winter the garden is quiet, and only the robin comes to the window.",
    "My grandmother kept her letters in a copper box under the stairs.",
    "The train to the coast leaves at nine and takes a little over two hours.",
    "We painted the kitchen yellow, because the room never gets any sun.",
    "A violin maker in the next street sells spare strings and good advice.",
    "When the clouds are low, you can hear the ships in the harbour.",
    "The library is open until eight, and the reading room is warm.",
]
QUESTION = "Which of these things do you like best, and why do you like it?"
ANSWER_TOKENS = 8
PATIENCE_S = 120
SEGMENTS = ("until the engine has it", "encoding", "engine", "until the client has it")


def prose(number: int, seed: int) -> str:
    """At least so many words, in sentences: what a model answers to a heap of words may begin with tokens that are no text."""
    said: list[str] = []
    while sum(len(sentence.split()) for sentence in said) < number:
        said.append(SENTENCES[(seed + len(said) * (seed + 2)) % len(SENTENCES)])
    return " ".join(said)


@dataclass
class Seen:
    """One turn by the client's clock, in seconds of the monotonic clock."""

    sent: float
    accepted: float
    first_text: float
    text: str
    response_id: str
    message_id: str
    answer_id: str
    usage: dict[str, Any]

    @property
    def ttft_ms(self) -> float:
        return (self.first_text - self.sent) * 1000


class Client:
    """Signed in, on one connection."""

    def __init__(self, url: str, username: str = "admin") -> None:
        self.url = url
        self._http = HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE_S)
        self._headers = {"Content-Type": "application/json"}
        login = self.ask("POST", "auth/login", {"username": username, "password": PASSWORD})
        self._headers["Authorization"] = f"Bearer {login['token']}"

    def close(self) -> None:
        self._http.close()

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """A request and the JSON of its reply."""
        self._http.request(method, f"/api/v1/{path}", None if body is None else json.dumps(body), self._headers)
        with self._http.getresponse() as reply:
            content = reply.read()
            if reply.status >= 400:
                raise RuntimeError(f"{method} {path}: {reply.status} {content[:300]!r}")
            return json.loads(content) if content else None

    def conversation(self, persona: str | None = None) -> str:
        return str(self.ask("POST", "conversations", {"persona": persona} if persona else {})["id"])

    def turn(self, conversation: str, content: str, **more: Any) -> Seen:
        """Say something and read the answer to its end."""
        params = {"temperature": 0, "max_tokens": ANSWER_TOKENS, "ignore_eos": True}
        sent = time.monotonic()
        said = self.ask(
            "POST", f"conversations/{conversation}/messages", {"content": content, "params": params, **more}
        )
        accepted = time.monotonic()
        first_text, text, usage = 0.0, "", {}
        for kind, event in self._events(said["response"]["id"]):
            if kind == "response.output_text.delta":
                first_text = first_text or time.monotonic()
                text += event["data"]["text"]
            elif "usage" in event.get("data", {}):
                if kind != "response.completed" and kind != "response.incomplete":
                    raise RuntimeError(f"an answer ended as {kind}: {event}")
                usage = event["data"]["usage"]
        ids = said["response"]["id"], said["message"]["id"], said["response"]["message_id"]
        return Seen(sent, accepted, first_text, text, *ids, usage)

    def _events(self, response_id: str) -> Iterator[tuple[str, Any]]:
        self._http.request("GET", f"/api/v1/responses/{response_id}/events?after=0", headers=self._headers)
        with self._http.getresponse() as reply:
            kind = ""
            while line := reply.readline():
                if line.startswith(b"event: "):
                    kind = line[7:].strip().decode()
                elif line.startswith(b"data: "):
                    yield kind, json.loads(line[6:])


@dataclass
class Kinds:
    """Turns by what kind they are, with where the time of each went."""

    turns: dict[str, list[Seen]] = field(default_factory=dict)

    def note(self, kind: str, seen: Seen) -> Seen:
        self.turns.setdefault(kind, []).append(seen)
        return seen

    def rows(self, traced: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
        """Medians in milliseconds by kind."""
        return {kind: self._row(turns, traced) for kind, turns in self.turns.items()}

    def _row(self, turns: list[Seen], traced: dict[str, dict[str, float]]) -> dict[str, float]:
        parts: dict[str, list[float]] = {}
        for seen in turns:
            moments = traced[seen.response_id]
            points = (seen.sent, moments["submitting"], moments["submitted"], moments["first_text"], seen.first_text)
            for name, begin, end in zip(SEGMENTS, points, points[1:], strict=False):
                parts.setdefault(name, []).append((end - begin) * 1000)
            parts.setdefault("ttft", []).append(seen.ttft_ms)
            parts.setdefault("accepted", []).append((seen.accepted - seen.sent) * 1000)
            parts.setdefault("counting", []).append((moments.get("checked", 0.0) - moments.get("checking", 0.0)) * 1000)
            parts.setdefault("prefill", []).append(moments["prefill_ms"])
            parts.setdefault("cached", []).append(seen.usage["cached_tokens"])
            parts.setdefault("input", []).append(seen.usage["input_tokens"])
        return {name: median(values) for name, values in parts.items()}


@contextmanager
def running(data: Path, trace: Path, settings: dict[str, str]) -> Iterator[Client]:
    """A server that is ready, and somebody who is signed in."""
    environment = {"KVASIR_KERNELS": "auto", "KVASIR_ADMIN_PASSWORD": PASSWORD, "TRACE_FILE": str(trace), **settings}
    with server_process("-m", "tests.bench.traced_server", "--data", str(data), "--port", "0", **environment) as server:
        server.wait_ready(PATIENCE_S)
        client = Client(server.url)
        try:
            yield client
        finally:
            client.close()
            _stop(server)


def _stop(server: ServerProcess) -> None:
    if code := server.stop(timeout_s=PATIENCE_S):
        raise RuntimeError(f"the server ended with {code}: {server.errors[-5:]}")


@dataclass(frozen=True)
class Result:
    """`rows` are medians in milliseconds by kind of turn."""

    rows: dict[str, dict[str, float]]
    same_text: bool

    def ratio(self, kind: str, to: str = "first turn") -> float:
        return self.rows[kind]["ttft"] / self.rows[to]["ttft"]


def measure(
    source: Path,
    *,
    history_tokens: int,
    persona_tokens: int,
    rounds: int,
    restarts: int,
    settings: dict[str, str] | None = None,
    report: Callable[[str], None] = print,
) -> Result:
    """All of it, in a data folder of its own."""
    kinds, questions, texts = Kinds(), count(100), set()
    with tempfile.TemporaryDirectory(prefix="kvasir-http-") as name:
        data, trace = Path(name) / "data", Path(name) / "trace.jsonl"
        data.mkdir()
        for part in ("models", "kernels"):
            if (source / part).is_dir():
                (data / part).symlink_to((source / part).resolve())

        def asked() -> str:
            """Another question each time, so that nothing of it was computed before."""
            return f"{next(questions)} {QUESTION}"

        _make_account(data, "bert")
        with running(data, trace, settings or {}) as client:
            client.turn(client.conversation(), "Hello.")
            history = client.conversation()
            first = kinds.note("history read", client.turn(history, prose(history_tokens, 1)))
            client.ask("POST", "personas", {"name": "long", "system_prompt": prose(persona_tokens, 2)})
            _wait_for(lambda: client.ask("GET", "personas/long")["prefix"]["state"] == "ready")
            report(f"history: {first.usage['input_tokens']} tokens")
            for _ in range(rounds):
                kinds.note("first turn", client.turn(client.conversation(), asked()))
                kinds.note("next turn", client.turn(history, asked()))
                kinds.note("persona", client.turn(client.conversation("long"), asked()))
            texts |= {client.turn(history, QUESTION, parent_id=first.answer_id).text for _ in range(2)}
            texts.add(_cold_text(client.url, prose(history_tokens, 1)))
        for _ in range(restarts):
            with running(data, trace, settings or {}) as client:
                client.turn(client.conversation(), "Hello.")
                kinds.note("next turn, restarted", client.turn(history, asked()))
                _wait_for(lambda: client.ask("GET", "personas/long")["prefix"]["state"] == "ready")
                kinds.note("persona, restarted", client.turn(client.conversation("long"), asked()))
                texts.add(client.turn(history, QUESTION, parent_id=first.answer_id).text)
        lines = [json.loads(line) for line in trace.read_text().splitlines()]
        return Result(kinds.rows({line["id"]: line for line in lines}), len(texts) == 1)


def _make_account(data: Path, name: str) -> None:
    command = [sys.executable, "-c", "from app.cli import main; main()", "user", "create", name, "--password-stdin"]
    subprocess.run([*command, "--data", str(data)], input=PASSWORD, text=True, check=True, stdout=subprocess.DEVNULL)


def _cold_text(url: str, history: str) -> str:
    """What somebody is answered of whom nothing is kept."""
    bert = Client(url, "bert")
    try:
        conversation = bert.conversation()
        first = bert.turn(conversation, history)
        return bert.turn(conversation, QUESTION, parent_id=first.answer_id).text
    finally:
        bert.close()


def _wait_for(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {PATIENCE_S} s")
        time.sleep(0.05)


def table(result: Result) -> list[str]:
    """Where the time of each kind of turn goes, in milliseconds."""
    head = ["turn", "TTFT", "x first turn", *SEGMENTS, "202 after", "counting", "prefill", "cached / prompt"]
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " --: |" * (len(head) - 1)]
    for kind, row in result.rows.items():
        numbers = [row["ttft"], *(row[name] for name in SEGMENTS), row["accepted"], row["counting"], row["prefill"]]
        cells = [f"{number:.1f}" for number in numbers]
        cells.insert(1, f"{result.ratio(kind):.2f}")
        lines.append(f"| {kind} | {' | '.join(cells)} | {row['cached']:.0f} / {row['input']:.0f} |")
    return [*lines, f"the same text everywhere: {result.same_text}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--history-tokens", type=int, default=3000)
    parser.add_argument("--persona-tokens", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--restarts", type=int, default=3)
    parser.add_argument("--json", type=Path, default=None)
    arguments = parser.parse_args()
    result = measure(
        arguments.data,
        history_tokens=arguments.history_tokens,
        persona_tokens=arguments.persona_tokens,
        rounds=arguments.rounds,
        restarts=arguments.restarts,
    )
    print("\n".join(table(result)))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"rows": result.rows, "same_text": result.same_text}, indent=1))


if __name__ == "__main__":
    main()

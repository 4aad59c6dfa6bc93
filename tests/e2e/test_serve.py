"""`kvasir serve` with the real model, as on the day somebody installs it: first start, a question, a second start, an end."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import httpx
import pytest
from websockets.sync.client import connect

from tests.support.models import bundled_model_folder
from tests.support.server_process import REAL, ServerProcess, server_process

pytestmark = [pytest.mark.model, pytest.mark.slow]

QUESTION = "What is the capital of France?"
SECOND_START_S = 30
"""The promise is 10 s on an idle machine; tests share theirs."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A fresh data folder that has the model already: fetching it has tests of its own."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "models").symlink_to(bundled_model_folder().parent)
    return folder


def signed_in(server: ServerProcess) -> httpx.Client:
    """A browser's client, after the printed link was opened."""
    client = httpx.Client(base_url=server.url, trust_env=False)
    answer = client.get(server.sign_in_link)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert client.cookies["kvasir_session"]
    return client


def ask(server: ServerProcess, client: httpx.Client, conversation_id: str) -> list[dict[str, object]]:
    """Ask over the WebSocket with the cookie; every frame up to the terminal one."""
    headers = {"Cookie": f"kvasir_session={client.cookies['kvasir_session']}"}
    address = server.url.replace("http", "ws") + "/ws"
    frames = []
    with connect(address, additional_headers=headers, origin=server.url, proxy=None) as socket:  # type: ignore[arg-type]
        socket.send(json.dumps({"type": "session.hello", "data": {}}))
        data = {"conversation_id": conversation_id, "content": QUESTION, "params": {"temperature": 0, "max_tokens": 40}}
        socket.send(json.dumps({"type": "message.create", "id": "1", "data": data}))
        for text in socket:
            frames.append(json.loads(text))
            if frames[-1]["type"].removeprefix("response.") in ("completed", "incomplete", "failed", "interrupted"):
                break
    return frames


def test_from_the_first_start_to_an_answer_and_over_a_restart(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with server_process(*REAL, "--data", str(data), "--port", "0") as server:
        client = signed_in(server)
        again = httpx.get(server.sign_in_link, trust_env=False)
        assert (again.status_code, again.headers["location"]) == (303, "/?signin=expired")
        server.wait_ready(120)
        conversation = client.post("/api/v1/conversations", json={}, headers={"Origin": server.url}).json()["id"]
        frames = ask(server, client, conversation)
        texts = [frame["data"]["text"] for frame in frames if frame["type"] == "response.output_text.delta"]  # type: ignore[index]
        assert "Paris" in "".join(texts)
        assert len(texts) > 1
        assert [frame["seq"] for frame in frames if "seq" in frame] == list(range(1, len(frames) - 1))
        metrics = client.get("/metrics").text
        assert 'kvasir_responses_total{status="completed"} 1.0' in metrics
        assert "kvasir_time_to_first_token_seconds_count 1.0" in metrics
        assert server.stop() == 0

    with server_process(*REAL, "--data", str(data), "--port", "0") as server:
        assert server.url
        seconds = server.wait_ready(SECOND_START_S)
        with capsys.disabled():
            print(f" second start ready {seconds:.1f} s after its link ", end="")
        with httpx.Client(base_url=server.url, cookies=client.cookies, trust_env=False) as later:
            messages = later.get(f"/api/v1/conversations/{conversation}/messages").json()["items"]
        assert [message["role"] for message in messages] == ["assistant", "user"]
        assert messages[0]["content"] == "".join(texts)
        assert messages[1]["content"] == QUESTION
        assert server.stop(signal.SIGINT) == 0
    client.close()


def test_a_second_server_on_the_same_data_folder_is_refused_in_one_sentence(data: Path) -> None:
    with server_process(*REAL, "--data", str(data), "--port", "0") as first:
        assert first.url
        first.wait_ready(120)
        with server_process(*REAL, "--data", str(data), "--port", "0") as second:
            assert second.wait() == 2
        assert len(second.errors) == 1
        assert f"another Kvasir server (process {first.process.pid}) uses the database" in second.errors[0]


def damaged(folder: Path, kind: str) -> str:
    """A model that cannot be served; the name to give it to `--model` under."""
    source = bundled_model_folder()
    gguf = next(source.glob("*.gguf"))
    path = folder / kind
    match kind:
        case "cut-off.gguf":
            path.write_bytes(gguf.read_bytes()[: 20 << 20])
        case "letter.gguf":
            path.write_text("Dear aunt, this is no model.")
        case "empty-folder":
            path.mkdir()
        case "other-shape":
            path.mkdir()
            (path / "config.json").write_text('{"architectures": ["MambaForCausalLM"], "model_type": "mamba"}')
        case "no-weights":
            path.mkdir()
            config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64}
            (path / "config.json").write_text(json.dumps(config))
        case "not-there":
            pass
    return str(path)


@pytest.mark.parametrize(
    "kind", ["cut-off.gguf", "letter.gguf", "empty-folder", "other-shape", "no-weights", "not-there"]
)
def test_a_model_that_cannot_be_served_ends_the_start_with_one_sentence(tmp_path: Path, kind: str) -> None:
    model = damaged(tmp_path, kind)
    with server_process(
        *REAL, "--data", str(tmp_path / "data"), "--port", "0", "--model", model, KVASIR_LOG_LEVEL="error"
    ) as server:
        assert server.wait(120) == 2
    sentences = [line for line in server.errors if line.startswith("Error: ")]
    assert server.errors == sentences
    assert len(sentences) == 1
    assert kind.partition(".")[0] in sentences[0]


def test_an_unknown_model_without_a_network_ends_the_start_with_one_sentence(tmp_path: Path) -> None:
    options = ("--data", str(tmp_path / "data"), "--port", "0", "--model", "nobody/no-such-model")
    nowhere = {"HTTPS_PROXY": "http://127.0.0.1:1", "https_proxy": "http://127.0.0.1:1", "KVASIR_LOG_LEVEL": "error"}
    with server_process(*REAL, *options, **nowhere) as server:
        assert server.wait(120) == 2
    (sentence,) = [line for line in server.errors if line.startswith("Error: ")]
    assert "could not download nobody/no-such-model" in sentence


def test_a_taken_port_ends_the_start_with_one_sentence(data: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        with server_process(*REAL, "--data", str(data), "--port", port) as server:
            assert server.wait() == 2
    assert server.output == []
    assert server.errors == [
        f"Error: port {port} of 127.0.0.1 is used by another program; choose another one with --port"
    ]

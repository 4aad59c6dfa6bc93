"""Models come from hubs file by file, go on where a download broke, and are refused before their weights are fetched."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, unquote, urlsplit

import httpx
import pytest

from engine.errors import ModelError
from engine.model.hub import HuggingFace, ModelScope, fetch_from_hub
from tests.support.tiny_llama import write_folder

MODEL = "org/tiny"
COMMIT = "a" * 40


class FakeHub:
    """Both hubs' interfaces over one folder of files."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.asked: list[str] = []
        self.break_after: int | None = None
        """Bytes after which the next weight file's transfer breaks off."""

    def modelscope(self, request: httpx.Request) -> httpx.Response:
        query = dict(request.url.params)
        if request.url.path == f"/api/v1/models/{MODEL}/repo/files":
            entries = [{"Path": name, "Size": len(content), "Type": "blob"} for name, content in self.files.items()]
            entries.append({"Path": "folder", "Size": 0, "Type": "tree"})
            return httpx.Response(200, json={"Code": 200, "Data": {"Files": entries}})
        if request.url.path != f"/api/v1/models/{MODEL}/repo":
            return httpx.Response(404)
        self.asked.append(query["FilePath"])
        content = self.files[query["FilePath"]]
        start = int(request.headers.get("Range", "bytes=0-")[6:-1])
        if self.break_after is not None and query["FilePath"].endswith(".safetensors"):
            cut, self.break_after = self.break_after, None
            return httpx.Response(200, stream=_Broken(content[:cut]))
        return httpx.Response(206 if start else 200, content=content[start:])


class _Broken(httpx.SyncByteStream):
    def __init__(self, content: bytes) -> None:
        self._content = content

    def __iter__(self) -> Iterator[bytes]:
        yield self._content
        raise httpx.ReadError("the connection broke")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("hub")
    write_folder(folder)
    contents = {path.name: path.read_bytes() for path in folder.iterdir()}
    return {
        **contents,
        "README.md": b"# no",
        "model.gguf": b"GGUF",
        "pytorch_model.bin": b"no",
        "onnx/config.json": b"{}",
    }


def modelscope(hub: FakeHub) -> ModelScope:
    return ModelScope(lambda: httpx.Client(base_url="http://hub", transport=httpx.MockTransport(hub.modelscope)))


def silent(_what: str, _done: int, _total: int | None) -> None:
    pass


WANTED = {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}


def test_modelscope_brings_what_a_start_reads_and_nothing_else(files: dict[str, bytes], tmp_path: Path) -> None:
    hub = FakeHub(files)
    seen: list[tuple[str, int, int | None]] = []
    fetch_from_hub(modelscope(hub), MODEL, tmp_path, lambda *report: seen.append(report))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {name: files[name] for name in WANTED}
    total = sum(len(files[name]) for name in WANTED)
    assert seen[-1] == (f"downloading {MODEL}", total, total)


def test_a_broken_download_goes_on_where_it_stopped(files: dict[str, bytes], tmp_path: Path) -> None:
    hub = FakeHub(files)
    hub.break_after = 1000
    with pytest.raises(ModelError, match=r"the connection broke in model\.safetensors .* goes on there"):
        fetch_from_hub(modelscope(hub), MODEL, tmp_path, silent)
    assert (tmp_path / "model.safetensors.partial").stat().st_size == 1000
    assert not (tmp_path / "model.safetensors").exists()
    hub.asked.clear()
    fetch_from_hub(modelscope(hub), MODEL, tmp_path, silent)
    assert (tmp_path / "model.safetensors").read_bytes() == files["model.safetensors"]
    assert hub.asked == ["model.safetensors"]


def test_an_unsupported_architecture_is_refused_before_its_weights(files: dict[str, bytes], tmp_path: Path) -> None:
    config = json.loads(files["config.json"])
    hub = FakeHub({**files, "config.json": json.dumps({**config, "architectures": ["MambaForCausalLM"]}).encode()})
    with pytest.raises(ModelError, match="ModelScope model org/tiny is of the architecture MambaForCausalLM"):
        fetch_from_hub(modelscope(hub), MODEL, tmp_path, silent)
    assert "model.safetensors" not in hub.asked


def test_a_name_that_leads_out_of_the_folder_is_left_out(files: dict[str, bytes], tmp_path: Path) -> None:
    hub = FakeHub({**files, "../evil.json": b"{}", "sub/other.json": b"{}"})
    folder = tmp_path / "into"
    folder.mkdir()
    fetch_from_hub(modelscope(hub), MODEL, folder, silent)
    assert {path.name for path in folder.iterdir()} == WANTED
    assert not list(tmp_path.glob("*.json"))


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (lambda request: httpx.Response(404), "there is no such model"),
        (lambda request: httpx.Response(503), "answered with status 503"),
        (lambda request: httpx.Response(200, text="<html>"), "something that is not a list of files"),
        (lambda request: httpx.Response(200, json={"Data": None}), "something that is not a list of files"),
    ],
)
def test_what_a_hub_answers_wrongly_is_one_sentence(
    tmp_path: Path, answer: Callable[[httpx.Request], httpx.Response], sentence: str
) -> None:
    hub = ModelScope(lambda: httpx.Client(base_url="http://hub", transport=httpx.MockTransport(answer)))
    with pytest.raises(ModelError, match=rf"could not download org/tiny from ModelScope: .*{sentence}"):
        fetch_from_hub(hub, MODEL, tmp_path, silent)


def test_a_hub_that_cannot_be_reached_is_one_sentence(tmp_path: Path) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("Name or service not known")

    hub = ModelScope(lambda: httpx.Client(base_url="http://hub", transport=httpx.MockTransport(refuse)))
    with pytest.raises(ModelError, match=r"the hub cannot be reached .*check the name and the network"):
        fetch_from_hub(hub, MODEL, tmp_path, silent)


@contextmanager
def hugging_face_server(files: dict[str, bytes]) -> Iterator[str]:
    """As much of the hub's HTTP interface as a snapshot download uses, on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, *, body: bool) -> None:
            url = urlsplit(self.path)
            path = unquote(url.path)
            if path.startswith(f"/api/models/{MODEL}/revision/") or path == f"/api/models/{MODEL}":
                siblings = [{"rfilename": name, "size": len(content)} for name, content in files.items()]
                self._json({"id": MODEL, "sha": COMMIT, "siblings": siblings, "tags": [], "private": False})
            elif path.startswith(f"/api/models/{MODEL}/tree/"):
                assert isinstance(parse_qs(url.query), dict)
                self._json(
                    [
                        {"type": "file", "path": n, "size": len(c), "oid": f"{i:040x}"}
                        for i, (n, c) in enumerate(files.items())
                    ]
                )
            elif path.startswith(f"/{MODEL}/resolve/") and path.rpartition("/")[2] in files:
                name = path.rpartition("/")[2]
                content = files[name]
                start = int(self.headers.get("Range", "bytes=0-")[6:].split("-")[0])
                self.send_response(206 if start else 200)
                self.send_header("ETag", f'"{list(files).index(name):040x}"')
                self.send_header("X-Repo-Commit", COMMIT)
                self.send_header("Content-Length", str(len(content) - start))
                self.end_headers()
                if body:
                    self.wfile.write(content[start:])
            else:
                self.send_response(404)
                self.send_header("X-Error-Code", "RepoNotFound")
                self.send_header("Content-Length", "0")
                self.end_headers()

        def _json(self, value: object) -> None:
            content = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_hugging_face_brings_what_a_start_reads_and_nothing_else(files: dict[str, bytes], tmp_path: Path) -> None:
    with hugging_face_server(files) as endpoint:
        fetch_from_hub(HuggingFace(endpoint), MODEL, tmp_path, silent)
    found = {path.name: path.read_bytes() for path in tmp_path.iterdir() if not path.name.startswith(".")}
    assert found == {name: files[name] for name in WANTED}


def test_a_model_hugging_face_does_not_have_is_one_sentence(tmp_path: Path) -> None:
    with (
        hugging_face_server({}) as endpoint,
        pytest.raises(ModelError, match="could not download other/one from Hugging Face"),
    ):
        fetch_from_hub(HuggingFace(endpoint), "other/one", tmp_path, silent)


def test_a_hugging_face_that_cannot_be_reached_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="the hub cannot be reached"):
        fetch_from_hub(HuggingFace("http://127.0.0.1:9"), MODEL, tmp_path, silent)

"""Fetches the folder of a model from Hugging Face or ModelScope, where one of them can be reached.

Both fill a folder that keeps what an interrupted download already brought. Only files that a start reads are fetched, and the
configuration first: a model of an unsupported architecture is refused before its weights are downloaded.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import httpx

from engine.errors import ModelError
from engine.model.config_shape import shape_of_config
from engine.model.json_file import read_json_object
from engine.model.pull_progress import PullProgress, watched

SMALL_FILES: Final = ("*.json", "*.jinja")
WEIGHT_FILES: Final = ("*.safetensors",)
MODELSCOPE_ENDPOINT: Final = "https://modelscope.cn"
MODELSCOPE_TIMEOUT_S: Final = 30.0


class Hub(Protocol):
    """A place with models."""

    @property
    def title(self) -> str:
        """For people."""

    def sizes(self, model_id: str, patterns: tuple[str, ...]) -> int:
        """Bytes of the files that match. Raises HubUnavailable."""

    def fetch(self, model_id: str, patterns: tuple[str, ...], folder: Path) -> None:
        """Put the files that match into the folder, going on where an earlier attempt stopped. Raises HubUnavailable."""


class HubUnavailable(Exception):
    """The hub cannot be reached, or does not have the model; the message says which."""


def fetch_from_hub(hub: Hub, model_id: str, folder: Path, report: PullProgress) -> None:
    """Fill `folder` with everything a start reads. Raises ModelError."""
    try:
        hub.fetch(model_id, SMALL_FILES, folder)
        shape_of_config(read_json_object(folder / "config.json"), f"{hub.title} model {model_id}")
        total = hub.sizes(model_id, (*SMALL_FILES, *WEIGHT_FILES))
        with watched(folder, f"downloading {model_id}", total, report):
            hub.fetch(model_id, WEIGHT_FILES, folder)
    except HubUnavailable as problem:
        raise ModelError(
            f"could not download {model_id} from {hub.title}: {problem}; check the name and the network, or give --model a "
            "local folder"
        ) from None


@dataclass(frozen=True)
class HuggingFace:
    """Through `huggingface_hub`, which knows tokens, mirrors and resuming. `endpoint` None means the configured one."""

    endpoint: str | None = None
    title: str = "Hugging Face"

    def sizes(self, model_id: str, patterns: tuple[str, ...]) -> int:
        from huggingface_hub import HfApi

        with _hub_errors():
            siblings = HfApi(self.endpoint).model_info(model_id, files_metadata=True).siblings or []
        return sum(file.size or 0 for file in siblings if _matches(file.rfilename, patterns))

    def fetch(self, model_id: str, patterns: tuple[str, ...], folder: Path) -> None:
        from huggingface_hub import snapshot_download
        from huggingface_hub.utils.tqdm import disable_progress_bars

        disable_progress_bars()
        with _hub_errors():
            # Its notes go below the folder too, and not into a home folder that a server may not even have.
            snapshot_download(
                model_id,
                allow_patterns=list(patterns),
                ignore_patterns=["*/*"],
                endpoint=self.endpoint,
                local_dir=folder,
                cache_dir=folder / ".cache",
            )


@contextmanager
def _hub_errors() -> Iterator[None]:
    """Turn what `huggingface_hub` raises into HubUnavailable.

    Like all that is of this library, it is imported where it is used: a start that fetches nothing should not wait for it.
    """
    import httpx2
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, LocalEntryNotFoundError

    try:
        yield
    except GatedRepoError:
        raise HubUnavailable("its licence has to be accepted on the hub first, and HF_TOKEN set") from None
    except LocalEntryNotFoundError:
        raise HubUnavailable("the hub cannot be reached") from None
    except HfHubHTTPError as problem:
        raise HubUnavailable(_reason(problem.response.status_code)) from None
    except httpx2.HTTPError as problem:
        raise HubUnavailable(f"the hub cannot be reached ({problem})") from None


class ModelScope:
    """Through its HTTP interface, which lists files with their sizes and serves ranges of them."""

    title = "ModelScope"

    def __init__(self, client: Callable[[], httpx.Client] | None = None) -> None:
        self._client = client or _modelscope_client

    def sizes(self, model_id: str, patterns: tuple[str, ...]) -> int:
        with self._client() as client:
            return sum(file.size_bytes for file in self._files(client, model_id, patterns))

    def fetch(self, model_id: str, patterns: tuple[str, ...], folder: Path) -> None:
        with self._client() as client:
            for file in self._files(client, model_id, patterns):
                self._fetch_file(client, model_id, file, folder / file.name)

    def _files(self, client: httpx.Client, model_id: str, patterns: tuple[str, ...]) -> list[_File]:
        response = self._get(client, f"/api/v1/models/{model_id}/repo/files", Revision="master", Recursive="true")
        try:
            entries = response.json()["Data"]["Files"]
            files = [_File(str(entry["Path"]), int(entry["Size"])) for entry in entries if entry["Type"] == "blob"]
        except (ValueError, KeyError, TypeError):
            raise HubUnavailable("it answered with something that is not a list of files") from None
        return [file for file in files if _matches(file.name, patterns)]

    def _get(self, client: httpx.Client, path: str, **query: str) -> httpx.Response:
        try:
            response = client.get(path, params=query)
        except httpx.HTTPError as problem:
            raise HubUnavailable(f"the hub cannot be reached ({problem})") from None
        if response.status_code != httpx.codes.OK:
            raise HubUnavailable(_reason(response.status_code))
        return response

    def _fetch_file(self, client: httpx.Client, model_id: str, file: _File, target: Path) -> None:
        if target.is_file() and target.stat().st_size == file.size_bytes:
            return
        partial = target.with_name(target.name + ".partial")
        start = partial.stat().st_size if partial.is_file() else 0
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
        query = {"Revision": "master", "FilePath": file.name}
        try:
            with client.stream("GET", f"/api/v1/models/{model_id}/repo", params=query, headers=headers) as response:
                if response.status_code not in (httpx.codes.OK, httpx.codes.PARTIAL_CONTENT):
                    raise HubUnavailable(_reason(response.status_code))
                mode = "ab" if response.status_code == httpx.codes.PARTIAL_CONTENT else "wb"
                with partial.open(mode) as copy:
                    for piece in response.iter_bytes():
                        copy.write(piece)
                    copy.flush()
                    os.fsync(copy.fileno())
        except httpx.HTTPError as problem:
            raise HubUnavailable(
                f"the connection broke in {file.name} ({problem}); the next attempt goes on there"
            ) from None
        size = partial.stat().st_size
        if size != file.size_bytes:
            if size > file.size_bytes:
                partial.unlink()
            raise HubUnavailable(f"{file.name} came with {size} bytes, where {file.size_bytes} were announced")
        partial.replace(target)


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    size_bytes: int


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Files of a model lie at the top; a name with a folder in it could also lead out of ours."""
    return Path(name).name == name and any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def _modelscope_client() -> httpx.Client:
    return httpx.Client(base_url=MODELSCOPE_ENDPOINT, timeout=MODELSCOPE_TIMEOUT_S, follow_redirects=True)


def _reason(status: int) -> str:
    match status:
        case 401 | 403 | 404:
            return f"there is no such model, or it is not open to everybody (status {status})"
        case _:
            return f"the hub answered with status {status}"

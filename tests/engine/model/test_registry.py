"""A name becomes a folder that is whole, or a sentence; what is being made is never taken for what is there."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.config import EngineConfig
from engine.errors import ModelError, ModelNotFetched
from engine.model import bundled, hub, registry
from engine.model.gguf_file import GgufFile
from engine.model.kept_files import kept_files
from engine.model.loader import load_model
from engine.model.pull_progress import folder_bytes
from engine.model.registry import (
    InstalledModel,
    convert_weights,
    installed_models,
    kept_weights_folder,
    model_title,
    pull_model,
    resolve_model,
)
from tests.support.tiny_llama import tiny_llama, write_folder, write_gguf, write_tokenizer

CONTENT = b"the bundled file"


class Fetching:
    """Stands for the network and for transformers."""

    def __init__(self) -> None:
        self.fetched = 0
        self.converted: list[Path] = []
        self.before_converting: Callable[[], None] = lambda: None

    def fetch(self, folder: Path, report: object) -> Path:
        self.fetched += 1
        path = folder / bundled.GGUF_NAME
        path.write_bytes(CONTENT)
        return path

    def convert(self, gguf: Path, folder: Path) -> None:
        self.before_converting()
        self.converted.append(gguf)
        write_tokenizer(folder)


@pytest.fixture
def fetching(monkeypatch: pytest.MonkeyPatch) -> Fetching:
    fake = Fetching()
    monkeypatch.setattr(bundled, "GGUF_SHA256", hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(bundled, "GGUF_BYTES", len(CONTENT))
    monkeypatch.setattr(bundled, "fetch_bundled", fake.fetch)
    monkeypatch.setattr(registry, "convert_tokenizer", fake.convert)
    return fake


def test_the_bundled_model_is_fetched_once_and_found_afterwards(tmp_path: Path, fetching: Fetching) -> None:
    models = tmp_path / "data" / "models"
    with pytest.raises(ModelNotFetched, match="SmolLM2-135M-Instruct has not been fetched yet"):
        resolve_model("auto", models)
    seen: list[str] = []
    folder = pull_model("auto", models, on_progress=lambda what, _done, _total: seen.append(what))
    assert pull_model("auto", models) == resolve_model("auto", models) == folder == models / "smollm2-135m-instruct"
    assert fetching.fetched == 1
    assert seen == ["converting the tokenizer"]
    assert [model.name for model in installed_models(models)] == ["auto"]


def test_a_damaged_bundled_model_is_not_served_and_fetched_anew(tmp_path: Path, fetching: Fetching) -> None:
    folder = pull_model("auto", tmp_path)
    (folder / bundled.GGUF_NAME).write_bytes(b"the bundled filf")
    with pytest.raises(ModelError, match="is damaged"):
        resolve_model("auto", tmp_path)
    pull_model("auto", tmp_path)
    assert (folder / bundled.GGUF_NAME).read_bytes() == CONTENT
    assert fetching.fetched == 2


def test_what_is_interrupted_is_not_there(tmp_path: Path, fetching: Fetching) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    fetching.before_converting = interrupt
    with pytest.raises(KeyboardInterrupt):
        pull_model("auto", tmp_path)
    with pytest.raises(ModelError):
        resolve_model("auto", tmp_path)
    assert installed_models(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == [".lock"], "what cannot be used is left on the disk"
    fetching.before_converting = lambda: None
    assert pull_model("auto", tmp_path).is_dir()
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["smollm2-135m-instruct"]


def test_a_second_process_waits_and_finds_the_result(tmp_path: Path, fetching: Fetching) -> None:
    waiting = threading.Event()
    folders: list[Path] = []
    with (tmp_path / registry.LOCK_FILE).open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        def pull() -> None:
            folders.append(pull_model("auto", tmp_path, on_progress=lambda *_report: waiting.set()))

        thread = threading.Thread(target=pull)
        thread.start()
        assert waiting.wait(10)
        made = tmp_path / "smollm2-135m-instruct"
        made.mkdir()
        (made / bundled.GGUF_NAME).write_bytes(CONTENT)
        write_tokenizer(made)
    thread.join(10)
    assert folders == [made]
    assert fetching.fetched == 0


def test_a_folder_that_cannot_be_written_to_is_one_sentence(tmp_path: Path, fetching: Fetching) -> None:
    (tmp_path / "models").write_text("a file where the folder should be")
    with pytest.raises(ModelError, match="cannot take SmolLM2-135M-Instruct: File exists"):
        pull_model("auto", tmp_path / "models")


def test_a_gguf_file_is_prepared_once_beside_the_other_models(tmp_path: Path, fetching: Fetching) -> None:
    path = tmp_path / "mine" / "My Model.gguf"
    path.parent.mkdir()
    write_gguf(path, tiny_llama(vocab_size=420))
    models = tmp_path / "models"
    with pytest.raises(ModelError, match=r"My Model\.gguf has not been fetched yet"):
        resolve_model(str(path), models)
    folder = pull_model(str(path), models)
    assert pull_model(str(path.parent), models) == resolve_model(str(path), models) == folder
    assert fetching.converted == [path]
    assert list(path.parent.iterdir()) == [path]
    assert load_model(EngineConfig(folder, "mine")).info.architecture == "llama"
    assert installed_models(models) == [InstalledModel(str(path), folder, path.stat().st_size)]
    # The file that lies elsewhere is removed: the list still comes, and shows what is left.
    path.unlink()
    assert installed_models(models) == [InstalledModel(folder.name, folder, folder_bytes(folder))]


def test_a_folder_with_safetensors_is_used_where_it_lies(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    write_folder(folder)
    assert pull_model(str(folder), tmp_path / "models") == resolve_model(str(folder), tmp_path / "models") == folder
    assert not (tmp_path / "models").exists()


def test_converted_weights_lie_in_the_models_own_folder_or_beside_the_others(
    tmp_path: Path, fetching: Fetching
) -> None:
    models = tmp_path / "models"
    own = tmp_path / "mine"
    write_folder(own)
    gguf = tmp_path / "my.gguf"
    write_gguf(gguf, tiny_llama(vocab_size=420))
    prepared = pull_model(str(gguf), models)
    words: list[str] = []
    for folder in (own, prepared):
        before = folder_bytes(folder)
        convert_weights(folder, models, "fp32", on_progress=lambda what, _done, _total: words.append(what))
        kept = kept_weights_folder(folder, models)
        assert len(kept_files(kept)) == 1
        assert folder_bytes(folder) == (before if folder == own else before + folder_bytes_of(kept_files(kept)))
    assert words == ["converting the weights", "keeping the weights for the next start"] * 2
    convert_weights(own, models, "fp32", on_progress=lambda what, _done, _total: words.append(what))
    assert len(words) == 4, "what is there was made again"
    found = {model.name: model for model in installed_models(models)}
    assert found[str(own)].size_bytes == folder_bytes(own)
    assert found[str(gguf)].size_bytes == gguf.stat().st_size
    assert found[str(own)].kept_bytes == folder_bytes(kept_weights_folder(own, models))
    assert found[str(gguf)].kept_bytes == folder_bytes_of(kept_files(prepared))
    # The folder elsewhere is gone: what is left here is still shown, so that somebody can remove it.
    shutil.rmtree(own)
    names = [model.name for model in installed_models(models)]
    assert kept_weights_folder(own, models).name in names


def folder_bytes_of(paths: list[Path]) -> int:
    return sum(path.stat().st_size for path in paths)


def test_a_hub_model_keeps_what_an_interrupted_download_brought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[tuple[str, str, bool]] = []

    def fetch(place: hub.Hub, model_id: str, folder: Path, _report: object) -> None:
        attempts.append((place.title, model_id, (folder / "half").exists()))
        (folder / "half").touch()
        if len(attempts) == 1:
            raise ModelError("could not download")

    monkeypatch.setattr(hub, "fetch_from_hub", fetch)
    with pytest.raises(ModelError, match="could not download"):
        pull_model("modelscope:org/tiny", tmp_path)
    folder = pull_model("modelscope:org/tiny", tmp_path)
    assert attempts == [("ModelScope", "org/tiny", False), ("ModelScope", "org/tiny", True)]
    assert folder == resolve_model("modelscope:org/tiny", tmp_path)
    pull_model("org/tiny", tmp_path)
    assert attempts[-1][:2] == ("Hugging Face", "org/tiny")
    assert [model.name for model in installed_models(tmp_path)] == ["org/tiny", "modelscope:org/tiny"]


@pytest.mark.parametrize("name", ["", "nothing", "a/b/c", "/no/such/file.gguf", "../up", "modelscope:", "https://x/y"])
def test_a_name_that_stands_for_nothing_is_one_sentence(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for ask in (resolve_model, pull_model):
        with pytest.raises(ModelError, match=r"is no model: no folder, no GGUF file, and no hub id|is empty"):
            ask(name, tmp_path / "models")


def test_an_empty_folder_and_a_broken_gguf_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match="is empty, and a model folder has"):
        resolve_model(str(tmp_path / "empty"), tmp_path)
    (tmp_path / "x.gguf").write_bytes(b"nothing of the kind")
    with pytest.raises(ModelError, match="is not a GGUF file"):
        pull_model(str(tmp_path / "x.gguf"), tmp_path)


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("auto", "SmolLM2-135M-Instruct"),
        ("org/tiny", "org/tiny"),
        ("modelscope:org/tiny", "org/tiny"),
        ("/models/tiny-q4.gguf", "tiny-q4"),
        ("/models/tiny/", "tiny"),
    ],
)
def test_a_model_has_a_name_for_clients(name: str, title: str) -> None:
    assert model_title(name) == title


@pytest.mark.model
@pytest.mark.slow
def test_the_conversion_of_a_real_gguf_is_what_was_fetched_and_a_bad_one_is_one_sentence(
    bundled_folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "copy.gguf"
    shutil.copyfile(bundled_folder / bundled.GGUF_NAME, path)
    # Files of another model beside it are none of its business; the library would have mixed them in.
    write_tokenizer(tmp_path)
    (tmp_path / "chat_template.jinja").write_text("another model's")
    folder = pull_model(str(path), tmp_path / "models")
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        assert (folder / name).read_bytes() == (bundled_folder / name).read_bytes()
    assert len(GgufFile(path).tensors) == 272
    bare = tmp_path / "bare.gguf"
    write_gguf(bare, tiny_llama(vocab_size=420))
    with pytest.raises(ModelError, match=r"the tokenizer of .*bare\.gguf cannot be converted"):
        pull_model(str(bare), tmp_path / "models")
    assert len(installed_models(tmp_path / "models")) == 1


@pytest.mark.model
def test_a_start_imports_neither_transformers_nor_the_hub(bundled_folder: Path) -> None:
    # Importing transformers takes two seconds; the next start should answer long before.
    program = (
        "import sys; from pathlib import Path; from engine.config import EngineConfig; "
        "from engine.model.loader import load_model; from engine.model.registry import resolve_model; "
        "resolve_model('auto', Path(sys.argv[1])); load_model(EngineConfig(Path(sys.argv[2]), 'x')); "
        "print([name for name in ('transformers', 'huggingface_hub', 'torch') if name in sys.modules])"
    )
    arguments = [sys.executable, "-c", program, str(bundled_folder.parent), str(bundled_folder)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3])
    assert done.stdout.strip() == "['torch']"


def test_looking_at_a_model_does_not_import_torch(tmp_path: Path) -> None:
    # The engine's thread decides how torch's threads wait, which torch reads when it is imported.
    path = tmp_path / "tiny.gguf"
    write_gguf(path, tiny_llama(vocab_size=420))
    program = (
        "import sys; from pathlib import Path; import engine.model.hub; from engine.errors import ModelNotFetched; "
        "from engine.model.registry import resolve_model\n"
        "try: resolve_model(sys.argv[1], Path(sys.argv[2]))\n"
        "except ModelNotFetched: print('torch' in sys.modules)"
    )
    arguments = [sys.executable, "-c", program, str(path), str(tmp_path / "models")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3])
    assert done.stdout.strip() == "False"

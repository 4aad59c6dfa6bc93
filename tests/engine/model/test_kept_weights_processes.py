"""Processes that share the kept weights: none sees half a file, whoever comes, dies or writes at the same time."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.config import EngineConfig
from engine.model.kept_files import LOCK_FILE, PARTIAL_FILE, SUFFIX
from engine.model.loader import keep_weights, load_model
from tests.support.kept_weights import assert_bit_equal, keeping, kept_file, tensors_in
from tests.support.tiny_llama import write_folder

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def good_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good") / "model"
    write_folder(folder)
    return folder


@pytest.fixture
def folder(good_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good_folder, tmp_path / "model"))


LOAD = (
    "import sys; from pathlib import Path; from engine.config import EngineConfig; "
    "from engine.model.loader import load_model; from engine.model.kept_weights import tensors_of\n"
    "{before}"
    "loaded = load_model(EngineConfig(Path(sys.argv[1]), 'x', kept_weights_folder=Path(sys.argv[2])))\n"
    "print(sum(tensor.double().sum().item() for tensor in tensors_of(loaded.decoder.weights).values()))"
)


def started(folder: Path, kept: Path, before: str = "") -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", LOAD.format(before=before), str(folder), str(kept)]
    return subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    """Those a test starts; gone at its end, whatever happens."""
    found: list[subprocess.Popen[str]] = []
    yield found
    for process in found:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_processes_that_start_at_once_all_have_the_right_weights(
    folder: Path, tmp_path: Path, processes: list[subprocess.Popen[str]]
) -> None:
    kept = tmp_path / "kept"
    processes += [started(folder, kept) for _ in range(3)]
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    expected = sum(
        tensor.double().sum().item() for tensor in tensors_in(load_model(EngineConfig(folder, "x"))).values()
    )
    assert [float(output) for output in outputs] == [expected] * 3
    assert sorted(path.name for path in kept.iterdir()) == sorted([LOCK_FILE, kept_file(kept).name])


@pytest.mark.parametrize("moment", ["preparing to write", "half written", "not yet renamed"])
def test_a_process_killed_while_it_keeps_the_weights_leaves_no_half_file_in_use(
    folder: Path, tmp_path: Path, processes: list[subprocess.Popen[str]], moment: str
) -> None:
    kept = tmp_path / "kept"
    stop = {
        "preparing to write": "from engine.model import kept_weights as m; m.write_tensors = lambda *a: pause()\n",
        "half written": "from engine.model import tensor_file as m; m.json.dumps = lambda *a: pause()\n",
        "not yet renamed": "Path.rename = lambda *a: pause()\n",
    }[moment]
    pause = "import time\ndef pause():\n    print('here', flush=True)\n    time.sleep(60)\n"
    process = started(folder, kept, pause + stop)
    processes.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert [path.name for path in kept.glob(f"*{SUFFIX}")] in ([], [PARTIAL_FILE])
    loaded = load_model(keeping(folder, kept))
    assert_bit_equal(tensors_in(loaded), tensors_in(load_model(EngineConfig(folder, "tiny"))))
    assert sorted(path.name for path in kept.iterdir()) == sorted([LOCK_FILE, kept_file(kept).name])


def test_mapped_weights_cannot_be_written_to(folder: Path, tmp_path: Path) -> None:
    keep_weights(keeping(folder, tmp_path / "kept"))
    program = (
        "import sys, faulthandler; faulthandler.disable(); from pathlib import Path; "
        "from engine.model.tensor_file import MappedTensors; "
        "tensors = MappedTensors(Path(sys.argv[1])).tensors(); print('open', flush=True); "
        "tensors['embedding'][0, 0] = 1.0; print('written')"
    )
    arguments = [sys.executable, "-c", program, str(kept_file(tmp_path / "kept"))]
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (-signal.SIGSEGV, "open\n")


def test_a_table_says_what_the_file_is_for_without_torch(folder: Path, tmp_path: Path) -> None:
    keep_weights(keeping(folder, tmp_path / "kept"))
    program = (
        "import sys, json; from pathlib import Path; from engine.model.tensor_file import read_table; "
        "print(json.dumps([read_table(Path(sys.argv[1])).notes, 'torch' in sys.modules]))"
    )
    arguments = [sys.executable, "-c", program, str(kept_file(tmp_path / "kept"))]
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=ROOT, check=True)
    notes, has_torch = json.loads(done.stdout)
    assert notes == {"model": str(folder), "parameters": load_model(EngineConfig(folder, "x")).info.parameters}
    assert has_torch is False

"""What every file of the repository keeps to."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.conftest import LONGEST_FIRST
from tests.house.source import ROOMS, ROOT, files, modules

LONGEST_FILE = 400
TEXT = {".py", ".md", ".toml", ".js", ".html", ".css", ".ini", ".mako", ".json", ".yml", ""}
# Put together here, so that this file does not contain them.
PLACES = ["/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/", "/op" + "t/"]
REGISTRIES = ["pypi" + ".org", "python" + "hosted", "npmjs" + ".", "download.py" + "torch", "deb.deb" + "ian"]
UNFINISHED = ["TO" + "DO", "FIX" + "ME", "XX" + "X", "NotImplemented" + 'Error("later']


def texts() -> dict[Path, str]:
    """Our own text files; vendored code and licences are others' words."""
    return {
        path: (ROOT / path).read_text()
        for path in files()
        if path.suffix in TEXT and "vendor" not in path.parts and path.name not in ("LICENSE", "package-lock.json")
    }


def test_no_file_is_so_long_that_nobody_reads_it() -> None:
    long = {str(path): lines for path, text in texts().items() if (lines := text.count("\n")) > LONGEST_FILE}
    assert long == {}


def test_no_file_knows_the_machine_it_was_written_on_or_where_packages_come_from() -> None:
    found = [(str(path), word) for path, text in texts().items() for word in PLACES + REGISTRIES if word in text]
    assert found == []


def test_nothing_is_left_for_later() -> None:
    found = [
        (str(path), word)
        for path, text in texts().items()
        for word in UNFINISHED
        if re.search(rf"\b{re.escape(word)}", text)
    ]
    assert found == []


def test_every_module_says_what_it_is() -> None:
    silent = [
        str(path)
        for path in modules(*ROOMS)
        if path.name != "__init__.py" and not ast.get_docstring(ast.parse((ROOT / path).read_text()))
    ]
    assert silent == []


def test_no_file_is_a_drawer_for_everything() -> None:
    drawers = {"utils", "util", "helpers", "helper", "manager", "misc", "common"}
    assert [str(path) for path in files() if path.stem in drawers] == []


def test_only_the_command_line_prints() -> None:
    printing = [
        str(path)
        for path in modules(*ROOMS)
        if path.parts[:2] != ("app", "cli")
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert printing == []


def test_no_error_is_swallowed_whole() -> None:
    """`except …: pass` on Exception or everything hides faults; naming what is expected does not."""
    swallowing = []
    for path in modules(*ROOMS):
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            if isinstance(node, ast.ExceptHandler) and isinstance(node.body[0], ast.Pass):
                name = node.type.id if isinstance(node.type, ast.Name) else ""
                if node.type is None or name in ("Exception", "BaseException"):
                    swallowing.append(f"{path}:{node.lineno}")
    assert swallowing == []


def test_the_test_files_that_begin_first_are_there() -> None:
    assert [name for name in LONGEST_FIRST if not (ROOT / name).is_file()] == []

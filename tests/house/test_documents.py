"""Documents are kept true by tests: settings, frames, metrics, commands, folders."""

from __future__ import annotations

import re
import tomllib
import typing
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from app.cli import main
from app.operations.metrics import Metrics
from app.realtime import protocol
from app.settings import Settings
from app.settings_source import shown_value, variable_name
from engine.types import EngineState, EngineStats
from tests.house.source import ROOT, documents, files


def read(path: str) -> str:
    return (ROOT / path).read_text()


def setting_lines() -> list[str]:
    """The README's table of settings as the code has it."""
    lines = []
    for field in msgspec.structs.fields(Settings):
        default = shown_value(field.name, Settings())
        meta = next(item for item in _annotations(field.type) if item.description)
        lines.append(f"| `{variable_name(field.name)}` | {f'`{default}`' if default else ''} | {meta.description} |")
    return lines


def _annotations(annotation: object) -> list[msgspec.Meta]:
    found = [item for item in getattr(annotation, "__metadata__", ()) if isinstance(item, msgspec.Meta)]
    return found or [item for inner in typing.get_args(annotation) for item in _annotations(inner)]


def test_the_readmes_table_of_settings_is_that_of_the_code() -> None:
    shown = [line for line in read("README.md").splitlines() if line.startswith("| `KVASIR_")]
    assert shown == setting_lines(), "\n" + "\n".join(setting_lines())


def test_every_setting_that_a_document_names_is_one() -> None:
    names = {variable_name(field.name) for field in msgspec.structs.fields(Settings)}
    named = {(page, name) for page in documents() for name in re.findall(r"KVASIR_[A-Z0-9_]+\*?", read(page))}
    families = {(page, name) for page, name in named if name.endswith("*")}
    assert [family for _, family in families if not any(name.startswith(family[:-1]) for name in names)] == []
    assert sorted((page, name) for page, name in named - families if name not in names) == []


def test_every_frame_is_described() -> None:
    text = read("app/realtime/README.md")
    client_types = [kind.__struct_config__.tag for kind in typing.get_args(protocol.AnyClientFrame)]
    missing = [name for name in (*client_types, *typing.get_args(protocol.FrameType)) if f"`{name}" not in text]
    assert missing == []


def test_every_close_code_is_described() -> None:
    text = read("app/realtime/README.md")
    assert [code for code in protocol.CloseCode if str(code.value) not in text] == []


def test_every_metric_is_described() -> None:
    exposition = Metrics(lambda: EngineStats(EngineState.READY)).exposition().decode()
    names = set(re.findall(r"^# TYPE (\w+) (?!gauge$.*_created)", exposition, re.MULTILINE))
    text = read("app/operations/README.md")
    assert sorted(name for name in names if not name.endswith("_created") and f"`{name}`" not in text) == []


def test_every_command_is_in_the_readme_and_explains_itself() -> None:
    text = read("README.md")
    runner = CliRunner()
    for name in main.list_commands(None):  # type: ignore[arg-type]  # our list is a constant
        assert f"kvasir {name}" in text
        result = runner.invoke(main, [name, "--help"])
        assert result.exit_code == 0, result.output
        assert "Usage: " in result.output


def test_every_command_that_a_document_names_is_one() -> None:
    names = main.list_commands(None)  # type: ignore[arg-type]  # our list is a constant
    named = [(page, name) for page in documents() for name in re.findall(r"`(?:\S*/)?kvasir ([a-z]+)", read(page))]
    assert named
    assert [(page, name) for page, name in named if name not in names] == []


def test_every_folder_says_what_it_owns() -> None:
    folders = {path.parent for path in files() if path.suffix in (".py", ".js") and path.parts[0] != "tests"}
    rooms = {folder for folder in folders if len(folder.parts) <= 2 and folder != Path()}
    rooms -= {Path("migrations/versions"), Path("web/vendor")}
    missing = sorted(str(folder) for folder in rooms if not (ROOT / folder / "README.md").is_file())
    assert missing == []


def test_the_changelog_knows_this_version() -> None:
    version = tomllib.loads(read("pyproject.toml"))["project"]["version"]
    assert f"## {version}" in read("CHANGELOG.md")


def test_every_dependency_is_pinned_and_says_what_it_is_for() -> None:
    project = read("pyproject.toml")
    entries = re.findall(r'^  "[^"]+",.*$', project.partition("[project.scripts]")[0], re.MULTILINE)
    assert entries
    assert [line for line in entries if not re.fullmatch(r'  "[\w\[\]-]+==[\w.]+",\s+# \S.*', line)] == []


def headings(page: str) -> set[str]:
    """The anchors of a page's headings, as they are made where repositories are read."""
    titles = re.findall(r"^#+ (.+)$", read(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", documents())
def test_what_a_document_links_to_is_there(page: str) -> None:
    missing = []
    for link in sorted(set(re.findall(r"\]\((?!https?:)([^)]+)\)", read(page)))):
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        if not target.exists() or (anchor and anchor not in headings(str(target.resolve().relative_to(ROOT)))):
            missing.append(link)
    assert missing == []


def test_every_page_is_in_the_index() -> None:
    pages = {Path(page).relative_to("docs") for page in documents() if page.startswith("docs/")} - {Path("README.md")}
    index = read("docs/README.md")
    assert sorted(str(page) for page in pages if f"]({page})" not in index) == []

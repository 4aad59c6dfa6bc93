"""Vendored libraries are what their authors published, and our own pages have no way to make HTML or to reach elsewhere."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

WEB = Path(__file__).parents[2] / "web"
VENDOR = WEB / "vendor"
OWN_TYPES = {"preact/preact.d.ts", "preact/hooks.d.ts", "htm/htm.d.ts"}

ROW = re.compile(
    r"^\| `(?P<file>[^`]+)` \|.*\| (?P<version>[\d.]+) \| (?P<licence>[\w.-]+) \| `(?P<sha256>[0-9a-f]{64})` \|$", re.M
)

OWN_FILES = sorted(
    path for path in WEB.rglob("*") if path.suffix in (".js", ".html", ".css", ".svg") and VENDOR not in path.parents
)

PAGES = sorted(WEB.glob("*.html"))

FORBIDDEN = {
    "makes HTML of a string": (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|srcdoc|setHTML"
    ),
    "runs a string": r"\beval\b|new Function|setTimeout\(\s*[\"'`]|javascript:",
    "names another host": r"(?:https?|wss?):\/\/(?!\$\{|[\w.]+\.example)|[\"'(]\/\/[a-z]",
    "is an inline style or handler": r"\bstyle=|\son[a-z]+=",
}
ALLOWED = {
    "http://www.w3.org/2000/svg",  # the name of SVG, which nothing loads
}


def published(name: str, content: bytes) -> bytes:
    """The bytes of the package: our one change is undone."""
    if name != "preact/hooks.js":
        return content
    assert content.count(b'from"./preact.js"') == 1
    return content.replace(b'from"./preact.js"', b'from"preact"')


def rows() -> dict[str, re.Match[str]]:
    return {row["file"]: row for row in ROW.finditer((VENDOR / "README.md").read_text())}


def test_every_vendored_file_is_the_published_one() -> None:
    for name, row in rows().items():
        digest = hashlib.sha256(published(name, (VENDOR / name).read_bytes())).hexdigest()
        assert digest == row["sha256"], name


def test_no_vendored_file_is_without_version_hash_and_licence() -> None:
    code = {path.relative_to(VENDOR).as_posix() for path in VENDOR.rglob("*") if path.suffix in (".js", ".ts", ".css")}
    assert code == set(rows()) | OWN_TYPES
    for name in rows():
        assert (VENDOR / name).parent.joinpath("LICENSE").stat().st_size > 500


@pytest.mark.parametrize("path", OWN_FILES, ids=lambda path: path.relative_to(WEB).as_posix())
def test_a_page_of_ours_cannot_inject_html_or_reach_elsewhere(path: Path) -> None:
    text = path.read_text()
    for allowed in ALLOWED:
        text = text.replace(allowed, "")
    found = {}
    for what, pattern in FORBIDDEN.items():
        # A template of Preact says onClick=${…}; that is a property, set from a module, and no attribute of HTML.
        hits = [
            hit for hit in re.findall(pattern, text) if not (path.suffix == ".js" and hit.startswith((" on", "\non")))
        ]
        if hits:
            found[what] = hits
    assert found == {}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_has_no_inline_script_or_style(path: Path) -> None:
    page = path.read_text()
    assert re.findall(r"<script[^>]*>([^<]*)</script>", page) == [""]
    assert "<style" not in page


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_module_a_page_imports_is_loaded_ahead_and_every_named_file_exists(path: Path) -> None:
    named = set(re.findall(r'(?:href|src)="/([^"]+\.\w+)"', path.read_text()))
    assert all((WEB / name).is_file() for name in named)
    modules = imported({name for name in named if name.endswith(".js")})
    assert modules <= named, "modules that would only be found one after the other"


def test_every_module_and_style_sheet_belongs_to_a_page_or_to_the_widget() -> None:
    named = {name for path in PAGES for name in re.findall(r'(?:href|src)="/([^"]+)"', path.read_text())}
    own = {path.relative_to(WEB).as_posix() for path in OWN_FILES if path.suffix in (".js", ".css")}
    # What the widget is made of is one file for its pages.
    assert own <= named | imported({"widget/main.js"})


def imported(names: set[str]) -> set[str]:
    """These modules and all they import, in turn."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        # The comments name modules too, for their types only, which no browser loads.
        code = re.sub(r"/\*.*?\*/", "", (WEB / name).read_text(), flags=re.S)
        for target in re.findall(r'(?:from|import)\s*\(?"(\.[^"]+\.js)"', code):
            waiting.append((WEB / name).parent.joinpath(target).resolve().relative_to(WEB.resolve()).as_posix())
    return found


def test_no_file_of_ours_is_longer_than_its_reader_can_hold() -> None:
    lines = {path.name: len(path.read_text().splitlines()) for path in OWN_FILES if path.suffix == ".js"}
    assert {name: count for name, count in lines.items() if count > 300} == {}
